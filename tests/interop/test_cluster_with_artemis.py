"""A cluster of our broker and a real Artemis: each has the other as a member, and their clients receive both."""

from __future__ import annotations

import logging
import queue
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from embedbroker import (
    AcceptorConfig,
    AddressConfiguration,
    AddressSettings,
    EmbeddedBroker,
    MessageLoadBalancing,
    QueueConfiguration,
    ThreadedBroker,
)
from embedbroker.cluster import MemberUp
from embedbroker.config import ClusterConnection, ReplicationBackup, Role
from embedbroker.runtime._embedded import life_of
from embedclient import ServerLocator
from tests.embedbroker.runtime.test_replication import becomes
from tests.embedbroker.runtime.test_voting_pairs import lost_power, started
from tests.interop.artemis import ArtemisBroker, free_port
from tests.interop.brokers import artemis_log
from tests.interop.programs import Program
from tests.interop.test_java_client_of_a_pair import client_of
from tests.interop.three_nodes import consumers, formed, send, sessions, texts_of

SECONDS_MAX = 90
pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
USER, PASSWORD = "cluster-user", "cluster-password"
QUEUES = ("orders", "moved")
_MOVES = "<address-setting match='moved'><redistribution-delay>0</redistribution-delay></address-setting>"


@pytest.fixture
def other_port() -> int:
    """The place of ours, which is all that Artemis has of it."""
    return free_port()


@pytest.fixture
def theirs(tmp_path: Path, other_port: int) -> Iterator[ArtemisBroker]:
    """An Artemis that looks for one other broker."""
    names = ["--name", "theirs", "--static-cluster", f"tcp://127.0.0.1:{other_port}", "--queues", ",".join(QUEUES)]
    options = ["--clustered", "--cluster-user", USER, "--cluster-password", PASSWORD, *names]
    changes = {"<address-settings>": f"<address-settings>{_MOVES}"}
    with ArtemisBroker(tmp_path / "artemis", memory="512M", options=options, changes=changes) as running:
        yield running


def ours(
    theirs: ArtemisBroker,
    port: int,
    password: str = PASSWORD,
    how: MessageLoadBalancing = MessageLoadBalancing.ON_DEMAND,
) -> ThreadedBroker:
    return EmbeddedBroker.in_thread(
        name="ours",
        port=port,
        addresses={name: AddressConfiguration(anycast={name: QueueConfiguration()}) for name in QUEUES},
        address_settings={"moved": AddressSettings(redistribution_delay_ms=0)},
        connectors={"theirs": theirs.url},
        cluster_connections=ClusterConnection(static_connectors=("theirs",), message_load_balancing=how),
        cluster_user=USER,
        cluster_password=password,
    )


def until_it_knows(client: Program, *ports: int) -> None:
    """Read until the client received a live broker on each of these ports."""
    missing = {str(port) for port in ports}
    while missing:
        found = client.wait_for(r"^up \S+ (\d+) -$", seconds_max=SECONDS_MAX)
        missing.discard(found.group(1))


def ha_url(url: str) -> str:
    return f"{url}?ha=true"


