"""2.1: the basic failover of one pair, with a shared store and with replication."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from embedbroker import (
    ClusterConnection,
    EmbeddedBroker,
    ReplicationBackup,
    ReplicationPrimary,
    Role,
    SecuritySetting,
    SharedStoreBackup,
    SharedStorePrimary,
    User,
    pytest_plugin,
)
from embedbroker.pytest_plugin import BrokerClock, BrokerPair, ManagedBroker, bench_of
from embedbroker.pytest_plugin._bench import Bench
from embedbroker.pytest_plugin._broker import prepare
from embedbroker.storage import ListFiles
from embedclient import ConnectionFactory, Queue
from embedclient.errors import JMSSecurityException
from tests.embedbroker.runtime.test_cluster_of_brokers import until_known
from tests.scenarios.clients import ORDERS, numbered, put, put_once, queued, session_at, take
from tests.scenarios.conftest import MakePair, bench_over_tcp
from tests.scenarios.groups import pair_of

COUNT = 30


class DistantPair(BrokerPair):
    """Whose brokers hear each other 0.1 s late, so that a copy takes its time."""

    async def start(self) -> None:
        self.link.delay(0.1)
        await super().start()


def group_of_distant_brokers(bench: Bench) -> BrokerPair:
    """Two of one group, started with the test."""
    primary = ReplicationPrimary(group_name="east")
    backup = ReplicationBackup(group_name="east", allow_failback=True)
    pair = pair_of(bench, primary, backup, {}, kind_of_pair=DistantPair)
    bench.start_with_test(pair, *pair.brokers)
    return pair


OVER_TCP = pytest.param("over TCP", marks=pytest.mark.search)


@pytest.fixture(params=[*pytest_plugin.PAIR_MODES, "a group, and a slow copy", OVER_TCP])
def broker_pair(request: pytest.FixtureRequest) -> BrokerPair:
    """A pair of each kind: each line of this section holds for each of them (2.1.8, 2.1.9)."""
    match request.param:
        case "over TCP":
            return bench_over_tcp(request).pair("shared-store")
        case "a group, and a slow copy":
            return group_of_distant_brokers(bench_of(request))
        case kind:
            return bench_of(request).pair(kind)


@pytest.fixture(params=["small", "large"])
def texts(request: pytest.FixtureRequest) -> Callable[[int, int], list[str]]:
    """Different texts with these numbers. Clients send large ones in chunks (2.1.6, 2.1.10)."""
    return numbered if request.param == "small" else lambda first, end: [f"{n}," * 60_000 for n in range(first, end)]


def saved_journals(broker: ManagedBroker) -> int:
    """How many older copies a broker has put aside."""
    (names,) = broker.disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    return len({name.split(".")[1] for name in names if name.startswith("oldreplica.")})


async def test_non_transacted(broker_pair: BrokerPair, texts: Callable[[int, int], list[str]]) -> None:
    """2.1.1, 2.1.6, 2.1.8, 2.1.9, 2.1.10

    Given durable messages between others that are not, when the primary crashes, then the backup has the durable ones
    in their order; that no connection is left is what the fixture looks at.
    """
    async with session_at(broker_pair.url) as session:
        for number in range(COUNT):
            await put(session, texts(number, number + 1), durable=number % 2 == 0)
        await broker_pair.wait_for(queue="orders", count=COUNT)
        await broker_pair.failover()
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, COUNT // 2) == texts(0, COUNT)[::2]
            assert await consumer.receive_nowait() is None
    await broker_pair.assert_empty("orders")


@pytest.mark.parametrize("crashes", [True, False], ids=["crash", "stop"])
async def test_simple_failover(broker_pair: BrokerPair, texts: Callable[[int, int], list[str]], crashes: bool) -> None:
    """2.1.2, 2.1.6, 2.1.8, 2.1.9, 2.1.10

    Given messages, when the primary crashes, more are sent and the backup itself ends and starts again, then it has
    the node id of its primary, and everything.
    """
    async with session_at(broker_pair.url) as session:
        node_id = broker_pair.primary.broker.node_id
        await put(session, texts(0, COUNT))
        backup = await broker_pair.failover()
        await put(session, texts(COUNT, 2 * COUNT))
        await (backup.crash() if crashes else backup.stop(failover=True))
        await backup.start()
        await broker_pair.wait_live()
        assert backup.is_live and backup.broker.node_id == node_id != ""
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, 2 * COUNT) == texts(0, 2 * COUNT)


async def test_fail_back(broker_pair: BrokerPair, texts: Callable[[int, int], list[str]]) -> None:
    """2.1.3, 2.1.6, 2.1.8, 2.1.9, 2.1.10

    Given a failover, when the primary returns, then it is live with everything, and the other one is its backup again,
    in sync; older copies are caught up with, so none is put aside.
    """
    async with session_at(broker_pair.url) as session:
        await put(session, texts(0, COUNT))
        await broker_pair.failover()
        await put(session, texts(COUNT, 2 * COUNT))
        await broker_pair.failback()
        assert (broker_pair.primary.role, broker_pair.backup.role) == (Role.LIVE, Role.BACKUP)
        assert await queued(broker_pair.primary) == texts(0, 2 * COUNT)
        assert [saved_journals(broker) for broker in broker_pair.brokers] == [0, 0]
        # What the other one has is worth something: it takes over once more.
        assert await broker_pair.failover() is broker_pair.backup
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, 2 * COUNT) == texts(0, 2 * COUNT)


async def test_without_using_the_backup(broker_pair: BrokerPair, texts: Callable[[int, int], list[str]]) -> None:
    """2.1.4, 2.1.6, 2.1.8, 2.1.9, 2.1.10

    Given a backup that starts again while it is not needed, when both stop and only the primary starts, then no message
    is missing and none is there twice.
    """
    async with session_at(broker_pair.url) as session:
        await put(session, texts(0, COUNT))
        await broker_pair.backup.restart()
        await put(session, texts(COUNT, 2 * COUNT))
        await broker_pair.wait_in_step()
        await put(session, texts(2 * COUNT, 3 * COUNT))
        await broker_pair.backup.stop()
        await broker_pair.primary.stop()
        await broker_pair.primary.start()
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, 3 * COUNT) == texts(0, 3 * COUNT)
            assert await consumer.receive_nowait() is None


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "non durable"])
@pytest.mark.parametrize("temporary", [False, True], ids=["non temporary", "temporary"])
async def test_simple_send_after_failover(
    broker_pair: BrokerPair, texts: Callable[[int, int], list[str]], durable: bool, temporary: bool
) -> None:
    """2.1.5, 2.1.6, 2.1.8, 2.1.9, 2.1.10

    Given a producer and a consumer, when the primary crashes, then both go on at the backup, which has a queue for
    them also where it was a temporary one.
    """
    async with session_at(broker_pair.url) as session:
        queue = await session.create_temporary_queue() if temporary else ORDERS
        async with session.create_consumer(queue) as consumer:
            await put(session, texts(0, 1), queue, durable=durable)
            assert await take(consumer, 1) == texts(0, 1)
            await broker_pair.wait_for(queue=queue.address, count=0)  # the acknowledgement has arrived
            await put(session, ["on disk behind it"], Queue("other"))
            await broker_pair.failover()
            await put(session, texts(0, COUNT), queue, durable=durable)
            assert await take(consumer, COUNT) == texts(0, COUNT)


async def test_a_pair_of_a_group_with_a_slow_copy(make_pair: MakePair, broker_clock: BrokerClock) -> None:
    """2.1.9

    Given a pair of one group, between whose brokers everything takes 0.2 s, when there are messages before the copy
    begins and while it is made, and the primary crashes once it is whole, then the backup has all of them.
    """
    pair = make_pair(ReplicationPrimary(group_name="east"), ReplicationBackup(group_name="east"))
    await prepare(*pair.brokers)
    await pair.primary.start()
    async with session_at(pair.url) as session:
        await put(session, numbered(0, COUNT))
        pair.link.delay(0.2)
        await pair.backup.start()
        begun = broker_clock.seconds
        await put(session, numbered(COUNT, 2 * COUNT))
        assert not pair.primary.broker.is_in_sync
        await pair.wait_in_step()
        assert broker_clock.seconds > begun + 0.4
        assert await pair.failover() is pair.backup
        assert await queued(pair) == numbered(0, 2 * COUNT)


async def test_failover_with_a_host_alias(tmp_path: Path) -> None:
    """2.1.11

    Given brokers that call themselves localhost, and a client that has the primary alone, as 127.0.0.1, when the
    primary crashes, then the client finds the backup all the same.
    """
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = {"primary": one.getsockname()[1], "backup": other.getsockname()[1]}

    def member(name: str, policy: SharedStorePrimary | SharedStoreBackup) -> EmbeddedBroker:
        return EmbeddedBroker(
            name=name,
            port=ports[name],
            connectors={each: f"tcp://localhost:{port}" for each, port in ports.items()},
            cluster_connections=ClusterConnection(
                connector=name, static_connectors=tuple({*ports} - {name}), retry_interval_ms=20
            ),
            cluster_password="of this test",
            data_directory=str(tmp_path),
            ha_policy=policy,
        )

    with trio.fail_after(20.0):
        async with member("primary", SharedStorePrimary()) as primary, member("backup", SharedStoreBackup()) as backup:
            await until_known(primary, "primary", "backup")
            url = f"tcp://127.0.0.1:{ports['primary']}?ha=true&reconnectAttempts=-1&retryInterval=20"
            async with session_at(url) as session:
                await put(session, ["before"])
                await primary.crash()
                await put_once(session.create_producer(ORDERS), "after")
                assert backup.role is Role.LIVE
                async with session.create_consumer(ORDERS) as consumer:
                    assert await take(consumer, 2) == ["before", "after"]


USERS = [User("app", "secret", roles=["writers", "readers"]), User("guest", "guest", roles=["readers"])]
PERMISSIONS = {
    "orders": SecuritySetting(
        send=["writers"], consume=["readers"], create_address=["writers"], create_durable_queue=["writers"]
    )
}


@pytest.mark.parametrize("replicates", [False, True], ids=["shared store", "replication"])
async def test_failover_with_users_and_permissions(make_pair: MakePair, replicates: bool) -> None:
    """2.1.7

    Given a pair with users, when the primary crashes while one of them works, then its session goes on at
    the backup without another login of the user, with the same permissions; others are refused there, too.
    """
    policies = (
        (ReplicationPrimary(), ReplicationBackup()) if replicates else (SharedStorePrimary(), SharedStoreBackup())
    )
    pair = make_pair(*policies, users=USERS, security_settings=PERMISSIONS)
    await pair.start()
    factory = ConnectionFactory(pair.url)
    async with (
        factory.create_connection("app", "secret") as connection,
        factory.create_connection("guest", "guest") as other,
        connection.session() as session,
        other.session() as reading,
    ):
        await put(session, numbered(0, COUNT))
        await pair.failover()
        await put(session, numbered(COUNT, 2 * COUNT))
        with pytest.raises(JMSSecurityException, match=r"AMQ229032.*guest.*SEND"):
            await put(reading, ["not allowed"])
        with pytest.raises(JMSSecurityException, match=r"AMQ229032.*app.*other"):
            await put(session, ["not allowed"], Queue("other"))
        for user, password in (("app", "wrong"), ("nobody", "secret")):
            with pytest.raises(JMSSecurityException):
                async with factory.create_connection(user, password):
                    pass
        async with reading.create_consumer(ORDERS) as consumer:
            assert await take(consumer, 2 * COUNT) == numbered(0, 2 * COUNT)
