"""Queues to Parquet and back: every header, property and body, each message once, interrupted or not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from embedbroker import BrokerConfig, EmbeddedBroker, ThreadedBroker
from embedbroker.pipeline import export_queues, import_queues
from embedbroker.pipeline._export import export_queue
from embedbroker.pipeline._options import ConnectionOptions
from embedbroker.pipeline._sending import SentMessage, queue_sender
from embedbroker.pipeline._transfer import import_id
from embedclient import BytesMessage, MapMessage, TextMessage
from embedclient.blocking import ConnectionFactory, ServerLocator
from embedclient.model import PropertyValue, RoutingType
from embedclient.wire.core import CoreMessage

ADDED = "_AMQ_DUPL_ID"


def fill(url: str, count: int) -> None:
    """Messages of several types, with headers and typed properties."""
    with (
        ConnectionFactory(url).connect() as connection,
        connection.session() as session,
        session.create_producer("orders") as producer,
    ):
        for number in range(count):
            properties: dict[str, PropertyValue] = {"number": number, "flag": number % 2 == 0, "ratio": number / 7}
            message: TextMessage | BytesMessage | MapMessage
            match number % 3:
                case 0:
                    message = TextMessage(f"text {number} \u20ac", properties=properties, type="order")
                case 1:
                    message = BytesMessage(bytes([number % 256]) * number, properties=properties, type="order")
                case _:
                    message = MapMessage({"n": 1}, properties=properties, type="order")
            message.correlation_id = f"c{number}"
            producer.send(message, priority=number % 10, time_to_live=0 if number % 4 else 10_000_000)


def contents(url: str, queue: str = "orders") -> list[tuple[object, ...]]:
    """All that a receiver can see of each message, but for the broker's number and the duplicate id of an import."""
    with ServerLocator(url).create_session_factory() as factory, factory.create_session() as session:
        session.start()
        found: list[tuple[object, ...]] = []
        with session.create_consumer(queue, browse_only=True) as consumer:
            while received := consumer.receive_encoded(1000, bytes_max=1 << 22):
                for raw, _ in received:
                    core = CoreMessage.parse(raw)
                    properties = sorted(
                        (name, tag, bytes(raw[start:end]))
                        for name, tag, start, end in core.property_spans()
                        if name != ADDED
                    )
                    found.append((core.address, core.type, core.durable, core.priority, core.timestamp, core.expiration,
                                  core.user_id, bytes(core.body), properties))  # fmt: skip
        return found


@pytest.fixture
def other(tmp_path: Path) -> Iterator[ThreadedBroker]:
    """A second broker."""
    with EmbeddedBroker.in_thread(BrokerConfig(data_directory=str(tmp_path / "other"))) as running:
        yield running


def moved(frame: DataFrame) -> tuple[int, int]:
    [row] = frame.collect()
    return row["messages"], row["before"]


def test_all_that_a_message_has_comes_back(
    spark: SparkSession, broker: ThreadedBroker, other: ThreadedBroker, tmp_path: Path
) -> None:
    fill(broker.url, 60)
    folder = tmp_path / "export"
    assert moved(export_queues(spark, ["orders"], folder, url=broker.url, messages_per_part=25)) == (60, 0)
    assert len(list(folder.glob("orders/part-*.parquet"))) == 3
    table = spark.read.parquet(str(folder / "orders" / "part-*.parquet"))
    assert table.where("correlationId = 'c7' and properties['number'] = '7'").count() == 1
    assert moved(import_queues(spark, folder, url=other.url)) == (60, 0)
    before = contents(broker.url)
    assert len(before) == 60
    assert contents(other.url) == before


