"""The format `faulty`: `embedbroker`, with faults where a file says so.

A fault is a file in the folder of the option `faults`, named by its point. Whoever comes to the point first takes the
file away and does what its content says: `kill GROUP` ends the driver, as kill -9 does, and `executor` the executor of
this task; `fail` raises; `hold` waits for ever, so that another attempt wins.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

from embedbroker.pipeline import EmbedbrokerDataSource
from embedbroker.pipeline._sink import BatchWriter, StreamWriter, Written, task_context
from embedbroker.pipeline._sink_options import SinkOptions

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

POINTS = ("before-write", "after-prepare", "before-commit", "after-commit")


def meet(faults: str, point: str) -> None:
    """Do what is planned for this point, once."""
    path = Path(faults) / point
    try:
        plan = path.read_text()
        path.rename(path.with_suffix(".met"))
    except FileNotFoundError:
        return
    word, _, group = plan.partition(" ")
    if word == "kill":
        os.killpg(int(group), signal.SIGKILL)
        os._exit(1)
    if word == "executor":
        # A worker is a child of the daemon that forks them, and that one of the executor.
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
        os._exit(1)
    if word == "hold":
        signal.pause()
    raise RuntimeError(f"planned: {point}")


class FaultyStreamWriter(StreamWriter):
    def __init__(self, faults: str, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        self._faults = faults

    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        meet(self._faults, "before-write")
        written = super().write(iterator)
        meet(self._faults, f"after-prepare-{task_context().partitionId()}")
        meet(self._faults, "after-prepare")
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

    def _taken(self) -> tuple[str, SinkOptions]:
        values = dict(self.options)
        return values.pop("faults"), SinkOptions.parse(values)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return FaultyBatchWriter(*self._taken(), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return FaultyStreamWriter(*self._taken(), schema, overwrite)
