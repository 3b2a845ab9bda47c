"""A data source that counts, and records each call with its caller and process: does not depend on brokers.

A line of the file that the option `trace` names is a call: its name, the process, what it was called with, and what
Ctrl-C would meet there. Its writers take any rows, and fail where the option `failing` requests it.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from attrs import frozen
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    GreaterThan,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

__all__ = ["PROPERTIES", "Call", "TracedSource", "calls_in"]

ROWS, ROWS_PER_BATCH = 4, 2
# What the sink reads of a task.
PROPERTIES = ("sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id")


@frozen
class Call:
    """One call."""

    name: str
    pid: int
    values: tuple[object, ...]
    group: int
    ignores_ctrl_c: bool


def calls_in(path: Path) -> list[Call]:
    """What was written down, in order."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Call(name, pid, tuple(values), *rest) for name, pid, values, *rest in map(json.loads, lines)]


def note(path: str, name: str, *values: object) -> None:
    """Write a call down."""
    with open(path, "a") as stream:
        ignores = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        stream.write(json.dumps([name, os.getpid(), values, os.getpgid(0), ignores]) + "\n")


class TracedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are `{"at": number}`; there are ROWS rows, and no more come."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._note("__init__")

    def _note(self, name: str, *values: object) -> None:
        note(self._path, name, *values)

    def initialOffset(self) -> dict[str, int]:
        self._note("initialOffset")
        return {"at": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        self._note("getDefaultReadLimit")
        return ReadMaxRows(ROWS_PER_BATCH)

    def prepareForTriggerAvailableNow(self) -> None:
        self._note("prepareForTriggerAvailableNow")

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        self._note("latestOffset", start["at"], type(limit).__name__)
        return {"at": min(ROWS, start["at"] + ROWS_PER_BATCH)}

    def reportLatestOffset(self) -> dict[str, int]:
        self._note("reportLatestOffset")
        return {"at": ROWS}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        self._note("partitions", start["at"], end["at"])
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        self._note("read", *partition.value)
        yield pa.RecordBatch.from_pydict({"number": list(range(*partition.value))})

    def commit(self, end: dict[str, int]) -> None:
        self._note("commit", end["at"])

    def stop(self) -> None:
        self._note("stop")


class TracedBatchReader(DataSourceReader):
    """One partition with ROWS rows, whatever was asked for; none if `is_empty`."""

    def __init__(self, path: str, *, is_empty: bool) -> None:
        self._path = path
        self._is_empty = is_empty
        self._taken: list[str] = []
        note(path, "__init__")

    def partitions(self) -> list[InputPartition]:
        note(self._path, "partitions", *self._taken)
        return [] if self._is_empty else [InputPartition(ROWS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        note(self._path, "read", partition.value, *self._taken)
        numbers = pa.array(range(partition.value or 0), pa.int64())
        yield pa.RecordBatch.from_arrays([numbers], names=["number"])


class TracedPushingReader(TracedBatchReader):
    """The same; claims the filter `>`, which it does not apply."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        note(self._path, "pushFilters")
        for found in filters:
            if isinstance(found, GreaterThan):
                self._taken.append(f"{'.'.join(found.attribute)} > {found.value}")
            else:
                yield found


@frozen
class Done(WriterCommitMessage):
    """Which attempt wrote a partition."""

    partition: int
    attempt: int


class TracedWriter:
    """What writers of batches and of streams have in common here.

    `failing` is `once` for the first attempt of partition 0, `always` for all of its attempts, `commit` for that.
    """

    def __init__(self, path: str, failing: str) -> None:
        self._path = path
        self._failing = failing
        self._made_by = os.getpid()
        note(path, "__init__")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Done:
        task = TaskContext.get()
        assert task is not None
        found = Done(task.partitionId(), task.attemptNumber())
        properties = [task.getLocalProperty(name) for name in PROPERTIES]
        note(self._path, "write", self._made_by, found.partition, found.attempt, *properties)
        fails = self._failing == "always" or (self._failing == "once" and found.attempt == 0)
        if fails and found.partition == 0:
            raise RuntimeError("planned: write")
        for _ in iterator:
            pass
        return found

    def _end(self, name: str, messages: Sequence[WriterCommitMessage | None], *values: int) -> None:
        found = [[each.partition, each.attempt] if isinstance(each, Done) else each for each in messages]
        note(self._path, name, self._made_by, found, *values)
        if name == self._failing:
            raise RuntimeError(f"planned: {name}")


class TracedBatchWriter(TracedWriter, DataSourceArrowWriter):
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._end("commit", messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._end("abort", messages)


class TracedStreamWriter(TracedWriter, DataSourceStreamArrowWriter):
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        self._end("commit", messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        self._end("abort", messages, batchId)


class TracedSource(DataSource):
    """The format `traced`. The option `partitions` is `none` for a batch without any, `pushing` is for its filters."""

    @classmethod
    def name(cls) -> str:
        return "traced"

    def schema(self) -> str:
        return "number bigint"

    def streamReader(self, schema: StructType) -> TracedReader:
        return TracedReader(self.options["trace"])

    def reader(self, schema: StructType) -> TracedBatchReader:
        kind = TracedPushingReader if "pushing" in self.options else TracedBatchReader
        return kind(self.options["trace"], is_empty=self.options.get("partitions") == "none")

    def writer(self, schema: StructType, overwrite: bool) -> TracedBatchWriter:
        return TracedBatchWriter(self.options["trace"], self.options.get("failing", ""))

    def streamWriter(self, schema: StructType, overwrite: bool) -> TracedStreamWriter:
        return TracedStreamWriter(self.options["trace"], self.options.get("failing", ""))
