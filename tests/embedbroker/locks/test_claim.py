"""Which broker may be live: the claims of several brokers on one store, with a clock by hand."""

from __future__ import annotations

import pytest
from attrs import define, evolve

from embedbroker.config import HAPolicy, PrimaryOnly, SharedStoreBackup, SharedStorePrimary
from embedbroker.locks import (
    Acquire,
    Claim,
    ClaimState,
    LiveState,
    Lock,
    LockOperation,
    LockSession,
    MemoryLocks,
    StoreRecord,
    Verify,
    WriteRecord,
)

from .claimants import BACKUP, PRIMARY, Broker, Group


def test_a_primary_of_a_new_store_is_live_at_once_and_says_so() -> None:
    group = Group()
    primary = group.primary()
    assert primary.stands(ClaimState.LIVE) and primary.notes == []
    assert group.record() == StoreRecord(LiveState.ACTIVE, "node of p", 7)
    assert [group.locks.holder(lock) for lock in Lock] == ["primary 'p'", None, None]


def test_nobody_is_live_before_the_record_says_so() -> None:
    group = Group()
    primary = group.primary()
    primary.die()
    primary = Broker(group, "p", PRIMARY, settles=False).start()
    assert primary.stands(ClaimState.GRANTED)
    primary.claim.settle("n", 7)
    work = primary.claim.take_work(group.now)
    record = StoreRecord(LiveState.ACTIVE, "n", 7, life=2)
    assert work is not None and work.operations[0] == WriteRecord(record, over=2)
    assert primary.stands(ClaimState.SETTLING)
    assert primary.stands(ClaimState.SETTLING)
    primary.claim.on_done(work.batch, (None, None, None), group.now)
    assert primary.stands(ClaimState.LIVE)


def test_a_look_that_was_under_way_when_the_journal_was_read_does_not_stand_for_the_record() -> None:
    group = Group()
    primary = Broker(group, "p", PRIMARY, settles=False).start()
    late = group.now + 0.6
    look = primary.claim.take_work(late)
    assert look is not None and look.operations[0] == Verify(Lock.LIVE)
    primary.claim.settle("n", 7)
    primary.claim.on_done(look.batch, primary.session.run(look.operations), late)
    assert primary.stands(ClaimState.SETTLING) and group.record().node_id is None
    written = primary.claim.take_work(late)
    assert written is not None and isinstance(written.operations[0], WriteRecord)
    primary.claim.on_done(written.batch, primary.session.run(written.operations), late)
    assert primary.stands(ClaimState.LIVE)
    assert (group.record().node_id, group.record().journal_identity) == ("n", 7)


@pytest.mark.parametrize("has_lost_it", [False, True])
def test_who_was_frozen_while_the_store_answered_looks_again_before_it_is_live(has_lost_it: bool) -> None:
    group = Group()
    primary = Broker(group, "p", PRIMARY, settles=False).start()
    primary.claim.settle("n", 7)
    written = primary.claim.take_work(group.now)
    assert written is not None
    results = primary.session.run(written.operations)
    late = group.now + 60.0
    primary.claim.on_done(written.batch, results, late)
    assert primary.stands(ClaimState.SETTLING)
    look = primary.claim.take_work(late)
    assert look is not None and look.operations[0] == Verify(Lock.LIVE)
    if has_lost_it:
        group.locks.revoke(Lock.LIVE)
    primary.claim.on_done(look.batch, primary.session.run(look.operations), late)
    assert primary.stands(ClaimState.OVER if has_lost_it else ClaimState.LIVE)
    assert primary.claim.failure == ("the live lock is lost: another broker may be live" if has_lost_it else None)


def test_a_backup_takes_over_when_the_live_broker_dies_and_keeps_its_node_id() -> None:
    group = Group()
    primary, backup = group.primary(), group.backup()
    group.wait()
    assert backup.stands(ClaimState.WAITING)
    primary.die()
    group.wait(0.1)
    assert backup.stands(ClaimState.LIVE)
    assert group.record() == StoreRecord(LiveState.ACTIVE, "node of p", 7)


def test_a_backup_that_starts_first_waits_for_a_primary() -> None:
    group = Group()
    backup = group.backup()
    group.wait()
    assert backup.notes == ["waits as backup: no primary has been live on this store yet"]
    primary = group.primary()
    group.wait()
    assert (primary.state, backup.state) == (ClaimState.LIVE, ClaimState.WAITING)
    assert backup.notes[1:] == ["waits as backup for the live broker to die"]


