"""Bad luck of waiting or live brokers: deaths at the wrong moment, frozen processes, stores and records that are not
what they were. A clock by hand."""

from __future__ import annotations

import pytest

from embedbroker.config import HAPolicy, PrimaryOnly, SharedStoreBackup
from embedbroker.locks import Claim, ClaimState, LiveState, Lock, StoreRecord

from .claimants import PRIMARY, Broker, Group

# -- brokers that die, or stop, before they serve--------------------------------------------------------------------


@pytest.mark.parametrize("first_ever", [True, False], ids=["first start", "after a stop"])
def test_a_primary_that_dies_before_it_serves_is_taken_over_from(first_ever: bool) -> None:
    """A stop in order is over as soon as a broker starts again."""
    group = Group()
    if not first_ever:
        group.primary().stop()
    primary, backup = Broker(group, "p", PRIMARY, settles=False).start(), group.backup()
    group.wait(10)
    assert (primary.state, backup.state) == (ClaimState.GRANTED, ClaimState.WAITING)
    primary.die()
    group.wait(0.1)
    assert backup.stands(ClaimState.LIVE)


def test_nobody_touches_the_journal_before_the_record_says_whose_it_is() -> None:
    group = Group()
    group.primary().stop()
    primary = Broker(group, "p", PRIMARY)
    primary.claim, primary.session = Claim(PRIMARY, -1, 9), group.locks.open("p")
    primary.claim.begin(0.0)
    primary.turn()
    assert primary.stands(ClaimState.CLAIMING) and group.record().state is LiveState.PAUSED
    primary.turn()
    assert primary.stands(ClaimState.GRANTED) and group.record() == StoreRecord(LiveState.ACTIVE, "node of p", 7)


@pytest.mark.parametrize("state", [LiveState.ACTIVE, LiveState.PAUSED])
def test_a_stop_before_it_serves_leaves_the_group_as_it_was(state: LiveState) -> None:
    group = Group()
    first = group.primary()
    if state is LiveState.PAUSED:
        first.stop()
    else:
        first.die()
    primary = Broker(group, "p", PRIMARY, settles=False).start()
    assert group.record().state is LiveState.ACTIVE
    primary.stop()
    assert primary.stands(ClaimState.OVER) and group.record() == StoreRecord(state, "node of p", 7)


# -- frozen waiters --------------------------------------------------------------------------------------------------


def test_a_backup_that_is_frozen_does_not_keep_the_next_one_from_taking_over() -> None:
    group = Group()
    primary, frozen, next_one = group.primary(), group.backup("a"), group.backup("b")
    group.wait(1)
    frozen.frozen = True
    primary.die()
    group.wait(4.5)
    assert next_one.stands(ClaimState.QUEUED)
    group.wait(1.5)
    assert next_one.stands(ClaimState.LIVE)
    frozen.frozen = False
    group.wait(10)
    assert (frozen.state, next_one.state) == (ClaimState.WAITING, ClaimState.LIVE)
    next_one.die()
    group.wait(0.1)
    assert frozen.stands(ClaimState.LIVE)


def test_backups_that_are_not_frozen_step_up_before_those_behind_them() -> None:
    """1. The first backup is frozen, and a primary that waits. 2. The second comes before the third."""
    group = Group()
    primary = group.primary()
    frozen, second, third = [group.backup(name, SharedStoreBackup(allow_failback=False)) for name in "abc"]
    group.wait(1)
    other = group.primary("q")
    group.wait(1)
    frozen.frozen = other.frozen = True
    primary.die()
    group.wait(9)
    assert (second.state, third.state) == (ClaimState.QUEUED, ClaimState.QUEUED)
    group.wait(3)
    assert sorted(each.state.value for each in (second, third)) == ["live", "queued"]


def test_a_primary_that_is_frozen_while_it_waits_is_passed_over_until_it_shows_itself() -> None:
    group = Group()
    group.primary().die()
    first = group.backup("a")
    group.wait()
    assert first.stands(ClaimState.LIVE)
    frozen = group.primary()
    frozen.frozen = True
    group.wait(1)
    assert first.stands(ClaimState.OVER), "it gave way"
    again = group.backup("a")
    group.wait(4)
    assert again.stands(ClaimState.WAITING)
    group.wait(2)
    assert again.stands(ClaimState.LIVE)
    group.wait(600)
    assert again.stands(ClaimState.LIVE) and again.claim.wanted_by is None
    frozen.frozen = False
    group.wait(3)
    assert (frozen.state, again.state) == (ClaimState.LIVE, ClaimState.OVER)


def test_the_next_process_of_a_primary_that_was_passed_over_shows_itself_too() -> None:
    """It may have taken the failback lock between two looks."""
    group = Group()
    group.primary().die()
    group.backup("a").gives_way = False
    group.wait()
    frozen = group.primary()
    frozen.frozen = True
    group.living[0].die()
    backup = group.backup("b")
    group.wait(6)
    assert backup.stands(ClaimState.LIVE)
    frozen.die()
    primary = group.primary()
    group.wait(4)
    assert (primary.state, backup.state) == (ClaimState.WAITING, ClaimState.LIVE)
    group.wait(4)
    assert (primary.state, backup.state) == (ClaimState.LIVE, ClaimState.OVER)


def test_a_backup_takes_no_lock_that_was_left_free_because_of_a_stop() -> None:
    group = Group()
    primary, frozen, second = group.primary(), group.backup("a"), group.backup("b")
    group.wait(1)
    frozen.frozen = True
    primary.stop()
    group.wait(600)
    assert second.stands(ClaimState.QUEUED)


