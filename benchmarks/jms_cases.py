"""Our exactly-once source beside what one writes without it: a JMS receive loop in Spark, on a real Artemis.

The loop is `java/JmsReceive.java`: in the executor's JVM, without Python, with the client's prefetch, acknowledged
every 10,000 messages; what a failed task had acknowledged is lost to it. All messages are there when either begins, and
each takes them in one job: the loop has no micro-batches, and our stream has one of them all.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.broker_cases import Effort, artemis_journal
from benchmarks.measured import family_cpu_seconds
from benchmarks.report import Row
from benchmarks.spark_cases import BODY_BYTES, fill, read_stream, running_broker, spark_session
from tests.interop.artemis import ArtemisBroker
from tests.interop.registry import matrix_classpath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = Path(__file__).parent / "java" / "JmsReceive.java"
#: Spark brings versions of these, and two versions in one JVM do not get along.
_OF_SPARK = ("netty", "slf4j")
COLUMNS = {"body, id and timestamp": "body,messageId,timestamp", "full schema": "all"}
MUST, AIM = 2.0, 5.0


def spark_jms(effort: Effort) -> list[Row]:
    """The same rows into Spark: our source exactly once from our broker, and a JMS receive loop from a real Artemis."""
    count, rounds = (1_000_000, 3) if effort.rounds > 1 else (20_000, 1)
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        classes = _compiled(folder / "classes")
        ours = stack.enter_context(running_broker())
        theirs = stack.enter_context(ArtemisBroker(folder / "artemis", journal=artemis_journal(), memory="3G"))
        spark = stack.enter_context(spark_session(**{"spark.driver.extraClassPath": classes}))
        for number in range(rounds + 1):
            for what, columns in COLUMNS.items():
                queue, rows = f"bench-{number}-{columns[:3]}", count if number else count // 4
                fill(ours.url, queue, rows)
                fill(theirs.url, queue, rows)
                for peer, url in (("ours", ours.url), ("jms", theirs.url)):
                    before = family_cpu_seconds(os.getpid())
                    if peer == "ours":
                        rate = read_stream(spark, url, queue, columns, folder / queue, rows, batch_rows=rows)
                    else:
                        rate = _receive(spark, url, queue, columns == "all", rows)
                    cost = (family_cpu_seconds(os.getpid()) - before) / rows * 1e6
                    # The first round is the warm-up.
                    found.setdefault((peer, what), []).extend([(rate, cost)] if number else [])
                    print(f"  {peer}, {what}: {rate:,.0f} rows/s, {cost:.1f} us of CPU a row", flush=True)
    title = f"{count:,} rows of {BODY_BYTES} bytes, beside a JMS receive loop"
    return [row for what in COLUMNS for row in _rows(f"{title}: {what}", found["ours", what], found["jms", what])]


def _rows(title: str, ours: list[tuple[float, float]], jms: list[tuple[float, float]]) -> list[Row]:
    """Return rates, and the cost for broker and Spark together, which is the same on a busy machine."""
    rate, cost = zip(*ours, strict=True)
    their_rate, their_cost = zip(*jms, strict=True)
    details: dict[str, object] = {"ours": ours, "jms": jms}
    return [
        Row("spark-jms", title, "rows/s", fmean(rate), fmean(their_rate), "higher", MUST, AIM, details),
        Row("spark-jms", f"{title}: CPU per row, start of the query included", "us", fmean(cost), fmean(their_cost),
            "lower"),
    ]  # fmt: skip


def _compiled(target: Path) -> str:
    """Return the class path of the loop and of the JMS client, for a JVM that has Spark's jars."""
    import pyspark  # is there only where the extra is installed

    jars = Path(os.path.dirname(pyspark.__file__)) / "jars"
    libraries = Path(matrix_classpath("2.44.0").rpartition(":")[2]).parent
    client = [path for path in sorted(libraries.glob("*.jar")) if not path.name.startswith(_OF_SPARK)]
    path = ":".join(map(str, client))
    command: list[str | Path] = ["javac", "--release", "17", "-d", target, "-cp", f"{jars}/*:{path}", SOURCE]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=120)
    return f"{target}:{path}"


def _receive(spark: SparkSession, url: str, queue: str, everything: bool, count: int) -> float:
    """Return rows per second of one job, from its planning to the last row in `noop`."""
    # Through py4j, whose objects have no types.
    jvm, session = spark._jvm, spark._jsparkSession
    assert jvm is not None
    begin = time.perf_counter()
    rows = jvm.JmsReceive.rows(session, url, queue, 2, count, everything)
    rows.write().format("noop").mode("overwrite").save()
    return count / (time.perf_counter() - begin)
