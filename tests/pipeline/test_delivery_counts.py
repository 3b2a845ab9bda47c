"""How often a message was delivered, by each way of reading and to a consumer: without a Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from embedbroker import ThreadedBroker
from embedbroker.pipeline._options import SourceOptions
from embedbroker.pipeline._source_batch import BatchReader
from embedbroker.pipeline._source_stream import StreamReader
from embedclient.blocking import ServerLocator
from tests.pipeline.queues import fill, numbered
from tests.pipeline.streams import end_lease

SCHEMA = pa.schema([("deliveryCount", pa.int32()), ("redelivered", pa.bool_())])


def options_of(broker: ThreadedBroker, **options: str) -> SourceOptions:
    return SourceOptions.parse({"url": broker.url, "queue": "orders", **options})


def rows(batches: Iterable[pa.RecordBatch]) -> list[tuple[int, bool]]:
    return [(row["deliveryCount"], row["redelivered"]) for batch in batches for row in batch.to_pylist()]


def browsed(broker: ThreadedBroker) -> list[tuple[int, bool]]:
    reader = BatchReader(options_of(broker), SCHEMA)
    return [row for part in reader.partitions() for row in rows(reader.read(part))]


def streamed(broker: ThreadedBroker, **options: str) -> list[tuple[int, bool]]:
    """All that there is, in the first batch that has rows."""
    reader = StreamReader(options_of(broker, **options), SCHEMA)
    start, found = reader.initialOffset(), list[tuple[int, bool]]()
    while not found:
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        found = [row for part in reader.partitions(start, end) for row in rows(reader.read(part))]
        start = end
    reader.stop()
    return found


def roll_back_first(broker: ThreadedBroker) -> None:
    with (
        ServerLocator(broker.url).create_session_factory() as factory,
        factory.create_session(auto_commit_acks=False) as session,
    ):
        session.start()
        with session.create_consumer("orders", window=0) as consumer:
            assert len(consumer.receive_encoded(1)) == 1
            consumer.acknowledge_received()
        session.rollback()


def consumed(broker: ThreadedBroker) -> list[tuple[int, bool]]:
    """The delivery counts that a consumer receives."""
    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        session.start()
        with session.create_consumer("orders") as consumer:
            return [(count, count > 1) for _, count in consumer.receive_encoded(2)]


def test_each_way_of_reading_tells_what_a_consumer_is_told(broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(2)))
    roll_back_first(broker)
    expected = [(2, True), (1, False)]
    assert browsed(broker) == expected
    assert streamed(broker) == expected
    end_lease(broker.url, "orders")
    assert streamed(broker, guarantee="at-least-once", logLocation=str(tmp_path)) == expected
    fill(broker.url, "orders", numbered("orders", range(2)))
    roll_back_first(broker)
    assert consumed(broker) == expected