def test_a_backup_that_starts_after_both_have_died_takes_over() -> None:
    group = Group()
    group.primary().die()
    assert group.backup().state is ClaimState.WAITING
    group.wait(0.1)
    assert group.living[0].stands(ClaimState.LIVE)


def test_an_orderly_stop_leaves_the_backup_waiting_until_the_primary_returns() -> None:
    group = Group()
    primary, backup = group.primary(), group.backup()
    primary.stop()
    group.wait(60)
    assert group.record().state is LiveState.PAUSED and backup.stands(ClaimState.WAITING)
    assert "stopped in order" in backup.notes[-1]
    assert group.primary().state is ClaimState.LIVE
    group.wait()
    assert backup.stands(ClaimState.WAITING)


@pytest.mark.parametrize("backup_stops", [False, True], ids=["primary", "backup that became live"])
def test_failover_on_shutdown_makes_a_backup_take_over_an_orderly_stop(backup_stops: bool) -> None:
    group = Group()
    hands_over = SharedStorePrimary(failover_on_shutdown=not backup_stops)
    primary = group.primary(policy=hands_over)
    first = group.backup("a", SharedStoreBackup(failover_on_shutdown=backup_stops))
    second = group.backup("b")
    if backup_stops:
        primary.die()
    else:
        primary.stop()
    group.wait()
    assert (first.state, second.state) == (ClaimState.LIVE, ClaimState.WAITING)
    first.stop()
    group.wait()
    assert second.stands(ClaimState.LIVE if backup_stops else ClaimState.WAITING)


def test_backups_queue_up_and_step_up_one_after_the_other() -> None:
    group = Group()
    primary = group.primary()
    backups = [group.backup(name) for name in "abcd"]
    group.wait()
    assert [backup.state for backup in backups] == [ClaimState.WAITING, *[ClaimState.QUEUED] * 3]
    live = primary
    for _ in "abcd":
        live.die()
        group.wait()
        state = [broker.state for broker in group.living]
        assert state.count(ClaimState.LIVE) == 1
        assert state.count(ClaimState.WAITING) == min(1, len(state) - 1)
        live = next(broker for broker in group.living if broker.stands(ClaimState.LIVE))
    assert group.record().node_id == "node of p"


def test_a_live_backup_gives_way_to_a_primary_that_returns() -> None:
    group = Group()
    primary, first, second = group.primary(), group.backup("a"), group.backup("b")
    primary.die()
    group.wait()
    assert first.stands(ClaimState.LIVE)
    primary = group.primary()
    group.wait(1)
    assert first.stands(ClaimState.OVER) and first.claim.wanted_by == "primary 'p'"
    assert (primary.state, second.state) == (ClaimState.LIVE, ClaimState.WAITING)
    assert [group.locks.holder(lock) for lock in Lock] == ["primary 'p'", "backup 'b'", None]


def test_a_live_backup_that_may_not_fail_back_stays_until_it_is_stopped_then_the_primary_goes_first() -> None:
    group = Group()
    primary = group.primary()
    first = group.backup("a", SharedStoreBackup(allow_failback=False))
    second = group.backup("b")
    primary.die()
    group.wait()
    primary = group.primary()
    group.wait(60)
    assert (first.state, primary.state) == (ClaimState.LIVE, ClaimState.WAITING)
    assert primary.notes == ["waits to be live: backup 'a' is"]
    first.die()
    group.wait()
    assert (primary.state, second.state) == (ClaimState.LIVE, ClaimState.WAITING)


def test_a_primary_does_not_give_way_to_another_primary() -> None:
    group = Group()
    first, second = group.primary("p"), group.primary("q")
    group.wait(60)
    assert (first.state, second.state) == (ClaimState.LIVE, ClaimState.WAITING)
    (note,) = second.claim.notes
    assert note.warning and note.text == (
        "waits to be live: primary 'p' is, and a primary gives way to no other broker: is this one meant to be its"
        " backup?"
    )
    first.stop()
    group.wait()
    assert second.stands(ClaimState.LIVE)


def test_two_backups_without_a_primary_say_so_after_a_while() -> None:
    group = Group()
    first, second = group.backup("a"), group.backup("b")
    group.wait(9)
    assert not [note for broker in (first, second) for note in broker.claim.notes if note.warning]
    group.wait(2)
    (note,) = [note for broker in (first, second) for note in broker.claim.notes if note.warning]
    assert note.text == "no primary has ever been live on this store: is one of its brokers configured as primary?"


