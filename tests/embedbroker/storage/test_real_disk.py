"""The journal on real files: killed writers, and tails that are cut off, zeroed or overwritten with garbage."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from embedbroker.kernel import QueueDefinition
from embedbroker.runtime._disk import FileDisk
from embedbroker.storage import (
    Allocate,
    Disk,
    DiskFault,
    FaultKind,
    Journal,
    JournalState,
    Read,
    Sync,
    WriteAt,
    inspect_journal,
    repair_journal,
)
from tests.embedbroker.storage.journal_model import NOW, SMALL, StoredMessage

# Writes messages with a deliberate gap in every batch, and prints which ones are confirmed.
WRITER = """
import sys
from tests.embedbroker.storage.test_real_disk import add, drive, opened
from embedbroker.runtime._disk import FileDisk
disk = FileDisk(sys.argv[1])
journal = opened(disk)
message_id = int(sys.argv[2])
while True:
    for _ in range(message_id % 7 + 1):
        add(journal, message_id)
        message_id += 1
    if message_id > int(sys.argv[2]) + 40:
        journal.acknowledge(message_id - 40, 1, 0)
    drive(journal, disk)
    print(message_id - 1, flush=True)
"""


def drive(journal: Journal, disk: Disk) -> None:
    while works := journal.take_work():
        for work in works:
            try:
                results = disk.run(work.operations)
            except DiskFault as fault:
                journal.on_disk_failed(work.batch, fault, NOW)
            else:
                journal.on_disk_done(work.batch, results, NOW)


def opened(disk: Disk) -> Journal:
    journal = Journal(SMALL)
    journal.open(NOW)
    drive(journal, disk)
    if journal.state is JournalState.READY:
        assert journal.recovered is not None
        if not journal.recovered.queues:
            journal.add_queue(QueueDefinition(1, "q", "q", 1))
    return journal


def add(journal: Journal, message_id: int) -> None:
    journal.add_message(StoredMessage(message_id, bytes([message_id % 251]) * (message_id % 900)), 0, [(1, message_id)])


def ids(journal: Journal) -> list[int]:
    assert journal.recovered is not None, journal.failure
    messages = journal.recovered.take_messages(1 << 20)
    assert all(each.raw == bytes([each.message_id % 251]) * (each.message_id % 900) for each in messages)
    return [each.message_id for each in messages]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FileDisk]:
    disk = FileDisk(tmp_path)
    yield disk
    disk.close()


def written(disk: FileDisk, count: int) -> Path:
    """A journal with one message in each batch, not sealed; returns the file with its end."""
    journal = opened(disk)
    for message_id in range(100, 100 + count):
        add(journal, message_id)
        drive(journal, disk)
    return disk.directory / journal.statistics().segments[-1].name


def used_bytes(file: Path) -> int:
    return (len(file.read_bytes().rstrip(b"\0")) + 511) // 512 * 512


def test_a_killed_writer_loses_nothing_it_confirmed(disk: FileDisk) -> None:
    first = 100
    for _ in range(3):
        command = [sys.executable, "-c", WRITER, str(disk.directory), str(first)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])
        assert writer.stdout is not None
        with writer.stdout:
            confirmed = [int(writer.stdout.readline()) for _ in range(60)][-1]
            writer.kill()
            confirmed = max([confirmed, *[int(line) for line in writer.stdout.read().split("\n")[:-1]]])
        writer.wait()
        journal = opened(disk)
        found = set(ids(journal))
        # Acknowledgements stay 32 messages and more behind what is confirmed.
        assert set(range(confirmed - 31, confirmed + 1)) <= found
        first = max(found) + 1


@pytest.mark.parametrize("left", [0, 1, 63, 64, 100, 511, 512, 700, 1023])
def test_a_file_cut_short(disk: FileDisk, left: int) -> None:
    file = written(disk, 4)
    end = used_bytes(file)
    with file.open("r+b") as handle:
        handle.truncate(end - 512 + left if left < 512 else end)
    journal = opened(disk)
    found = ids(journal)
    assert found in ([100, 101, 102], [100, 101, 102, 103])
    add(journal, 200)
    drive(journal, disk)
    assert ids(opened(disk)) == [*found, 200]


@pytest.mark.parametrize("tail", ["zeros", "garbage", "half a batch"])
def test_a_tail_that_was_never_confirmed(disk: FileDisk, tail: str) -> None:
    file = written(disk, 4)
    end = used_bytes(file)
    data = file.read_bytes()
    with file.open("r+b") as handle:
        handle.seek(end)
        if tail == "garbage":
            handle.write(Random(1).randbytes(3000))
        elif tail == "half a batch":
            handle.write(data[end - 512 : end - 512 + 200])
        else:
            handle.write(bytes(3000))
    journal = opened(disk)
    assert ids(journal) == [100, 101, 102, 103]
    assert len(journal.notes) == (tail != "zeros")
    copies = list(disk.directory.glob("torn-*.copy"))
    assert [copy.read_bytes()[:200] for copy in copies] == ([file.read_bytes()[end : end + 200]] if copies else [])
    assert len(copies) == len(journal.notes)
    add(journal, 200)
    drive(journal, disk)
    last = opened(disk)
    assert ids(last) == [100, 101, 102, 103, 200] and last.notes == []


def test_damage_in_the_middle_is_refused_and_the_salvaged_copy_starts(disk: FileDisk, tmp_path: Path) -> None:
    file = written(disk, 6)
    content = bytearray(file.read_bytes())
    content[used_bytes(file) - 1200] ^= 1
    file.write_bytes(bytes(content))
    journal = opened(disk)
    assert journal.state is JournalState.FAILED
    assert journal.failure is not None and file.name in journal.failure
    assert inspect_journal(disk).refusal is not None
    (tmp_path / "copy").mkdir()
    copy = FileDisk(tmp_path / "copy")
    report = repair_journal(disk, copy, SMALL, NOW)
    assert report.messages == 5 and len(report.findings) == 1
    assert len(ids(opened(copy))) == 5
    copy.close()


def test_a_file_system_that_is_full_is_said_to_be_full(disk: FileDisk) -> None:
    with pytest.raises(DiskFault) as raised:
        disk.run((Allocate("huge", 1 << 50),))
    assert raised.value.file == "huge"
    # Some file systems say that the file is too large rather than that they are full.
    assert raised.value.kind in (FaultKind.FULL, FaultKind.FAILED)


def test_a_write_that_fails_fails_the_journal_and_space_heals_it(disk: FileDisk) -> None:
    """A limit on the size of files stands in for a full disk: it fails writes to the segment in the same way."""
    journal = opened(disk)
    add(journal, 100)
    drive(journal, disk)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        add(journal, 101)
        drive(journal, disk)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert journal.state is JournalState.FAILED and journal.failure is not None
    assert journal.reached < journal.point()
    assert ids(opened(disk)) == [100]


def test_what_a_thread_works_on_stays_open_while_another_opens_many_files(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    names = [f"f{number}" for number in range(60)]
    disk.run(tuple([operation for name in names for operation in (WriteAt(name, 0, (b"x",)), Sync(name))]))
    reader = threading.Thread(target=disk.run, args=((Read("f0", 0, 1),),))
    reader.start()
    reader.join()
    for name in names[1:]:
        disk.run((Read(name, 0, 1),))
    assert "f0" in disk.open_files
    assert len(disk.open_files) <= 17
    disk.close()
