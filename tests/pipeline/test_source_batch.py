"""`spark.read`: queues are shown and left as they are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from embedbroker import ThreadedBroker
from embedbroker.pipeline._option_reader import OptionError
from embedbroker.pipeline._options import SourceOptions
from embedbroker.pipeline._source_batch import BatchReader
from embedclient.wire.core import CoreMessage
from tests.pipeline.queues import fill, left_in, numbered, properties_of, text_message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingOffsets", "latest"),
        ("discardBacklog", "false"),
        ("maxRowsPerTrigger", "10"),
        ("maxBytesPerTrigger", "1m"),
        ("minPartitions", "2"),
        ("leaseMs", "5000"),
        ("guarantee", "exactly-once"),
        ("failOnDataLoss", "false"),
        ("logLocation", "/log"),
    ],
)
def test_a_batch_refuses_what_only_streams_have(name: str, value: str) -> None:
    options = SourceOptions.parse({"url": "tcp://localhost:61616", "queue": "orders", name: value})
    with pytest.raises(OptionError, match=f"option '{name}' is for streams"):
        BatchReader(options, pa.schema([]))


def read(spark: SparkSession, broker: ThreadedBroker, **options: str) -> DataFrame:
    return spark.read.format("embedbroker").options(url=broker.url, **options).load()


def bodies(frame: DataFrame) -> list[bytes]:
    return [bytes(row["body"]) for row in frame.select("body").collect()]


def test_a_queue_is_shown_in_order_and_left_as_it_is(spark: SparkSession, broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(25_000)))
    expected = [str(number).encode() for number in range(25_000)]
    assert bodies(read(spark, broker, queue="orders", columns="body")) == expected
    assert left_in(broker.url, "orders") == expected


@pytest.mark.facts
def test_every_column_comes_through_spark(spark: SparkSession, broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", [text_message("orders", "hello", colour="red", JMSType="greeting")])
    (row,) = read(spark, broker, queue="orders").collect()
    assert (row["bodyText"], row["body"], row["type"], row["queue"]) == ("hello", b"hello", "greeting", "orders")
    assert (row["properties"], row["propertyTypes"]) == ({"colour": "red"}, {"colour": "string"})
    assert (row["position"], row["redelivered"], row["messageId"]) == (None, False, None)


def test_a_large_message_is_one_row_up_to_the_limit(spark: SparkSession, broker: ThreadedBroker) -> None:
    fill(broker.url, "large", [text_message("large", "x" * 200_000), text_message("large", "small")])
    frame = spark.read.format("embedbroker").option("queue", "large").option("columns", "body")
    assert bodies(frame.option("url", broker.url).load()) == [b"x" * 200_000, b"small"]
    limited = frame.option("url", f"{broker.url}?maxLargeMessageBodySize=300000").load()
    with pytest.raises(Exception, match="maxLargeMessageBodySize"):
        limited.collect()


def test_a_selector_chooses(spark: SparkSession, broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", [text_message("orders", str(number), number=number) for number in range(6)])
    frame = read(spark, broker, queue="orders", selector="number > 1 AND number < 4", columns="body")
    assert bodies(frame) == [b"2", b"3"]


def test_a_missing_queue_is_named(spark: SparkSession, broker: ThreadedBroker) -> None:
    with pytest.raises(Exception, match="there is no queue 'nowhere'"):
        read(spark, broker, queue="nowhere").collect()


def test_a_schema_chooses_columns(spark: SparkSession, broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(2)))
    reader = spark.read.format("embedbroker").options(url=broker.url, queue="orders")
    assert reader.schema("body binary, priority int").load().collect() == [(b"0", 4), (b"1", 4)]
    with pytest.raises(Exception, match="column 'body' of type string is 'body' of type binary"):
        reader.schema("body string").load().collect()


def test_a_message_that_cannot_be_parsed_fails_the_query_and_is_named(
    spark: SparkSession, broker: ThreadedBroker
) -> None:
    fill(broker.url, "orders", [text_message("orders", '{"id": 1}'), text_message("orders", "poison")])
    options = {"queue": "orders", "format": "json", "jsonSchema": "struct<id: bigint>", "columns": "value"}
    with pytest.raises(Exception, match=r"of queue 'orders' .*the body is not JSON"):
        read(spark, broker, **options).collect()
    rows = read(spark, broker, **options, onParseError="null").collect()
    assert [row["value"] and row["value"]["id"] for row in rows] == [1, None]


TIMES = [0, 1, 1_700_000_000_000, 1_700_000_000_001, (1 << 63) - 1, -5]
FILTERS = {
    "priority equal": "priority = 3",
    "priority above": "priority > 3",
    "priority at most": "priority <= 3",
    "durable": "durable = true",
    "time above": "timestamp > timestamp'2023-11-14 22:13:20.000Z'",
    "time from between two": "timestamp >= timestamp'2023-11-14 22:13:20.0005Z'",
    "time below": "timestamp < timestamp'2023-11-14 22:13:20.0005Z'",
    "time up to": "timestamp <= timestamp'2023-11-14 22:13:20.001Z'",
    "time equal": "timestamp = timestamp'2023-11-14 22:13:20.001Z'",
    "type": "type = 'it\\'s'",
    "types": "type in ('a', 'it\\'s')",
    "group": "groupId = 'g'",
    "null": "type is null",
    "several": "priority > 2 and type = 'a'",
}


def varied(address: str) -> list[CoreMessage]:
    """Messages that differ in what filters look at; each body is its number."""
    types = [{"JMSType": "a"}, {"JMSType": "it's", "_AMQ_GROUP_ID": "g"}, {}, {"JMSType": 5}]
    return [
        CoreMessage.build(
            address=address,
            priority=number % 5,
            durable=number % 2 == 0,
            timestamp=TIMES[number % len(TIMES)],
            properties=properties_of(**types[number % len(types)]),  # type: ignore[arg-type]  # texts and numbers
            body=str(number).encode(),
        )
        for number in range(60)
    ]


@pytest.mark.parametrize("name", FILTERS)
def test_filters_select_the_same_in_the_broker_and_in_spark(
    name: str, pushing: SparkSession, broker: ThreadedBroker
) -> None:
    fill(broker.url, "orders", varied("orders"))
    in_spark = bodies(read(pushing, broker, queue="orders").where(FILTERS[name]))
    in_broker = bodies(read(pushing, broker, queue="orders", pushFilters="true").where(FILTERS[name]))
    assert 0 < len(in_spark) < 60
    assert in_broker == in_spark


@pytest.mark.facts
def test_a_pushed_filter_reaches_the_broker(
    pushing: SparkSession, broker: ThreadedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = read(pushing, broker, queue="orders", pushFilters="true").where("priority = 3")
    fill(broker.url, "orders", varied("orders"))
    frame.explain()
    plan = capsys.readouterr().out
    # What Spark itself looks at is only what the reader gave back.
    assert "Filter isnotnull(priority" in plan
    assert " = 3)" not in plan
