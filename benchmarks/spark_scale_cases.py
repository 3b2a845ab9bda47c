"""What a row costs as backlogs and partitions grow, and what memory a stream takes: nothing here looks at the clock.

Processor time is that of all processes: the JVM, Spark's Python, and the broker. A query, a micro-batch and a job cost
something whatever rows there are, and a few rows cost less than a JVM's moods. So each backlog is read by two queries,
once and many times: a micro-batch is given to several jobs, and each of them reads it anew. The second query's further
jobs, less what a job costs with a row for each partition, are what reading costs; pinning and acknowledging, which
happen once, are no part of it.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from benchmarks.broker_cases import Effort
from benchmarks.measured import family, family_cpu_seconds, resident_bytes
from benchmarks.report import Row
from benchmarks.spark_cases import BODY_BYTES, fill, running_broker, spark_session
from tests.interop.brokers import EmbeddedBrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIB = 2**20
PARTITIONS = (1, 2, 4)
#: Rows of a micro-batch, whatever the backlog is.
BATCH_ROWS = 100_000
#: Backlog: how often the second query reads it.
BACKLOGS = {10_000: 101, 100_000: 11, 1_000_000: 2}
QUICK_BACKLOGS = {10_000: 4, 30_000: 2}
JOBS = 101
FLAT, AIM = 1.2, 1.1


def spark_scale(effort: Effort) -> list[Row]:
    """CPU per row at 1, 2, 4 partitions and 10,000 to 1,000,000 messages, and memory: both flat within 20 %."""
    backlogs = BACKLOGS if effort.rounds > 1 else QUICK_BACKLOGS
    costs: dict[tuple[int, int], float] = {}
    peaks: dict[int, Memory] = {}
    with running_broker() as broker, spark_session() as spark, tempfile.TemporaryDirectory() as name:
        run = _Run(spark, broker, Path(name))
        run.read(run.filled(max(backlogs)), 2, times=2)  # the warm-up
        for parts in PARTITIONS:
            of_job = run.further_jobs(parts, parts, JOBS)[0] / (JOBS - 1)
            print(f"  {parts} partitions: {of_job * 1e3:.0f} ms a job", flush=True)
            for backlog, times in backlogs.items():
                further, memory = run.further_jobs(backlog, parts, times)
                jobs = -(-backlog // BATCH_ROWS) * (times - 1)
                costs[parts, backlog] = (further - of_job * jobs) / (backlog * (times - 1)) * 1e6
                if parts == 2:
                    peaks[backlog] = memory
                print(f"  {parts} partitions, {backlog:,} rows: {costs[parts, backlog]:.1f} us a row", flush=True)
    return [*_cost_rows(costs), *_memory_rows(peaks)]


def _cost_rows(costs: dict[tuple[int, int], float]) -> list[Row]:
    least, most = min(backlog for _, backlog in costs), max(backlog for _, backlog in costs)
    title = f"CPU per row of {BODY_BYTES} bytes, all columns, read once more"
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
        """Return a new queue with ``backlog`` messages."""
        queue = f"scale-{next(self._queues)}"
        fill(self.broker.url, queue, backlog)
        return queue

    def read(self, queue: str, parts: int, *, times: int = 1) -> float:
        """Read all of it with a new query, each batch ``times`` times. Return the CPU seconds of all processes."""

        def write(batch: DataFrame, _: int) -> None:
            for _ in range(times):
                batch.write.format("noop").mode("overwrite").save()

        before = self._cpu()
        reader = self.spark.readStream.format("embedbroker").options(url=self.broker.url, queue=queue)
        reader = reader.options(maxRowsPerTrigger=str(BATCH_ROWS), minPartitions=str(parts))
        stream = reader.load().writeStream.foreachBatch(write).option("checkpointLocation", str(self.folder / queue))
        stream.trigger(availableNow=True).start().awaitTermination()
        return self._cpu() - before

    def further_jobs(self, backlog: int, parts: int, times: int) -> tuple[float, Memory]:
        """Return the CPU seconds of further reads of a backlog, and the memory that the second query took."""
        once = self.read(self.filled(backlog), parts)
        queue = self.filled(backlog)
        with Memory.watched(self.broker.pid) as memory:
            return self.read(queue, parts, times=times) - once, memory

    def _cpu(self) -> float:
        # The broker is a child of this process, as Spark's processes are.
        return family_cpu_seconds(os.getpid())


@define
class Memory:
    """The most that was resident of each, in MiB, measured ten times a second; shared pages count for each worker."""

    PERIOD_S = 0.1

    jvm: float = 0.0
    workers: float = 0.0
    broker: float = 0.0

    @classmethod
    @contextmanager
    def watched(cls, broker_pid: int) -> Iterator[Memory]:
        """Measure while the block runs."""
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