def test_a_primary_that_dies_while_the_live_backup_gives_way_leaves_it_to_the_next_backup() -> None:
    group = Group()
    primary, first, second = group.primary(), group.backup("a"), group.backup("b")
    primary.die()
    group.wait()
    returning = Broker(group, "p", PRIMARY, settles=False).start()
    group.wait(1)
    assert first.stands(ClaimState.OVER) and returning.stands(ClaimState.GRANTED)
    group.wait(60)
    assert second.stands(ClaimState.WAITING)
    returning.die()
    group.wait()
    assert second.stands(ClaimState.LIVE)


def test_a_live_backup_hears_when_a_primary_comes_and_when_it_goes() -> None:
    group = Group()
    group.primary().die()
    backup = group.backup()
    group.wait()
    assert backup.stands(ClaimState.LIVE)
    backup.gives_way = False
    primary = group.primary()
    group.wait(1)
    came = backup.claim.wanted_since
    group.wait(1)
    assert (backup.claim.wanted_by, backup.claim.wanted_since) == ("primary 'p'", came)
    primary.die()
    group.wait(1)
    assert backup.claim.wanted_by is None


def test_a_primary_that_dies_while_it_waits_changes_nothing() -> None:
    group = Group()
    primary = group.primary()
    first, second = group.backup("a", SharedStoreBackup(allow_failback=False)), group.backup("b")
    primary.die()
    group.wait()
    group.primary().die()
    first.die()
    group.wait()
    assert second.stands(ClaimState.LIVE)


def test_a_broker_without_backups_does_not_wait_for_its_directory() -> None:
    group = Group()
    group.primary("p", PrimaryOnly())
    second = group.primary("q", PrimaryOnly())
    assert second.stands(ClaimState.OVER)
    assert second.claim.failure == "the data directory is used by broker 'p'"


@pytest.mark.parametrize("policy", [PRIMARY, BACKUP], ids=["primary", "second backup"])
def test_waiting_for_a_lock_has_an_end_if_it_was_given_one(policy: HAPolicy) -> None:
    group = Group()
    group.primary()
    group.backup()
    late = Broker(group, "late", policy, timeout_ms=3_000).start()
    group.wait(2.9)
    assert late.failure == ""
    group.wait(0.2)
    assert late.stands(ClaimState.OVER)
    assert late.failure.startswith("the lock was not to be had within 3 s: waits ")


def test_the_next_backup_waits_for_ever_whatever_the_time_out() -> None:
    group = Group()
    group.primary()
    backup = Broker(group, "a", BACKUP, timeout_ms=1_000).start()
    group.wait(3600)
    assert backup.stands(ClaimState.WAITING)


def test_a_store_that_fails_at_the_start_is_an_error_and_later_it_is_asked_again() -> None:
    group = Group()
    primary, backup = group.primary(), group.backup()
    group.wait()
    primary.die()
    group.locks.reachable = False
    group.wait(60)
    assert backup.stands(ClaimState.WAITING)
    assert backup.notes[-1] == "the lock store failed, it is asked again: the lock store cannot be reached"
    assert len(backup.notes) == 2  # noted once
    group.locks.reachable = True
    group.wait()
    assert backup.stands(ClaimState.LIVE)
    late = Broker(group, "b", BACKUP)
    late.claim, late.session = Claim(BACKUP, -1, 9), group.locks.open("b")
    group.locks.reachable = False
    late.claim.begin(group.now)
    late.turn()
    assert late.claim.failure == "the lock store cannot be reached"


@pytest.mark.parametrize("fault", ["revoked", "unreachable"])
def test_a_live_broker_that_cannot_be_sure_of_its_lock_ends(fault: str) -> None:
    group = Group()
    primary = group.primary()
    if fault == "revoked":
        group.locks.revoke(Lock.LIVE)
    else:
        group.locks.reachable = False
    group.wait(0.6)
    assert primary.stands(ClaimState.OVER)
    assert primary.claim.failure in (
        "the live lock is lost: another broker may be live",
        "the lock store cannot be reached",
    )


def test_the_lock_is_watched_while_the_journal_is_read() -> None:
    group = Group()
    slow = Broker(group, "p", PRIMARY, settles=False).start()
    group.wait()
    group.locks.revoke(Lock.LIVE)
    group.wait(0.6)
    assert slow.claim.failure == "the live lock is lost: another broker may be live"


