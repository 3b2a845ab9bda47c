"""4: the members of a cluster, as clients see them while nodes start and stop."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio

from embedbroker import (
    AcceptorConfig,
    ClusterConnection,
    SecuritySetting,
    User,
)
from embedbroker.pytest_plugin import BrokerClock, BrokerCluster, ManagedBroker, bench_of
from embedbroker.pytest_plugin._bench import Surface
from embedclient import ClientSessionFactory, ConnectionFactory, Queue, ServerLocator, TextMessage
from embedclient.agent import Agent
from embedclient.engine import TransportInput, TransportOutput
from embedclient.errors import ConnectionLostException, ConnectionTimedOutException
from embedclient.model import Instant
from tests.embedclient.facades.test_discovery import ADDRESS, LOOPBACK, broadcasting
from tests.scenarios.clients import ORDERS, let_time_pass
from tests.scenarios.nodes import MakeCluster, pass_time

FINDING = pytest.mark.parametrize(
    ("cluster_anywhere", "discovery"),
    [(Surface.VIRTUAL, False), (Surface.VIRTUAL, True), (Surface.SOCKETS, True)],
    ids=["static", "discovery", "over TCP"],
    indirect=["cluster_anywhere"],
)


@pytest.fixture
def group_port() -> int:
    """A port that is free, so that tests at the same time have groups of their own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
    return port


