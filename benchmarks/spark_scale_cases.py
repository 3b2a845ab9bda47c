"""What a row costs as backlogs and partitions grow, and what memory a stream takes: nothing here looks at the clock.

Processor time is that of all processes: the JVM, Spark's Python, and the broker. A micro-batch costs something whatever
is in it; that is measured with batches of one row each, and taken off. So is a query, by one of a single row.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from benchmarks.broker_cases import Effort
from benchmarks.measured import family, family_cpu_seconds, resident_bytes
from benchmarks.report import Row
from benchmarks.spark_cases import BODY_BYTES, fill, running_broker, spark_session
from tests.interop.brokers import EmbeddedBrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB = 2**20
PARTITIONS = (1, 2, 4)
#: Rows of a micro-batch, whatever the backlog is.
BATCH_ROWS = 10_000
#: Backlog: how many queries read one, of which the median counts. A few rows cost less than a JVM's moods.
BACKLOGS = {10_000: 3, 100_000: 1, 1_000_000: 1}
QUICK_BACKLOGS = {10_000: 2, 30_000: 1}
ONE_BY_ONE = 21
FLAT, AIM = 1.2, 1.1


def spark_scale(effort: Effort) -> list[Row]:
    """CPU per row at 1, 2, 4 partitions and 10,000 to 1,000,000 messages, and memory: both flat within 20 %."""
    backlogs = BACKLOGS if effort.rounds > 1 else QUICK_BACKLOGS
    costs: dict[tuple[int, int], float] = {}
    peaks: dict[int, Memory] = {}
    with running_broker() as broker, spark_session() as spark, tempfile.TemporaryDirectory() as name:
        run = _Run(spark, broker, Path(name))
        run.read(run.filled(max(backlogs) // 10), 2)  # the warm-up
        for parts in PARTITIONS:
            of_query, of_batch = run.constants(parts)
            print(f"  {parts} partitions: {of_query:.2f} s a query, {of_batch * 1e3:.0f} ms a batch", flush=True)
            for backlog, times in backlogs.items():
                found = []
                for _ in range(times):
                    queue = run.filled(backlog)
                    with Memory.watched(broker.pid) as memory:
                        used = run.read(queue, parts)
                    found.append((used - of_query - of_batch * (-(-backlog // BATCH_ROWS) - 1)) / backlog * 1e6)
                    if parts == 2:
                        peaks[backlog] = memory
                costs[parts, backlog] = median(found)
                print(f"  {parts} partitions, {backlog:,} rows: {costs[parts, backlog]:.1f} us a row", flush=True)
    return [*_cost_rows(costs), *_memory_rows(peaks)]


def _cost_rows(costs: dict[tuple[int, int], float]) -> list[Row]:
    least, most = min(backlog for _, backlog in costs), max(backlog for _, backlog in costs)
    title = f"CPU per row of {BODY_BYTES} bytes, all columns"
    rows = [
        Row("spark-scale", f"{title}, {parts} partitions: {most:,} messages beside {least:,}", "us",
            costs[parts, most], costs[parts, least], "lower", FLAT, AIM,
            {str(backlog): costs[parts, backlog] for each, backlog in costs if each == parts})
        for parts in PARTITIONS
    ]  # fmt: skip
    few, many = costs[PARTITIONS[0], most], costs[PARTITIONS[-1], most]
    metric = f"{title}, {most:,} messages: {PARTITIONS[-1]} partitions beside {PARTITIONS[0]}"
    return [*rows, Row("spark-scale", metric, "us", many, few, "lower", FLAT, AIM)]


def _memory_rows(peaks: dict[int, Memory]) -> list[Row]:
    backlogs = sorted(peaks)
    few, many = backlogs[-2:]
    what = f"resident at most, batches of {BATCH_ROWS:,} rows: {many:,} messages beside {few:,}"
    return [
        Row("spark-scale", f"JVM, {what}", "MiB", peaks[many].jvm, peaks[few].jvm, "lower", FLAT, AIM),
        Row("spark-scale", f"Python workers, {what}", "MiB", peaks[many].workers, peaks[few].workers, "lower", FLAT,
            AIM),
        Row("spark-scale", f"broker, which has the backlog, {what}", "MiB", peaks[many].broker, peaks[few].broker,
            "lower"),
    ]  # fmt: skip


@frozen
class _Run:
    spark: SparkSession
    broker: EmbeddedBrokerProcess
    folder: Path
    _queues: Iterator[int] = field(factory=lambda: iter(range(1_000_000)))

    def filled(self, backlog: int) -> str:
        """A new queue with so many messages."""
        queue = f"scale-{next(self._queues)}"
        fill(self.broker.url, queue, backlog)
        return queue

    def read(self, queue: str, parts: int, batch_rows: int = BATCH_ROWS) -> float:
        """Read all of it with a query of its own; the CPU seconds of all processes."""
        before = self._cpu()
        reader = self.spark.readStream.format("embedbroker").options(url=self.broker.url, queue=queue)
        reader = reader.options(maxRowsPerTrigger=str(batch_rows), minPartitions=str(parts))
        stream = reader.load().writeStream.format("noop").option("checkpointLocation", str(self.folder / queue))
        stream.trigger(availableNow=True).start().awaitTermination()
        return self._cpu() - before

    def constants(self, parts: int) -> tuple[float, float]:
        """CPU seconds of a query of one micro-batch, and of each further one: with a row for each partition."""
        one = median(self.read(self.filled(parts), parts, parts) for _ in range(3))
        many = self.read(self.filled(ONE_BY_ONE * parts), parts, parts)
        return one, (many - one) / (ONE_BY_ONE - 1)

    def _cpu(self) -> float:
        # The broker is a child of this process, as Spark's processes are.
        return family_cpu_seconds(os.getpid())


@define
class Memory:
    """The most that was resident of each, in MiB, seen ten times a second; pages that workers share count for each."""

    PERIOD_S = 0.1

    jvm: float = 0.0
    workers: float = 0.0
    broker: float = 0.0

    @classmethod
    @contextmanager
    def watched(cls, broker_pid: int) -> Iterator[Memory]:
        """Look while the block runs."""
        found, stop = cls(), threading.Event()

        def look() -> None:
            while not stop.wait(cls.PERIOD_S):
                found._look(broker_pid)

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            stop.set()
            thread.join()

    def _look(self, broker_pid: int) -> None:
        jvm = workers = 0
        for pid in family(os.getpid())[1:]:
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                size = resident_bytes(pid)
            except (FileNotFoundError, ProcessLookupError, IndexError):
                continue
            if words[0].endswith(b"java"):
                jvm += size
            elif b"pyspark.worker" in words:
                workers += size
        self.jvm, self.workers = max(self.jvm, jvm / MIB), max(self.workers, workers / MIB)
        self.broker = max(self.broker, resident_bytes(broker_pid) / MIB)
