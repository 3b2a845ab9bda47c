"""A bridge to Artemis, and one of Artemis to ours: each end is killed and started again, with large messages too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedbroker import AddressConfiguration, BridgeConfig, EmbeddedBroker, QueueConfiguration
from embedclient import Queue
from embedclient.blocking import ConnectionFactory, Session
from tests.interop.artemis import ArtemisBroker, free_port
from tests.interop.registry import ARTEMIS_VERSION, OLDER_ARTEMIS_VERSION

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

ORDERS, ARRIVALS = Queue("orders"), Queue("arrivals")
COUNT = 500
BODIES = [str(number) for number in range(2 * COUNT)]
# Texts of 300 to 600 kB, which are large messages for both kinds of broker.
LARGE = [f"{letter} é" * 150_000 for letter in "abcd"]
QUEUES = """<address name="{0}"><anycast><queue name="{0}"/></anycast></address>"""
BRIDGE = """<connectors><connector name="ours">tcp://127.0.0.1:{}</connector></connectors>
<bridges><bridge name="to-ours"><queue-name>orders</queue-name><forwarding-address>arrivals</forwarding-address>
<retry-interval>100</retry-interval>
<static-connectors><connector-ref>ours</connector-ref></static-connectors></bridge></bridges></core>"""


def place(name: str) -> dict[str, AddressConfiguration]:
    return {name: AddressConfiguration(anycast={name: QueueConfiguration()})}


@contextmanager
def session_at(url: str) -> Iterator[Session]:
    with ConnectionFactory(url).connect() as connection, connection.session() as session:
        yield session


def put(url: str, bodies: list[str]) -> None:
    with session_at(url) as session:
        producer = session.create_producer(ORDERS)
        for body in bodies:
            producer.send(body)


def take(url: str, count: int) -> list[object]:
    """Take so many messages, and look for one more."""
    with session_at(url) as session, session.create_consumer(ARRIVALS) as consumer:
        messages = [consumer.receive(timeout=30) for _ in range(count)]
        assert consumer.receive(timeout=0.5) is None
        for message in messages:
            assert message is not None and "_AMQ_BRIDGE_DUP" not in message.properties
        return [message.body for message in messages if message is not None]


@pytest.mark.parametrize("version", [ARTEMIS_VERSION, OLDER_ARTEMIS_VERSION])
def test_a_bridge_to_artemis(tmp_path: Path, version: str) -> None:
    changes = {"</addresses>": f"{QUEUES.format('arrivals')}</addresses>"}
    with ArtemisBroker(tmp_path / "artemis", changes=changes, version=version) as artemis:
        bridge = BridgeConfig(
            "to-artemis",
            "orders",
            ["artemis"],
            forwarding_address="arrivals",
            user="admin",
            password="admin",
            retry_interval_ms=100,
            client_id="our-bridge",
        )
        with EmbeddedBroker.in_thread(
            addresses=place("orders"),
            bridges=[bridge],
            connectors={"artemis": artemis.url},
            data_directory=str(tmp_path / "ours"),
        ) as ours:
            put(ours.url, [*BODIES[:COUNT], *LARGE])
            # While messages are on their way, first here and then there.
            ours.crash()
            ours.start()
            put(ours.url, LARGE)
            artemis.kill()
            put(ours.url, BODIES[COUNT:])
            artemis.start()
            assert take(artemis.url, len(BODIES) + 8) == [*BODIES[:COUNT], *LARGE, *LARGE, *BODIES[COUNT:]]
            assert ours.management.message_count("orders") == 0


def test_a_bridge_of_artemis(tmp_path: Path) -> None:
    port = free_port()
    changes = {"</addresses>": f"{QUEUES.format('orders')}</addresses>", "</core>": BRIDGE.format(port)}
    ours = EmbeddedBroker.in_thread(addresses=place("arrivals"), port=port, data_directory=str(tmp_path / "ours"))
    with ArtemisBroker(tmp_path / "artemis", changes=changes) as artemis, ours:
        put(artemis.url, [*BODIES[:COUNT], *LARGE])
        ours.crash()
        put(artemis.url, LARGE)
        artemis.kill()
        ours.start()
        artemis.start()
        put(artemis.url, BODIES[COUNT:])
        assert take(ours.url, len(BODIES) + 8) == [*BODIES[:COUNT], *LARGE, *LARGE, *BODIES[COUNT:]]
