"""What recovery makes of damaged ends, of damage in the middle, of old data and of missing files."""

from __future__ import annotations

from random import Random
from zlib import crc32

import pytest

from embedbroker.kernel import QueueDefinition
from embedbroker.storage import (
    SECTOR_BYTES,
    Journal,
    JournalSettings,
    JournalState,
    ListFiles,
    Read,
    Remove,
    Sync,
    WriteAt,
)
from embedbroker.testing._disk import SimulatedDisk
from embedclient.model import Instant
from tests.embedbroker.storage.journal_model import SMALL, RecordedJournal, StoredMessage, picture_of, recover

FIRST = 4096
ONE = "segment-0000000001.journal"


def journal_with(
    count: int, disk: SimulatedDisk, settings: JournalSettings = SMALL, seal: bool = True
) -> RecordedJournal:
    """A queue and `count` messages, each in a separate batch."""
    recorded = RecordedJournal(disk, settings)
    recorded.open()
    recorded.settle()
    recorded.call("add_queue", QueueDefinition(1, "q", "q", 1))
    for number in range(count):
        recorded.call("add_message", StoredMessage(100 + number, b"m" * 700), 0, [(1, 100 + number)])
        recorded.settle()
    if seal:
        recorded.close()
    return recorded


def read(disk: SimulatedDisk, file: str, offset: int = 0, length: int = 1 << 20) -> bytes:
    (data,) = disk.run((Read(file, offset, length),))
    assert isinstance(data, bytes)
    return data


def files(disk: SimulatedDisk) -> list[str]:
    (names,) = disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    return list(names)


def message_ids(journal: Journal) -> list[int]:
    assert journal.state is JournalState.READY, journal.failure
    assert journal.recovered is not None
    return [message.message_id for message in journal.recovered.take_messages(1 << 20)]


def used(disk: SimulatedDisk, file: str = ONE) -> int:
    return (len(read(disk, file).rstrip(b"\0")) + SECTOR_BYTES - 1) // SECTOR_BYTES * SECTOR_BYTES


# -- every flipped bit ---------------------------------------------------------------------------------------------


def verdict(disk: SimulatedDisk) -> str:
    journal = recover(disk)
    if journal.state is JournalState.FAILED:
        assert journal.failure is not None and "offset" in journal.failure and "journal" in journal.failure
        return "refused"
    return "cut" if any("is cut" in note for note in journal.notes) else "unnoticed"


@pytest.mark.search
def test_a_flipped_bit_in_any_byte_of_a_sealed_journal_is_detected() -> None:
    disk = SimulatedDisk()
    journal_with(2, disk)
    end = used(disk)
    seal = end - SECTOR_BYTES
    # The header, the batches, and the empty space behind them: every byte of every file.
    assert files(disk) == [ONE]
    for offset in range(SMALL.segment_size_bytes):
        damaged = disk.copy()
        damaged.flip(ONE, offset, 1 << offset % 8)
        expected = "refused" if offset < seal else "cut"
        assert verdict(damaged) == expected, offset


def test_a_flipped_bit_anywhere_before_the_last_seal_is_refused_in_a_journal_of_many_segments() -> None:
    random = Random(5)
    disk = SimulatedDisk()
    journal_with(60, disk)
    segments = [name for name in files(disk) if name.startswith("segment-")]
    last = max(name for name in segments if used(disk, name) > FIRST)
    assert len(segments) >= 4
    for _ in range(400):
        name = random.choice(segments[: segments.index(last) + 1])
        offset = random.randrange(used(disk, name) - (SECTOR_BYTES if name == last else 0))
        damaged = disk.copy()
        damaged.flip(name, offset, 1 << random.randrange(8))
        assert verdict(damaged) == "refused", (name, offset)


# -- the end of the journal ----------------------------------------------------------------------------------------


def test_a_torn_last_batch_is_cut_reported_and_kept_as_a_copy() -> None:
    disk = SimulatedDisk()
    journal_with(3, disk, seal=False)
    start = used(disk) - 2 * SECTOR_BYTES
    torn = bytes(SECTOR_BYTES)
    disk.run((WriteAt(ONE, start + SECTOR_BYTES, (torn,)), Sync(ONE)))
    journal = recover(disk)
    assert message_ids(journal) == [100, 101]
    assert journal.newest_segment == 1
    copy = "torn-0000000001-3.copy"
    assert journal.notes == [
        f"{ONE} at offset {start}: the checksum of batch 3 does not fit its records; it was never confirmed and is cut,"
        f" a copy is kept in {copy}"
    ]
    kept = read(disk, copy)
    assert kept == read(disk, ONE, start, len(kept)) and len(kept) > SECTOR_BYTES // 2


