"""Rows per second between our broker and Spark, in a session of two cores beside the broker on the same machine.

The first query of a session starts workers and loads classes, so each case measures the second one.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.broker_cases import Effort
from benchmarks.report import Row
from embedbroker.pipeline import java_home
from embedclient.blocking import ServerLocator
from embedclient.model import Properties
from embedclient.wire.core import CoreMessage, MessageType
from tests.interop.brokers import EmbeddedBrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BODY_BYTES = 100
#: Rows of a streaming batch, and messages sent with one call.
BATCH_ROWS, SENT_AT_ONCE = 200_000, 5_000


def spark_source(effort: Effort) -> list[Row]:
    """A stream reads 100-byte bodies exactly once, through `local[2]`: rows per second of three columns, and of all."""
    rows = 1_000_000 if effort.rounds > 1 else 50_000
    with running_broker() as broker, spark_session() as spark, tempfile.TemporaryDirectory() as folder:
        found = {}
        for number, columns in enumerate(("body,messageId,timestamp", "body,messageId,timestamp", "all")):
            # The first is the warm-up.
            queue, count = f"bench-{number}", rows if number else min(rows, 50_000)
            fill(broker.url, queue, count)
            found[columns] = read_stream(spark, broker.url, queue, columns, Path(folder) / queue, count)
            print(f"  {columns}: {found[columns]:,.0f} rows/s", flush=True)
    three, everything = found["body,messageId,timestamp"], found["all"]
    title = f"{rows:,} rows of {BODY_BYTES} bytes, exactly once"
    return [
        Row("spark-source", f"{title}: body, id and timestamp", "rows/s", three, None, "higher", 50_000, 100_000),
        Row("spark-source", f"{title}: full schema", "rows/s", everything, None, "higher", 20_000, 40_000),
    ]


def spark_sink(effort: Effort) -> list[Row]:
    """A batch of 100-byte bodies is written exactly once, through `local[2]`: rows per second."""
    rows = 500_000 if effort.rounds > 1 else 50_000
    with running_broker() as broker, spark_session() as spark:
        rate = 0.0
        for number, count in enumerate((min(rows, 50_000), rows)):
            queue = f"bench-{number}"
            with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
                session.create_queue(queue)
            frame = spark.range(0, count, 1, 2).selectExpr(f"repeat('x', {BODY_BYTES}) as body").cache()
            assert frame.count() == count
            begin = time.perf_counter()
            frame.write.format("embedbroker").options(url=broker.url, queue=queue).mode("append").save()
            rate = count / (time.perf_counter() - begin)
            with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
                assert session.query_queue(queue).message_count == count
            print(f"  {count:,} rows: {rate:,.0f} rows/s", flush=True)
    title = f"{rows:,} rows of {BODY_BYTES} bytes, exactly once, from start to end of the write"
    return [Row("spark-sink", title, "rows/s", rate, None, "higher", 25_000, 50_000)]


@contextmanager
def running_broker() -> Iterator[EmbeddedBrokerProcess]:
    """Start a broker with a journal, in a separate process."""
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as folder:
        broker = EmbeddedBrokerProcess(Path(folder))
        try:
            broker.start()
            yield broker
        finally:
            broker.kill()


@contextmanager
def spark_session(master: str = "local[2]", **settings: str) -> Iterator[SparkSession]:
    """Open a Spark in this process. The block's end ends its Java, too: the next one may have other classes."""
    os.environ.update(JAVA_HOME=str(java_home()), PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    # Looks for Java when it is imported, and is there only where the extra is installed.
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.config("spark.log.level", "ERROR").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()  # on which the Java waits
            gateway.proc.wait()


def fill(url: str, queue: str, count: int) -> None:
    """Send durable messages as a JMS client would, with an id, a timestamp and two properties."""
    properties = Properties()
    properties.update({"region": "north", "number": 7})
    with ServerLocator(url).create_session_factory() as factory, factory.create_session() as session:
        session.create_queue(queue)
        producer = session.create_producer(queue)
        message = CoreMessage.build(
            type=MessageType.BYTES,
            address=queue,
            durable=True,
            timestamp=1_700_000_000_000,
            user_id=bytes(range(16)),
            properties=properties,
            body=b"x" * BODY_BYTES,
        )
        for sent in range(0, count, SENT_AT_ONCE):
            many = [bytearray(message.raw) for _ in range(min(SENT_AT_ONCE, count - sent))]
            refused = producer.send_encoded(many, confirmed=True)
            assert refused == [], refused[0]


def read_stream(
    spark: SparkSession, url: str, queue: str, columns: str, folder: Path, count: int, batch_rows: int = BATCH_ROWS
) -> float:
    """Return rows per second of the batches, without the start of the query."""
    reader = spark.readStream.format("embedbroker").options(url=url, queue=queue)
    reader = reader.options(maxRowsPerTrigger=str(batch_rows), minPartitions="2")
    if columns != "all":
        reader = reader.option("columns", columns)
    stream = reader.load().writeStream.format("noop").option("checkpointLocation", str(folder))
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    read = sum(progress["numInputRows"] for progress in batches)
    assert read == count, (read, count)
    return float(read / sum(progress["durationMs"]["triggerExecution"] for progress in batches) * 1000)
