"""One segment file as stretches of records: the place of each record, in plain arrays, and what could not be read.

Responsible for reading a single segment of any journal, live, copied or damaged, without the other segments.
Responsible, too, for the table of fixed fields by which bulk readers decode records. Makes no object per record, opens
no files, and does not depend on the combined meaning of records.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from struct import Struct
from struct import error as StructError
from types import MappingProxyType

from attrs import Factory, define, frozen

from .._disk import Disk, DiskOperation, ListFiles, Read, Stat
from ..audit._codec import audit_range
from ..journal._batch import BATCH_HEADER_BYTES, BatchExtent
from ..journal._record_codec import PREFIX, RecordKind
from ..journal._segments import FIRST_BATCH_OFFSET, Segment, SegmentHeader, decode_header, segment_range
from ._repair_scan import Finding, RepairScan

__all__ = ["RECORD_FIELDS", "RecordArrays", "ReferenceFields", "SegmentScan", "read_header", "read_records"]

# Name -> (numpy's name of the type, offset in the record). All records begin with size, kind and flags.
Fields = dict[str, tuple[str, int]]
_PREFIX: Fields = {"size": ("<u4", 0), "kind": ("u1", 4), "flags": ("u1", 5)}
_IDENTIFIER: Fields = {**_PREFIX, "identifier": ("<i8", 8)}
_TRANSACTION: Fields = {**_PREFIX, "transaction_id": ("<i8", 8)}

RECORD_FIELDS: MappingProxyType[RecordKind, Fields] = MappingProxyType(
    {
        RecordKind.ADD_MESSAGE: {
            **_PREFIX,
            "encoding": ("u1", 6),
            "priority": ("u1", 7),
            "message_id": ("<i8", 8),
            "transaction_id": ("<i8", 16),
            "expiration": ("<i8", 24),
            "timestamp": ("<i8", 32),
            "wall_ms": ("<i8", 40),
            "deliver_at": ("<i8", 48),
            "references": ("<u4", 56),
            "raw_size": ("<u4", 60),
        },
        RecordKind.ACKNOWLEDGE: {
            **_PREFIX,
            "message_id": ("<i8", 8),
            "queue_id": ("<i8", 16),
            "transaction_id": ("<i8", 24),
        },
        RecordKind.UPDATE_DELIVERY_COUNT: {
            **_PREFIX,
            "message_id": ("<i8", 8),
            "queue_id": ("<i8", 16),
            "count": ("<u4", 24),
        },
        RecordKind.PREPARE: _TRANSACTION,
        RecordKind.COMMIT: _TRANSACTION,
        RecordKind.ROLLBACK: _TRANSACTION,
        RecordKind.REMOVE_ADDRESS: _IDENTIFIER,
        RecordKind.REMOVE_QUEUE: _IDENTIFIER,
    }
)


class ReferenceFields:
    """Pairs of i64 that stand behind the fixed fields: queue id and position (ADD_MESSAGE) or first position
    (COMMIT)."""

    OF_MESSAGE = 64
    OF_COMMIT = 16
    SIZE = 16


_size = Struct("<I").unpack_from
_SLICE_BYTES = 4 * 1024 * 1024


@define(eq=False)
class RecordArrays:
    """The records of consecutive batches.

    ``starts`` are offsets in ``data``; ``base`` + start is the offset in the file.

    Each batch has its number, the broker's wall time (Unix ms) when it was put together, and the number of its records
    in ``starts``.
    """

    data: bytes
    base: int
    starts: array[int] = Factory(lambda: array("q"))
    batches: array[int] = Factory(lambda: array("q"))
    walls_ms: array[int] = Factory(lambda: array("q"))
    counts: array[int] = Factory(lambda: array("q"))


@frozen
class SegmentScan:
    """The outcome of reading a file: its header, None if that is damaged, and the end of its last whole batch."""

    header: SegmentHeader | None
    end: int
    last_batch: int
    findings: tuple[Finding, ...]


@frozen
class _OneFile:
    """A disk that holds one segment."""

    name: str
    size: int
    read_at: Callable[[int, int], bytes]

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        return tuple([self._answer(operation) for operation in operations])

    def _answer(self, operation: DiskOperation) -> object:
        match operation:
            case ListFiles():
                return (self.name,)
            case Stat():
                return self.size
            case Read(_, offset, count):
                return self.read_at(offset, count)
            case _:
                raise AssertionError("reading a segment changes nothing")


def read_header(data: bytes) -> SegmentHeader | str:
    """Return the header in the first 4,096 bytes of a segment file, or a description of its damage."""
    return decode_header(data[:FIRST_BATCH_OFFSET])


def read_records(
    name: str, size: int, read_at: Callable[[int, int], bytes], *, slice_bytes: int = _SLICE_BYTES
) -> Iterator[RecordArrays | SegmentScan]:
    """Read the segment file ``name``, of a journal or an audit log, of ``size`` bytes; a `SegmentScan` comes last.

    ``read_at(offset, count)`` must answer like ``os.pread``. Whole batches behind damage are read; each damage is a
    finding. A stretch takes about ``slice_bytes`` (4 MiB by default), or one batch where that is larger.

    Raises:
        ValueError: ``name`` is not a name of a segment file.
        Exception: the exception that ``read_at`` raised.
    """
    range_of = segment_range if segment_range(name) is not None else audit_range
    if range_of(name) is None:
        raise ValueError(f"{name!r} is not the name of a segment file")
    gathered = _Gathered(name)
    walk = RepairScan(gathered.on_batch, slice_bytes=slice_bytes, range_of=range_of)
    disk: Disk = _OneFile(name, size, read_at)
    header = read_header(read_at(0, FIRST_BATCH_OFFSET))
    steps = walk.run()
    request = next(steps, None)
    while request is not None:
        assert isinstance(request, tuple)
        results = disk.run(request)
        try:
            request = steps.send(results)
        except StopIteration:
            request = None
        # A stretch is whole when the walk requests other bytes.
        yield from gathered.take()
    end = walk.segments[0].end if walk.segments else 0
    yield SegmentScan(
        header if walk.segments and not isinstance(header, str) else None,
        end,
        gathered.last_batch,
        (*walk.findings, *gathered.findings),
    )


def _note_starts(data: bytes, position: int, end: int, note: Callable[[int], None]) -> bool:
    """Note where each record begins; return False if the last one noted makes no sense.

    Hot: a check that can be made behind the last record is not made for each record.
    """
    size_of, smallest, start = _size, PREFIX.size, position
    try:
        while position < end:
            start = position
            note(start)
            (size,) = size_of(data, start)
            if size < smallest:
                return False
            position = start + size
    except StructError:
        return False
    return position == end


@define(eq=False)
class _Gathered:
    file: str
    last_batch: int = 0
    findings: list[Finding] = Factory(list)
    _stretches: list[RecordArrays] = Factory(list)
    _data: bytes | None = None

    def on_batch(self, _segment: Segment, data: bytes, batch: BatchExtent) -> None:
        if data is not self._data:
            self._data = data
            base = batch.offset + BATCH_HEADER_BYTES - batch.start
            self._stretches.append(RecordArrays(data, base))
        stretch = self._stretches[-1]
        starts = stretch.starts
        before = len(starts)
        if not _note_starts(data, batch.start, batch.end, starts.append):
            text = f"a record of batch {batch.number} makes no sense; the rest of the batch is left out"
            self.findings.append(Finding(self.file, stretch.base + starts.pop(), text))
        stretch.batches.append(batch.number)
        stretch.walls_ms.append(batch.wall_ms)
        stretch.counts.append(len(starts) - before)
        self.last_batch = batch.number

    def take(self) -> list[RecordArrays]:
        taken, self._stretches, self._data = self._stretches, [], None
        return taken
