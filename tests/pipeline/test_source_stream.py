"""`spark.readStream` exactly once: rows and the broker's content, compared one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from embedbroker import ThreadedBroker
from embedbroker.kernel.cursors import _cursors
from embedbroker.pipeline import remove_subscription
from embedclient import BytesMessage, ClientMessage
from embedclient.blocking import ConnectionFactory, ServerLocator
from embedclient.errors import IllegalStateException
from embedclient.model import Properties
from embedclient.wire.core import CoreMessage, MessageType
from tests.pipeline.queues import create, fill, left_in, numbered, text_message
from tests.pipeline.streams import Query, end_lease


@pytest.fixture
def query(spark: SparkSession, broker: ThreadedBroker, tmp_path: Path) -> Query:
    return Query(spark, broker.url, tmp_path / "query", {"queue": "orders"})


def expected(*numbers: int) -> list[bytes]:
    return [str(number).encode() for number in range(*numbers)]


def run_batches(query: Query, write: Callable[[DataFrame, int], None]) -> None:
    """Read what is there now with `foreachBatch`, and end."""
    writer = query.frame().writeStream.foreachBatch(write)
    running = writer.option("checkpointLocation", str(query.folder / "checkpoint")).trigger(availableNow=True).start()
    try:
        running.awaitTermination()
    finally:
        running.stop()


@pytest.mark.facts
def test_each_message_becomes_one_row_and_a_restart_goes_on(query: Query, broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(3_000)))
    query.run()
    assert query.bodies() == expected(3_000)
    fill(broker.url, "orders", numbered("orders", range(3_000, 3_010)))
    query.run()
    assert query.bodies() == expected(3_010)
    # A run ends by looking for more, and thereby confirms that all of it is in the sink.
    assert left_in(broker.url, "orders") == []


def test_a_large_message_is_one_row(query: Query, broker: ThreadedBroker) -> None:
    texts = ["small", "x" * 300_000, "last"]
    fill(broker.url, "orders", [text_message("orders", text) for text in texts])
    query.run()
    assert sorted(query.bodies(), key=len) == sorted([text.encode() for text in texts], key=len)
    assert left_in(broker.url, "orders") == []


def send_large(url: str, size: int) -> None:
    """Send one message of bytes in chunks."""
    with ServerLocator(url).create_session_factory() as factory, factory.create_session() as session:
        session.create_queue("orders")
        session.create_producer("orders").send(ClientMessage(b"x" * size, type=MessageType.BYTES))


def test_body_at_the_limit_is_one_row(query: Query, broker: ThreadedBroker) -> None:
    send_large(broker.url, _cursors.LARGE_BODY_BYTES_MAX)
    query.run()
    assert [len(body) for body in query.bodies()] == [_cursors.LARGE_BODY_BYTES_MAX]
    assert left_in(broker.url, "orders") == []


def test_body_above_the_limit_fails_the_query_with_the_limit_and_the_message(
    query: Query, broker: ThreadedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message stays. When it is received by hand, the query goes on from its checkpoint."""
    monkeypatch.setattr(_cursors, "LARGE_BODY_BYTES_MAX", 200_000)
    send_large(broker.url, 200_001)
    fill(broker.url, "orders", [text_message("orders", "behind")])
    with pytest.raises(
        StreamingQueryException,
        match=r"message \d+ at position \d+ of queue 'orders' has a body of 200001 bytes, and a cursor reads at most "
        "200000: receive it with a consumer, or move it to another queue",
    ):
        query.run()
    end_lease(broker.url, "orders")
    with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
        message = session.create_consumer("orders").receive(timeout=30)
    assert isinstance(message, BytesMessage) and message.body == b"x" * 200_001
    query.options["failOnDataLoss"] = "false"
    query.run()
    assert query.bodies() == [b"behind"]


