"""2.3.10 to 2.3.12, 2.11.4: a backup that takes over hands everything to another broker in place of serving."""

from __future__ import annotations

from embedbroker import Colocated, PrimaryOnly, Role, ScaleDown, SharedStoreBackup, SharedStorePrimary
from embedbroker.pytest_plugin import BrokerClock, ManagedBroker
from embedclient import ConnectionFactory, Queue
from tests.scenarios.clients import ORDERS, numbered, put, queued, session_at, take
from tests.scenarios.conftest import MakeBrokers
from tests.scenarios.groups import start_all
from tests.scenarios.nodes import MakeCluster

OTHERS = Queue("others")


async def two_primaries(make_brokers: MakeBrokers) -> tuple[ManagedBroker, ManagedBroker, ManagedBroker]:
    """A primary, its backup, which scales down, and the other broker of their cluster, all running."""
    pair = {
        "one": SharedStorePrimary(failover_on_shutdown=True),
        "backup": SharedStoreBackup(scale_down=ScaleDown()),
    }
    brokers = make_brokers(pair, {"other": PrimaryOnly()})
    await start_all(brokers.values())
    return brokers["one"], brokers["backup"], brokers["other"]


async def colocated_primaries(broker_cluster: MakeCluster) -> tuple[ManagedBroker, ManagedBroker]:
    """Two brokers that host the backups of each other, which scale down into their hosts."""
    backup = SharedStoreBackup(scale_down=ScaleDown())
    policy = Colocated(SharedStorePrimary(), backup, request_backup=True, backup_request_retry_interval_ms=500)
    cluster = await broker_cluster(2, colocated=True, brokers={"ha_policy": policy}).start()
    one, other = cluster.nodes
    return one, other


async def test_failover_on_initial_connection_of_two_primaries(broker_cluster: MakeCluster) -> None:
    """2.3.10

    Given a factory that has the places of two primaries, which host the backups of each other, and no session, when one
    of them crashes and its backup scales down into the other, then the first session finds the messages there.
    """
    one, other = await colocated_primaries(broker_cluster)
    async with session_at(one.url) as session:
        await put(session, numbered(0, 10))
    factory = ConnectionFactory(f"({one.url},{other.url})")
    await one.crash()
    await other.wait_for(queue="orders", count=10)
    async with (
        factory.connect() as connection,
        connection.session() as session,
        session.create_consumer(ORDERS) as consumer,
    ):
        assert await take(consumer, 10) == numbered(0, 10)


async def test_create_new_factory_after_failover_of_two_primaries(broker_cluster: MakeCluster) -> None:
    """2.3.11

    Given a session that follows its messages from one primary to the other, when a factory is made of the same places
    after that, then its sessions work, too.
    """
    one, other = await colocated_primaries(broker_cluster)
    url = f"({one.url},{other.url})?ha=true&reconnectAttempts=3&failoverAttempts=-1&retryInterval=100"
    async with session_at(url) as session:
        await put(session, ["before"])
        await one.crash()
        await other.wait_for(queue="orders", count=1)
        await put(session, ["after"])
        async with session_at(url) as late, late.create_consumer(ORDERS) as consumer:
            assert await take(consumer, 2) == ["before", "after"]


async def test_scale_down_delay(broker_cluster: MakeCluster) -> None:
    """2.3.12

    Given 1,000 messages, when their broker crashes, then the other one has all of them, and a client that goes on there
    receives each once.
    """
    one, other = await colocated_primaries(broker_cluster)
    url = f"({one.url},{other.url})?ha=true&reconnectAttempts=3&failoverAttempts=-1&retryInterval=100"
    async with session_at(url) as session:
        await put(session, numbered(0, 1_000))
        await one.crash()
        await other.wait_for(queue="orders", count=1_000)
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, 1_000) == numbered(0, 1_000)
    await other.assert_empty("orders")


async def test_basic_scale_down(make_brokers: MakeBrokers, broker_clock: BrokerClock) -> None:
    """2.11.4

    Given a backup that scales down, and two queues of which clients have consumed different parts, when the primary
    stops, then the other broker has what was not consumed of each, and the backup waits as backup again: the primary
    that returns is live, with empty queues.
    """
    one, backup, other = await two_primaries(make_brokers)
    async with session_at(one.url) as session:
        for queue, consumed in ((ORDERS, 20), (OTHERS, 70)):
            await put(session, numbered(0, 100), queue)
            async with session.create_consumer(queue) as consumer:
                await take(consumer, consumed)
    await one.stop()
    await other.wait_for(queue="others", count=30)
    assert await queued(other) == numbered(20, 100)
    assert await queued(other, "others") == numbered(70, 100)
    await backup.wait_for_role(Role.BACKUP)
    await one.start()
    assert (one.role, backup.role) == (Role.LIVE, Role.BACKUP)
    await one.assert_empty("orders")
    await one.assert_empty("others")
