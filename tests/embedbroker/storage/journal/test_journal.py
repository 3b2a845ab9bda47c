"""Gathering, durability points, seals, failures: what the journal promises to its driver."""

from __future__ import annotations

from random import Random

import pytest

from embedbroker.kernel import DuplicateId, QueueDefinition, Store
from embedbroker.storage import (
    DiskFault,
    FaultKind,
    Journal,
    JournalSettings,
    JournalState,
    Lane,
    ListFiles,
    RecordRow,
    Rename,
    Sync,
    SyncDirectory,
    WriteAt,
    inspect_journal,
    journal_rows,
)
from embedbroker.testing._disk import SimulatedDisk
from embedclient.model import Instant
from tests.embedbroker.storage.journal_model import NOW, SMALL, RecordedJournal, StoredMessage, recover

LATER = Instant(NOW.monotonic + 60, NOW.wall_ms + 60_000)


def ready(disk: SimulatedDisk | None = None, settings: JournalSettings = SMALL) -> RecordedJournal:
    recorded = RecordedJournal(disk or SimulatedDisk(), settings)
    recorded.open()
    recorded.settle()
    assert recorded.journal.state is JournalState.READY
    recorded.journal.recovered = None
    return recorded


def with_queue(disk: SimulatedDisk | None = None, settings: JournalSettings = SMALL) -> RecordedJournal:
    recorded = ready(disk, settings)
    recorded.call("add_queue", QueueDefinition(1, "q", "q", 1))
    recorded.settle()
    return recorded


def add(recorded: RecordedJournal, message_id: int, size: int = 100) -> None:
    recorded.call("add_message", StoredMessage(message_id, b"m" * size), 0, [(1, message_id)])


def recovered_ids(disk: SimulatedDisk) -> list[int]:
    journal = recover(disk)
    assert journal.recovered is not None, journal.failure
    return [message.message_id for message in journal.recovered.take_messages(1 << 20)]


def test_the_journal_is_a_store() -> None:
    store: Store = ready().journal
    assert store.point() == store.reached


# -- batches and points --------------------------------------------------------------------------------------------


def test_nothing_is_durable_before_its_sync_is_done() -> None:
    recorded = with_queue()
    journal = recorded.journal
    before = journal.reached
    assert journal.point() == before
    add(recorded, 5)
    point = journal.point()
    assert point > before
    (work,) = journal.take_work()
    assert work.lane is Lane.JOURNAL
    assert [type(operation) for operation in work.operations] == [WriteAt, Sync]
    assert (journal.reached, journal.point(), journal.take_work()) == (before, point, [])
    journal.on_disk_done(work.batch, recorded.disk.run(work.operations), NOW)
    assert journal.reached == journal.point() == point


def test_what_comes_while_a_batch_is_written_gathers_in_the_next() -> None:
    recorded = with_queue()
    journal = recorded.journal
    add(recorded, 5)
    (first,) = journal.take_work()
    point = journal.point()
    for message_id in range(6, 10):
        add(recorded, message_id)
        assert journal.take_work() == []
    assert journal.point() == point + 1
    journal.on_disk_done(first.batch, recorded.disk.run(first.operations), NOW)
    assert journal.reached == point
    (second,) = journal.take_work()
    journal.on_disk_done(second.batch, recorded.disk.run(second.operations), NOW)
    assert journal.reached == journal.point() == point + 1
    assert recovered_ids(recorded.disk) == [5, 6, 7, 8, 9]


def test_a_batch_is_no_larger_than_the_limit_unless_one_record_is() -> None:
    recorded = with_queue()
    for message_id, size in enumerate((900, 900, 900, 9000, 10, 10), start=5):
        add(recorded, message_id, size)
    sizes = []
    while work := recorded.journal.take_work():
        for each in work:
            if each.lane is Lane.JOURNAL:
                sizes += [sum(map(len, op.data)) for op in each.operations if isinstance(op, WriteAt) and op.offset]
            recorded.journal.on_disk_done(each.batch, recorded.disk.run(each.operations), NOW)
    assert sizes == [2048, 1536, 9216, 512]
    assert recovered_ids(recorded.disk) == [5, 6, 7, 8, 9, 10]


