"""How much journal an audit gets through, on a Spark of one core: by processor time, and by the clock."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.broker_cases import Effort
from benchmarks.journals import journal_size, write_journal
from benchmarks.measured import family_cpu_seconds
from benchmarks.report import Row
from benchmarks.spark_cases import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB = 2**20
BODIES = (100, 1024)
#: The first audit of a Spark compiles and starts workers; the second is the one that counts.
ROUNDS = 3


def spark_audit(effort: Effort) -> list[Row]:
    """A journal of 1 GiB is audited on `local[1]`, for the second time: MiB per second, by CPU and by the clock."""
    size = 1024 * MIB if effort.rounds > 1 else 48 * MIB
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as name:
        journals = {body: Path(name) / str(body) for body in BODIES}
        sent = {body: write_journal(directory, size, body) for body, directory in journals.items()}
        for body, directory in journals.items():
            mib = journal_size(directory) / MIB
            with spark_session("local[1]") as spark:
                rounds = [_rates(spark, directory, mib, sent[body]) for _ in range(ROUNDS)]
            title = f"{mib:,.0f} MiB, bodies of {body:,} bytes"
            details: dict[str, object] = {"MiB per second, by CPU and by clock, of each audit": rounds}
            by_cpu, by_clock = rounds[1]
            rows.append(Row("spark-audit", f"{title}: by CPU", "MiB/s", by_cpu, None, "higher", 100, 200, details))
            rows.append(Row("spark-audit", f"{title}: by clock", "MiB/s", by_clock, None, "higher"))
    return rows


def _rates(spark: SparkSession, directory: Path, mib: float, sent: int) -> tuple[float, float]:
    """Return MiB per second of all processes here and of the clock, from the listing to the verdict on each queue."""
    from embedbroker.pipeline import audit  # needs what the extra installs

    cpu, clock = family_cpu_seconds(os.getpid()), time.perf_counter()
    found = audit(spark, [directory])
    (queue,) = found.queues.collect()
    assert queue["stored"] == sent and queue["lost"] == 0 and found.sound, queue
    found.close()
    cpu, clock = family_cpu_seconds(os.getpid()) - cpu, time.perf_counter() - clock
    print(f"  {mib:,.0f} MiB: {mib / cpu:,.0f} MiB/s of CPU, {mib / clock:,.0f} by clock", flush=True)
    return mib / cpu, mib / clock
