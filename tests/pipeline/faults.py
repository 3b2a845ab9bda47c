"""The format `faulty`: `embedbroker`, with faults where a file requests them.

A fault is a file in the folder of the option `faults`, named by its point: `reading`, or `reading-1` for batch 1 alone.
The first process at the point takes the file away and does what its content requests:

- `kill GROUP` ends the driver and all it started, as kill -9 does; `stop GROUP` stops them, as kill -STOP does;
- `executor` ends the executor of this task, `worker` the Python process of this task;
- `fail` raises; `hold` waits for ever, so that another attempt wins;
- `call FIFO` signals the reader of the FIFO that the point is reached, and waits until `FIFO.go` is written.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

from embedbroker.pipeline import EmbedbrokerDataSource
from embedbroker.pipeline._arrow_schema import arrow_schema
from embedbroker.pipeline._offsets import NOTHING_YET
from embedbroker.pipeline._options import SourceOptions
from embedbroker.pipeline._sink import BATCH_ID, BatchWriter, StreamWriter, Written, task_context
from embedbroker.pipeline._sink_options import SinkOptions
from embedbroker.pipeline._source_stream import StreamReader

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema
    from pyspark.sql.streaming.datasource import ReadLimit

SOURCE_POINTS = ("latest", "partitions", "reading", "next-latest", "source-commit")
SINK_POINTS = ("before-write", "writing", "after-prepare", "before-commit", "after-commit")


def meet(faults: str, point: str) -> None:
    """Do what is planned for this point, once."""
    path = Path(faults) / point
    try:
        plan = path.read_text()
        path.rename(path.with_suffix(".met"))
    except FileNotFoundError:
        return
    word, _, argument = plan.partition(" ")
    if word == "kill":
        os.killpg(int(argument), signal.SIGKILL)
    if word == "stop":
        os.killpg(int(argument), signal.SIGSTOP)
        return
    if word == "executor":
        # A worker is a child of the daemon that forks them, and that one of the executor.
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
    if word in ("kill", "executor", "worker"):
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "hold":
        signal.pause()
    if word == "call":
        Path(argument).write_text(point)
        Path(f"{argument}.go").read_text()
        return
    raise RuntimeError(f"planned: {point}")


def meet_in_task(faults: str, point: str) -> None:
    """The same in a task of a stream, whose batch has a number."""
    meet(faults, point)
    meet(faults, f"{point}-{task_context().getLocalProperty(BATCH_ID)}")


def halved(faults: str, point: str, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """The same rows; the point is behind the first half of the first batch."""
    for batch in batches:
        yield batch.slice(0, batch.num_rows // 2)
        meet_in_task(faults, point)
        yield batch.slice(batch.num_rows // 2)


class FaultyReader(StreamReader):
    """Each call is made, and then there may be a fault before Spark gets its end."""

    def __init__(self, faults: str, options: SourceOptions, schema: Schema) -> None:
        super().__init__(options, schema)
        self._faults = faults

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        if start != NOTHING_YET:
            # Spark has noted that the batch before is done, and the broker does not know it.
            meet(self._faults, "next-latest")
        found = super().latestOffset(start, limit)
        meet(self._faults, "latest")
        return found

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        found = super().partitions(start, end)
        meet(self._faults, "partitions")
        return found

    def commit(self, end: dict[str, object]) -> None:
        super().commit(end)
        meet(self._faults, "source-commit")

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        return halved(self._faults, "reading", super().read(partition))


class FaultyStreamWriter(StreamWriter):
    def __init__(self, faults: str, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        self._faults = faults

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        meet_in_task(self._faults, "before-write")
        written = super().write(halved(self._faults, "writing", iterator))
        meet(self._faults, f"after-prepare-of-{task_context().partitionId()}")
        meet_in_task(self._faults, "after-prepare")
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        meet(self._faults, "before-commit")
        super().commit(messages, batchId)
        meet(self._faults, "after-commit")


class FaultyBatchWriter(BatchWriter):
    def __init__(self, faults: str, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        self._faults = faults

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        written = super().write(iterator)
        attempt = task_context().attemptNumber()
        meet(self._faults, f"after-prepare-{task_context().partitionId()}-{attempt}")
        return written


class FaultyDataSource(EmbedbrokerDataSource):
    @classmethod
    def name(cls) -> str:
        return "faulty"

    def _values(self) -> tuple[str, dict[str, str]]:
        values = dict(self.options)
        return values.pop("faults"), values

    def schema(self) -> str:
        return SourceOptions.parse(self._values()[1]).schema

    def streamReader(self, schema: StructType) -> StreamReader:
        faults, values = self._values()
        options = SourceOptions.parse(values)
        return FaultyReader(faults, options, arrow_schema(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        faults, values = self._values()
        return FaultyBatchWriter(faults, SinkOptions.parse(values), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        faults, values = self._values()
        return FaultyStreamWriter(faults, SinkOptions.parse(values), schema, overwrite)
