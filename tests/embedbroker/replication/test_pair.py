"""A backup beside a primary: from joining to taking over, and what each side makes of the other's end."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from embedbroker.replication import EndingKind, Refusal, ReplicatorState
from embedbroker.storage import (
    UNFINISHED_COPY,
    DiskFault,
    FaultKind,
    JournalState,
    Lane,
    Read,
    Remove,
    WriteAt,
    belongs,
)
from embedbroker.testing._disk import SimulatedDisk
from embedclient.model import Instant
from embedclient.wire.core import (
    Packet,
)
from tests.embedbroker.replication.pair import (
    CALL_TIMEOUT_S,
    REGISTRATION,
    SYNC_TIMEOUT_S,
    Backup,
    Pair,
    Primary,
    WireEnd,
    opened,
)
from tests.embedbroker.storage.journal_model import NOW
from tests.embedbroker.storage.journal_workload import Workload


def work(pair: Pair, calls: int, steps: int = 3, *, clears: bool = False) -> None:
    """Traffic, with some steps of the world behind each call."""
    workload = Workload.on(pair.random, pair.primary.recorded.state_at(pair.primary.journal.point()))
    workload.clears = clears
    for _ in range(calls):
        name, arguments = workload.call()
        pair.primary.recorded.call(name, *arguments)
        for _ in range(pair.random.randrange(steps + 1)):
            pair.step()


def later(seconds: float) -> Instant:
    return Instant(NOW.monotonic + seconds, NOW.wall_ms)


def pass_time(pair: Pair, seconds: float) -> None:
    """Both ends look at their clocks."""
    now = pair.primary.now = later(seconds)
    pair.primary.replicator.now = now
    pair.primary.replicator.on_time(now)
    if pair.backup.replica is not None:
        pair.backup.replica.on_time(now)


def files_of(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: content for name, content in disk.contents().items() if belongs(name)}


def append(pair: Pair) -> int:
    """One durable record; returns the point that covers it."""
    pair.primary.recorded.call("reserve_ids", 1_000_000)
    return pair.primary.journal.point()


@pytest.fixture
def pair() -> Pair:
    pair = Pair.new(Random(1))
    work(pair, 200)
    pair.settle()
    return pair


def test_a_backup_that_joins_gets_everything_and_what_follows(pair: Pair) -> None:
    pair.synchronise()
    work(pair, 100)
    pair.settle()
    assert pair.primary.journal.point() == pair.primary.journal.reached
    pair.check(pair.primary.disk)
    pair.cut()
    pair.settle()
    assert [ending.kind for ending in pair.backup.endings] == [EndingKind.LOST]
    assert pair.backup.endings[0].in_sync
    pair.check(pair.backup.disk)
    assert pair.primary.replicator.state is ReplicatorState.ALONE


def test_duplicate_ids_that_were_cleared_do_not_come_back_on_a_backup() -> None:
    pair = Pair.new(Random(5))
    work(pair, 400, clears=True)
    pair.settle()
    pair.synchronise()
    work(pair, 400, clears=True)
    pair.settle()
    cleared = [
        arguments for (name, arguments), _point in pair.primary.recorded.history if name == "clear_duplicate_ids"
    ]
    assert len(cleared) > 5 and any(numbers for _, numbers in cleared)
    pair.cut()
    pair.settle()
    pair.check(pair.backup.disk)
    pair.check(pair.primary.disk)


def test_the_copy_has_the_same_files_with_the_same_records(pair: Pair) -> None:
    pair.synchronise()
    pair.settle()
    here, there = files_of(pair.primary.disk), files_of(pair.backup.disk)
    segments = [name for name in here if name.startswith("segment-")]
    assert here.keys() == there.keys()
    assert [name for name in segments if here[name] != there[name]] == []


def test_nothing_is_confirmed_before_both_disks_have_it(pair: Pair) -> None:
    pair.synchronise()
    point = append(pair)
    while pair.primary.step():
        pass
    assert pair.primary.worker.idle
    assert pair.primary.journal.reached < point
    pair.settle()
    assert pair.primary.journal.reached == point


def test_what_was_copied_does_not_hold_up_what_is_confirmed(pair: Pair) -> None:
    pair.join()
    pair.run_until(lambda: pair.primary.replicator.state is ReplicatorState.COPYING)
    point = append(pair)
    while pair.primary.step():
        pass
    assert pair.primary.replicator.state is ReplicatorState.COPYING
    assert pair.primary.journal.reached == point


def test_a_backup_that_is_lost_holds_everything_back_until_the_right_to_be_live_is_renewed(pair: Pair) -> None:
    pair.synchronise()
    pair.primary.renews = False
    point = append(pair)
    pair.cut()
    pair.settle()
    assert pair.primary.replicator.state is ReplicatorState.HELD
    assert pair.primary.lost == [("the connection is gone", True)]
    assert pair.primary.journal.reached < point
    pair.primary.replicator.go_on_alone()
    pair.settle()
    assert pair.primary.journal.reached == point


def test_a_backup_that_is_lost_in_the_hand_over_may_believe_that_it_is_in_sync(pair: Pair) -> None:
    pair.primary.renews = False
    pair.join()
    pair.run_until(lambda: pair.primary.replicator.state is ReplicatorState.HANDING_OVER)
    point = append(pair)
    pair.cut()
    pair.settle()
    assert pair.primary.replicator.state is ReplicatorState.HELD
    assert pair.primary.journal.reached < point


def test_a_backup_that_is_lost_while_it_copies_holds_nothing_back(pair: Pair) -> None:
    pair.join()
    pair.run_until(lambda: pair.primary.replicator.state is ReplicatorState.COPYING)
    point = append(pair)
    pair.cut()
    pair.settle()
    assert pair.primary.lost == [("the connection is gone", False)]
    assert pair.primary.journal.reached == point
    assert not pair.backup.endings[0].in_sync


def test_a_journal_does_not_start_on_half_a_copy(pair: Pair) -> None:
    pair.join()
    pair.run_until(lambda: pair.backup.replica is not None and pair.backup.replica.statistics().copied_parts > 0)
    pair.cut()
    pair.settle()
    journal = opened(pair.backup.disk)
    assert journal.state is JournalState.FAILED
    assert "unfinished" in (journal.failure or "")


def test_a_backup_that_comes_back_gets_what_it_lacks(pair: Pair) -> None:
    pair.synchronise()
    work(pair, 20)
    pair.settle()
    pair.cut()
    pair.settle()
    work(pair, 20)
    pair.synchronise()
    assert pair.primary.log[-2].endswith("are there already")
    pair.check(pair.backup.disk)


def test_a_backup_whose_history_went_another_way_is_put_aside(pair: Pair) -> None:
    pair.synchronise()
    pair.cut()
    pair.settle()
    other = Primary(pair.backup.disk, pair.random, journal=opened(pair.backup.disk))
    while other.step():
        pass
    other.recorded.call("reserve_ids", 2_000_000)
    while other.step():
        pass
    before = files_of(pair.backup.disk)
    work(pair, 20)
    pair.synchronise()
    assert pair.primary.log[-2].endswith("afresh")
    pair.check(pair.backup.disk)
    aside = {name: content for name, content in pair.backup.disk.contents().items() if "oldreplica.1." in name}
    assert {name.removeprefix("oldreplica.1."): content for name, content in aside.items()} == {
        name: content for name, content in before.items() if name.startswith("segment-")
    }


@pytest.mark.parametrize(("saved_max", "left"), [(-1, 4), (0, 0), (1, 1), (2, 2)])
def test_only_so_many_journals_are_kept_aside(pair: Pair, saved_max: int, left: int) -> None:
    pair.backup = Backup(pair.backup.disk, pair.random, saved_max)
    for _ in range(5):
        pair.synchronise()
        pair.cut()
        pair.settle()
        other = Pair.new(pair.random)  # a journal with another identity would do as well: this one has another end
        work(other, 30)
        other.settle()
        for name in [name for name in pair.backup.disk.names if belongs(name)]:
            pair.backup.disk.run((Remove(name),))
        for name, content in files_of(other.primary.disk).items():
            pair.backup.disk.run((WriteAt(name, 0, (content,)),))
    pair.backup.disk.run(())
    sets = {name.split(".")[1] for name in pair.backup.disk.names if name.startswith("oldreplica.")}
    assert len(sets) == left


def test_a_crash_while_files_are_put_aside_loses_none_of_them(pair: Pair) -> None:
    other = Pair.new(Random(2))
    work(other, 60)
    other.settle()
    aside = {name: content for name, content in files_of(other.primary.disk).items() if name.startswith("segment-")}
    for operations in range(40):
        disk = other.primary.disk.copy()
        pair.backup = Backup(disk, pair.random)
        pair.join()
        done = 0
        while done < operations and pair.step():
            done += UNFINISHED_COPY in disk.names
        disk.crash(pair.random)
        assert pair.backup.replica is not None
        pair.backup.replica.owner = None
        pair.backup = Backup(disk, pair.random)
        pair.cut()
        pair.synchronise()
        kept = {name.split(".", 2)[2]: content for name, content in disk.contents().items() if "oldreplica" in name}
        assert kept == aside
        pair.cut()
        pair.settle()


# -- the backup that is taken-----------------------------------------------------------------------------------------


def test_a_second_backup_is_refused(pair: Pair) -> None:
    pair.join()
    pair.settle()
    second = Pair(pair.random, pair.primary, Backup(SimulatedDisk(), pair.random))
    second.join()
    second.settle()
    assert second.backup.endings[0].kind is EndingKind.REFUSED
    assert second.backup.endings[0].refusal is Refusal.ALREADY_REPLICATING
    assert pair.primary.replicator.state is ReplicatorState.SYNCHRONISED


@pytest.mark.parametrize(
    ("registration", "refusal", "text"),
    [
        (REGISTRATION.replace(format=9), Refusal.OTHER_FORMAT, "format 9 of replication, and this one 2: install the"),
        (REGISTRATION.replace(node_id="another"), Refusal.OTHER_NODE, "this broker is node"),
    ],
)
def test_a_backup_that_does_not_fit_is_refused(pair: Pair, registration: Packet, refusal: Refusal, text: str) -> None:
    pair.join()
    pair.cut()
    here, there = WireEnd("backup"), WireEnd("primary")
    here.far, there.far, pair.ends = there, here, (here, there)
    pair.settle()
    pair.backup.join(there)
    pair.primary.replicator.register(here, registration, pair.primary.status)  # type: ignore[arg-type]
    pair.settle()
    assert pair.backup.endings[-1].refusal is refusal and text in pair.backup.endings[-1].text
    assert pair.primary.replicator.state is ReplicatorState.ALONE


def test_a_peer_that_does_not_answer_a_registration_is_given_up() -> None:
    backup = Backup(SimulatedDisk(), Random(1))
    backup.join(WireEnd("a broker of another kind"))
    assert backup.replica is not None
    assert backup.replica.next_deadline() == NOW.monotonic + CALL_TIMEOUT_S
    backup.replica.on_time(later(CALL_TIMEOUT_S))
    assert backup.endings[0].kind is EndingKind.BROKEN
    assert "is it an embedbroker?" in backup.endings[0].text


# -- time --------------------------------------------------------------------------------------------------------


def test_a_backup_that_does_not_answer_is_lost(pair: Pair) -> None:
    pair.synchronise()
    append(pair)
    while pair.primary.step():
        pass
    assert pair.primary.replicator.next_deadline() == NOW.monotonic + CALL_TIMEOUT_S
    pass_time(pair, CALL_TIMEOUT_S)
    assert pair.primary.lost[0][1]
    pair.settle()
    assert pair.primary.journal.point() == pair.primary.journal.reached
    assert pair.backup.endings[0].kind in (EndingKind.BROKEN, EndingKind.LOST)


def test_a_hand_over_that_takes_too_long_is_given_up(pair: Pair) -> None:
    pair.join()
    pair.run_until(lambda: pair.primary.replicator.state is ReplicatorState.HANDING_OVER)
    assert pair.primary.replicator.next_deadline() == NOW.monotonic + SYNC_TIMEOUT_S
    pass_time(pair, SYNC_TIMEOUT_S)
    assert "hand-over" in pair.primary.lost[0][0]
    assert pair.primary.lost[0][1]


def test_an_idle_backup_in_sync_is_waited_for_by_nobody(pair: Pair) -> None:
    pair.synchronise()
    pair.settle()
    assert pair.primary.replicator.next_deadline() is None


def test_a_backup_that_is_far_behind_holds_up_the_journal_while_it_copies(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("embedbroker.replication._primary.BACKLOG_BYTES_MAX", 1000)
    pair.join()
    copying = pair.primary.replicator
    pair.run_until(lambda: copying.statistics().copy_begun)
    points = []
    for _ in range(3):
        points.append(append(pair))
        while pair.primary.step():
            pass
    assert pair.primary.journal.reached < points[-1]
    pair.settle()
    assert pair.primary.journal.reached >= points[-1]


# -- how it ends -------------------------------------------------------------------------------------------------


def test_an_orderly_stop_is_followed_by_a_take_over(pair: Pair) -> None:
    pair.synchronise()
    pair.primary.replicator.announce_stop()
    point = append(pair)
    pair.settle()
    pair.primary.recorded.journal.close(NOW)
    pair.settle()
    assert pair.primary.journal.reached >= point
    pair.primary.replicator.announce_failover()
    pair.settle()
    assert [ending.kind for ending in pair.backup.endings] == [EndingKind.FAIL_OVER]
    assert pair.backup.endings[0].in_sync
    pair.check(pair.backup.disk)


def test_a_primary_that_is_lost_after_it_began_to_stop(pair: Pair) -> None:
    pair.synchronise()
    pair.primary.replicator.announce_stop()
    pair.settle()
    pair.cut()
    pair.settle()
    assert pair.backup.endings[0].kind is EndingKind.STOP_CALLED


def test_closing_the_backup_side_leaves_its_files_at_rest(pair: Pair) -> None:
    pair.synchronise()
    append(pair)
    pair.run_until(lambda: Lane.JOURNAL in pair.backup.worker.under_way)
    replica = pair.backup.replica
    assert replica is not None
    replica.close()
    was_at_rest = replica.at_rest
    while pair.backup.step():
        pass
    assert (was_at_rest, replica.at_rest) == (False, True)
    assert [ending.kind for ending in pair.backup.endings] == [EndingKind.CLOSED]
    assert opened(pair.backup.disk).state is JournalState.READY


def test_a_backup_that_is_let_go_holds_nothing_back(pair: Pair) -> None:
    pair.synchronise()
    point = append(pair)
    while pair.primary.step():
        pass
    pair.primary.replicator.close("the broker stops")
    pair.primary.settle_journal()
    assert pair.primary.journal.reached == point
    assert pair.primary.lost == []


@pytest.mark.parametrize("kind", [FaultKind.FULL, FaultKind.FAILED])
def test_a_backup_whose_disk_fails_says_so_and_is_lost(pair: Pair, kind: FaultKind) -> None:
    pair.synchronise()
    point = append(pair)
    pair.backup.disk.fail_at(pair.backup.disk.operations, kind)
    pair.settle()
    assert pair.primary.lost[0][1]
    assert "disk failed" in pair.primary.lost[0][0]
    assert pair.primary.journal.reached == point
    ending = pair.backup.endings[0]
    assert (ending.kind, ending.in_sync, ending.disk_failed) == (EndingKind.BROKEN, False, False)
    pair.backup.disk.heal()
    pair.synchronise()
    assert pair.primary.log[-2].endswith("afresh")


def test_a_backup_whose_disk_cannot_even_take_a_note_must_stop(pair: Pair) -> None:
    pair.synchronise()
    append(pair)
    for each in range(4):
        pair.backup.disk.fail_at(pair.backup.disk.operations + each)
    pair.settle()
    assert pair.backup.endings[0].disk_failed


def test_a_copy_that_cannot_be_read_is_given_up_and_the_journal_goes_on(pair: Pair) -> None:
    pair.join()
    replicator = pair.primary.replicator
    pair.run_until(lambda: replicator.statistics().copy_begun)
    point = append(pair)

    def fails(operations: Sequence[object]) -> bool:
        return any(isinstance(each, Read) for each in operations)

    pair.run_until(lambda: any(fails(each.operations) for each, _ in pair.primary.worker.under_way.values()))
    work_under_way = pair.primary.worker.under_way.pop(Lane.COPY)[0]
    fault = DiskFault(FaultKind.FAILED, "segment", "simulated")
    assert replicator.on_disk_failed(work_under_way.batch, fault)
    pair.settle()
    assert pair.primary.journal.reached >= point
    assert not pair.primary.lost[0][1]
    assert "the copy failed" in pair.backup.endings[0].text


def test_work_that_was_sent_to_a_lost_backup_says_nothing_to_the_next(pair: Pair) -> None:
    pair.synchronise()
    work(pair, 50)
    append(pair)
    pair.primary.pump()
    pair.cut()
    while pair.backup.step():
        pass
    pair.join()
    work(pair, 100)
    pair.settle()
    assert len(pair.primary.lost) == 1
    assert pair.primary.replicator.state is ReplicatorState.SYNCHRONISED


@pytest.mark.search
def test_a_cut_at_any_byte_leaves_a_backup_that_can_join_again() -> None:
    pair = Pair.new(Random(3))
    work(pair, 30)
    pair.settle()
    cut_in_sync, places, budget, left = 0, 0, 0, 0
    while not left:
        budget += 149 if places % 2 else 1024
        places += 1
        pair.backup = Backup(SimulatedDisk(), pair.random)
        pair.join()
        assert pair.ends is not None
        here, there = pair.ends
        left = budget
        while left > 0:
            if here.out:
                count = min(left, len(here.out))
                data = bytes(here.out[:count])
                del here.out[:count]
                left -= count
                there.receive(data)
            elif not (pair.primary.step() | pair.backup.step() | deliver_back(pair)) and not here.out:
                break
        pair.cut()
        pair.settle()
        ending = pair.backup.endings[-1]
        cut_in_sync += ending.in_sync
        if ending.in_sync:
            pair.check(pair.backup.disk)
        else:
            journal = opened(pair.backup.disk.copy())
            assert journal.state is JournalState.FAILED or not files_of(pair.backup.disk)
        pair.synchronise()
        pair.check(pair.backup.disk)
        pair.cut()
        pair.settle()
    assert 0 < cut_in_sync < places > 20, (cut_in_sync, places)


def deliver_back(pair: Pair) -> bool:
    """The primary receives what the backup has sent."""
    assert pair.ends is not None
    here, there = pair.ends
    data = bytes(there.out)
    del there.out[:]
    here.receive(data)
    pair.primary.settle_journal()
    return bool(data)
