"""Audit logs read record by record, for tests: what is in them, in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from attrs import frozen

from embedbroker.storage import AUDIT_FIELDS, AuditRecordKind, RecordArrays, SegmentScan, audit_number, read_records

__all__ = ["AuditEntry", "entries_in", "entries_of", "files_in"]

_TYPES = {"<u4": 4, "u1": 1, "<i8": 8}


@frozen
class AuditEntry:
    """One record. ``facts`` are its fields by name, or its JSON."""

    segment: int
    wall_ms: int
    kind: AuditRecordKind
    facts: Mapping[str, object]

    @property
    def name(self) -> str:
        return self.kind.name


def files_in(directory: Path) -> dict[str, bytes]:
    """The segments of an audit log by name, oldest first."""
    names = sorted(path.name for path in directory.iterdir() if audit_number(path.name) is not None)
    return {name: (directory / name).read_bytes() for name in names}


def entries_in(directory: Path) -> list[AuditEntry]:
    """Everything in a directory; damage fails."""
    return list(entries_of(files_in(directory)))


def entries_of(files: Mapping[str, bytes]) -> Iterator[AuditEntry]:
    """Everything in these segments; damage fails."""
    for name, data in sorted(files.items()):
        number = audit_number(name)
        if number is None:
            continue
        for part in read_records(name, len(data), _reader(data)):
            if isinstance(part, SegmentScan):
                assert part.header is not None and not part.findings, (name, part.findings)
            else:
                yield from _entries(number, part)


def _reader(data: bytes) -> Callable[[int, int], bytes]:
    return lambda offset, count: data[offset : offset + count]


def _entries(segment: int, stretch: RecordArrays) -> Iterator[AuditEntry]:
    walls = [wall for wall, count in zip(stretch.walls_ms, stretch.counts, strict=True) for _ in range(count)]
    for start, wall_ms in zip(stretch.starts, walls, strict=True):
        record = stretch.data[start : start + int.from_bytes(stretch.data[start : start + 4], "little")]
        kind = AuditRecordKind(record[4])
        yield AuditEntry(segment, wall_ms, kind, _facts(kind, record))


def _facts(kind: AuditRecordKind, record: bytes) -> dict[str, object]:
    fields = AUDIT_FIELDS.get(kind)
    if fields is None:
        facts: dict[str, object] = json.loads(record[8:])
        return facts
    read: dict[str, object] = {
        name: int.from_bytes(record[offset : offset + _TYPES[form]], "little", signed=form == "<i8")
        for name, (form, offset) in fields.items()
    }
    if kind is AuditRecordKind.COMMITTED:
        ids = [int.from_bytes(record[at : at + 8], "little") for at in range(16, len(record), 8)]
        read["transaction_ids"] = ids
    return read