def test_a_stop_that_the_store_does_not_hear_of_is_said() -> None:
    group = Group()
    primary = group.primary()
    group.locks.reachable = False
    primary.stop()
    assert primary.stands(ClaimState.OVER)
    assert primary.notes == ["the lock store does not know of this stop: the lock store cannot be reached"]


def test_a_stop_while_the_record_is_written_is_a_stop() -> None:
    """1. The record is about to be active. 2. The broker is stopped. 3. Both writes are done, in order."""
    group = Group()
    primary = Broker(group, "p", PRIMARY, settles=False).start()
    primary.claim.settle("n", 7)
    first = primary.claim.take_work(group.now)
    primary.claim.leave(LiveState.PAUSED)
    assert first is not None and primary.claim.take_work(group.now) is None
    primary.claim.on_done(first.batch, primary.session.run(first.operations), group.now)
    assert primary.stands(ClaimState.LEAVING)
    group.settle()
    assert primary.stands(ClaimState.OVER) and group.record() == StoreRecord(LiveState.PAUSED, "n", 7)


def test_a_backup_asks_for_the_live_lock_only_when_it_would_keep_it() -> None:
    """Else a primary that claims it at that moment would find it taken."""
    group = Group()
    group.primary().stop()
    backup = group.backup()
    asked: list[object] = []
    for _ in range(10):
        group.now = backup.claim.next_deadline() or group.now
        work = backup.claim.take_work(group.now)
        assert work is not None
        asked += work.operations
        backup.claim.on_done(work.batch, backup.session.run(work.operations), group.now)
    assert Acquire(Lock.LIVE) not in asked


@pytest.mark.parametrize("policy", [PRIMARY, BACKUP])
def test_a_copied_store_ends_the_claim_with_what_to_do(policy: HAPolicy) -> None:
    group = Group()
    group.primary().die()
    late = Broker(group, "late", policy)
    late.session = _CopyOf(group.locks.open("late"))
    late.claim = Claim(policy, -1, 9)
    late.claim.begin(group.now)
    group.living.append(late)
    group.settle()
    assert late.claim.failure is not None
    assert (
        "the lock store is a copy of that of node node of p" in late.claim.failure
        and "node.state" in late.claim.failure
    )


def test_a_broker_of_its_own_takes_a_new_id_on_a_copied_directory() -> None:
    group = Group()
    group.primary("p", PrimaryOnly()).die()
    late = Broker(group, "late", PrimaryOnly())
    late.session, late.claim = _CopyOf(group.locks.open("late")), Claim(PrimaryOnly(), -1, 9)
    late.claim.begin(group.now)
    group.living.append(late)
    group.settle()
    assert late.stands(ClaimState.LIVE) and group.record() == StoreRecord(LiveState.ACTIVE, "node of late", 7)
    assert late.notes == ["the data directory is a copy of that of node node of p: it gets a new node id"]


@define(eq=False)
class _CopyOf:
    """A session in a store that was copied from another one."""

    _session: LockSession
    immediate: bool = True

    def run(self, operations: tuple[LockOperation, ...]) -> tuple[object, ...]:
        results = self._session.run(operations)
        return tuple(
            evolve(result, copied=True) if isinstance(result, StoreRecord) and result.life != 9 else result
            for result in results
        )

    def close(self) -> None:
        self._session.close()


@pytest.mark.parametrize("policy", [PRIMARY, BACKUP])
def test_the_journal_of_another_node_ends_the_claim_with_what_to_do(policy: HAPolicy) -> None:
    group = Group()
    group.primary().die()
    late = Broker(group, "late", policy, journal=8).start()
    group.wait(0.1)
    assert late.claim.failure is not None
    assert late.claim.failure.startswith("the journal is not that of node node of p: put that back, or remove")
    assert group.record().journal_identity == 7


def test_a_broker_of_its_own_takes_a_new_id_with_another_journal() -> None:
    group = Group()
    group.primary("p", PrimaryOnly()).die()
    late = Broker(group, "q", PrimaryOnly(), journal=8).start()
    group.wait(0.1)
    assert group.record() == StoreRecord(LiveState.ACTIVE, "node of q", 8)
    assert late.notes == ["the journal is not that of node node of p: the broker gets a new node id"]


def test_a_store_in_memory_is_shared_by_those_that_were_given_it() -> None:
    one, other = MemoryLocks(), MemoryLocks()
    assert one.open("a").run((Acquire(Lock.LIVE),)) == other.open("b").run((Acquire(Lock.LIVE),)) == (True,)
    assert one.open("c").run((Acquire(Lock.LIVE),)) == (False,)
