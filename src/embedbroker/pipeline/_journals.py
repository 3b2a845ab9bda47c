"""Journals as Spark DataFrames: one task per segment file, rows in Arrow batches.

Responsible for reading journals in parallel, live directories included, and for the frames `records`, `messages`,
`acknowledgements` and `transactions`. Refuses to judge what they say: `_audit` does. Files are read where the task runs, so
on a cluster every executor has to see them under the same path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import pyarrow as pa
from attrs import frozen
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from embedbroker.storage import RecordKind, RecordStretch, SegmentHeader, SegmentReading, read_header, read_records

from ._journal_files import JournalSource, SegmentFile, journal_sources, opened_segment
from ._journal_records import ARROW_TYPES, CUT, END, FINDING, MESSAGE_COLUMNS, Reader

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["Selection", "rows_of"]

_SPARK_TYPES: dict[pa.DataType, DataType] = {
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.int16(): ShortType(),
    pa.bool_(): BooleanType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
}
_TASK_SCHEMA = "source int, path string, member string, name string, newest boolean"
# How often a segment with damage is read again: what a broker is writing at this moment looks damaged, too.
_READS = 3
RECORD_COLUMNS = tuple(name for name in ARROW_TYPES if name not in MESSAGE_COLUMNS)
Place = str | PathLike[str]


@frozen
class Selection:
    """What to read: columns of the rows, kinds of records (None: all), and the properties that name senders."""

    columns: tuple[str, ...]
    kinds: frozenset[int] | None = None
    producer: str | None = None
    sequence: str | None = None

    @property
    def schema(self) -> StructType:
        """Of the rows in Spark's words."""
        return StructType([StructField(name, _SPARK_TYPES[ARROW_TYPES[name]]) for name in self.columns])


def rows_of(spark: SparkSession, sources: Sequence[JournalSource], selection: Selection) -> DataFrame:
    """One row per record and reference, with rows of the kinds `FINDING`, `END` and `CUT` beside them."""
    segments = [segment for source in sources for segment in source.segments]
    rows = [(each.source, each.path, each.member, each.name, each.newest) for each in segments]
    parts = max(1, min(len(rows), 10_000))
    tasks = spark.sparkContext.parallelize(rows, parts)
    return spark.createDataFrame(tasks, _TASK_SCHEMA, verifySchema=False).mapInArrow(_reading(selection), selection.schema)


def _reading(selection: Selection) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.to_pylist():
                yield from _segment_rows(task["source"], task["path"], task["member"], task["name"], selection)

    return read


def _segment_rows(
    source: int, path: str, member: str | None, name: str, selection: Selection
) -> Iterator[pa.RecordBatch]:
    try:
        with opened_segment(path, member, name) as (size, read_at):
            header = read_header(read_at(0, 4096))
            if isinstance(header, str):
                yield _notes(selection, source, None, [(CUT, 0, 0, f"{name}: {header}")])
                return
            reader = Reader(source, header, selection.columns, selection.kinds, selection.producer, selection.sequence)
            stretches, reading = _read_steadily(name, size, read_at)
            for stretch in stretches:
                batch = reader.rows(stretch)
                if batch is not None:
                    yield batch
            if read_header(read_at(0, 4096)) != header:
                yield _notes(selection, source, header, [(CUT, 0, 0, f"{name} was used anew while it was read")])
                return
        notes = [(FINDING, each.offset, 0, f"{name}: {each.text}") for each in reading.findings]
        notes += [(FINDING, each.offset, 0, f"{name}: {each.text}") for each in reader.damage]
        yield _notes(selection, source, header, [*notes, (END, reading.end, reading.last_batch, name)])
    except FileNotFoundError:
        yield _notes(selection, source, None, [(CUT, 0, 0, f"{name} was removed before it was read")])


def _read_steadily(
    name: str, size: int, read_at: Callable[[int, int], bytes]
) -> tuple[list[RecordStretch], SegmentReading]:
    """The stretches of a segment, all of them at once: half of a batch under way would look like damage."""
    for attempt in range(_READS):
        stretches: list[RecordStretch] = []
        for part in read_records(name, size, read_at):
            if isinstance(part, RecordStretch):
                stretches.append(part)
            elif not part.findings or attempt == _READS - 1:
                return stretches, part
    raise AssertionError("the last part says how the reading ended")


def _notes(
    selection: Selection, source: int, header: SegmentHeader | None, notes: list[tuple[int, int, int, str]]
) -> pa.RecordBatch:
    values: dict[str, list[object]] = {
        "kind": [kind for kind, *_ in notes],
        "offset": [offset for _, offset, _, _ in notes],
        "batch": [batch for _, _, batch, _ in notes],
        "text": [text for *_, text in notes],
        "source": [source] * len(notes),
        "journal": [header.identity if header else 0] * len(notes),
        "generation": [header.generation if header else 0] * len(notes),
        "written": [header is not None and not header.compacted] * len(notes),
    }
    nothing = {pa.string(): None, pa.binary(): None}
    arrays = [
        pa.array(values.get(name, [nothing.get(ARROW_TYPES[name], 0)] * len(notes)), ARROW_TYPES[name])
        for name in selection.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(selection.columns))