def test_a_broker_of_its_own_is_not_kept_out_by_who_only_looks() -> None:
    group = Group()
    group.primary("p", PrimaryOnly()).die()
    late = Broker(group, "p", PrimaryOnly())
    late.claim, late.session = Claim(PrimaryOnly(), -1, 9), group.locks.open("p")
    late.claim.begin(0.0)
    work = late.claim.take_work(0.0)
    assert work is not None
    late.claim.on_done(work.batch, (False, None, group.record()), 0.0)
    group.living.append(late)
    group.wait(0.1)
    assert late.stands(ClaimState.LIVE)


# -- brokers without certainty----------------------------------------------------------------------------------------


def test_who_finds_the_record_of_another_life_has_lost_although_its_lock_is_there() -> None:
    """Two machines on a file system that keeps locks to each: the one that was granted first ends."""
    group, elsewhere = Group(), Group()
    elsewhere.lives = 100
    first = group.primary()
    elsewhere.locks.write(group.locks.read())
    second = elsewhere.backup("b")
    elsewhere.wait(0.1)
    assert second.stands(ClaimState.LIVE)
    group.locks.write(elsewhere.locks.read())
    group.wait(0.6)
    assert first.stands(ClaimState.OVER) and "do its locks reach every machine" in first.failure
    assert group.locks.read().life == 101, "it left the record to the other one"
    elsewhere.wait(10)
    assert second.stands(ClaimState.LIVE)


def test_who_is_stopped_does_not_overwrite_the_record_of_another_life() -> None:
    group = Group()
    first = group.primary()
    group.locks.write(StoreRecord(LiveState.ACTIVE, "node of p", 7, life=101))
    first.stop()
    assert group.locks.read().life == 101 and group.record().state is LiveState.ACTIVE
    assert "the lock store does not know of this stop" in first.notes[-1]


def test_a_record_that_somebody_removed_is_written_again() -> None:
    group = Group()
    primary = group.primary()
    group.locks.write(StoreRecord())
    group.wait(0.6)
    assert group.record() == StoreRecord(LiveState.ACTIVE, "node of p", 7)
    assert primary.notes == ["the record of the lock store (node.state) was removed or replaced: it is written again"]
    group.wait()
    assert primary.stands(ClaimState.LIVE) and len(primary.notes) == 1


def test_a_live_broker_whose_store_does_not_answer_ends_in_time() -> None:
    group = Group()
    primary = group.primary()
    group.now = primary.claim.next_deadline() or 0.0
    assert primary.claim.take_work(group.now) is not None
    for moment in (14.9, 15.0, 16.9):
        assert not primary.claim.on_time(group.now + moment) and primary.stands(ClaimState.LIVE)
    assert primary.claim.on_time(group.now + 17.0)
    assert primary.failure == "the lock store has not answered for 17 s: another broker may be live"


def test_who_slept_while_the_store_answered_hears_the_answer_first() -> None:
    group = Group()
    primary = group.primary()
    group.now = primary.claim.next_deadline() or 0.0
    work = primary.claim.take_work(group.now)
    assert work is not None
    results = primary.session.run(work.operations)
    group.now += 3600.0
    assert not primary.claim.on_time(group.now)
    primary.claim.on_done(work.batch, results, group.now)
    assert not primary.claim.is_sure(group.now), "it was asked an hour ago"
    group.settle()
    assert primary.stands(ClaimState.LIVE) and primary.claim.is_sure(group.now)


def test_a_stop_does_not_wait_for_ever_for_a_store_that_does_not_answer() -> None:
    group = Group()
    primary = group.primary()
    primary.claim.leave(LiveState.PAUSED)
    assert primary.claim.take_work(group.now) is not None
    assert not primary.claim.on_time(group.now + 15.0) and primary.claim.on_time(group.now + 17.0)
    assert primary.stands(ClaimState.OVER) and primary.failure == ""
    assert primary.notes == ["the lock store has not answered for 17 s: it may not know of this stop"]


def test_who_waits_for_a_store_that_does_not_answer_says_so_once() -> None:
    group = Group()
    group.primary()
    backup = group.backup()
    while (work := backup.claim.take_work(group.now)) is None:
        group.now += 0.05
    assert not backup.claim.on_time(group.now + 15.0) and backup.claim.on_time(group.now + 17.0)
    assert backup.notes[-1] == "the lock store has not answered for 17 s"
    assert not backup.claim.on_time(group.now + 600.0) and backup.stands(ClaimState.WAITING)
    backup.claim.on_done(work.batch, backup.session.run(work.operations), group.now + 600.0)
    group.living[0].die()
    group.now += 600.0
    group.wait(1)
    assert backup.stands(ClaimState.LIVE)


def test_who_was_frozen_is_not_sure_before_it_has_looked() -> None:
    group = Group()
    primary = group.primary()
    group.wait(100)
    assert primary.claim.is_sure(group.now + 0.5) and not primary.claim.is_sure(group.now + 10.0)
    primary.frozen = True
    group.wait(60)
    group.locks.revoke(Lock.LIVE)
    backup = group.backup()
    group.wait(1)
    assert backup.stands(ClaimState.LIVE) and not primary.claim.is_sure(group.now)
    primary.frozen = False
    group.wait(0.1)
    assert primary.failure == "the live lock is lost: another broker may be live"


@pytest.mark.parametrize("policy", [PRIMARY, PrimaryOnly()], ids=["primary", "of its own"])
def test_a_node_whose_journal_is_gone_is_not_served_from_nothing(policy: HAPolicy) -> None:
    group = Group()
    group.primary("p", policy).die()
    late = Broker(group, "p", policy, settles=False).start()
    assert late.stands(ClaimState.GRANTED)
    late.claim.meet_journal(None)
    assert late.failure.startswith("there is no journal, but node node of p has one: is its data directory mounted?")
    assert "node.state" in late.failure
