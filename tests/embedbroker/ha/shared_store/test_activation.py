"""What a node does in each role, and what it requests from the lock store when."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedbroker.config import HAPolicy, PrimaryOnly, Role, SharedStoreBackup, SharedStorePrimary
from embedbroker.locks import Acquire, LiveState, Lock, LockSession, MemoryLocks, ReadRecord, StoreRecord, WriteRecord
from embedbroker.node import Command, CommandKind, DiskFailed, NodeState
from embedbroker.storage import DiskFault, FaultKind, Lane
from embedbroker.testing._locks import SimulatedLocks
from embedclient.wire.core import DisconnectV3, NullResponse
from tests.embedbroker.node.scripted import Stage

BACKUP = SharedStoreBackup()
ACTIVE = StoreRecord(LiveState.ACTIVE, "the node", 7)


def other(locks: SimulatedLocks, record: StoreRecord = ACTIVE) -> LockSession:
    """Another broker is live."""
    session = locks.open("primary 'other'")
    session.run((Acquire(Lock.LIVE), WriteRecord(record)))
    return session


def record_of(locks: SimulatedLocks | MemoryLocks) -> StoreRecord:
    (record,) = locks.open("test").run((ReadRecord(),))
    assert isinstance(record, StoreRecord)
    return evolve(record, life=None, last_batch=None)


def on(locks: SimulatedLocks, policy: HAPolicy, *, durable: bool = True, start: bool = True) -> Stage:
    return Stage(durable=durable, start=start, locks=locks, ha_policy=policy)


def has_stopped(stage: Stage) -> bool:
    return stage.stopped is not None


def stop(stage: Stage, kind: CommandKind = CommandKind.STOP) -> None:
    stage.step(Command(kind))
    stage.settle_disk()


def test_a_node_without_a_lock_store_activates_at_once() -> None:
    stage = Stage()
    assert stage.roles == [Role.ACTIVATING, Role.LIVE]
    assert stage.node.node_id != ""


def test_the_node_id_is_made_once_for_a_store() -> None:
    locks = SimulatedLocks()
    stage = on(locks, PrimaryOnly())
    node_id = stage.node.node_id
    assert record_of(locks) == StoreRecord(LiveState.ACTIVE, node_id, 7)
    stop(stage)
    assert record_of(locks) == StoreRecord(LiveState.PAUSED, node_id, 7)
    stage.boot()
    assert stage.node.node_id == node_id and record_of(locks).state is LiveState.ACTIVE


def test_a_backup_touches_no_disk_refuses_connections_and_knows_the_node_id() -> None:
    locks = SimulatedLocks()
    other(locks)
    stage = on(locks, BACKUP)
    assert (stage.roles, stage.node.role, stage.node.state) == ([Role.BACKUP], Role.BACKUP, NodeState.WAITING)
    assert stage.node.node_id == "the node"
    stage.advance(60.0)
    assert stage.work == []
    assert stage.accept().state() == "the broker is not running"


def test_a_backup_that_takes_over_reads_the_journal_and_then_says_that_it_is_live() -> None:
    locks = SimulatedLocks()
    live = other(locks)
    stage = on(locks, BACKUP)
    live.close()
    ask(stage)
    assert stage.roles == [Role.BACKUP, Role.ACTIVATING] and stage.work
    stage.settle_disk()
    assert stage.roles == [Role.BACKUP, Role.ACTIVATING, Role.LIVE]
    assert stage.node.node_id == "the node"


def ask(stage: Stage) -> None:
    """The next request to the store and its answer, and the record that states so when the live lock was granted."""
    stage.advance(0.05)
    stage.finish_lock_work()
    if stage.lock_work is not None:
        stage.finish_lock_work()


def test_clients_are_not_served_before_the_record_says_who_is_live() -> None:
    locks = SimulatedLocks()
    stage = on(locks, SharedStorePrimary(), start=False)
    stage.step(Command(CommandKind.START))
    stage.finish_lock_work()
    assert stage.work == [] and stage.roles == [], "the record does not say yet whose the journal is"
    stage.finish_lock_work()
    while stage.work:
        stage.finish_work(stage.work[0])
        stage.run()
    assert stage.lock_work is not None
    assert isinstance(stage.lock_work.operations[0], WriteRecord)
    assert not stage.ready and stage.node.state is NodeState.RECOVERING
    stage.finish_lock_work()
    assert stage.ready


def test_a_new_journal_takes_the_identity_that_the_record_knows() -> None:
    locks = SimulatedLocks()
    known = StoreRecord(LiveState.PAUSED, "the node", 12_345)
    other(locks, known).close()
    on(locks, SharedStorePrimary())
    assert record_of(locks) == StoreRecord(LiveState.ACTIVE, "the node", 12_345)


def test_a_stop_is_written_when_the_journal_is_sealed_and_not_before() -> None:
    locks = SimulatedLocks()
    stage = on(locks, SharedStorePrimary())
    peer = stage.connect().open_session()
    peer.create_queue()
    stage.step(Command(CommandKind.STOP))
    assert isinstance(peer.received[-1][1], DisconnectV3)
    assert record_of(locks).state is LiveState.ACTIVE and stage.work
    while stage.work:
        assert stage.lock_work is None and not has_stopped(stage)
        stage.finish_work(stage.work[0])
    stage.finish_lock_work()
    assert has_stopped(stage) and record_of(locks).state is LiveState.PAUSED


@pytest.mark.parametrize(
    ("policy", "kind", "state"),
    [
        (SharedStorePrimary(), CommandKind.STOP, LiveState.PAUSED),
        (SharedStorePrimary(), CommandKind.FAIL_OVER, LiveState.ACTIVE),
        (SharedStorePrimary(failover_on_shutdown=True), CommandKind.STOP, LiveState.ACTIVE),
        (PrimaryOnly(), CommandKind.STOP, LiveState.PAUSED),
    ],
)
def test_an_orderly_stop_leaves_the_record_as_the_policy_says(
    policy: HAPolicy, kind: CommandKind, state: LiveState
) -> None:
    locks = SimulatedLocks()
    stage = on(locks, policy)
    stop(stage, kind)
    assert stage.stopped is not None and (stage.stopped.failure, stage.stopped.restarts) == (None, False)
    assert record_of(locks).state is state


@pytest.mark.parametrize("restarts", [True, False])
def test_a_live_backup_gives_way_in_order_its_clients_are_told(restarts: bool) -> None:
    locks = SimulatedLocks()
    other(locks).close()
    stage = on(locks, SharedStoreBackup(restart_backup=restarts))
    stage.advance(0.05)
    stage.settle_disk()
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.post("m", durable=True, blocking=True)
    locks.open("primary 'p'").run((Acquire(Lock.FAILBACK),))
    stage.advance(0.5)
    stage.settle_disk()
    told = [packet for _, packet in peer.received]
    assert isinstance(told[-1], DisconnectV3) and NullResponse(-1) in told[:-1], "what was asked before is answered"
    assert stage.stopped is not None and stage.stopped.restarts is restarts
    assert record_of(locks) == StoreRecord(LiveState.FAILING_BACK, "the node", 7)


def test_a_stop_is_a_stop_although_a_primary_waits() -> None:
    """1. It is asked to stop. 2. The answer comes that a primary waits. 3. It must not wait as backup again."""
    locks = SimulatedLocks()
    other(locks).close()
    stage = on(locks, BACKUP)
    stage.advance(0.05)
    stage.settle_disk()
    stage.connect().open_session().post("m", durable=True)
    locks.open("primary 'p'").run((Acquire(Lock.FAILBACK),))
    stage.advance(0.5)
    assert stage.lock_work is not None
    stage.step(Command(CommandKind.STOP))
    stage.finish_lock_work()
    stage.settle_disk()
    assert stage.stopped is not None and not stage.stopped.restarts
    assert record_of(locks).state is LiveState.PAUSED


def test_a_backup_that_is_stopped_while_it_waits_leaves_everything_as_it_is() -> None:
    locks = SimulatedLocks()
    other(locks)
    stage = on(locks, BACKUP)
    stage.step(Command(CommandKind.STOP))
    assert stage.stopped is not None and record_of(locks) == ACTIVE
    assert stage.node.next_deadline() is None


def test_a_stop_while_the_journal_is_read_leaves_the_record_to_the_next_backup() -> None:
    locks = SimulatedLocks()
    other(locks).close()
    stage = on(locks, BACKUP)
    ask(stage)
    assert stage.node.state is NodeState.RECOVERING
    stage.step(Command(CommandKind.STOP))
    stage.settle_disk()
    assert stage.stopped is not None and record_of(locks) == ACTIVE


def test_a_disk_that_fails_leaves_the_record_active_for_a_backup() -> None:
    locks = SimulatedLocks()
    stage = on(locks, SharedStorePrimary())
    peer = stage.connect().open_session()
    peer.send_bytes(b"")
    stage.connect().open_session().post("m", durable=True)
    while not stage.work:
        stage.advance(1.0)
    work = stage.work.pop()
    stage.step(DiskFailed(work.batch, DiskFault(FaultKind.FAILED, "segment", "broken")))
    assert stage.stopped is not None and stage.stopped.failure is not None
    assert record_of(locks).state is LiveState.ACTIVE


def test_a_lock_that_is_lost_ends_the_node_without_a_word() -> None:
    locks = SimulatedLocks()
    stage = on(locks, SharedStorePrimary())
    peer = stage.connect().open_session()
    peer.clear()
    locks.revoke(Lock.LIVE)
    stage.advance(0.5)
    stage.finish_lock_work()
    assert stage.stopped is not None
    assert stage.stopped.failure == "the live lock is lost: another broker may be live"
    assert peer.clear() == [] and peer.state() == stage.stopped.failure


def test_what_the_disk_has_done_counts_only_when_it_is_sure_who_is_live() -> None:
    """1. A send waits for the disk. 2. The process is frozen, and goes on. 3. It looks before it answers."""
    locks = SimulatedLocks()
    stage = on(locks, SharedStorePrimary())
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.clear()
    stage.advance(10.0)
    stage.settle_disk()
    peer.post("m", durable=True, blocking=True)
    (work,) = [each for each in stage.work if each.lane is Lane.JOURNAL]
    stage.seconds += 20.0
    stage.finish_work(work)
    assert peer.clear() == [] and stage.lock_work is not None
    peer.post("n", durable=True, blocking=True)
    assert not [each for each in stage.work if each.lane is Lane.JOURNAL], "nothing more is written either"
    stage.finish_lock_work()
    assert peer.clear() == [NullResponse(-1)]
    stage.settle_disk()
    assert peer.clear() == [NullResponse(-1)]


@pytest.mark.parametrize("lost", [False, True])
def test_no_message_leaves_a_broker_that_was_frozen_before_it_has_looked(lost: bool) -> None:
    locks = SimulatedLocks()
    stage = on(locks, SharedStorePrimary())
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.post("m", durable=True, blocking=True)
    stage.settle_disk()
    stage.seconds += 20.0
    if lost:
        locks.revoke(Lock.LIVE)
    peer.consume()
    stage.run()
    assert peer.texts == []
    stage.finish_lock_work()
    stage.settle_disk()
    assert peer.texts == ([] if lost else ["m"])


def test_a_frozen_broker_that_lost_its_lock_confirms_nothing_when_it_goes_on() -> None:
    locks = SimulatedLocks()
    stage = on(locks, SharedStorePrimary())
    peer = stage.connect().open_session()
    peer.create_queue()
    peer.clear()
    peer.post("m", durable=True, blocking=True)
    (work,) = [each for each in stage.work if each.lane is Lane.JOURNAL]
    stage.seconds += 20.0
    locks.revoke(Lock.LIVE)
    peer.post("n", durable=True, blocking=True)
    while stage.lock_work is not None:
        stage.finish_lock_work()
    assert [each for each in stage.work if each.lane is Lane.JOURNAL] == [work], "the journal is another's"
    stage.settle_disk()
    assert stage.stopped is not None and stage.stopped.failure == "the live lock is lost: another broker may be live"
    assert peer.clear() == []


def test_a_store_that_cannot_be_reached_at_the_start_ends_the_node() -> None:
    locks = SimulatedLocks()
    stage = on(locks, SharedStorePrimary(), start=False)
    locks.reachable = False
    stage.step(Command(CommandKind.START))
    stage.settle_disk()
    assert stage.stopped is not None and stage.stopped.failure == "the lock store cannot be reached"
