"""A segment file as stretches of records: the same records that `journal_rows` lists, whatever is damaged."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from embedbroker.kernel import QueueDefinition
from embedbroker.runtime._disk import FileDisk
from embedbroker.storage import (
    RECORD_FIELDS,
    Finding,
    Journal,
    JournalSettings,
    RecordArrays,
    RecordKind,
    SegmentScan,
    journal_rows,
    read_records,
)
from tests.embedbroker.storage.journal_model import NOW, StoredMessage
from tests.embedbroker.storage.test_real_disk import drive

MESSAGES = 400


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A journal of several segments: batches of ten messages, the first of each acknowledged."""
    disk = FileDisk(tmp_path)
    journal = Journal(JournalSettings(identity=7, segment_size_bytes=64 * 1024))
    journal.open(NOW)
    drive(journal, disk)
    journal.add_queue(QueueDefinition(1, "q", "q", 1))
    for number in range(MESSAGES):
        journal.add_message(StoredMessage(1000 + number, bytes(500)), 0, [(1, 1000 + number)])
        if number % 10 == 9:
            journal.acknowledge(1000 + number - 9, 1, 0)
            drive(journal, disk)
    drive(journal, disk)
    disk.close()
    return tmp_path


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("segment-*.journal"))


def read(path: Path, slice_bytes: int) -> tuple[list[tuple[str, int, int, str]], SegmentScan]:
    """(file, offset, batch, kind) of each record, and how the reading ended."""
    found: list[tuple[str, int, int, str]] = []
    with path.open("rb") as file:
        parts = read_records(
            path.name,
            path.stat().st_size,
            lambda at, count: os.pread(file.fileno(), count, at),
            slice_bytes=slice_bytes,
        )
        for part in parts:
            if isinstance(part, SegmentScan):
                return found, part
            found += records(path.name, part)
    raise AssertionError("a reading ends with a report")


def records(file: str, stretch: RecordArrays) -> list[tuple[str, int, int, str]]:
    starts = iter(stretch.starts)
    return [
        (file, stretch.base + start, batch, RecordKind(stretch.data[start + 4]).name)
        for batch, count in zip(stretch.batches, stretch.counts, strict=True)
        for start in [next(starts) for _ in range(count)]
    ]


def listed(directory: Path) -> list[tuple[str, int, int, str]]:
    rows = journal_rows(FileDisk(directory, read_only=True))
    return [(row.file, row.offset, row.batch, row.kind) for row in rows if not isinstance(row, Finding)]


@pytest.mark.parametrize("slice_bytes", [4096, 100_000, 4 * 1024 * 1024])
def test_all_records_are_found_however_large_the_slices_are(directory: Path, slice_bytes: int) -> None:
    readings = [read(path, slice_bytes) for path in segments(directory)]
    assert len(readings) > 3
    assert [record for found, _ in readings for record in found] == listed(directory)
    kinds = Counter(record[3] for found, _ in readings for record in found)
    assert (kinds["ADD_MESSAGE"], kinds["ACKNOWLEDGE"]) == (MESSAGES, MESSAGES // 10)
    for number, (_, reading) in enumerate(readings, 1):
        assert reading.header is not None
        assert (reading.header.generation, reading.findings) == (number, ())


def test_what_stands_behind_damage_is_read_and_the_damage_is_reported(directory: Path) -> None:
    path = segments(directory)[1]
    whole, before = read(path, 100_000)
    place = whole[len(whole) // 2][1] + 100
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"\xff")
    found, reading = read(path, 100_000)
    assert found == [record for record in listed(directory) if record[0] == path.name]
    lost = {record[2] for record in whole} - {record[2] for record in found}
    assert len(lost) == 1
    assert reading.end == before.end
    assert f"the checksum of batch {lost.pop()}" in reading.findings[0].text


def test_a_damaged_header_leaves_nothing_to_read(directory: Path) -> None:
    path = segments(directory)[0]
    with path.open("r+b") as file:
        file.write(b"\xff")
    found, reading = read(path, 100_000)
    assert (found, reading.header, reading.end) == ([], None, 0)
    assert "header" in reading.findings[0].text


def test_a_name_that_is_no_segments_is_refused() -> None:
    with pytest.raises(ValueError, match="not the name of a segment"):
        next(read_records("spare-0000000001.journal", 0, lambda _at, _count: b""))


def test_the_table_of_fields_is_that_of_the_codec() -> None:
    """Sizes of numpy's types, by which others read, against the layouts that the journal writes."""
    from embedbroker.storage.journal import _record_codec as codec

    layouts = {
        RecordKind.ADD_MESSAGE: codec.ADD_MESSAGE,
        RecordKind.ACKNOWLEDGE: codec.ACKNOWLEDGE,
        RecordKind.UPDATE_DELIVERY_COUNT: codec.UPDATE_DELIVERY_COUNT,
        RecordKind.COMMIT: codec.TRANSACTION,
        RecordKind.REMOVE_QUEUE: codec.IDENTIFIER,
    }
    for kind, layout in layouts.items():
        ends = [offset + int(name[-1]) for name, offset in RECORD_FIELDS[kind].values()]
        assert max(ends) == layout.size
        values = layout.unpack(bytes(range(1, layout.size + 1)))
        data = bytes(range(1, layout.size + 1))
        for name, offset in RECORD_FIELDS[kind].values():
            assert int.from_bytes(data[offset : offset + int(name[-1])], "little") in values