@pytest.mark.parametrize("parallel", [False, True])
def test_large_messages_come_back_whole(
    spark: SparkSession, broker: ThreadedBroker, other: ThreadedBroker, tmp_path: Path, parallel: bool
) -> None:
    """Bodies that clients send in chunks, between one that fits a packet and one that is compressed."""
    bodies: list[str | bytes] = ["small", b"x" * 300_000, "\u20ac" * 200_000, bytes(range(256)) * 8_000]
    with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
        for body in bodies:
            session.create_producer("orders").send(body)
    with ConnectionFactory(f"{broker.url}?compressLargeMessage=true").connect() as connection:
        connection.session().create_producer("orders").send(b"z" * 5_000_000)
    bodies.append(b"z" * 5_000_000)
    folder = tmp_path / "export"
    assert moved(export_queues(spark, ["orders"], folder, url=broker.url, parallel=parallel)) == (5, 0)
    assert moved(import_queues(spark, folder, url=other.url, parallel=parallel)) == (5, 0)
    for url in (broker.url, other.url):
        with (
            ConnectionFactory(url).connect() as connection,
            connection.session() as session,
            session.create_consumer("orders") as consumer,
        ):
            found = [consumer.receive(timeout=30) for _ in bodies]
        assert [message.body for message in found if message is not None] == bodies


def test_an_import_that_is_started_again_sends_nothing_twice(
    spark: SparkSession, broker: ThreadedBroker, other: ThreadedBroker, tmp_path: Path
) -> None:
    """Once with its notes, once without: the second time only the broker has the ids."""
    fill(broker.url, 40)
    folder = tmp_path / "export"
    assert moved(export_queues(spark, ["orders"], folder, url=broker.url)) == (40, 0)
    assert moved(import_queues(spark, folder, url=other.url)) == (40, 0)
    assert moved(import_queues(spark, folder, url=other.url)) == (0, 40)
    [notes] = folder.glob("orders/imported-*.json")
    notes.unlink()
    assert moved(import_queues(spark, folder, url=other.url)) == (0, 40)
    assert contents(other.url) == contents(broker.url)


def test_an_export_that_is_started_again_writes_nothing_twice(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path
) -> None:
    """After a kill: some parts are whole, one is not, and more messages have come."""
    fill(broker.url, 30)
    folder = tmp_path / "export"
    export_queue(ConnectionOptions(broker.url), "orders", str(folder), 10)
    (folder / "orders" / "complete.json").unlink()
    (folder / "orders" / "part-000002.parquet").rename(folder / "orders" / "part-000002.unfinished")
    with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
        session.create_producer("orders").send("late")
    assert moved(export_queues(spark, ["orders"], folder, url=broker.url, messages_per_part=10)) == (11, 20)
    rows = spark.read.parquet(str(folder / "orders" / "part-*.parquet")).select("sequenceId").collect()
    assert len(rows) == len({row[0] for row in rows}) == 31
    assert moved(export_queues(spark, ["orders"], folder, url=broker.url)) == (0, 31)


def test_what_an_export_names_is_on_the_disk_with_its_name(
    broker: ThreadedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power failure takes parts that `complete.json` counts."""
    fill(broker.url, 20)
    root = tmp_path / "export"
    synced: set[str] = set()
    sync = os.fsync

    def noted(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)
        if path.is_dir() and path.is_relative_to(root):
            synced.update(each.name for each in path.iterdir())

    monkeypatch.setattr(os, "fsync", noted)
    export_queue(ConnectionOptions(broker.url), "orders", str(root), 10)
    assert synced == {"orders", "queue.json", "part-000000.parquet", "part-000001.parquet", "complete.json"}


def test_messages_with_duplicate_ids_of_their_own_keep_them(broker: ThreadedBroker) -> None:
    """They go one by one: one that the broker has takes no other with it."""
    messages = []
    for number in range(6):
        core = CoreMessage.build(address="other", body=bytes([number]))
        if number in (1, 4):
            changes = {ADDED: f"own {number}"}
            core = core.copy_for("other", changes=changes, removals=(), expiration=0)
        messages.append(SentMessage(bytes(core.raw), import_id("q", number, bytes(core.raw))))
    with queue_sender(ConnectionOptions(broker.url), "address", "q", RoutingType.ANYCAST) as sender:
        assert sender.send_once([messages[4]]) == 1
        assert sender.send_once(messages) == 5
        assert sender.send_once(messages) == 0
    assert [row[7] for row in contents(broker.url, "q")] == [bytes([number]) for number in (4, 0, 1, 2, 3, 5)]


def test_what_is_not_there_is_refused(spark: SparkSession, broker: ThreadedBroker, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="there is no queue 'missing'"):
        export_queues(spark, ["missing"], tmp_path / "export", url=broker.url).collect()
    with pytest.raises(FileNotFoundError, match="no export in"):
        import_queues(spark, tmp_path / "nothing", url=broker.url)
