"""Tasks that die and brokers that fail over while Spark reads from a queue and writes to another: each message is
there once. The same on `local[2,2]` and on a cluster, where a task dies with its executor."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from embedbroker import ThreadedBroker
from tests.pipeline.conftest import CLUSTER, MASTER
from tests.pipeline.pairs import KINDS, pair
from tests.pipeline.queues import fill, left_in, numbered
from tests.pipeline.sink_content import prepared
from tests.pipeline.stream_driver import begin

EXPECTED = [str(number).encode() for number in range(100)]


@pytest.mark.facts
def test_tasks_that_die_and_fail_lose_and_double_nothing(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    """In the middle of reading, in the middle of writing, with everything prepared: a batch for each."""
    (tmp_path / "faults").mkdir()
    process = "executor" if MASTER == CLUSTER else "worker"
    faults = {
        "reading-0": process,
        "writing-1": process,
        "after-prepare-2": process,
        "before-write-3": "fail",
        "writing-4": "fail",
    }
    for point, word in faults.items():
        (tmp_path / "faults" / point).write_text(word)
    fill(broker.url, "orders", numbered("orders", range(100)))
    begin(spark, broker.url, tmp_path, {"maxRowsPerTrigger": "20"}).awaitTermination()
    assert sorted(path.stem for path in (tmp_path / "faults").glob("*.met")) == sorted(faults)
    assert sorted(left_in(broker.url, "results"), key=int) == EXPECTED
    assert (left_in(broker.url, "orders"), prepared(broker.url)) == ([], [])


# Where Spark is when the primary dies: a task has read, or written, half of its rows, or the batch is about to be
# committed, or is committed and Spark does not know it.
POINTS = ("reading-1", "writing-1", "before-commit", "after-commit")
# One of a kind for every day.
FAST = {("shared store", "writing-1"), ("replication", "before-commit")}
CASES = [
    pytest.param(kind, point, marks=[] if (kind, point) in FAST else [pytest.mark.long])
    for kind in KINDS
    for point in POINTS
]


def tell_of_the_end(query: StreamingQuery, fifo: Path) -> None:
    """A wait for a point that a query did not come to ends empty, instead of waiting for ever."""
    with suppress(StreamingQueryException):
        query.awaitTermination()
    with suppress(OSError):  # there is no reader
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))


@pytest.mark.parametrize(("kind", "point"), CASES)
def test_a_failover_under_source_and_sink_loses_and_doubles_nothing(
    kind: str, point: str, spark: SparkSession, tmp_path: Path
) -> None:
    fifo = tmp_path / "reached"
    for path in (fifo, tmp_path / "reached.go"):
        os.mkfifo(path)
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / point).write_text(f"call {fifo}")
    with pair(kind, tmp_path) as brokers:
        fill(brokers.primary.url, "orders", numbered("orders", range(100)))
        query = begin(spark, brokers.url, tmp_path, {})
        threading.Thread(target=tell_of_the_end, args=(query, fifo), daemon=True).start()
        assert fifo.read_text() == point, query.exception()
        brokers.fail_over()
        (tmp_path / "reached.go").write_text("go")
        query.awaitTermination()
        assert sorted(left_in(brokers.backup.url, "results"), key=int) == EXPECTED
        assert (left_in(brokers.backup.url, "orders"), prepared(brokers.backup.url)) == ([], [])
