"""2.4: the primary returns."""

from __future__ import annotations

from collections.abc import Callable

import trio

from embedbroker import ReplicationBackup, ReplicationPrimary, Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.pytest_plugin import BrokerPair
from embedbroker.replication import Replicator, ReplicatorState
from tests.embedbroker.ha.replication.replicating import PRIMARY, Brokers, goes_on
from tests.scenarios.clients import ORDERS, commit, numbered, put, queued, session_at, take
from tests.scenarios.conftest import MakePair
from tests.scenarios.test_one_pair import saved_journals

COUNT = 30
MANY = 300


async def test_auto_failback(make_pair: MakePair) -> None:
    """2.4.1

    Given a shared store, a backup that may be failed back from and does not start again, when the primary returns, then
    the client moves back, and in each step the messages are where the client is.
    """
    pair = make_pair(SharedStorePrimary(), SharedStoreBackup(allow_failback=True, restart_backup=False))
    await pair.start()
    async with session_at(pair.url) as session:
        await put(session, ["one"])
        assert await queued(pair.primary) == ["one"]
        await pair.failover()
        await put(session, ["two"])
        assert await queued(pair.backup) == ["one", "two"]
        await pair.primary.start()
        await pair.backup.wait_for_role(Role.STOPPED)
        await put(session, ["three"])
        assert pair.primary.is_live and await queued(pair.primary) == ["one", "two", "three"]


async def test_auto_failback_then_failover(make_pair: MakePair) -> None:
    """2.4.2

    Given that, and a backup that was started again by hand, when the primary crashes again, then the client moves to
    the backup again.
    """
    pair = make_pair(SharedStorePrimary(), SharedStoreBackup(allow_failback=True, restart_backup=False))
    await pair.start()
    async with session_at(pair.url) as session:
        await put(session, ["one"])
        await pair.failover()
        await pair.primary.start()
        await pair.backup.wait_for_role(Role.STOPPED)
        await put(session, ["two"])
        await pair.backup.start()
        assert await pair.failover() is pair.backup
        await put(session, ["three"])
        assert await queued(pair.backup) == ["one", "two", "three"]


async def test_fail_back_of_many(broker_pair: BrokerPair) -> None:
    """2.4.3

    Given many messages before a failover and many after it, when the primary returns, then it has all of them.
    """
    async with session_at(broker_pair.url, transacted=True) as session:
        for first in (0, MANY):
            await commit(session, numbered(first, first + MANY))
            await (broker_pair.failover() if first == 0 else broker_pair.failback())
        assert broker_pair.live is broker_pair.primary
        async with session.create_consumer(ORDERS) as consumer:
            assert await take(consumer, 2 * MANY) == numbered(0, 2 * MANY)
            await session.commit()


async def test_fail_back_of_a_replicating_pair(make_pair: MakePair) -> None:
    """2.4.5

    Given replication, a primary that looks for a live broker, and a failover, when it returns, then it is a backup
    first and live after that, with every message, and the other one starts again as its backup. What it had was the
    beginning of the other's history, so nothing of it had to be put aside.
    """
    pair = make_pair(ReplicationPrimary(check_for_active_server=True), ReplicationBackup(allow_failback=True))
    await pair.start()
    roles: list[Role] = []

    async def note(role: Role) -> None:
        await pair.primary.wait_for_role(role)
        roles.append(role)

    async with session_at(pair.url) as session:
        await put(session, numbered(0, COUNT))
        await pair.failover()
        await put(session, numbered(COUNT, 2 * COUNT))
        async with trio.open_nursery() as nursery:
            pair.link.delay(0.05)
            nursery.start_soon(pair.primary.start)
            await trio.testing.wait_all_tasks_blocked()
            await note(Role.BACKUP)
            assert pair.live is pair.backup
            await note(Role.LIVE)
        await pair.wait_in_step()
        assert (pair.live, pair.standby) == (pair.primary, pair.backup)
        assert roles == [Role.BACKUP, Role.LIVE]
        assert await queued(pair.primary) == numbered(0, 2 * COUNT)
        assert [saved_journals(broker) for broker in pair.brokers] == [0, 0]


async def test_replicated_failback_again_and_again(make_pair: MakePair) -> None:
    """2.4.6

    Given that two older copies may be kept, when there are three rounds of failover and failback, then the backup is
    there after each of them, and no more are kept.
    """
    pair = make_pair(
        ReplicationPrimary(check_for_active_server=True, max_saved_replicated_journals_size=2),
        ReplicationBackup(allow_failback=True, max_saved_replicated_journals_size=2),
    )
    await pair.start()
    async with session_at(pair.url) as session:
        for turn in range(3):
            await put(session, [f"{turn} at the primary"])
            await pair.failover()
            await put(session, [f"{turn} at the backup"])
            await pair.failback()
            # Each catches up with the other's history, of which what it has is the beginning.
            assert [saved_journals(broker) for broker in pair.brokers] == [0, 0]
        assert len(await queued(pair.primary)) == 6


def test_failback_timeout() -> None:
    """2.4.8

    Given a live backup, and a primary that returns and never confirms the end of its copy, when the time for that is
    over, then the backup logs it, stays live with everything, and gives way when the primary is well again.
    """
    brokers = Brokers("pq", manager=True)
    brokers.primary("p", PRIMARY)
    brokers.backup("q", ReplicationBackup(allow_failback=True, initial_replication_sync_timeout_ms=500))
    writer = brokers.writer("p", "q")
    brokers.until_in_sync("p")
    brokers.crash("p")
    brokers.until_role("q", Role.LIVE)
    goes_on(brokers, writer, "q")
    brokers.hosts["p"].start()
    replicator = copies_of(brokers, "q")
    brokers.until(lambda: replicator().state is ReplicatorState.HANDING_OVER)
    brokers.hosts["p"].freeze()
    brokers.until(lambda: "the hand-over took 0.5 s" in brokers.said("q"))
    goes_on(brokers, writer, "q")
    assert brokers.roles == {"p": "backup", "q": "live"}
    brokers.hosts["p"].thaw()
    brokers.until_role("p", Role.LIVE)
    goes_on(brokers, writer, "p")


def copies_of(brokers: Brokers, name: str) -> Callable[[], Replicator]:
    """How far a live broker is with its backup."""

    def look() -> Replicator:
        disk = brokers.node(name).replica_disk
        assert disk is not None and disk.replicator is not None
        return disk.replicator

    return look