def test_a_message_larger_than_a_segment_gets_a_segment_of_its_size() -> None:
    recorded = with_queue()
    big = 5 * SMALL.segment_size_bytes + 77
    add(recorded, 5, big)
    add(recorded, 6)
    recorded.settle()
    add(recorded, 7, big)
    recorded.close()
    journal = recover(recorded.disk)
    assert journal.recovered is not None
    assert [(each.message_id, len(each.raw)) for each in journal.recovered.take_messages(9)] == [
        (5, big),
        (6, 100),
        (7, big),
    ]


def test_every_write_starts_at_a_sector_no_earlier_write_touched() -> None:
    recorded = with_queue()
    free: dict[str, int] = {}
    random = Random(1)
    for message_id in range(5, 200):
        add(recorded, message_id, random.randrange(700))
        for work in recorded.journal.take_work():
            for each in work.operations:
                if isinstance(each, WriteAt) and work.lane is Lane.JOURNAL and each.offset:
                    assert each.offset % 512 == 0 and each.offset >= free.get(each.file, 0)
                    free[each.file] = each.offset + sum(map(len, each.data))
            recorded.journal.on_disk_done(work.batch, recorded.disk.run(work.operations), NOW)


def test_a_segment_gets_its_name_only_with_a_synced_header() -> None:
    recorded = ready()
    recorded.call("add_queue", QueueDefinition(1, "q", "q", 1))
    (work,) = recorded.journal.take_work()
    kinds = [type(operation) for operation in work.operations]
    assert kinds.index(Sync) < kinds.index(Rename) < kinds.index(SyncDirectory)


def test_the_next_segment_is_prepared_in_the_background_before_it_is_needed() -> None:
    recorded = with_queue()
    journal = recorded.journal
    seen: list[Lane] = []
    for message_id in range(5, 60):
        add(recorded, message_id, 500)
        while works := journal.take_work():
            for work in works:
                seen.append(work.lane)
                if work.lane is Lane.JOURNAL:
                    assert all(not isinstance(operation, Rename) for operation in work.operations)
                journal.on_disk_done(work.batch, recorded.disk.run(work.operations), NOW)
    assert Lane.BACKGROUND in seen and len(journal.statistics().segments) > 2


def test_traffic_goes_on_while_the_background_is_slow() -> None:
    recorded = with_queue()
    journal = recorded.journal
    held = None
    for message_id in range(5, 200):
        add(recorded, message_id, 100)
        for work in journal.take_work():
            if work.lane is Lane.BACKGROUND:
                held = work
                continue
            journal.on_disk_done(work.batch, recorded.disk.run(work.operations), NOW)
        if journal.reached != journal.point():
            break  # the segment that is being prepared is the one that is needed now
    assert held is not None and message_id > 20
    journal.on_disk_done(held.batch, recorded.disk.run(held.operations), NOW)
    recorded.settle()
    assert journal.reached == journal.point()


# -- seals and the end ---------------------------------------------------------------------------------------------


def test_a_second_of_idleness_is_sealed_once() -> None:
    recorded = with_queue()
    journal = recorded.journal
    add(recorded, 5)
    assert journal.next_deadline() is None
    recorded.settle()
    due = NOW.monotonic + SMALL.seal_after_s
    assert journal.next_deadline() == due
    journal.on_tick(Instant(due - 0.01, NOW.wall_ms))
    assert journal.take_work() == []
    journal.on_tick(Instant(due, NOW.wall_ms))
    recorded.settle()
    assert journal.next_deadline() is None and journal.point() == journal.reached
    report = inspect_journal(recorded.disk)
    assert report.sealed and report.sound and report.records["SEAL"] == 1


