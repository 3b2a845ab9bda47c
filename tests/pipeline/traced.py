"""A data source that counts, and writes down who calls what in which process: knows nothing of brokers.

A line of the file that the option `trace` names is a call: its name, the process, what it was called with, and what
Ctrl-C would meet there.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from attrs import frozen
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

__all__ = ["Call", "TracedSource", "calls_in"]

ROWS, ROWS_PER_BATCH = 4, 2


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


class TracedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are `{"at": number}`; there are ROWS rows, and no more come."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._note("__init__")

    def _note(self, name: str, *values: object) -> None:
        with open(self._path, "a") as stream:
            ignores = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            stream.write(json.dumps([name, os.getpid(), values, os.getpgid(0), ignores]) + "\n")

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


class TracedSource(DataSource):
    """The format `traced`."""

    @classmethod
    def name(cls) -> str:
        return "traced"

    def schema(self) -> str:
        return "number bigint"

    def streamReader(self, schema: StructType) -> TracedReader:
        return TracedReader(self.options["trace"])
