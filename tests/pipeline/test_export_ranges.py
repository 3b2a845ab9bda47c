"""Exports and imports with many tasks per queue: the same messages, once, and a queue that is as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from embedbroker import EmbeddedBroker, ThreadedBroker
from embedbroker.pipeline import export_queues, import_queues
from embedbroker.pipeline._broker_connection import BrokerConnection
from embedbroker.pipeline._cursor_source import CURSOR
from embedbroker.pipeline._export import export_queue
from embedbroker.pipeline._export_folder import ExportFolder
from embedbroker.pipeline._export_ranges import ExportPins, QueueRange, export_range, pinned_ranges
from embedbroker.pipeline._options import ConnectionOptions
from embedbroker.pipeline._services import ServiceRefused
from embedclient.blocking import ServerLocator
from embedclient.errors import IllegalStateException
from tests.pipeline.queues import create, fill, left_in, numbered
from tests.pipeline.test_cursor_source import ask, consume, expected, refuse_threads, source
from tests.pipeline.test_transfer import moved


@pytest.fixture
def other() -> Iterator[ThreadedBroker]:
    """A second broker."""
    with EmbeddedBroker.in_thread() as running:
        create(running.url, "orders")
        yield running


def ranges(broker: ThreadedBroker, root: Path, count: int = 10) -> list[QueueRange] | None:
    """What an export by ranges would read, which dies at once."""
    with pinned_ranges(ConnectionOptions(broker.url), ["orders"], str(root), count) as found:
        return found.get("orders")


def export(broker: ThreadedBroker, root: Path, count: int = 10) -> list[int]:
    """Without Spark: so many messages in each range."""
    connection = ConnectionOptions(broker.url)
    with pinned_ranges(connection, ["orders"], str(root), count) as found:
        return [export_range(connection, each, str(root)).messages for each in found["orders"]]


def raws(folder: ExportFolder) -> list[tuple[object, object]]:
    tables = [pq.read_table(path, columns=["raw", "deliveryCount"]) for path in folder.part_paths()]
    return [pair for each in tables for pair in zip(*(column.to_pylist() for column in each.columns), strict=True)]


def test_an_export_lets_its_queues_go_without_a_thread(
    broker: ThreadedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    refuse_threads(monkeypatch, "embedbroker export end")
    assert ranges(broker, tmp_path)
    with pytest.raises(ServiceRefused, match="has no cursor"):
        ask(broker, "cursor.renew", queue="orders", cursor=CURSOR, owner="x")


def test_many_tasks_move_each_message_once(
    spark: SparkSession, broker: ThreadedBroker, other: ThreadedBroker, tmp_path: Path
) -> None:
    fill(broker.url, "orders", numbered("orders", range(95)))
    folder = ExportFolder.of(str(tmp_path / "export"), "orders")
    root = folder.path.parent
    assert moved(
        export_queues(spark, ["orders"], root, url=broker.url, messages_per_part=10, parallel=True)
    ) == (95, 0)  # fmt: skip
    assert len(folder.part_paths()) == 10
    # Interrupted: one range is not there. What came meanwhile is no part of it.
    folder.complete.unlink()
    lost = pq.read_metadata(folder.part_path(4)).num_rows
    folder.part_path(4).unlink()
    fill(broker.url, "orders", numbered("orders", [95]))
    assert moved(export_queues(spark, ["orders"], root, url=broker.url, messages_per_part=10)) == (lost, 95 - lost)
    assert json.loads(folder.complete.read_text()) == {"messages": 95}
    for expectation in ((95, 0), (0, 95)):
        assert moved(import_queues(spark, root, url=other.url, parallel=True)) == expectation
    assert sorted(left_in(other.url, "orders"), key=int) == expected(95)


def test_ranges_have_what_a_look_at_the_queue_has(broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(35)))
    assert sum(export(broker, tmp_path / "ranges")) == 35
    assert export(broker, tmp_path / "ranges") == [0, 0, 0, 0]
    export_queue(ConnectionOptions(broker.url), "orders", str(tmp_path / "browsed"), 10)
    found = [raws(ExportFolder.of(str(tmp_path / name), "orders")) for name in ("ranges", "browsed")]
    assert found[0] == found[1]
    # The queue is as it was.
    consume(broker, "orders", 35)


def test_a_killed_export_goes_on_with_what_was_left_to_it(broker: ThreadedBroker, tmp_path: Path) -> None:
    """Its lease runs out, and a consumer takes some."""
    fill(broker.url, "orders", numbered("orders", range(30)))
    connection = ConnectionOptions(broker.url)
    link = BrokerConnection(connection)
    folder = ExportFolder.of(str(tmp_path), "orders")
    folder.make()
    killed = ExportPins(link)
    first, *_ = killed.ranges("orders", folder, 10) or []
    assert export_range(connection, first, str(tmp_path)).messages == 10
    # In its name, as if time had passed; the rest of it lives on.
    ask(broker, "cursor.release", queue="orders", cursor=CURSOR, owner=killed.owner)
    consume(broker, "orders", 15)
    fill(broker.url, "orders", numbered("orders", [30]))
    assert export(broker, tmp_path) == [0, 5, 10]
    consume(broker, "orders", 16)
    # Nothing is there any more, not even a position.
    folder.part_path(2).unlink()
    assert export(broker, tmp_path) == [0, 0, 0]
    killed.close()
    link.close()


def test_queues_of_others_are_browsed(broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    stream = source(broker)
    end = stream.latest(stream.initial(), 5, 0)
    assert ranges(broker, tmp_path) is None
    assert stream.partitions(end)
    ask(broker, "cursor.remove", queue="orders", cursor=CURSOR, owner=stream.owner)
    stream.close()
    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        with session.create_consumer("orders"):
            assert ranges(broker, tmp_path) is None
            export_queue(ConnectionOptions(broker.url), "orders", str(tmp_path / "browsed"), 10)
        found = ranges(broker, tmp_path)
        assert found is not None
        with session.create_consumer("orders"), pytest.raises(IllegalStateException, match="has 1 consumers"):
            ranges(broker, tmp_path)
    (tmp_path / "browsed" / "orders" / "complete.json").unlink()
    assert ranges(broker, tmp_path / "browsed") is None


def test_ranges_mean_nothing_to_another_broker(broker: ThreadedBroker, other: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(10)))
    assert ranges(broker, tmp_path) is not None
    with pytest.raises(IllegalStateException, match="has lost its journal since it began, or is another one"):
        ranges(other, tmp_path)
    consume(broker, "orders", 10)
    assert ranges(broker, tmp_path / "empty") == []