def test_a_point_asked_for_while_a_seal_is_written_is_already_reached() -> None:
    recorded = with_queue()
    recorded.journal.on_tick(LATER)
    (work,) = recorded.journal.take_work()
    assert recorded.journal.point() == recorded.journal.reached
    recorded.journal.on_disk_done(work.batch, recorded.disk.run(work.operations), LATER)
    assert recorded.journal.point() == recorded.journal.reached


def test_close_writes_everything_and_a_seal() -> None:
    recorded = with_queue()
    for message_id in range(5, 90):
        add(recorded, message_id, 300)
    recorded.close()
    assert recorded.journal.take_work() == [] and recorded.journal.next_deadline() is None
    assert recovered_ids(recorded.disk) == list(range(5, 90))
    assert inspect_journal(recorded.disk).sealed


def test_closing_an_untouched_journal_writes_nothing() -> None:
    recorded = ready()
    recorded.close()
    assert recorded.disk.run((ListFiles(),)) == ((),)


def test_close_during_recovery_ends_at_once() -> None:
    recorded = with_queue()
    recorded.close()
    second = RecordedJournal(recorded.disk)
    second.open()
    (work,) = second.journal.take_work()
    second.journal.close(NOW)
    assert second.journal.state is JournalState.CLOSED
    second.journal.on_disk_done(work.batch, recorded.disk.run(work.operations), NOW)
    assert second.journal.take_work() == []


def test_restarts_go_on_in_the_same_segment() -> None:
    disk = SimulatedDisk()
    for message_id in range(5, 10):
        recorded = with_queue(disk) if message_id == 5 else ready(disk)
        add(recorded, message_id)
        if message_id % 2:
            recorded.close()
        else:
            recorded.settle()
    assert disk.run((ListFiles(),)) == (("segment-0000000001.journal",),)
    assert recovered_ids(disk) == [5, 6, 7, 8, 9]


def test_points_never_go_back_over_restarts() -> None:
    disk = SimulatedDisk()
    last = 0
    for message_id in range(5, 9):
        recorded = with_queue(disk) if message_id == 5 else ready(disk)
        assert recorded.journal.reached >= last
        add(recorded, message_id)
        recorded.settle()
        last = recorded.journal.reached


def test_an_open_transaction_of_a_dead_broker_is_rolled_back_for_good() -> None:
    disk = SimulatedDisk()
    recorded = with_queue(disk)
    recorded.call("add_message", StoredMessage(5, b"x"), 40, [(1, 0)])
    recorded.settle()
    second = ready(disk)
    second.settle()
    # A program that used the number 40 again must not get the old message with its own.
    second.call("commit", 40, [(1, 9)])
    second.close()
    assert recovered_ids(disk) == []
    assert [row.kind for row in journal_rows(disk) if isinstance(row, RecordRow)][-3:] == ["ROLLBACK", "COMMIT", "SEAL"]


# -- bounded work --------------------------------------------------------------------------------------------------


def test_recovery_reads_in_slices_of_bounded_size() -> None:
    recorded = with_queue()
    for message_id in range(5, 300):
        add(recorded, message_id, 300)
        recorded.settle()
    recorded.close()
    second = RecordedJournal(recorded.disk)
    second.open()
    slices = 0
    while second.journal.state is JournalState.RECOVERING:
        for work in second.journal.take_work():
            for each in work.operations:
                assert getattr(each, "length", 0) <= SMALL.recovery_slice_bytes
            slices += 1
            second.journal.on_disk_done(work.batch, recorded.disk.run(work.operations), NOW)
    assert slices > 30


def test_recovered_messages_are_handed_over_in_portions() -> None:
    recorded = with_queue()
    for message_id in range(5, 30):
        add(recorded, message_id)
    recorded.close()
    journal = recover(recorded.disk)
    assert journal.recovered is not None
    portions = [[each.message_id for each in journal.recovered.take_messages(10)] for _ in range(4)]
    assert portions == [list(range(5, 15)), list(range(15, 25)), list(range(25, 30)), []]
    assert journal.recovered.messages_left == 0


