"""Journals as Spark DataFrames: one task per segment file, rows in Arrow batches.

Responsible for reading journals in parallel, live directories included, and for the frames `records`, `messages`,
`acknowledgements` and `transactions`. Does not judge their contents: `_audit` does. Files are read where the task runs,
so on a cluster every executor must see them under the same path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count as counting
from typing import TYPE_CHECKING

import pyarrow as pa
from attrs import frozen
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

from embedbroker.storage import RecordArrays, RecordKind, SegmentHeader, SegmentScan, read_header, read_records

from ._audit_blocks import COLUMNS, SUMMARY_TYPES, joined, summary
from ._journal_files import JournalSource, opened_segment
from ._journal_records import ARROW_TYPES, CUT, END, FINDING, Reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Selection", "each_of", "rows_of", "segment_rows", "spark_schema", "summaries_of"]

_SPARK_TYPES: dict[pa.DataType, DataType] = {
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.int16(): ShortType(),
    pa.bool_(): BooleanType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
}
# A task costs some 50 ms beside its reading, which takes 40 ms for a segment of 10 MiB.
_TASKS_PER_CORE, _SEGMENTS_PER_TASK_MAX = 4, 16
_LOOKS, _NUMBERS_PER_LOOK = counting(1), 1 << 32
_AUDITED = frozenset(RecordKind) - {RecordKind.DUPLICATE_ID, RecordKind.UPDATE_DELIVERY_COUNT, RecordKind.RESERVE_IDS}
# Number of times a damaged segment is read again: a broker's write under way looks like damage, too.
_READS = 3


@frozen
class Selection:
    """Select the data to read: columns of the rows, kinds of records (None: all), and properties with senders."""

    columns: tuple[str, ...]
    kinds: frozenset[int] | None = None
    producer: str | None = None
    sequence: str | None = None

    @property
    def schema(self) -> StructType:
        """Return the schema of the rows in Spark's types."""
        return spark_schema({name: ARROW_TYPES[name] for name in self.columns})


@frozen
class SegmentTask:
    """Describe to a worker the segment that it reads."""

    source: int
    path: str
    member: str | None
    name: str
    newest: bool


def rows_of(spark: SparkSession, sources: Sequence[JournalSource], selection: Selection) -> DataFrame:
    """Return one row per record and reference, and also rows of the kinds `FINDING`, `END` and `CUT`."""
    tasks = _tasks(sources)
    return each_of(spark, len(tasks), lambda number: segment_rows(tasks[number], selection), selection.schema)


def summaries_of(
    spark: SparkSession, sources: Sequence[JournalSource], forks: Mapping[int, int] | None = None
) -> DataFrame:
    """Return the data of each segment that an audit needs.

    Args:
        forks: by number of a source, the last batch that a copy shares with another one.
    """
    tasks, selection = _tasks(sources), Selection(COLUMNS, _AUDITED)

    def summarised(number: int) -> Iterator[pa.RecordBatch]:
        fork = None if forks is None else forks.get(tasks[number].source)
        yield joined(list(summary(list(segment_rows(tasks[number], selection)), fork)))

    return each_of(spark, len(tasks), summarised, spark_schema(SUMMARY_TYPES))


def each_of(
    spark: SparkSession, count: int, work: Callable[[int], Iterator[pa.RecordBatch]], schema: StructType
) -> DataFrame:
    """Return the results of ``work`` for the numbers below ``count``: a task for each, or for a few if there are many.

    No two of these frames are equal to Spark. Otherwise it would reuse data that it keeps of an earlier reading of the
    same files or queues.
    """
    first = next(_LOOKS) * _NUMBERS_PER_LOOK

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(number - first)

    at_once = spark.sparkContext.defaultParallelism * _TASKS_PER_CORE
    parts = max(1, min(count, max(at_once, count // _SEGMENTS_PER_TASK_MAX)))
    return spark.range(first, first + count, 1, parts).mapInArrow(run, schema)


def _tasks(sources: Sequence[JournalSource]) -> list[SegmentTask]:
    return [
        SegmentTask(each.source, each.path, each.member, each.name, each.newest)
        for source in sources
        for each in source.segments
    ]


def spark_schema(types: Mapping[str, pa.DataType]) -> StructType:
    """Return the columns of Arrow in Spark's types."""
    return StructType([StructField(name, _SPARK_TYPES[kind]) for name, kind in types.items()])


def segment_rows(task: SegmentTask, selection: Selection) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one segment; the last batch contains the end of the reading."""
    source, name = task.source, task.name
    try:
        with opened_segment(task.path, task.member, name) as (size, read_at):
            header = read_header(read_at(0, 4096))
            if isinstance(header, str):
                yield _notes(selection, source, None, [(CUT, 0, 0, f"{name}: {header}")])
                return
            reader = Reader(
                source, header, selection.columns, selection.kinds, selection.producer, selection.sequence, task.newest
            )
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
) -> tuple[list[RecordArrays], SegmentScan]:
    """Return the stretches of a segment, all at once: half of a batch under way would look like damage."""
    for attempt in range(_READS):
        stretches: list[RecordArrays] = []
        for part in read_records(name, size, read_at):
            if isinstance(part, RecordArrays):
                stretches.append(part)
            elif not part.findings or attempt == _READS - 1:
                return stretches, part
    raise AssertionError("the last part states how the reading ended")


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
