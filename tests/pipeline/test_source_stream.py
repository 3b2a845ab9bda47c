"""`spark.readStream` exactly once: rows and the broker's content, compared one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embedbroker import ThreadedBroker
from tests.pipeline.queues import fill, left_in, numbered
from tests.pipeline.streams import Query


@pytest.fixture
def query(spark: SparkSession, broker: ThreadedBroker, tmp_path: Path) -> Query:
    return Query(spark, broker.url, tmp_path / "query", {"queue": "orders"})


def expected(*numbers: int) -> list[bytes]:
    return [str(number).encode() for number in range(*numbers)]


def test_each_message_becomes_one_row_and_a_restart_goes_on(query: Query, broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(3_000)))
    query.run()
    assert query.bodies() == expected(3_000)
    fill(broker.url, "orders", numbered("orders", range(3_000, 3_010)))
    query.run()
    assert query.bodies() == expected(3_010)
    # A run ends by looking for more, and thereby says that all of it is in the sink.
    assert left_in(broker.url, "orders") == []
