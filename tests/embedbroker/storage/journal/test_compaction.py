"""Compaction keeps what lives, frees what does not, and can die anywhere."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest
from attrs import evolve
from attrs.exceptions import FrozenInstanceError

from embedbroker.kernel import DuplicateId, QueueDefinition
from embedbroker.storage import (
    SECTOR_BYTES,
    JournalState,
    Lane,
    ListFiles,
    Read,
    RecordRow,
    Sync,
    WriteAt,
    journal_rows,
)
from embedbroker.testing._disk import SimulatedDisk
from tests.embedbroker.storage.journal_model import NOW, SMALL, RecordedJournal, StoredMessage, recover
from tests.embedbroker.storage.journal_traffic import Traffic, compacted, look_for_work, replaced_by


def test_a_flow_without_backlog_needs_a_handful_of_segments_and_no_copying() -> None:
    traffic = Traffic()
    sizes = []
    for _ in range(10):
        traffic.flow(300)
        sizes.append(traffic.size_bytes())
    assert max(sizes) <= 12 * SMALL.segment_size_bytes, sizes
    assert traffic.recovered() == []


def test_messages_that_stay_are_copied_and_the_flow_around_them_is_freed() -> None:
    traffic = Traffic()
    stayed: list[int] = []
    for _ in range(8):
        stayed += traffic.flow(300, stay_every=40)
        living_bytes = len(stayed) * 400
        assert traffic.size_bytes() <= 2 * living_bytes + 16 * SMALL.segment_size_bytes
    assert compacted(traffic.journal)
    assert traffic.recovered() == stayed


def test_a_large_backlog_is_not_copied_again_and_again() -> None:
    traffic = Traffic()
    backlog = [traffic.add(2) for _ in range(600)]
    traffic.recorded.settle()
    segments = [segment for segment in traffic.journal.statistics().segments if not segment.is_merged][:-2]
    for _ in range(5):
        traffic.flow(300)
    left = [segment.name for segment in traffic.journal.statistics().segments]
    untouched = [segment for segment in segments if segment.name in left]
    assert len(untouched) >= len(segments) - 1
    assert traffic.size_bytes() <= sum(segment.size_bytes for segment in untouched) + 12 * SMALL.segment_size_bytes
    assert traffic.recovered() == backlog


def test_messages_whose_duplicate_ids_are_displaced_are_not_copied() -> None:
    traffic = Traffic()
    stays, ids = list[int](), list[int]()
    for number in range(300):
        message, entry = traffic.message(), DuplicateId(traffic.take_id(), 7, b"%d" % number)
        traffic.recorded.journal.add_message_once(message, [(2, message.message_id)], entry)
        stays.append(message.message_id)
        ids.append(entry.number)
        if len(ids) > 20:
            traffic.journal.forget_duplicate_ids((ids.pop(0),))
        traffic.recorded.settle()
    look_for_work(traffic.recorded)
    assert not compacted(traffic.journal)
    # But they are when little is left beside them.
    for message_id in stays[:-10]:
        traffic.journal.acknowledge(message_id, 2, 0)
        traffic.recorded.settle()
    look_for_work(traffic.recorded)
    assert len(traffic.journal.statistics().segments) <= 5
    assert traffic.recovered() == stays[-10:]


def test_a_message_delivered_forever_does_not_fill_the_disk() -> None:
    traffic = Traffic()
    poison = traffic.add(2)
    for count in range(1, 4000):
        traffic.recorded.call("update_delivery_count", poison, 2, count)
        traffic.recorded.settle()
    assert traffic.size_bytes() <= 8 * SMALL.segment_size_bytes
    journal = recover(traffic.recorded.disk)
    assert journal.recovered is not None
    (message,) = journal.recovered.take_messages(9)
    assert message.references == ((2, message.references[0][1], 3999),)


def test_messages_given_back_forever_do_not_fill_the_disk() -> None:
    """Where deliveries are recorded before they go out, what comes back uncounted is recorded, too."""
    traffic = Traffic()
    given = [traffic.add(2) for _ in range(3)]
    sizes = []
    for _ in range(4):
        for _ in range(1500):
            for count in (1, 0):
                for message_id in given:
                    traffic.recorded.call("update_delivery_count", message_id, 2, count)
                traffic.recorded.settle()
        sizes.append((traffic.size_bytes(), len(traffic.journal.statistics().segments)))
    assert max(size for size, _segments in sizes) <= 8 * SMALL.segment_size_bytes
    assert max(segments for _size, segments in sizes) <= 12
    traffic.recorded.call("update_delivery_count", given[0], 2, 1)
    traffic.recorded.settle()
    journal = recover(traffic.recorded.disk)
    assert journal.recovered is not None
    found = {message.message_id: message.references[0][2] for message in journal.recovered.take_messages(9)}
    assert found == {given[0]: 1, given[1]: 0, given[2]: 0}


def test_transactions_rolled_back_forever_do_not_fill_the_disk() -> None:
    traffic = Traffic()
    stays = traffic.add(2)
    for _ in range(1500):
        transaction_id = traffic.take_id()
        traffic.recorded.call("acknowledge", stays, 2, transaction_id)
        traffic.recorded.call("add_message", traffic.message(50), transaction_id, [(1, 0)])
        traffic.recorded.call("rollback", transaction_id)
        traffic.recorded.settle()
    assert traffic.size_bytes() <= 12 * SMALL.segment_size_bytes
    assert traffic.recovered() == [stays]


def test_transactions_committed_forever_do_not_fill_the_disk() -> None:
    traffic = Traffic()
    stays = [traffic.add(2)]
    last = traffic.add(1)
    for _ in range(1500):
        transaction_id = traffic.take_id()
        traffic.recorded.call("acknowledge", last, 1, transaction_id)
        message = traffic.message(50)
        traffic.recorded.call("add_message", message, transaction_id, [(1, 0)])
        traffic.recorded.call("commit", transaction_id, [(1, traffic.take_id())])
        last = message.message_id
        traffic.recorded.settle()
    assert traffic.size_bytes() <= 12 * SMALL.segment_size_bytes
    assert traffic.recovered() == [*stays, last]


def test_a_removed_queue_frees_what_it_held() -> None:
    traffic = Traffic()
    traffic.recorded.call("add_queue", QueueDefinition(3, "short", "a", 1))
    for _ in range(20):
        for _ in range(30):
            traffic.add(3)
        traffic.recorded.settle()
    assert traffic.size_bytes() > 15 * SMALL.segment_size_bytes
    traffic.recorded.call("remove_queue", 3)
    traffic.flow(400)
    assert traffic.size_bytes() <= 12 * SMALL.segment_size_bytes
    assert traffic.recovered() == []
    assert traffic.journal.statistics().live_messages == 0


# -- what survives -------------------------------------------------------------------------------------------------


def test_open_and_prepared_transactions_survive() -> None:
    traffic = Traffic()
    taken = traffic.add(2)
    prepared, opened = traffic.take_id(), traffic.take_id()
    in_prepared, in_open = traffic.message(), traffic.message()
    traffic.recorded.call("add_message", in_prepared, prepared, [(2, 0)])
    traffic.recorded.call("acknowledge", taken, 2, prepared)
    traffic.recorded.call("prepare", prepared, b"xid")
    traffic.recorded.call("add_message", in_open, opened, [(2, 0)])
    traffic.flow(400)
    assert compacted(traffic.journal)
    journal = recover(traffic.recorded.disk.copy())
    assert journal.recovered is not None
    (transaction,) = journal.recovered.transactions
    assert (transaction.transaction_id, transaction.xid) == (prepared, b"xid")
    assert [message.message_id for message in transaction.take_adds(9)] == [in_prepared.message_id]
    assert transaction.acknowledgements == [(taken, 2)]
    traffic.recorded.call("commit", prepared, [(2, traffic.take_id())])
    traffic.recorded.call("commit", opened, [(2, traffic.take_id())])
    traffic.flow(400)
    assert traffic.recovered() == [in_prepared.message_id, in_open.message_id]


def test_positions_of_a_transaction_do_not_change_when_its_first_messages_are_gone() -> None:
    traffic = Traffic()
    transaction_id = traffic.take_id()
    messages = [traffic.message() for _ in range(5)]
    for ordinal, message in enumerate(messages):
        traffic.recorded.call("add_message", message, transaction_id, [(2, ordinal)])
    traffic.recorded.call("commit", transaction_id, [(2, 5000)])
    for message in messages[:3]:
        traffic.recorded.call("acknowledge", message.message_id, 2, 0)
    traffic.flow(400)
    assert compacted(traffic.journal)
    journal = recover(traffic.recorded.disk)
    assert journal.recovered is not None
    assert [each.references for each in journal.recovered.take_messages(9)] == [((2, 5003, 0),), ((2, 5004, 0),)]


def test_compaction_copies_records_as_they_are_and_in_order() -> None:
    traffic = Traffic()
    stayed = traffic.flow(400, stay_every=25)
    assert compacted(traffic.journal)
    rows = [row for row in journal_rows(traffic.recorded.disk) if isinstance(row, RecordRow)]
    kept = [int(row.text.split()[1].rstrip(",")) for row in rows if row.kind == "ADD_MESSAGE"]
    assert [message_id for message_id in kept if message_id in set(stayed)] == stayed
    assert kept == sorted(kept)


def test_compaction_reads_no_segment_of_which_nothing_survives() -> None:
    traffic = Traffic()
    traffic.journal.background.stopped = True
    first = traffic.newest
    last = traffic.add(1)
    # Each transaction acknowledges the message of the one before: each segment ends something of the one before it.
    while len(traffic.journal.statistics().segments) < 9:
        transaction_id = traffic.take_id()
        traffic.recorded.call("acknowledge", last, 1, transaction_id)
        message = traffic.message()
        last = message.message_id
        traffic.recorded.call("add_message", message, transaction_id, [(1, 0)])
        traffic.recorded.call("commit", transaction_id, [(1, traffic.take_id())])
        traffic.recorded.settle()
    # The definitions of the queues are in the first one.
    chain = [segment.name for segment in traffic.journal.statistics().segments]
    assert chain[0] == first
    stays = traffic.add(2)
    traffic.recorded.settle()
    traffic.journal.background.stopped = False
    traffic.journal.background.choose(NOW.wall_ms, at_leisure=True)
    read = set[str]()
    while works := traffic.journal.take_work():
        for work in works:
            read |= {each.file for each in work.operations if isinstance(each, Read)}
            traffic.journal.on_disk_done(work.batch, traffic.recorded.disk.run(work.operations), NOW)
    assert compacted(traffic.journal)
    assert read == {first}
    assert len(traffic.journal.statistics().segments) <= 3
    assert traffic.recovered() == [last, stays]


def filled(traffic: Traffic, transactions: int) -> deque[int]:
    """Add a backlog to one queue, and return the ids of its messages: 50 of each transaction."""
    backlog = deque[int]()
    for _ in range(transactions):
        transaction_id = traffic.take_id()
        for _ in range(50):
            message = traffic.message()
            traffic.recorded.call("add_message", message, transaction_id, [(2, 0)])
            backlog.append(message.message_id)
        traffic.recorded.call("commit", transaction_id, [(2, traffic.take_id())])
        traffic.recorded.settle()
    return backlog


def move(traffic: Traffic, backlog: deque[int], moved: deque[int], count: int) -> None:
    """Move messages of the backlog to another queue, which keeps 48."""
    for _ in range(min(count, len(backlog))):
        message = traffic.message()
        traffic.recorded.call("move_message", message, 1, backlog.popleft(), 2)
        moved.append(message.message_id)
    traffic.recorded.settle()
    while len(moved) > 48:
        traffic.recorded.call("acknowledge", moved.popleft(), 1, 0)
    traffic.recorded.settle()


def test_compaction_does_not_read_a_backlog_that_moves_to_another_queue() -> None:
    """Records of the moves need the newest segment of the backlog, from which the last messages move."""
    settings = evolve(SMALL, segment_size_bytes=64 * 1024, batch_bytes_max=8192)
    traffic = Traffic(settings=settings)
    backlog, moved, sizes = filled(traffic, 40), deque[int](), list[int]()
    full = traffic.size_bytes()
    while backlog:
        move(traffic, backlog, moved, 16)
        sizes.append(traffic.size_bytes())
    assert not compacted(traffic.journal)
    assert max(sizes) <= 2 * full + 4 * settings.segment_size_bytes
    look_for_work(traffic.recorded)
    assert traffic.size_bytes() <= 6 * settings.segment_size_bytes
    assert traffic.recovered() == list(moved)


def test_a_backlog_that_moves_makes_room_on_a_disk_that_it_fills() -> None:
    """Compaction waits while a backlog leaves, and must not wait any more when the disk has no room."""
    settings = evolve(SMALL, segment_size_bytes=256 * 1024, batch_bytes_max=4096)
    traffic = Traffic(settings=settings)
    backlog, moved = filled(traffic, 200), deque[int]()
    traffic.recorded.disk.capacity_bytes = traffic.size_bytes() * 5 // 4
    while backlog:
        move(traffic, backlog, moved, 8)
    assert traffic.journal.state is JournalState.READY
    assert any("no space left" in note for note in traffic.journal.notes)
    assert compacted(traffic.journal)
    assert traffic.recovered() == list(moved)


def test_damage_in_an_old_segment_is_reported_and_never_copied() -> None:
    traffic = Traffic()
    traffic.flow(30, stay_every=5)
    victim = traffic.journal.statistics().segments[0].name
    traffic.recorded.disk.flip(victim, 5000, 1)
    traffic.flow(400)
    assert any("compaction found damage" in note and victim in note for note in traffic.journal.notes)
    assert traffic.journal.state is JournalState.READY
    assert recover(traffic.recorded.disk).state is JournalState.FAILED


# -- bounded work --------------------------------------------------------------------------------------------------


def test_each_step_of_compaction_reads_and_writes_little() -> None:
    traffic = Traffic()
    limit = 2 * SMALL.compaction_slice_bytes + 1024
    steps = 0
    waiting: list[int] = []
    for number in range(500):
        waiting.append(traffic.add(1))
        if number % 20 == 0:
            traffic.add(2)
        if len(waiting) > 3:
            traffic.recorded.call("acknowledge", waiting.pop(0), 1, 0)
        while works := traffic.journal.take_work():
            for work in works:
                if work.lane is Lane.BACKGROUND:
                    steps += 1
                    assert sum(each.length for each in work.operations if isinstance(each, Read)) <= limit
                    writes = [sum(map(len, each.data)) for each in work.operations if isinstance(each, WriteAt)]
                    assert sum(writes) <= limit + 4096
                traffic.journal.on_disk_done(work.batch, traffic.recorded.disk.run(work.operations), NOW)
    assert steps > 100 and compacted(traffic.journal)


def test_a_held_back_background_delays_no_batch() -> None:
    traffic = Traffic()
    traffic.flow(60, stay_every=10)
    waiting: list[int] = []
    for _ in range(30):
        waiting.append(traffic.add(1))
        for work in traffic.journal.take_work():
            if work.lane is Lane.JOURNAL:
                traffic.journal.on_disk_done(work.batch, traffic.recorded.disk.run(work.operations), NOW)
        if not traffic.journal.statistics().is_preparing:
            assert traffic.journal.reached == traffic.journal.point()


# -- crashes at every point ----------------------------------------------------------------------------------------


def states_of_one_compaction(variant: int) -> list[tuple[SimulatedDisk, RecordedJournal]]:
    """The disk before each operation of a compaction and of the removal of what it replaced."""
    traffic = Traffic(variant)
    traffic.journal.background.stopped = True
    traffic.flow(80 + variant, stay_every=7 + variant % 3)
    transaction_id = traffic.take_id()
    traffic.recorded.call("add_message", traffic.message(), transaction_id, [(2, 0), (1, 0)])
    traffic.recorded.settle()
    traffic.journal.background.stopped = False
    traffic.journal.background.choose(NOW.wall_ms, at_leisure=True)
    states = []
    while traffic.recorded.step():
        states.append(traffic.recorded.disk.copy())
    assert compacted(traffic.journal)
    return [(disk, traffic.recorded) for disk in states]


@pytest.mark.parametrize("variant", range(3))
def test_a_power_cut_at_every_operation_of_a_compaction_loses_nothing(variant: int) -> None:
    states = states_of_one_compaction(variant)
    assert len(states) > 40
    for number, (disk, recorded) in enumerate(states):
        for seed in range(4):
            crashed = disk.copy()
            crashed.crash(Random(1000 * number + seed))
            journal = recover(crashed)
            assert journal.recovered is not None, (number, seed, journal.failure)
            recorded.check_recovered(journal.recovered)


def test_a_fault_at_every_operation_of_a_compaction_loses_nothing() -> None:
    def run(fail_after: int) -> bool:
        traffic = Traffic()
        traffic.journal.background.stopped = True
        traffic.flow(80, stay_every=7)
        traffic.journal.background.stopped = False
        traffic.recorded.disk.fail_at(traffic.recorded.disk.operations + fail_after)
        traffic.journal.background.choose(NOW.wall_ms, at_leisure=True)
        done = 0
        while traffic.recorded.step():
            done += 1
        traffic.recorded.disk.heal()
        if traffic.journal.state is JournalState.READY:
            traffic.flow(40, stay_every=4)
        for seed in range(2):
            crashed = traffic.recorded.disk.copy()
            crashed.crash(Random(seed))
            journal = recover(crashed)
            assert journal.recovered is not None, (fail_after, journal.failure)
            traffic.recorded.check_recovered(journal.recovered)
        return done > fail_after

    assert all(run(fail_after) for fail_after in range(0, 60, 3))


def test_a_compacted_segment_whose_sources_are_still_there_replaces_them() -> None:
    """1. Compaction renames its result.  2. The broker is killed before it removes the old segments.
    3. The next broker ignores and removes them."""
    traffic = Traffic()
    traffic.journal.background.stopped = True
    stayed = traffic.flow(80, stay_every=7)
    traffic.journal.background.stopped = False
    traffic.journal.background.choose(NOW.wall_ms, at_leisure=True)
    while True:
        (names,) = traffic.recorded.disk.run((ListFiles(),))
        assert isinstance(names, tuple)
        result = [name for name in names if name.count("-") == 2]
        if result:
            break
        assert traffic.recorded.step()
    assert len(names) > 4
    journal = recover(traffic.recorded.disk)
    assert journal.recovered is not None, journal.failure
    assert [each.message_id for each in journal.recovered.take_messages(1000)] == stayed
    (after,) = traffic.recorded.disk.run((ListFiles(),))
    assert isinstance(after, tuple) and len(after) < len(names) and set(result) <= set(after)


def test_a_merged_segment_may_go_although_the_latest_segment_start_lists_its_parts() -> None:
    """1. The current segment starts with the names of those before it.  2. They are merged.  3. What was left in them
    ends, and the merged one is dropped.  4. Recovery finds none of the files, and nothing is wrong with that."""
    traffic = Traffic()
    traffic.journal.background.stopped = True
    stayed = traffic.flow(80, stay_every=7)
    listed, current = segment_names(traffic.recorded)[:-1], traffic.newest
    traffic.journal.background.stopped = False
    traffic.journal.background.choose(NOW.wall_ms, at_leisure=True)
    traffic.recorded.settle()
    (merged,) = [segment.name for segment in traffic.journal.statistics().segments if segment.is_merged]
    assert len(set(replaced_by(merged)) & set(listed)) > 1
    for message_id in stayed:
        traffic.recorded.call("acknowledge", message_id, 2, 0)
    for number, name in ((1, "flow"), (2, "rest")):
        traffic.recorded.call("add_queue", QueueDefinition(number, name, "a", 1))
    traffic.recorded.settle()
    traffic.journal.background.choose(NOW.wall_ms, at_leisure=True)
    traffic.recorded.settle()
    assert merged not in segment_names(traffic.recorded) and traffic.newest == current
    assert merged not in traffic.recorded.file_names()
    assert traffic.recovered() == []


def test_nothing_is_merged_behind_a_cut_before_the_next_segment_has_begun() -> None:
    """1. The last batch is torn and cut, an empty segment stands behind it. 2. Merging the segments in front would take
    away the record of which there were, and which were dropped. 3. The broker dies before it has written more."""
    traffic, cases, merged = Traffic(), 0, 0
    for _ in range(100):
        traffic.flow(10, stay_every=2)
        traffic.add(1, 1500)
        traffic.recorded.settle()
        journal = traffic.journal
        statistics = journal.statistics()
        current = statistics.segments[-1]
        if statistics.prepared is None or statistics.is_preparing:
            continue
        cases += 1
        disk = traffic.recorded.disk.copy()
        torn = b"\xff" * SECTOR_BYTES
        disk.run((WriteAt(current.name, current.end - SECTOR_BYTES, (torn,)), Sync(current.name)))
        second = RecordedJournal(disk)
        second.open()
        second.settle()
        assert second.journal.notes and not second.journal.statistics().segments[-1].has_batches
        found = segment_names(second)
        look_for_work(second)
        assert segment_names(second) == found
        message_id = traffic.take_id()
        second.call("add_message", StoredMessage(message_id, b"m"), 0, [(2, traffic.take_id())])
        second.settle()
        look_for_work(second)
        merged += not set(found) <= set(segment_names(second))
        third = recover(disk)
        assert third.failure is None and third.recovered is not None
        assert message_id in [message.message_id for message in third.recovered.take_messages(1 << 20)]
    assert cases > 5 and merged > 3


def segment_names(recorded: RecordedJournal) -> list[str]:
    return [segment.name for segment in recorded.journal.statistics().segments]


# -- figures -------------------------------------------------------------------------------------------------------


def test_statistics_agree_with_the_directory() -> None:
    traffic = Traffic()
    stayed = traffic.flow(120, stay_every=10)
    look_for_work(traffic.recorded)
    found = traffic.journal.statistics()
    names = [segment.name for segment in found.segments]
    files = [name for name in traffic.recorded.file_names() if name.startswith("segment-") and name != found.prepared]
    assert sorted(names) == files
    for segment in found.segments:
        assert segment.size_bytes == len(traffic.recorded.disk.content(segment.name))
        assert segment.end <= segment.size_bytes and segment.has_batches
    assert (found.live_messages, found.reached) == (len(stayed), traffic.journal.point())
    assert (found.identity, found.gathered_records, found.has_background_work) == (SMALL.identity, 0, False)
    with pytest.raises(FrozenInstanceError):
        found.reached = 0  # type: ignore[misc]
