"""TLS over links that are slow and break, in virtual time: clients, members of a cluster, and a replica."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from embedbroker import EmbeddedBroker
from embedbroker.config import BrokerConfig, ClusterConnection, ReplicationBackup, ReplicationPrimary, Role
from embedbroker.locks import MemoryLockManager
from embedbroker.pytest_plugin._link import Direction, Link, PipeEnd
from embedbroker.runtime._embedded import life_of
from embedbroker.testing._disk import SimulatedDisk
from embedclient import ConnectionFactory, Queue, TLSSettings
from embedclient.errors import JMSException
from embedclient.model import TransportConfiguration
from embedclient.transport import ByteStream, Listener, TransportLost
from tests.embedbroker.runtime.test_cluster_of_brokers import until_known
from tests.embedbroker.runtime.test_replication import until_in_sync

from .certificates import Files

ORDERS = Queue("orders")
HOST = "127.0.0.1"
OPTIONS = "sslEnabled=true&reconnectAttempts=0"
pytestmark = pytest.mark.usefixtures("autojump_clock")


class PipeListener:
    """Accepts the pipes that lead to one port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.address = f"{HOST}:{port}"
        self._waiting: deque[PipeEnd] = deque()
        self._acceptors = trio.lowlevel.ParkingLot()
        self.is_closed = False

    def take_in(self, end: PipeEnd) -> None:
        self._waiting.append(end)
        self._acceptors.unpark()

    async def accept(self) -> ByteStream:
        await trio.lowlevel.checkpoint()
        while not self._waiting:
            if self.is_closed:
                raise TransportLost("listener closed here")
            await self._acceptors.park()
        return self._waiting.popleft()

    def close(self) -> None:
        self.is_closed = True
        self._acceptors.unpark_all()


class PipeNetwork:
    """A link for each port, in the place of TCP: the layers above, with TLS, are those of every broker and client."""

    def __init__(self) -> None:
        self.links: dict[int, Link] = {}
        self._listeners: dict[int, PipeListener] = {}

    def link(self, port: int) -> Link:
        """The link of all that connect to a port."""
        return self.links.setdefault(port, Link(f"to port {port}", lambda text: None))

    async def listen(self, config: BrokerConfig) -> list[Listener]:
        await trio.lowlevel.checkpoint()
        listener = self._listeners[config.port] = PipeListener(config.port)
        return [listener]

    async def dial(self, connector: TransportConfiguration, timeout_s: float) -> ByteStream:
        return await self.connect(connector.host, connector.port, timeout_s=timeout_s)

    async def connect(self, host: str, port: int, **_options: object) -> ByteStream:
        """What `connect_tcp` does, on these links."""
        await trio.lowlevel.checkpoint()
        listener = self._listeners.get(port)
        if listener is None or listener.is_closed:
            raise TransportLost(f"cannot connect to {host}:{port}: connection refused")
        ours, theirs = self.link(port).pipe(("dialling end", f"{host}:{port}"))
        listener.take_in(theirs)
        return ours


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[PipeNetwork]:
    """Clients reach it, too. When a test ends, no end of a pipe is open."""
    made = PipeNetwork()
    monkeypatch.setattr("embedclient.transport._dial.connect_tcp", made.connect)
    yield made
    assert [end for link in made.links.values() for end in link.open_ends()] == []


def serving(network: PipeNetwork, files: Files, port: int = 1, **config: object) -> EmbeddedBroker:
    tls = files.serving(trust_store_path=files.trust)
    values = {"name": f"broker-{port}", "port": port, "disk": SimulatedDisk(), "tls": tls, **config}
    return EmbeddedBroker(network=network, **values)  # type: ignore[arg-type]  # tests name real fields


def factory(files: Files, port: int = 1, options: str = OPTIONS) -> ConnectionFactory:
    return ConnectionFactory(f"tcp://{HOST}:{port}?{options}", tls=TLSSettings(trust_store_path=files.trust))