class Told(Agent):
    """A client that notes which members come and go, in order.

    Brokers repeat announcements, and a client that lost its broker gets all of them again at the next one. As with a
    listener of Artemis, what changes nothing is no news.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.news: list[str] = []
        self._members: set[str] = set()

    def step(self, input: TransportInput, now: Instant) -> list[TransportOutput]:
        outputs = super().step(input, now)
        members = {str(each) for each in self.topology.members(former=False)}
        if members and self.connected:
            before, self._members = self._members, members
            self.news += ["up"] * len(members - before) + ["down"] * len(before - members)
        return outputs


@pytest.fixture
def cluster_anywhere(request: pytest.FixtureRequest) -> MakeCluster:
    """`broker_cluster` in virtual time or over sockets."""
    bench_of(request, request.param)
    make: MakeCluster = request.getfixturevalue("broker_cluster")
    return make


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Told]:
    """The clients of the test, in the order of their factories."""
    found: list[Told] = []

    def make(*arguments: Any) -> Told:
        found.append(Told(*arguments))
        return found[-1]

    monkeypatch.setattr("embedclient._client._locator.Agent", make)
    return found


def locator_of(cluster: BrokerCluster, *nodes: int) -> ServerLocator:
    urls = ",".join(cluster.nodes[node].url for node in nodes)
    return ServerLocator(f"({urls})?ha=true&reconnectAttempts=1&failoverAttempts=20&retryInterval=10")


async def counted(factory: ClientSessionFactory, count: int) -> None:
    """Wait until the broker of a factory announces so many members."""
    with trio.fail_after(10):
        while len(factory.members) != count:
            await pass_time(0.05)


async def use(factory: ClientSessionFactory) -> None:
    """Open a session, and close it."""
    async with factory.create_session() as session:
        await session.start()


@FINDING
async def test_receive_notifications(
    cluster_anywhere: MakeCluster, broker_clock: BrokerClock, clients: list[Told], discovery: bool
) -> None:
    """4.1, 4.6

    Given a client of a cluster of five, when its nodes stop one by one, then it sees five members and each time
    one less, and opens sessions on the others.
    """
    cluster = await cluster_anywhere(5, discovery=discovery).start()
    async with locator_of(cluster, *range(5)).create_session_factory() as factory:
        await counted(factory, 5)
        await let_time_pass(broker_clock, 5)
        assert clients[0].news == ["up"] * 5
        for left in (4, 3, 2, 1):
            await cluster.nodes[left].stop()
            await counted(factory, left)
            await use(factory)
            await let_time_pass(broker_clock, 5)
            assert clients[0].news == ["up"] * 5 + ["down"] * (5 - left)


@FINDING
async def test_receive_notifications_when_other_nodes_are_started_and_stopped(
    cluster_anywhere: MakeCluster, broker_clock: BrokerClock, clients: list[Told], discovery: bool
) -> None:
    """4.2, 4.6

    Given a client of the only node, when four others start and stop, then it sees each start and each stop once.
    """
    cluster = cluster_anywhere(5, discovery=discovery)
    await cluster.nodes[0].start()
    async with locator_of(cluster, 0).create_session_factory() as factory:
        await counted(factory, 1)
        for number in (1, 2, 3, 4):
            await cluster.nodes[number].start()
            await counted(factory, number + 1)
        for number in (4, 3, 2, 1):
            await cluster.nodes[number].stop()
            await counted(factory, number)
        await let_time_pass(broker_clock, 5)
        assert clients[0].news == ["up"] * 5 + ["down"] * 4
        await use(factory)


async def test_stop_nodes(broker_cluster: MakeCluster) -> None:
    """4.3

    Given a client of a cluster of five, when all nodes stop in turn, then it goes on at another one each time, and
    behind the last one it is not connected.
    """
    cluster = await broker_cluster(5).start()
    async with locator_of(cluster, *range(5)).create_session_factory() as factory:
        await counted(factory, 5)
        for left in (4, 3, 2, 1):
            connector = factory.connector
            assert connector is not None
            (serving,) = [node for node in cluster.nodes if node.name == connector.parameters["serverId"]]
            await serving.stop()
            await use(factory)
            await counted(factory, left)
        (last,) = [node for node in cluster.nodes if node.is_live]
        await last.stop()
        with pytest.raises(ConnectionLostException):
            await use(factory)


async def test_multiple_client_session_factories(broker_cluster: MakeCluster, clients: list[Told]) -> None:
    """4.4

    Given five factories of one locator, when four nodes stop, then each factory sees each of them leave, once.
    """
    cluster = await broker_cluster(5).start()
    locator = locator_of(cluster, *range(5))
    async with AsyncExitStack() as stack:
        factories = [await stack.enter_async_context(locator.create_session_factory()) for _ in range(5)]
        for left in (4, 3, 2, 1):
            for factory in factories:
                await counted(factory, left + 1)
            await cluster.nodes[left].stop()
        for factory in factories:
            await counted(factory, 1)
            await use(factory)
        await pass_time(5)
        assert [client.news for client in clients] == [["up"] * 5 + ["down"] * 4] * 5


async def test_wrong_password_triggers_cluster_connection_stop(
    broker_cluster: MakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """4.5

    Given two nodes with security, of which one has a wrong cluster password, when both run, then neither is a member of
    the other, and clients use each alone.
    """
    secured: dict[str, Any] = {
        "users": [User("joe", "joe", roles=["staff"])],
        "security_settings": {"#": SecuritySetting.all("staff")},
    }
    cluster = broker_cluster(2, brokers=[secured, {**secured, "cluster_password": "wrong"}])
    for node in cluster.nodes:
        await node.start()
    await pass_time(10)
    await cluster.wait_formed([0], [1])
    for node in cluster.nodes:
        async with (
            ConnectionFactory(node.url, user="joe", password="joe").connect() as connection,
            connection.session() as session,
        ):
            await session.create_producer(ORDERS).send("here")
        await node.wait_for(queue="orders", count=1)
        assert f"{node.name} (vm://{node.name}) refuses the cluster user and password" in caplog.text


async def test_netty(broker_factory: Callable[..., ManagedBroker]) -> None:
    """4.12

    Given a broker outside any cluster, when a client without failover connects, then it is the only member, at the
    connector in use.
    """
    broker = await broker_factory("broker").start()
    async with ServerLocator(broker.url).create_session_factory() as factory:
        assert factory.connector is not None and factory.connector.parameters["serverId"] == "broker"
        assert factory.members == (factory.connector,)
        await broker.stop()
        await pass_time(1)
        assert not factory.members


# -- discovery by a client, over real datagrams on the loopback --------------------------------------------------------


def isolated(make: Callable[..., ManagedBroker], name: str, other: str) -> ManagedBroker:
    """A broker with two cluster connections, each with an acceptor and with connectors that lead to such acceptors."""
    acceptors = [
        AcceptorConfig("acceptor-cc1", cluster_connection="cc1"),
        AcceptorConfig("cc2", cluster_connection="cc2"),
    ]
    clusters = [
        ClusterConnection("cc1", connector=name, static_connectors=[other], addresses=["one"]),
        ClusterConnection("cc2", connector=f"{name}.cc2", static_connectors=[f"{other}.cc2"], addresses=["two"]),
    ]
    connectors = {place: f"vm://{place}" for broker in (name, other) for place in (broker, f"{broker}.cc2")}
    return make(
        name,
        acceptors=acceptors,
        cluster_connections=clusters,
        connectors=connectors,
        cluster_password="secret",
        address_settings={"#": {"redistribution_delay_ms": 0}},
    )


async def test_isolated_clusters(broker_factory: Callable[..., ManagedBroker]) -> None:
    """4.7

    Given two brokers with two cluster connections at an acceptor each, when both run, then a client at an acceptor sees
    both brokers, by the connectors of that cluster alone, and messages of either go over it.
    """
    a, b = [await isolated(broker_factory, *names).start() for names in ("ab", "ba")]
    places = {"": {"a", "b"}, ".cc2": {"a.cc2", "b.cc2"}}
    for suffix, wanted in places.items():
        for broker in (a, b):
            async with ServerLocator(f"{broker.url}{suffix}?ha=true").create_session_factory() as factory:
                await counted(factory, 2)
                assert {member.parameters["serverId"] for member in factory.members} == wanted
    for suffix, address in (("", "one.queue"), (".cc2", "two.queue")):
        async with (
            ConnectionFactory(f"{a.url}{suffix}").connect() as near,
            ConnectionFactory(f"{b.url}{suffix}").connect() as far,
            near.session() as sender,
            far.session() as receiver,
            receiver.create_consumer(Queue(address)) as consumer,
        ):
            await pass_time(0.5)
            await sender.create_producer(Queue(address)).send(TextMessage("hello"))
            message = await consumer.receive(timeout=5)
            assert isinstance(message, TextMessage) and message.text == "hello"
    async with ServerLocator(f"{a.url}.cc2?ha=true").create_session_factory() as factory:
        await b.crash()
        await counted(factory, 1)
        assert [member.parameters["serverId"] for member in factory.members] == ["a.cc2"]


def discovering(group_port: int, *parameters: str) -> ServerLocator:
    options = "&".join([f"localBindAddress={LOOPBACK}", "discoveryInitialWaitTimeout=50", *parameters])
    return ServerLocator(f"udp://{ADDRESS}:{group_port}?{options}")


@pytest.mark.parametrize("attempts", [10, 0], ids=["with retry", "without retry"])
async def test_recovery_bad_udp(broker_over_tcp: ManagedBroker, group_port: int, attempts: int) -> None:
    """4.8, 4.9

    Given no datagrams for a time, when a client connects, then it connects with its next attempts; without attempts,
    the first call fails, and the next one succeeds.
    """
    locator = discovering(group_port, f"initialConnectAttempts={attempts}", "retryInterval=20")
    if not attempts:
        with pytest.raises(ConnectionTimedOutException):
            async with locator.create_session_factory():
                pass
    connected = trio.Event()

    async def connect() -> None:
        async with locator.create_session_factory() as factory:
            await use(factory)
            connected.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect)
        if attempts:
            await pass_time(0.15)
            assert not connected.is_set()
        with broadcasting(broker_over_tcp.url, group_port):
            await connected.wait()


async def test_no_server(group_port: int) -> None:
    """4.10

    Given no broker, a wait of 50 ms and three attempts, when a client connects, then it has an error.
    """
    with pytest.raises(ConnectionTimedOutException, match=f"multicast group {ADDRESS}:{group_port}"):
        async with discovering(group_port, "initialConnectAttempts=3", "retryInterval=1").create_session_factory():
            pass


async def test_connect_with_multi_thread(broker_over_tcp: ManagedBroker, group_port: int) -> None:
    """4.11

    Given one locator, when a hundred tasks connect at once, then all of them do.
    """
    locator = discovering(group_port, "discoveryInitialWaitTimeout=10000")
    done = []

    async def connect() -> None:
        async with locator.create_session_factory() as factory:
            await use(factory)
        done.append(factory)

    with broadcasting(broker_over_tcp.url, group_port):
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(connect)
    assert len(done) == 100
