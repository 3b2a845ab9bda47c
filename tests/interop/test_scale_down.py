"""Scale-down between our broker and a real Artemis, both ways, and a Java client that follows its messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from embedbroker import EmbeddedBroker, PrimaryOnly, ThreadedBroker
from embedbroker.config import ClusterConnection, ScaleDown
from embedclient import ConnectionFactory, Message, Queue, TextMessage, Topic, XAConnectionFactory
from embedclient.model import XaCode, Xid
from tests.interop.artemis import ArtemisBroker, free_port
from tests.interop.brokers import artemis_log
from tests.interop.test_java_client_of_a_pair import client_of

SECONDS_MAX = 90
pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
USER, PASSWORD = "cluster-user", "cluster-password"
ORDERS = Queue("orders")
COUNT = 300
XID = Xid(1, b"branch", b"global")
# Longer than the limit of large messages.
LARGE = "0123456789" * 30_000


def ours(name: str, **connectors: str) -> ThreadedBroker:
    """A broker of the cluster; it scales down if it starts with a connector to another one."""
    return EmbeddedBroker.in_thread(
        name=name,
        connectors=connectors,
        cluster_connections=ClusterConnection(static_connectors=tuple(connectors)),
        cluster_user=USER,
        cluster_password=PASSWORD,
        ha_policy=PrimaryOnly(ScaleDown() if connectors else None),
    )


def options_of_a_cluster(port: int) -> list[str]:
    names = ["--name", "theirs", "--static-cluster", f"tcp://127.0.0.1:{port}", "--max-hops", "1"]
    return ["--clustered", "--cluster-user", USER, "--cluster-password", PASSWORD, *names]


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[ArtemisBroker]:
    """An Artemis of our cluster."""
    options = options_of_a_cluster(free_port())
    with ArtemisBroker(tmp_path / "artemis", memory="512M", options=options) as running:
        yield running


def at(url: str) -> ConnectionFactory:
    return ConnectionFactory(url, user="admin", password="admin")


async def fill(url: str) -> None:
    """Leave a message of every kind, a subscription, a duplicate id and a branch in doubt."""
    async with at(url).connect(client_id="reader") as connection, connection.session() as session:
        await (await session.create_durable_consumer(Topic("news"), "all")).close()
        producer = session.create_producer(ORDERS)
        for number in range(COUNT):
            await producer.send(str(number))
        await producer.send(LARGE)
        await producer.send(TextMessage("once", properties={"_AMQ_DUPL_ID": "7"}))
        await session.create_producer(Topic("news")).send("item")
    async with (
        XAConnectionFactory(url, user="admin", password="admin").create_xa_connection() as connection,
        connection.create_xa_session() as session,
    ):
        await connection.start()
        resource = session.xa_resource
        await resource.start(XID)
        async with session.create_consumer(ORDERS) as consumer:
            assert await text(await consumer.receive(timeout=SECONDS_MAX)) == "0"
            await session.create_producer(ORDERS).send("of the branch")
            await resource.end(XID)
            assert await resource.prepare(XID) == XaCode.XA_OK


async def text(message: Message | None) -> str:
    assert isinstance(message, TextMessage)
    return message.text or ""


async def find(url: str) -> None:
    """Find at another broker what `fill` has left."""
    async with at(url).connect(client_id="reader") as connection, connection.session() as session:
        await session.create_producer(ORDERS).send(TextMessage("twice", properties={"_AMQ_DUPL_ID": "7"}))
        async with session.create_consumer(ORDERS) as consumer:
            found = [await text(await consumer.receive(timeout=SECONDS_MAX)) for _ in range(COUNT + 1)]
            assert found == [*map(str, range(1, COUNT)), LARGE, "once"]
            assert await consumer.receive(timeout=0.5) is None
        async with session.create_durable_consumer(Topic("news"), "all") as reader:
            assert await text(await reader.receive(timeout=SECONDS_MAX)) == "item"
    async with (
        XAConnectionFactory(url, user="admin", password="admin").create_xa_connection() as connection,
        connection.create_xa_session() as session,
    ):
        resource = session.xa_resource
        assert await resource.recover() == [XID]
        await resource.commit(XID)
    async with (
        at(url).connect() as connection,
        connection.session() as session,
        session.create_consumer(ORDERS) as consumer,
    ):
        assert await text(await consumer.receive(timeout=SECONDS_MAX)) == "of the branch"
        assert await consumer.receive(timeout=0.5) is None


def test_ours_scales_down_to_artemis(theirs: ArtemisBroker, tmp_path: Path) -> None:
    with ours("ours", theirs=theirs.url) as broker:
        trio.run(fill, broker.url)
        assert broker.scale_down("theirs") >= COUNT
    trio.run(find, theirs.url)
    log = artemis_log(tmp_path / "artemis")
    assert "AMQ221007" in log and "Failed to decode" not in log


def test_artemis_scales_down_to_ours(tmp_path: Path) -> None:
    with ours("ours") as broker:
        policy = (
            "</acceptors><ha-policy><live-only><scale-down><connectors><connector-ref>ours</connector-ref></connectors>"
            "</scale-down></live-only></ha-policy>"
        )
        changes = {
            "</connectors>": f"<connector name='ours'>{broker.url}</connector></connectors>",
            "</acceptors>": policy,
        }
        options = options_of_a_cluster(broker.port)
        with ArtemisBroker(tmp_path / "artemis", memory="512M", options=options, changes=changes) as theirs:
            trio.run(fill, theirs.url)
            theirs.stop()
        trio.run(find, broker.url)


def test_a_java_client_follows_its_messages() -> None:
    """A consumer that waits at ours gets what is sent to the broker that has scaled it in."""
    with ours("target") as target, ours("source", target=target.url) as source:
        url = f"{source.url}?ha=true&reconnectAttempts=3&failoverAttempts=-1&retryInterval=100"
        with client_of(url, "orders") as client:
            client.wait_for(rf"^up \S+ {target.port} -$", seconds_max=SECONDS_MAX)
            client.wait_for("^connected", seconds_max=SECONDS_MAX)
            trio.run(send, source.url, "before")
            client.wait_for("^got before", seconds_max=SECONDS_MAX)
            source.scale_down()
            trio.run(send, target.url, "after")
            client.wait_for("^got after", seconds_max=SECONDS_MAX)


async def send(url: str, body: str) -> None:
    async with at(url).connect() as connection, connection.session() as session:
        await session.create_producer(ORDERS).send(body)