async def passes(seconds: float) -> None:
    """Let virtual time pass, as fast as the brokers and clients have nothing to do."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


async def put(connections: ConnectionFactory, *texts: str) -> None:
    async with connections.connect() as connection, connection.session() as session:
        producer = session.create_producer(ORDERS)
        for text in texts:
            await producer.send(text)


async def take(connections: ConnectionFactory, count: int) -> list[object]:
    async with (
        connections.connect() as connection,
        connection.session() as session,
        session.create_consumer(ORDERS) as consumer,
    ):
        found = [await consumer.receive(timeout=60) for _ in range(count)]
    return [message and message.body for message in found]


def member(network: PipeNetwork, files: Files, port: int, **config: object) -> EmbeddedBroker:
    """One of two brokers that look for each other, with TLS."""
    connectors = {f"broker-{each}": f"tcp://{HOST}:{each}?sslEnabled=true" for each in (1, 2)}
    other = ClusterConnection(
        connector=f"broker-{port}", static_connectors=(f"broker-{3 - port}",), retry_interval_ms=500
    )
    secret = {"cluster_user": "cluster", "cluster_password": "secret"}
    return serving(network, files, port, connectors=connectors, cluster_connections=other, **secret, **config)


# -- clients -----------------------------------------------------------------------------------------------------------


async def test_a_slow_link_delays_the_handshake_and_messages(network: PipeNetwork, files: Files) -> None:
    async with serving(network, files):
        network.link(1).delay(0.25)
        began = trio.current_time()
        await put(factory(files), "x" * 300_000, "small")
        # Hello and answer, key and answer, and requests of CORE behind them: each way takes a quarter of a second.
        assert 2.0 <= trio.current_time() - began < 10.0
        assert await take(factory(files), 2) == ["x" * 300_000, "small"]


# Of a handshake with TLS 1.3, a client sends about 600 bytes, and a broker about 1,500.
@pytest.mark.parametrize(
    ("way", "count"),
    [("to_broker", count) for count in (0, 1, 5, 100, 400, 700)]
    + [("from_broker", count) for count in (0, 1, 5, 100, 400, 700, 1_000)],
)
async def test_a_handshake_that_is_cut_fails_one_attempt_and_leaves_nothing(
    way: Direction, count: int, network: PipeNetwork, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "embedbroker.broker")
    async with serving(network, files) as broker:
        network.link(1).drop_after(count, way)
        with pytest.raises(JMSException):
            async with factory(files).connect():
                pass
        await trio.testing.wait_all_tasks_blocked()
        assert network.link(1).connection_count == 0
        assert life_of(broker).host.statistics().connections == 0
        assert len(caplog.records) <= 1
        await put(factory(files), "next")
        assert await take(factory(files), 1) == ["next"]


async def test_a_client_tries_again_until_a_handshake_is_complete(network: PipeNetwork, files: Files) -> None:
    async with serving(network, files), trio.open_nursery() as nursery:
        link = network.link(1)
        link.drop_after(300)

        async def cut_twice_more() -> None:
            for count in (700, 100):
                await passes(1.5)
                link.drop_after(count, "from_broker")
                link.cut()

        nursery.start_soon(cut_twice_more)
        patient = factory(
            files, options="sslEnabled=true&initialConnectAttempts=-1&reconnectAttempts=-1&retryInterval=1000"
        )
        async with patient.connect() as connection, connection.session() as session:
            producer = session.create_producer(ORDERS)
            for number in range(8):
                await producer.send(str(number))
                await passes(0.7)
        assert await take(factory(files), 8) == [str(number) for number in range(8)]


@pytest.mark.parametrize(
    ("way", "reason", "seconds"),
    # The broker, which has waited ten seconds, or the client.
    [
        ("to_broker", "closed the connection during the TLS handshake", 15),
        ("from_broker", "was not complete in time", 60),
    ],
)
async def test_a_handshake_that_a_partition_stops_ends_with_the_time_outs(
    way: Direction, reason: str, seconds: float, network: PipeNetwork, files: Files
) -> None:
    async with serving(network, files) as broker:
        network.link(1).partition(way)
        began = trio.current_time()
        with pytest.raises(JMSException, match=reason):
            async with factory(files).connect():
                pass
        assert 5 < trio.current_time() - began <= seconds
        network.link(1).heal()
        await trio.testing.wait_all_tasks_blocked()
        assert life_of(broker).host.statistics().connections == 0
        await put(factory(files), "next")


async def test_a_cut_within_records_loses_no_message_and_doubles_none(network: PipeNetwork, files: Files) -> None:
    texts = [f"{number} " + "x" * 20_000 for number in range(40)]
    async with serving(network, files), trio.open_nursery() as nursery:
        patient = factory(
            files, options="sslEnabled=true&reconnectAttempts=-1&retryInterval=100&confirmationWindowSize=1000000"
        )

        async def cut() -> None:
            for count in (50_001, 123_457, 200_003):
                network.link(1).drop_after(count)
                await passes(1)

        nursery.start_soon(cut)
        async with patient.connect() as connection, connection.session() as session:
            producer = session.create_producer(ORDERS)
            for text in texts:
                await producer.send(text)
                await passes(0.1)
        assert await take(factory(files), len(texts)) == texts


# -- brokers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [100, 700, 1_400, 5_000])
async def test_members_of_a_cluster_find_each_other_after_cut_handshakes(
    count: int, network: PipeNetwork, files: Files
) -> None:
    one, other = member(network, files, 1), member(network, files, 2)
    network.link(1).drop_after(count, "from_broker")
    network.link(2).drop_after(count, "to_broker")
    async with one, other:
        await until_known(one, "broker-1", "broker-2")
        await until_known(other, "broker-1", "broker-2")
        for port in (1, 2):
            network.link(port).heal()
            await put(factory(files, port), f"at {port}")
            assert await take(factory(files, port), 1) == [f"at {port}"]
        await one.crash()
        await until_known(other, "broker-2")


@pytest.mark.parametrize("count", [100, 700, 1_400, 5_000, 100_000])
async def test_a_journal_is_copied_over_links_that_break(count: int, network: PipeNetwork, files: Files) -> None:
    manager = MemoryLockManager()
    primary = member(network, files, 1, lock_manager=manager, ha_policy=ReplicationPrimary())
    backup = member(network, files, 2, lock_manager=manager, ha_policy=ReplicationBackup())
    texts = [f"{number} " + "x" * 30_000 for number in range(20)]
    async with primary:
        await put(factory(files, 1), *texts[:10])
        network.link(1).drop_after(count, "from_broker")
        async with backup:
            await until_in_sync(primary)
            await put(factory(files, 1), *texts[10:])
            network.link(1).cut()
            network.link(1).drop_after(count, "to_broker")
            await passes(5)
            await until_in_sync(primary)
            await put(factory(files, 1), "last")
            await primary.crash()
            with trio.fail_after(120):
                await backup.wait_for_role(Role.LIVE)
            assert await take(factory(files, 2), 21) == [*texts, "last"]
