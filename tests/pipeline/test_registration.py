"""Spark finds the format by itself, and reports at load what is wrong with its options."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from embedbroker import ThreadedBroker


def test_spark_knows_the_format_without_being_told(spark: SparkSession, broker: ThreadedBroker) -> None:
    frame = spark.read.format("embedbroker").options(url=broker.url, queue="orders", columns="messageId,body").load()
    assert frame.dtypes == [("messageId", "string"), ("body", "binary")]


def test_an_unknown_option_fails_at_load(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="there is no option 'quue'; did you mean 'queue'"):
        spark.read.format("embedbroker").options(url="tcp://localhost:1", quue="orders").load()


def test_with_a_schema_of_the_users_own_a_wrong_option_fails_before_anything_is_read(spark: SparkSession) -> None:
    """Spark calls nothing of a source then until it plans: no call can refuse the frame."""
    frame = (
        spark.read.format("embedbroker").schema("body binary").options(url="tcp://localhost:1", quue="orders").load()
    )
    with pytest.raises(Exception, match="there is no option 'quue'; did you mean 'queue'"):
        frame.collect()
