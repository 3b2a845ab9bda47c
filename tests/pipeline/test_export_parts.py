"""Parts of exports, without Spark: what a message looks like in them, their sizes, names, and two attempts at once."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from embedbroker import ThreadedBroker
from embedbroker.pipeline import _export, _transfer, exported_queues
from embedbroker.pipeline._export import ExportParts, export_queue
from embedbroker.pipeline._export_folder import ExportFolder
from embedbroker.pipeline._options import ConnectionOptions
from embedbroker.pipeline._repair import keys_and_digests
from embedbroker.pipeline._transfer import import_parts
from embedclient.blocking import ConnectionFactory, ServerLocator
from tests.pipeline.queues import fill, left_in, numbered
from tests.pipeline.test_cursor_source import consume


def column(folder: ExportFolder, name: str) -> list[object]:
    """Of all parts, in their order."""
    return [each for path in folder.part_paths() for each in pq.read_table(path, columns=[name]).column(0).to_pylist()]


def test_deliveries_are_counted_as_the_source_counts_them(broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(2)))
    with (
        ConnectionFactory(broker.url).connect() as connection,
        connection.session(transacted=True) as session,
        session.create_consumer("orders") as consumer,
    ):
        assert consumer.receive(timeout=5) is not None
        session.rollback()
    export_queue(ConnectionOptions(broker.url), "orders", str(tmp_path), 10)
    folder = ExportFolder.of(str(tmp_path), "orders")
    assert column(folder, "deliveryCount") == [2, 1]
    assert column(folder, "redelivered") == [True, False]


def test_a_part_and_a_transaction_have_so_many_bytes_at_most(
    broker: ThreadedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_export, "BYTES_PER_PART", 25_000)
    monkeypatch.setattr(_transfer, "BYTES_PER_TRANSACTION", 15_000)
    fill(broker.url, "orders", [*numbered("orders", range(5), size=10_000), *numbered("orders", [5], size=50_000)])
    export_queue(ConnectionOptions(broker.url), "orders", str(tmp_path), 100)
    parts = ExportFolder.of(str(tmp_path), "orders").parts()
    assert [part.rows for part in parts] == [2, 2, 1, 1]
    assert [len(each) for each in _transfer.transactions_of("orders", parts[0].path)] == [1, 1]


def test_two_attempts_at_once_write_each_message_once(broker: ThreadedBroker, tmp_path: Path) -> None:
    """As with speculation: the first one is ahead when a consumer takes what it has, and the second one begins."""
    fill(broker.url, "orders", numbered("orders", range(100)))
    folder = ExportFolder.of(str(tmp_path), "orders")
    folder.make()
    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        session.start()
        attempts = [ExportParts(folder, "orders", 10) for _ in range(2)]
        with session.create_consumer("orders", browse_only=True) as consumer:
            shown = consumer.receive_encoded(100)
        for message in shown[:15]:
            attempts[0].add(*message)
        with session.create_consumer("orders") as consumer:
            assert len(consumer.receive_encoded(3)) == 3
            consumer.acknowledge_received()
        for message in shown[3:40]:
            attempts[1].add(*message)
        for message in shown[15:]:
            attempts[0].add(*message)
        for message in shown[40:]:
            attempts[1].add(*message)
        for attempt in attempts:
            attempt.write()
    numbers = column(folder, "sequenceId")
    assert len(numbers) == len(set(numbers)) == 100
    assert sorted(path.suffix for path in folder.path.iterdir()) == [".parquet"] * len(folder.part_paths())


@pytest.mark.parametrize("queue", [".", "..", "ö/" * 100])
def test_queues_of_any_name_are_in_the_folder(broker: ThreadedBroker, tmp_path: Path, queue: str) -> None:
    fill(broker.url, queue, numbered(queue, range(3)))
    root = tmp_path / "a" / "b"
    assert export_queue(ConnectionOptions(broker.url), queue, str(root), 10).messages == 3
    assert [path.name for path in tmp_path.iterdir() if path.name != "broker"] == ["a"]
    [(name, folder)] = exported_queues(root).items()
    assert (name, folder.parent) == (queue, root)


def test_an_import_goes_on_in_each_part_and_never_back(broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(20)))
    connection = ConnectionOptions(broker.url)
    export_queue(connection, "orders", str(tmp_path), 10)
    folder = ExportFolder.of(str(tmp_path), "orders")
    parts = folder.parts()
    assert [import_parts(connection, "orders", folder.path, [part]).messages for part in parts] == [10, 10]
    assert import_parts(connection, "orders", folder.path, parts).before == 20
    assert left_in(broker.url, "orders") == [str(number).encode() for number in range(20)] * 2


def test_a_comparison_finds_imported_messages_again_that_have_no_ids(broker: ThreadedBroker, tmp_path: Path) -> None:
    fill(broker.url, "orders", numbered("orders", range(5)))
    connection = ConnectionOptions(broker.url)
    with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as session:
        session.start()
        before = list(keys_and_digests(session, "orders", None))
        export_queue(connection, "orders", str(tmp_path), 10)
        consume(broker, "orders", 5)
        folder = ExportFolder.of(str(tmp_path), "orders")
        import_parts(connection, "orders", folder.path, folder.parts())
        assert list(keys_and_digests(session, "orders", None)) == before
        assert len({key for key, _ in before}) == 5