def test_the_same_torn_batch_is_cut_only_once_and_numbers_go_on_without_a_gap() -> None:
    disk = SimulatedDisk()
    journal_with(3, disk, seal=False)
    disk.run((WriteAt(ONE, used(disk) - SECTOR_BYTES, (bytes(SECTOR_BYTES),)), Sync(ONE)))
    second = RecordedJournal(disk)
    second.open()
    second.settle()
    second.call("add_message", StoredMessage(300, b"later"), 0, [(1, 300)])
    second.close()
    third = recover(disk)
    assert message_ids(third) == [100, 101, 300]
    assert third.notes == []
    assert third.reached == 4  # the queue and 100, 101, then 300, the seal


def test_a_broker_that_is_killed_again_and_again_keeps_the_newest_copies_only() -> None:
    disk = SimulatedDisk()
    kept: list[str] = []
    for life in range(SMALL.torn_copies_max + 3):
        journal = RecordedJournal(disk)
        journal.open()
        journal.settle()
        journal.call("add_message", StoredMessage(100 + life, b"x"), 0, [(1, 100 + life)])
        journal.settle()
        file = max(name for name in files(disk) if name.startswith("segment-"))
        disk.run((WriteAt(file, used(disk, file), (b"garbage",)), Sync(file)))
        kept = [name for name in files(disk) if name.startswith("torn-")]
        assert len(kept) <= SMALL.torn_copies_max
    numbers = sorted(int(name.split("-")[1]) for name in kept)
    assert len(numbers) == SMALL.torn_copies_max and numbers[0] > 1
    newest = max(
        int(name.split("-")[1].removesuffix(".journal")) for name in files(disk) if name.startswith("segment-")
    )
    assert newest - numbers[-1] <= 1


@pytest.mark.parametrize("size", [1, 63, 64, 511, 512, 513, 5000])
def test_a_tail_of_garbage_is_cut(size: int) -> None:
    disk = SimulatedDisk()
    journal_with(2, disk)
    end = used(disk)
    disk.run((WriteAt(ONE, end, (Random(size).randbytes(size),)), Sync(ONE)))
    journal = recover(disk)
    assert message_ids(journal) == [100, 101]
    assert len(journal.notes) == 1 and "is cut" in journal.notes[0]


def test_a_tail_of_zeros_is_no_damage() -> None:
    disk = SimulatedDisk()
    journal_with(2, disk, seal=False)
    journal = recover(disk)
    assert message_ids(journal) == [100, 101]
    assert journal.notes == []


@pytest.mark.parametrize("missing", range(0, 4000, 100))
def test_a_file_cut_short_keeps_what_is_whole(missing: int) -> None:
    disk = SimulatedDisk()
    journal_with(3, disk, seal=False)
    data = read(disk, ONE)
    end = used(disk)
    shorter = SimulatedDisk()
    shorter.run((WriteAt(ONE, 0, (data[: max(FIRST, end - missing)],)), Sync(ONE)))
    journal = recover(shorter)
    assert journal.state is JournalState.READY
    whole = [100, 101, 102][: sum(end - missing >= end - left for left in (2048, 1024, 0))]
    assert message_ids(journal) == whole


def test_a_valid_later_batch_makes_damage_corruption_even_if_the_later_one_is_torn() -> None:
    disk = SimulatedDisk()
    journal_with(4, disk, seal=False)
    end = used(disk)
    disk.flip(ONE, end - 3 * SECTOR_BYTES + 100, 1)  # in the batch before the last
    disk.flip(ONE, end - SECTOR_BYTES + 100, 1)  # in the records of the last, whose header is whole
    journal = recover(disk)
    assert journal.state is JournalState.FAILED
    assert journal.failure == (
        f"the journal is damaged: {ONE} at offset {end - 4 * SECTOR_BYTES}: the checksum of batch 3 does not fit its"
        f" records, but it was synced: batch 4 stands at offset {end - 2 * SECTOR_BYTES}"
    )


def test_bytes_of_a_message_never_pass_for_a_batch() -> None:
    """A client sends a message that holds what a batch of another journal would look like, at every sector."""
    other = SimulatedDisk()
    journal_with(5, other, JournalSettings(identity=99, segment_size_bytes=SMALL.segment_size_bytes))
    forged = read(other, ONE, FIRST, 8192)
    disk = SimulatedDisk()
    recorded = journal_with(1, disk, seal=False)
    place = used(disk)
    recorded.call("add_message", StoredMessage(200, forged), 0, [(1, 200)])
    recorded.settle()
    disk.run((WriteAt(ONE, place, (bytes(SECTOR_BYTES),)), Sync(ONE)))  # the sector with the header is lost
    for shift in range(0, SECTOR_BYTES, 37):
        twin = disk.copy()
        twin.run((WriteAt(ONE, place + SECTOR_BYTES, (bytes(shift) + forged[:4000],)), Sync(ONE)))
        assert message_ids(recover(twin)) == [100]