def test_batches_partitions_and_queues(query: Query, broker: ThreadedBroker) -> None:
    for queue in ("orders.a", "orders.b"):
        fill(broker.url, queue, numbered(queue, range(100)))
    query.options.update({"queue": "orders.*", "maxRowsPerTrigger": "60", "minPartitions": "4"})
    partitions: list[int] = []

    def write(batch: DataFrame, number: int) -> None:
        partitions.append(batch.rdd.getNumPartitions())
        batch.write.mode("append").parquet(str(query.folder / "rows"))

    run_batches(query, write)
    assert partitions == [4, 4, 4, 4]
    rows = query.rows()
    for queue in ("orders.a", "orders.b"):
        assert [body for name, _, body in rows if name == queue] == expected(100)
        assert left_in(broker.url, queue) == []


def fail_once(flag: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task that dies behind its first rows, the first time."""
    for batch in batches:
        yield batch
        if not Path(flag).exists():
            Path(flag).touch()
            raise RuntimeError("this task fails once")


def test_a_task_that_is_retried_reads_the_same_rows(query: Query, broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(500)))
    flag = tmp_path / "flag"
    seen: list[list[bytes]] = []

    def write(batch: DataFrame, number: int) -> None:
        failing = batch.mapInArrow(partial(fail_once, str(flag)), batch.schema)
        seen.append([bytes(row["body"]) for row in failing.orderBy("position").collect()])

    run_batches(query, write)
    assert flag.exists()
    assert seen == [expected(500)]
    assert left_in(broker.url, "orders") == []


@pytest.mark.facts
def test_two_actions_of_a_batch_read_the_same_rows(query: Query, broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(100)))
    query.options["maxRowsPerTrigger"] = "70"
    seen: list[tuple[list[bytes], list[bytes]]] = []

    def write(batch: DataFrame, number: int) -> None:
        def look() -> list[bytes]:
            return [bytes(row["body"]) for row in batch.orderBy("position").collect()]

        first = look()
        # What comes meanwhile is for another batch.
        fill(broker.url, "orders", numbered("orders", [1_000 + number]))
        seen.append((first, look()))

    run_batches(query, write)
    assert seen == [(expected(70), expected(70)), (expected(70, 100), expected(70, 100))]
    assert left_in(broker.url, "orders") == [b"1000", b"1001"]


def test_a_batch_that_failed_has_the_same_rows_after_a_restart(query: Query, broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(100)))
    seen: list[list[bytes]] = []

    def write(batch: DataFrame, number: int) -> None:
        seen.append([bytes(row["body"]) for row in batch.orderBy("position").collect()])
        if len(seen) == 1:
            raise RuntimeError("the sink fails once")

    with pytest.raises(Exception, match="the sink fails once"):
        run_batches(query, write)
    fill(broker.url, "orders", numbered("orders", range(100, 103)))
    run_batches(query, write)
    assert seen == [expected(100), expected(100), expected(100, 103)]


def test_messages_that_were_taken_in_the_middle_fail_the_query(query: Query, broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))

    def fail(batch: DataFrame, number: int) -> None:
        raise RuntimeError("the sink fails")

    with pytest.raises(Exception, match="the sink fails"):
        run_batches(query, fail)
    end_lease(broker.url, "orders")
    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        session.start()
        with session.create_consumer("orders") as consumer:
            assert len(consumer.receive_encoded(4)) == 4
            consumer.acknowledge_received()
    with pytest.raises(Exception, match=r"queue 'orders': .*; failOnDataLoss=false goes on with what is there"):
        query.run()
    query.options["failOnDataLoss"] = "false"
    query.run()
    assert query.bodies() == expected(4, 10)


POISON = ['{"id": 1}', "poison", '{"id": 3}']
JSON = {"format": "json", "jsonSchema": "struct<id: bigint>", "columns": "position,value"}


def values(query: Query) -> list[int | None]:
    rows = query.spark.read.parquet(str(query.folder / "rows")).orderBy("position").collect()
    return [None if row["value"] is None else row["value"]["id"] for row in rows]


def test_a_poison_message_fails_the_query_and_stays(query: Query, broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", [text_message("orders", text) for text in POISON])
    query.options.update(JSON)
    with pytest.raises(Exception, match=r"of queue 'orders' .*the body is not JSON"):
        query.run()
    assert len(left_in(broker.url, "orders")) == 3
    query.options["onParseError"] = "null"
    query.run()
    assert values(query) == [1, None, 3]


def test_a_poison_message_becomes_one_dead_letter(query: Query, broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", [text_message("orders", text) for text in POISON])
    create(broker.url, "poisoned")
    query.options.update({**JSON, "onParseError": "dead-letter", "deadLetterAddress": "poisoned"})

    def write(batch: DataFrame, number: int) -> None:
        # Each action reads, and finds the poison again.
        assert batch.count() == 2
        batch.write.mode("append").parquet(str(query.folder / "rows"))

    run_batches(query, write)
    assert values(query) == [1, 3]
    assert left_in(broker.url, "orders") == []
    (letter,) = query.spark.read.format("embedbroker").options(url=broker.url, queue="poisoned").load().collect()
    assert letter["bodyText"] == "poison"
    properties = letter["properties"]
    assert (properties["_AMQ_ORIG_QUEUE"], properties["_AMQ_ORIG_ADDRESS"]) == ("orders", "orders")
    assert properties["embedbroker_reason"].startswith("the body is not JSON")


def test_a_query_gets_past_a_body_that_is_broken_and_keeps_a_copy(query: Query, broker: ThreadedBroker) -> None:
    def message(body: bytes, name: str, value: str | bool) -> CoreMessage:
        return CoreMessage.build(
            type=MessageType.BYTES, address="orders", properties=Properties({name: value}), body=body
        )

    flag = "_AMQ_LARGE_COMPRESSED"
    messages = [message(b"one", "why", flag), message(b"no zlib", flag, True), message(b"three", flag, "true")]
    fill(broker.url, "orders", messages)
    with pytest.raises(Exception, match=r"the compressed body is malformed.*'onParseError' can be dead-letter or null"):
        query.run()
    assert left_in(broker.url, "orders") == [b"one", b"no zlib", b"three"]
    query.options["onParseError"] = "dead-letter"
    query.run()
    assert query.bodies() == [b"one", b"three"]
    assert left_in(broker.url, "orders") == []
    assert left_in(broker.url, "DLQ") == [b"no zlib"]


def test_the_latest_deletes_a_backlog_only_on_request(query: Query, broker: ThreadedBroker) -> None:
    fill(broker.url, "orders", numbered("orders", range(200)))
    query.options["startingOffsets"] = "latest"
    with pytest.raises(
        Exception, match=r"would delete 200 messages of queue 'orders' at tcp://.* unread.*discardBacklog=true"
    ):
        query.run()
    assert left_in(broker.url, "orders") == expected(200)
    query.options["startingOffsets"] = "earliest"
    query.run()
    assert query.bodies() == expected(200)


def test_a_topic_is_read_through_a_subscription_that_can_be_removed(query: Query, broker: ThreadedBroker) -> None:
    del query.options["queue"]
    query.options.update({"topic": "news", "selector": "kind = 'good'"})
    query.run()
    messages = [text_message("news", str(number), kind="good" if number % 2 else "bad") for number in range(10)]
    fill(broker.url, "news", messages, multicast=True)
    query.run()
    assert query.bodies() == [b"1", b"3", b"5", b"7", b"9"]
    ((subscription, _, _), *_) = query.rows()
    assert subscription.startswith("news.spark-")
    checkpoint = query.folder / "checkpoint" / "offsets" / "0"
    assert json.loads(checkpoint.read_text().splitlines()[2])["subscription"] == subscription


def test_a_named_subscription_is_removed(query: Query, broker: ThreadedBroker) -> None:
    del query.options["queue"]
    query.options.update({"topic": "news", "subscription": "readers"})
    query.run()
    with pytest.raises(IllegalStateException, match="is read by cursor 'spark'"):
        remove_subscription(broker.url, "readers")
    end_lease(broker.url, "readers")
    assert remove_subscription(broker.url, "readers")
    assert not remove_subscription(broker.url, "readers")