# -- failures ------------------------------------------------------------------------------------------------------


def fail_next(recorded: RecordedJournal, position: int, kind: FaultKind) -> None:
    recorded.disk.fail_at(recorded.disk.operations + position, kind)


@pytest.mark.parametrize("position", [0, 1])
def test_a_failed_write_or_sync_is_final(position: int) -> None:
    recorded = with_queue()
    journal = recorded.journal
    add(recorded, 5)
    recorded.settle()
    reached = journal.reached
    add(recorded, 6)
    fail_next(recorded, position, FaultKind.FAILED)
    recorded.settle()
    assert journal.state is JournalState.FAILED
    assert journal.failure == "segment-0000000001.journal: simulated: input or output error"
    for message_id in range(7, 2000):
        add(recorded, message_id)
        assert journal.point() > reached
    assert journal.reached == reached and journal.take_work() == [] and journal.next_deadline() is None
    assert journal.statistics().gathered_records < 10, "records that will never be written are not kept"
    journal.close(LATER)
    journal.on_tick(LATER)
    assert journal.state is JournalState.FAILED
    recorded.disk.crash(Random(7))
    assert set(recovered_ids(recorded.disk)) in ({5}, {5, 6})


def test_what_was_not_confirmed_when_the_disk_failed_stays_unconfirmed_without_new_records() -> None:
    recorded = with_queue()
    add(recorded, 5)
    point = recorded.journal.point()
    fail_next(recorded, 1, FaultKind.FAILED)
    recorded.settle()
    assert recorded.journal.reached < point


def test_a_full_disk_fails_the_journal_only_when_it_needs_a_new_segment_and_space_heals_it() -> None:
    disk = SimulatedDisk(capacity_bytes=2 * SMALL.segment_size_bytes)
    recorded = with_queue(disk)
    message_id = 5
    while recorded.journal.state is JournalState.READY:
        add(recorded, message_id, 400)
        recorded.settle()
        message_id += 1
    assert message_id > 5 + 20, "both segments were used"
    assert recorded.journal.failure is not None and "no space left" in recorded.journal.failure
    assert any("background work on the journal failed" in note for note in recorded.journal.notes)
    confirmed = [5 + number for number in range(message_id - 6)]
    disk.crash(Random(3))
    assert set(confirmed) <= set(recovered_ids(disk.copy()))
    disk.capacity_bytes = None
    second = ready(disk)
    add(second, 9999, 400)
    second.close()
    assert {*confirmed, 9999} <= set(recovered_ids(disk))


def test_a_background_failure_leaves_traffic_alone() -> None:
    recorded = with_queue()
    journal = recorded.journal
    failed = 0
    for message_id in range(5, 200):
        add(recorded, message_id, 300)
        if message_id > 10:
            recorded.call("acknowledge", message_id - 5, 1, 0)
        while work := journal.take_work():
            for each in work:
                if each.lane is Lane.BACKGROUND and failed < 5:
                    failed += 1
                    journal.on_disk_failed(each.batch, DiskFault(FaultKind.FULL, "x", "no space left"), NOW)
                else:
                    journal.on_disk_done(each.batch, recorded.disk.run(each.operations), NOW)
        assert journal.state is JournalState.READY and journal.reached == journal.point()
    assert failed == 5 and len(journal.notes) == 5
    recorded.close()
    assert recovered_ids(recorded.disk) == [5, *range(195, 200)]


def test_a_disk_that_fails_during_recovery_is_named() -> None:
    disk = SimulatedDisk()
    with_queue(disk).close()
    disk.fail_at(disk.operations + 3)
    assert recover(disk).failure == "segment-0000000001.journal: simulated: input or output error"