# -- reused segments -----------------------------------------------------------------------------------------------


def test_old_data_in_a_reused_segment_is_never_taken_for_new() -> None:
    disk = SimulatedDisk()
    recorded = RecordedJournal(disk)
    recorded.open()
    recorded.settle()
    recorded.call("add_queue", QueueDefinition(1, "q", "q", 1))
    reused = 0
    for number in range(400):
        recorded.call("add_message", StoredMessage(100 + number, b"m" * 700), 0, [(1, 100 + number)])
        if number >= 3:
            recorded.call("acknowledge", 97 + number, 1, 0)
        recorded.settle()
        recorded.journal.on_tick(Instant(1000.0 + 10 * number, 1_700_000_000_000))
        recorded.settle()
        if number % 10 == 9:
            twin = recover(disk.copy())
            assert message_ids(twin) == [98 + number, 99 + number, 100 + number]
            assert twin.notes == []
            reused += recorded.journal.statistics().segments[-1].is_reused
    assert reused > 5


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_missing_segment_in_the_middle_is_refused() -> None:
    disk = SimulatedDisk()
    journal_with(60, disk)
    segments = [name for name in files(disk) if name.startswith("segment-") and used(disk, name) > FIRST]
    for name in segments[:-1]:
        twin = disk.copy()
        twin.run((Remove(name),))
        journal = recover(twin)
        assert journal.state is JournalState.FAILED, name
        assert journal.failure is not None
        assert f"{name} at offset" in journal.failure and "missing" in journal.failure


def test_a_segment_of_another_journal_is_refused() -> None:
    disk, other = SimulatedDisk(), SimulatedDisk()
    journal_with(40, disk)
    journal_with(40, other, JournalSettings(identity=5, segment_size_bytes=SMALL.segment_size_bytes))
    second = "segment-0000000002.journal"
    disk.run((WriteAt(second, 0, (read(other, second),)),))
    journal = recover(disk)
    assert journal.failure == f"the journal is damaged: {second} at offset 0: the segment belongs to another journal"


def test_a_journal_of_a_newer_format_is_refused_and_not_cut() -> None:
    disk = SimulatedDisk()
    journal_with(2, disk, seal=False)
    start = used(disk) - 2 * SECTOR_BYTES
    header = bytearray(read(disk, ONE, start, 64))
    header[4] = 2
    header[60:] = crc32(header[:60]).to_bytes(4, "little")
    disk.run((WriteAt(ONE, start, (bytes(header),)),))
    journal = recover(disk)
    assert journal.failure is not None and "format version 2; this program reads 1" in journal.failure


def test_foreign_files_in_the_directory_are_left_alone() -> None:
    disk = SimulatedDisk()
    journal_with(1, disk)
    for name in ("notes.txt", "broker.lock", "segment-1.journal"):
        disk.run((WriteAt(name, 0, (b"hello",)),))
    assert message_ids(recover(disk)) == [100]
    assert read(disk, "notes.txt") == b"hello"


def test_an_empty_directory_is_an_empty_journal() -> None:
    disk = SimulatedDisk()
    journal = recover(disk)
    assert journal.state is JournalState.READY and journal.recovered is not None
    assert (journal.reached, journal.point(), journal.recovered.id_limit) == (0, 0, 0)
    assert picture_of(journal.recovered)["messages"] == {}
    assert files(disk) == []


def test_recovery_of_a_killed_broker_makes_the_last_batch_durable_before_it_shows_it() -> None:
    """1. The broker writes batch 2 and is killed before the sync; the system still has the bytes.
    2. The next broker shows the message to a consumer.  3. The power fails: the message must still be there."""
    disk = SimulatedDisk()
    recorded = journal_with(1, disk, seal=False)
    recorded.call("add_message", StoredMessage(200, b"m" * 2000), 0, [(1, 200)])
    (work,) = recorded.journal.take_work()
    disk.run(work.operations[:1])
    second = recover(disk)
    assert message_ids(second) == [100, 200]
    disk.crash(Random(3))
    assert message_ids(recover(disk)) == [100, 200]


def test_recovery_does_not_trust_bytes_whose_sync_failed() -> None:
    """1. The sync of batch 2 fails: the system keeps the bytes and calls them clean.  2. The next broker reads them.
    3. Its own sync succeeds without a word.  4. The power fails: what was shown in step 2 must still be there."""
    disk = SimulatedDisk()
    recorded = journal_with(1, disk, seal=False)
    recorded.call("add_message", StoredMessage(200, b"m" * 2000), 0, [(1, 200)])
    disk.fail_at(disk.operations + 1)
    recorded.settle()
    assert recorded.journal.state is JournalState.FAILED
    second = recover(disk)
    assert message_ids(second) == [100, 200]
    disk.crash(Random(3))
    assert message_ids(recover(disk)) == [100, 200]
