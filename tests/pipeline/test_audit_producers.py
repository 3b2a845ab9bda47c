"""The verdict of an audit on each producer, against what the producers did."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from embedbroker.kernel import QueueDefinition
from embedbroker.pipeline import Audit, JournalMoved, _audit, audit, write_audit
from embedbroker.pipeline._journal_files import gone_since, journal_sources
from embedbroker.runtime._disk import FileDisk
from embedbroker.storage import Journal, JournalSettings
from embedclient import TextMessage
from embedclient.blocking import Connection, ServerLocator
from tests.embedbroker.storage.journal_model import NOW, StoredMessage
from tests.embedbroker.storage.test_real_disk import drive
from tests.pipeline.journals import crash_image, running, send, take
from tests.pipeline.queues import text_message
from tests.pipeline.test_audit import damage, segments
from tests.pipeline.test_left_behind import went_on

COUNTS = ("stored", "acknowledged", "present", "removed_with_queue", "lost", "unaccounted", "acknowledged_twice",
          "out_of_order", "repeated")  # fmt: skip
DAMAGED = "the one that will be damaged"


def audited(spark: SparkSession, *places: Path) -> Audit:
    return audit(spark, places, producer="producer", sequence="number")


def counts(found: DataFrame | None) -> dict[tuple[str, str | None], tuple[int | None, ...]]:
    assert found is not None
    return {(row["queue"], row["producer"]): tuple(row[name] for name in COUNTS) for row in found.collect()}


def send_one(connection: Connection, queue: str, text: str, **properties: str | int) -> None:
    with connection.session() as session, session.create_producer(queue) as target:
        target.send(TextMessage(text, properties=properties))


def test_the_report_has_the_verdicts_of_each_producer_as_parquet_and_on_the_page(
    spark: SparkSession, tmp_path: Path
) -> None:
    live, copy = tmp_path / "live", tmp_path / "copy"
    with running(live) as (broker, connection):
        send(connection, "short", 4, producer="d")
        with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as core_session:
            core_session.delete_queue("short")
        send(connection, "orders", 200, size=400)
        send_one(connection, "orders", DAMAGED, producer="<c>", number=1)
        send(connection, "orders", 5, producer="b", first=3)
        send(connection, "orders", 2, producer="b", first=1)
        send(connection, "orders", 1, producer="b", first=7)
        send_one(connection, "orders", "nobody's", number=5)
        send_one(connection, "orders", "nobody's", number=4)
        send_one(connection, "orders", "without a number", producer="b")
        send(connection, "orders", 200, first=200, size=400)
        take(connection, "orders", 6)
    crash_image(live, copy)
    [hit] = [path for path in segments(live) if DAMAGED.encode("utf-16-le") in path.read_bytes()]
    damage(hit, DAMAGED)
    result = audited(spark, live, copy)
    expected = {
        ("orders", "a"): (400, 6, 394, 0, 0, 0, 0, 0, 0),
        ("orders", "b"): (9, 0, 9, 0, 0, 0, 0, 2, 1),
        ("orders", "<c>"): (1, 0, 0, 0, 1, 0, 0, 0, 0),
        ("orders", None): (2, 0, 2, 0, 0, 0, 0, None, None),
        ("short", "d"): (4, 0, 0, 4, 0, 0, 0, 0, 0),
    }
    assert counts(result.producers) == expected
    assert "orders, producer <c>: 0 present, 1 stored, 0 acknowledged, 0 out of order, 0 repeated; 1 LOST" in [
        *result.lines()
    ]
    page = write_audit(result, tmp_path / "report").read_text()
    assert counts(spark.read.parquet(str(tmp_path / "report" / "producers"))) == expected
    part = page.partition("<h2>Producers</h2>")[2].partition("<h2>")[0]
    assert "<th>out of order</th>" in part and "<td>&lt;c&gt;</td>" in part and '<td class="number bad">2</td>' in part
    result.close()


@pytest.mark.long
def test_a_journal_whose_only_fault_is_the_order_of_a_producer_is_not_sound(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running(tmp_path / "live") as (_, connection):
        send(connection, "orders", 2, first=1)
        send(connection, "orders", 1)
    silent = audit(spark, [tmp_path / "live"])
    assert silent.sound and silent.producers is None
    assert "Producers" not in write_audit(silent, tmp_path / "silent").read_text()
    silent.close()
    result = audited(spark, tmp_path / "live")
    assert not result.sound
    assert "<b>Something is wrong</b>" in write_audit(result, tmp_path / "report").read_text()
    result.close()
    with pytest.raises(ValueError, match="producer and sequence belong together"):
        audit(spark, [tmp_path / "live"], producer="producer")


def test_a_message_that_is_acknowledged_twice_is_its_producers(spark: SparkSession, tmp_path: Path) -> None:
    """No broker writes this: the journal is made by hand."""
    disk = FileDisk(tmp_path)
    journal = Journal(JournalSettings(identity=7, segment_size_bytes=64 * 1024))
    journal.open(NOW)
    drive(journal, disk)
    journal.add_queue(QueueDefinition(1, "q", "q", 1))
    for number in range(10):
        raw = bytes(text_message("q", str(number), producer="ab"[number % 2], number=number).raw)
        journal.add_message(StoredMessage(100_000 + number, raw), 0, [(1, 100_000 + number)])
    for number in (4, 4, 5):
        journal.acknowledge(100_000 + number, 1, 0)
    drive(journal, disk)
    disk.close()
    result = audited(spark, tmp_path)
    assert counts(result.producers) == {
        ("q", "a"): (5, 1, 4, 0, 0, 0, 1, 0, 0),
        ("q", "b"): (5, 1, 4, 0, 0, 0, 0, 0, 0),
    }
    result.close()


@pytest.mark.long
def test_what_a_dead_primary_alone_had_is_no_producers(spark: SparkSession, tmp_path: Path) -> None:
    """It has the numbers of messages that the producer sent again."""
    result = audited(spark, *went_on(tmp_path, in_copy=10, alone=3, after=30))
    assert result.problems.where("verdict = 'left behind'").count() == 3
    assert counts(result.producers) == {("orders", "a"): (40, 4, 36, 0, 0, 0, 0, 0, 0)}
    assert result.sound
    result.close()


@pytest.mark.long
def test_segments_that_go_while_messages_are_read_are_looked_for_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "live") as (_, connection):
        send(connection, "orders", 5)
    went = iter(["it went"])
    monkeypatch.setattr(_audit, "gone_since", lambda *_: next(went, ""))
    result = audited(spark, tmp_path / "live")
    assert counts(result.producers) == {("orders", "a"): (5, 0, 5, 0, 0, 0, 0, 0, 0)}
    assert [*went] == []
    result.close()
    monkeypatch.setattr(_audit, "gone_since", lambda *_: "it went")
    monkeypatch.setattr(_audit, "LISTINGS", 1)
    with pytest.raises(JournalMoved, match="it went"):
        audited(spark, tmp_path / "live")


def test_a_listing_knows_what_went_since(tmp_path: Path) -> None:
    with running(tmp_path) as (_, connection):
        send(connection, "orders", 300, size=400)
    listed = journal_sources([tmp_path])
    assert gone_since(listed, [tmp_path]) == ""
    first = segments(tmp_path)[0]
    first.unlink()
    assert gone_since(listed, [tmp_path]) == f"{first.name} was removed or used anew while it was read"