def test_random_faults_never_lose_what_was_confirmed() -> None:
    for seed in range(150):
        random = Random(seed)
        disk = SimulatedDisk()
        recorded = with_queue(disk)
        confirmed: set[int] = set()
        disk.fail_at(disk.operations + random.randrange(400), random.choice(list(FaultKind)))
        waiting: list[tuple[int, int]] = []
        for message_id in range(5, 120):
            add(recorded, message_id, random.randrange(900))
            waiting.append((recorded.journal.point(), message_id))
            for _ in range(random.randrange(6)):
                recorded.step(random)
            confirmed |= {each for point, each in waiting if point <= recorded.journal.reached}
        disk.crash(random)
        disk.heal()
        journal = recover(disk)
        assert journal.recovered is not None, (seed, journal.failure)
        assert confirmed <= {each.message_id for each in journal.recovered.take_messages(1000)}, seed


def test_a_journal_that_failed_to_open_says_why() -> None:
    disk = SimulatedDisk()
    disk.fail_at(0, FaultKind.DENIED)
    journal = recover(disk)
    assert (journal.state, journal.failure) == (JournalState.FAILED, "the directory: simulated: not permitted")
    assert isinstance(journal, Journal)


# -- runs --------------------------------------------------------------------------------------------------------------


def test_a_run_is_recorded_as_its_messages_one_by_one() -> None:
    """Over several batches and segments, in transactions and outside."""
    one_by_one, runs = with_queue(), with_queue()
    for transaction_id in (0, 7):
        first = 100 + 1000 * transaction_id
        messages = [StoredMessage(first + number, b"m" * (number % 90)) for number in range(400)]
        message_ids = [message.message_id for message in messages]
        for position, message in enumerate(messages, 5):
            one_by_one.journal.add_message(message, transaction_id, [(1, position)])
        runs.journal.add_run(messages, transaction_id, 1, 5)
        for message_id in message_ids:
            one_by_one.journal.acknowledge(message_id, 1, transaction_id)
        runs.journal.acknowledge_run(message_ids, 1, transaction_id)
        for recorded in (one_by_one, runs):
            recorded.settle()
    messages = [StoredMessage(9000 + number, b"m" * (number % 90)) for number in range(400)]
    entries = [DuplicateId(9500 + number, 3, b"id" * (number % 9)) for number in range(400)]
    for message, entry in zip(messages, entries, strict=True):
        one_by_one.journal.add_message_once(message, [(1, message.message_id)], entry)
    runs.journal.add_run_once(messages, 1, entries)
    for recorded in (one_by_one, runs):
        recorded.settle()
    assert len(runs.journal.statistics().segments) > 2
    assert runs.disk.contents() == one_by_one.disk.contents()
    assert runs.journal.statistics() == one_by_one.journal.statistics()


def test_a_crash_finds_each_moved_message_in_one_of_two_queues() -> None:
    recorded = with_queue()
    recorded.journal.add_queue(QueueDefinition(2, "other", "a", 1))
    old = [StoredMessage(100 + number, b"o" * (number % 90)) for number in range(300)]
    new = [StoredMessage(1000 + number, b"n" * (7 * number % 130)) for number in range(300)]
    recorded.journal.add_run(old, 0, 1, 100)
    recorded.settle()
    # In two runs, over several batches and segments.
    for part in (slice(0, 20), slice(20, 300)):
        replaced = [message.message_id for message in old[part]]
        recorded.journal.add_run(new[part], 0, 2, new[part][0].message_id, replaced, 1)
    found = set[int]()
    while recorded.step():
        for seed in range(2):
            disk = recorded.disk.copy()
            disk.crash(Random(seed))
            journal = recover(disk)
            assert journal.recovered is not None, journal.failure
            ids = [message.message_id for message in journal.recovered.take_messages(1 << 20)]
            moved = [message_id for message_id in ids if message_id >= 1000]
            assert sorted(ids) == [*range(100 + len(moved), 400), *range(1000, 1000 + len(moved))]
            found.add(len(moved))
    assert len(found) > 10 and max(found) == 300
    assert recorded.journal.statistics().live_messages == 300