class Ear(logging.Handler):
    """Waits for a line of the log, on whatever thread it is written."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self.heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._word = word

    def emit(self, record: logging.LogRecord) -> None:
        if self._word in record.getMessage():
            self.heard.put(record.getMessage())


async def test_artemis_refuses_a_wrong_cluster_password_and_shares_messages_with_the_right_one(
    theirs: ArtemisBroker, other_port: int
) -> None:
    log, ear = logging.getLogger("embedbroker.broker"), Ear("refuses")
    log.addHandler(ear)
    try:
        # At a place that Artemis does not have: it would give up one where its password is wrong.
        with ours(theirs, 0, "wrong") as broker:
            said = await trio.to_thread.run_sync(partial(ear.heard.get, timeout=SECONDS_MAX))
            with client_of(ha_url(broker.url)) as client:
                until_it_knows(client, broker.port)
                client.wait_for("^connected", seconds_max=SECONDS_MAX)
    finally:
        log.removeHandler(ear)
    assert said.startswith(f"theirs (127.0.0.1:{theirs.port}) refuses the cluster user and password: ")
    with ours(theirs, other_port) as broker:
        async with sessions({"theirs": theirs.url, "ours": broker.url}) as nodes:
            await formed(nodes, QUEUES)
            async with consumers(nodes, "orders", nodes) as found:
                for name, session in nodes.items():
                    await send(session, "orders", [name] * 20)
                for consumer in found.values():
                    assert Counter(await texts_of(consumer, 20)) == dict.fromkeys(nodes, 10)
            for source, target in (("ours", "theirs"), ("theirs", "ours")):
                texts = [f"{source} {number}" for number in range(20)]
                await send(nodes[source], "moved", texts)
                async with consumers(nodes, "moved", [target]) as found:
                    assert await texts_of(found[target], 20) == texts
    with ours(theirs, other_port, how=MessageLoadBalancing.STRICT) as broker:
        async with sessions({"theirs": theirs.url, "ours": broker.url}) as nodes:
            await formed(nodes, QUEUES)
            # Without consumers, ours shares messages out, and Artemis keeps them.
            for name, session in nodes.items():
                await send(session, "orders", [name] * 20)
            async with consumers(nodes, "orders", nodes) as found:
                assert Counter(await texts_of(found["ours"], 10)) == {"ours": 10}
                assert Counter(await texts_of(found["theirs"], 30)) == {"ours": 10, "theirs": 20}


_SECOND_CLUSTER = """<cluster-connection name="second"><address>two</address><connector-ref>here</connector-ref>
<retry-interval>200</retry-interval><message-load-balancing>ON_DEMAND</message-load-balancing><max-hops>1</max-hops>
<static-connectors><connector-ref>there</connector-ref></static-connectors></cluster-connection>"""


@pytest.fixture
def second_ports() -> tuple[int, int]:
    """Of the second acceptors of Artemis and of ours."""
    return free_port(), free_port()


@pytest.fixture
def theirs_in_two(tmp_path: Path, other_port: int, second_ports: tuple[int, int]) -> Iterator[ArtemisBroker]:
    """An Artemis with two cluster connections, each with an acceptor."""
    here, there = second_ports
    queues = ["--queues", "orders,two.orders"]
    names = ["--name", "theirs", "--static-cluster", f"tcp://127.0.0.1:{other_port}", *queues]
    options = ["--clustered", "--cluster-user", USER, "--cluster-password", PASSWORD, *names]
    acceptor = f'<acceptor name="second">tcp://127.0.0.1:{here}?protocols=CORE;clusterConnection=second</acceptor>'
    connectors = [
        f'<connector name="{n}">tcp://127.0.0.1:{p}</connector>' for n, p in (("here", here), ("there", there))
    ]
    changes = {
        "</acceptors>": f"{acceptor}</acceptors>",
        "</connectors>": f"{''.join(connectors)}</connectors>",
        '<cluster-connection name="my-cluster">': '<cluster-connection name="my-cluster"><address>orders</address>',
        "</cluster-connections>": f"{_SECOND_CLUSTER}</cluster-connections>",
    }
    with ArtemisBroker(tmp_path / "artemis", memory="512M", options=options, changes=changes) as running:
        yield running


async def test_two_clusters_of_the_same_nodes_are_apart_by_their_acceptors(
    theirs_in_two: ArtemisBroker, other_port: int, second_ports: tuple[int, int]
) -> None:
    here, there = second_ports
    second = f"tcp://127.0.0.1:{here}"
    with EmbeddedBroker.in_thread(
        name="ours",
        acceptors=[
            AcceptorConfig("first", port=other_port),
            AcceptorConfig("second", port=there, cluster_connection="second"),
        ],
        addresses={name: {"anycast": {name: {}}} for name in ("orders", "two.orders")},
        connectors={"theirs": theirs_in_two.url, "theirs-second": second},
        cluster_connections=[
            ClusterConnection("first", static_connectors=("theirs",), addresses=["orders"]),
            ClusterConnection("second", static_connectors=("theirs-second",), addresses=["two"]),
        ],
        cluster_user=USER,
        cluster_password=PASSWORD,
    ) as broker:
        for queue_name, urls, ports in (
            ("orders", [theirs_in_two.url, broker.urls["first"]], {theirs_in_two.port, other_port}),
            ("two.orders", [second, broker.urls["second"]], {here, there}),
        ):
            nodes_at = dict(zip(("theirs", "ours"), urls, strict=True))
            async with sessions(nodes_at) as nodes:
                await formed(nodes, [queue_name])
                async with consumers(nodes, queue_name, nodes) as found:
                    for name, session in nodes.items():
                        await send(session, queue_name, [name] * 20)
                    for consumer in found.values():
                        assert Counter(await texts_of(consumer, 20)) == dict.fromkeys(nodes, 10)
            for url in urls:
                async with ServerLocator(ha_url(url)).create_session_factory() as factory:
                    with trio.fail_after(SECONDS_MAX):
                        while len(factory.members) < 2:
                            await trio.lowlevel.checkpoint()
                    assert {int(member.parameters["port"]) for member in factory.members} == ports
        with client_of(ha_url(broker.urls["second"])) as client:
            until_it_knows(client, here, there)


# -- replication, which is between brokers of one kind ---------------------------------------------------------------


def test_our_backup_of_an_artemis_is_told_what_is_wrong_and_leaves_it_in_peace(tmp_path: Path) -> None:
    """A packet that Artemis does not know made it end the connection with two stack traces, twice a second."""
    names = ["--name", "theirs", "--static-cluster", f"tcp://127.0.0.1:{free_port()}", "--replicated"]
    options = ["--clustered", "--cluster-user", USER, "--cluster-password", PASSWORD, *names]
    log, ear = logging.getLogger("embedbroker.broker"), Ear("theirs")
    log.addHandler(ear)
    try:
        with ArtemisBroker(tmp_path / "artemis", memory="512M", options=options) as theirs:
            backup = EmbeddedBroker.in_thread(
                data_directory=tmp_path / "backup",
                ha_policy=ReplicationBackup(),
                connectors={"theirs": theirs.url},
                cluster_connections=ClusterConnection(static_connectors=("theirs",), call_timeout_ms=2000),
                cluster_user=USER,
                cluster_password=PASSWORD,
            )
            with backup:
                said = ear.heard.get(timeout=SECONDS_MAX)
                # It can still be talked to.
                with client_of(ha_url(theirs.url)) as client:
                    until_it_knows(client, theirs.port)
    finally:
        log.removeHandler(ear)
    assert said == (
        f"replication is over, not in sync: theirs (127.0.0.1:{theirs.port}) did not answer for 2 s: is it"
        " an embedbroker? Replication is between embedbrokers only"
    )
    assert ear.heard.empty()
    written = artemis_log(tmp_path / "artemis")
    assert "AMQ221007" in written and "Failed to decode" not in written


# -- a broker that waits -------------------------------------------------------------------------------------------


def test_artemis_that_comes_to_a_broker_that_waits_reads_what_it_is_told(tmp_path: Path) -> None:
    """It gets that in a packet of a type that it has; another type made it close, and write a stack trace."""
    trio.run(come_to_a_broker_that_waits, tmp_path)
    log = artemis_log(tmp_path / "artemis")
    assert "AMQ221007" in log and "Failed to decode" not in log


async def come_to_a_broker_that_waits(path: Path) -> None:
    stopped = await lost_power(path)
    config = stopped["p"]
    names = ["--name", "theirs", "--static-cluster", f"tcp://127.0.0.1:{config.port}"]
    known = ["--cluster-user", config.cluster_user, "--cluster-password", config.cluster_password]
    theirs = ArtemisBroker(path / "artemis", memory="512M", options=["--clustered", *known, *names])
    with trio.fail_after(2 * SECONDS_MAX):
        async with started(config) as (p,):
            assert p.role is Role.BACKUP
            cluster, there = life_of(p).host.node.cluster, trio.Event()
            assert cluster is not None
            cluster.topology.listen(lambda change: there.set() if isinstance(change, MemberUp) else None)
            await trio.to_thread.run_sync(theirs.__enter__)
            try:
                await there.wait()
                async with started(stopped["q"]):
                    await becomes(p, Role.LIVE)
            finally:
                await trio.to_thread.run_sync(theirs.__exit__, None, None, None)
