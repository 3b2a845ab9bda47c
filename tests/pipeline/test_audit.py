"""The audit of journals that real brokers wrote: every number is compared with what the clients did."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from embedbroker.kernel import QueueDefinition
from embedbroker.pipeline import Audit, JournalMoved, _audit, audit, write_audit
from embedbroker.pipeline._broker_connection import BrokerConnection
from embedbroker.pipeline._journal_files import journal_sources
from embedbroker.pipeline._options import ConnectionOptions
from embedbroker.pipeline._services import Services
from embedbroker.runtime._disk import FileDisk
from embedbroker.storage import Journal, JournalSettings
from embedclient.blocking import ServerLocator
from embedclient.model import Xid
from tests.embedbroker.storage.journal_model import NOW, StoredMessage
from tests.embedbroker.storage.test_real_disk import drive
from tests.pipeline.journals import crash_image, prepared, running, send, take, transaction

COUNTS = ("stored", "acknowledged", "present", "removed_with_queue", "lost", "unaccounted", "acknowledged_twice")


def counts(result: Audit) -> dict[str, tuple[int, ...]]:
    """The verdict on each queue that has a name and any record."""
    rows: list[Row] = result.queues.collect()
    return {row["queue"]: tuple(row[name] for name in COUNTS) for row in rows if row["queue"] and row["stored"]}


def moved(result: Audit) -> dict[str, tuple[int, int]]:
    """How many messages came and went by what is drawn; the difference is what is present."""
    found = {row[0]: (row[1], row[2]) for row in result.backlog.groupBy("queue").sum("came", "went").collect()}
    present = {row["queue"]: row["present"] for row in result.queues.collect()}
    assert {queue: came - went for queue, (came, went) in found.items()} == {queue: present[queue] for queue in found}
    return found


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("segment-*.journal"))


def damage(path: Path, text: str) -> None:
    """Change one byte of the first record that holds this text."""
    with path.open("r+b") as file:
        place = file.read().index(text.encode("utf-16-le"))
        file.seek(place)
        file.write(b"\xff")


@pytest.mark.long
def test_a_crashed_broker_with_transactions_in_every_state(spark: SparkSession, tmp_path: Path) -> None:
    """Several segments; a committed, a rolled back and a prepared transaction; a kill with work under way."""
    with running(tmp_path / "live", segment_size_bytes=128 * 1024) as (broker, connection):
        send(connection, "orders", 300)
        take(connection, "orders", 100)
        send(connection, "prices", 50)
        transaction(connection, "orders", 10, 20, commit=True)
        transaction(connection, "orders", 7, 5, commit=False)
        prepared(broker.url, "orders", 6)
        image = crash_image(tmp_path / "live", tmp_path / "image")
    result = audit(spark, [image])
    assert len(segments(image)) > 2
    assert counts(result) == {"orders": (310, 120, 190, 0, 0, 0, 0), "prices": (50, 0, 50, 0, 0, 0, 0)}
    [branch] = result.transactions.collect()
    assert (branch["state"], branch["sent"], branch["acknowledged"]) == ("in doubt", 6, 0)
    assert branch["branch"] is not None
    assert (result.problems.count(), [each for each in result.findings if not each.torn]) == (0, [])
    assert result.sound
    traffic = result.traffic.groupBy("queue").sum("messages", "acknowledgements").collect()
    # All records, of transactions in every state.
    assert {row[0]: (row[1], row[2]) for row in traffic} == {"orders": (323, 125), "prices": (50, 0)}
    # What was rolled back or is prepared neither came nor went.
    assert moved(result) == {"orders": (310, 120), "prices": (50, 0)}
    result.close()


def test_a_running_broker_is_audited_in_place_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    with running(tmp_path) as (_, connection):
        send(connection, "orders", 120)
        take(connection, "orders", 30)
        result = audit(spark, [tmp_path])
        assert counts(result) == {"orders": (120, 30, 90, 0, 0, 0, 0)}
        assert moved(result) == {"orders": (120, 30)}
        take(connection, "orders", 90)
        result.close()
    result = audit(spark, [tmp_path])
    assert sum(row["present"] for row in result.queues.collect()) == 0
    result.close()


@pytest.mark.long
def test_compaction_takes_evidence_and_the_audit_says_so(spark: SparkSession, tmp_path: Path) -> None:
    """An archive has messages whose acknowledgements compaction has dropped since: not lost, but unaccounted for."""
    with running(tmp_path / "live", segment_size_bytes=16 * 1024) as (_, connection):
        send(connection, "kept", 2)
        send(connection, "orders", 40)
        image = crash_image(tmp_path / "live", tmp_path / "image")
        take(connection, "orders", 40)
        for _ in range(20):
            send(connection, "orders", 40)
            take(connection, "orders", 40)
    assert any("-" in path.stem.removeprefix("segment-") for path in segments(tmp_path / "live"))
    archive = tmp_path / "earlier.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(image, "broker")
    result = audit(spark, [archive, tmp_path / "live"])
    found = counts(result)
    assert found["kept"] == (2, 0, 2, 0, 0, 0, 0)
    stored, acknowledged, present, _, lost, unaccounted, twice = found["orders"]
    assert (lost, twice, present) == (0, 0, 0)
    assert stored == acknowledged + unaccounted
    assert result.problems.where("verdict = 'unaccounted'").count() == unaccounted > 0
    # Of the records that are left there are more acknowledgements than messages.
    [records] = result.traffic.where("queue = 'orders'").groupBy().sum("messages", "acknowledgements").collect()
    assert records[1] > records[0]
    came, went = moved(result)["orders"]
    assert came == went and moved(result)["kept"] == (2, 0)
    assert any("compacted" in text for text in result.limits())
    result.close()


@pytest.mark.long
def test_what_a_damaged_segment_lost_is_named_from_a_copy(spark: SparkSession, tmp_path: Path) -> None:
    with running(tmp_path / "live") as (_, connection):
        send(connection, "orders", 200, size=400)
        with connection.session() as session:
            session.create_producer("orders").send("the one that will be damaged")
        send(connection, "orders", 200, first=200)
    copy = tmp_path / "copy.zip"
    with zipfile.ZipFile(copy, "w") as archive:
        for path in segments(tmp_path / "live"):
            archive.write(path, f"day1/{path.name}")
    text = "the one that will be damaged"
    [hit] = [path for path in segments(tmp_path / "live") if text.encode("utf-16-le") in path.read_bytes()]
    damage(hit, text)

    alone = audit(spark, [tmp_path / "live"])
    assert counts(alone) == {"orders": (400, 0, 400, 0, 0, 0, 0)}
    [finding] = alone.findings
    assert (hit.name in finding.text, "checksum" in finding.text, finding.torn) == (True, True, False)
    assert not alone.sound and any("damaged" in text for text in alone.limits())
    alone.close()

    both = audit(spark, [tmp_path / "live", copy])
    assert counts(both) == {"orders": (401, 0, 400, 0, 1, 0, 0)}
    [problem] = both.problems.collect()
    assert (problem["queue"], problem["verdict"]) == ("orders", "lost")
    assert not both.sound
    assert any("LOST" in line for line in both.lines())
    both.close()


@pytest.mark.long
def test_a_message_that_is_acknowledged_twice_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """No broker writes this: a journal that does is made by hand. Once within a segment, once in two of them."""
    disk = FileDisk(tmp_path)
    journal = Journal(JournalSettings(identity=7, segment_size_bytes=64 * 1024, compaction_segments_min=1000))
    journal.open(NOW)
    drive(journal, disk)
    journal.add_queue(QueueDefinition(1, "q", "q", 1))
    for number in range(300):
        journal.add_message(StoredMessage(100_000 + number, bytes(500)), 0, [(1, 100_000 + number)])
        if number in (20, 21):
            journal.acknowledge(100_010, 1, 0)
        if number in (30, 290):
            journal.acknowledge(100_015, 1, 0)
        if number == 40:
            journal.acknowledge(100_016, 1, 0)
        drive(journal, disk)
    disk.close()
    copy = crash_image(tmp_path, tmp_path.parent / "copy")
    for places in ([tmp_path], [tmp_path, copy]):
        result = audit(spark, places)
        assert counts(result) == {"q": (300, 3, 297, 0, 0, 0, 2)}
        assert sorted(row["message_id"] for row in result.problems.collect()) == [100_010, 100_015]
        assert not result.sound
        result.close()


def test_messages_of_a_queue_that_was_removed_went_with_it(spark: SparkSession, tmp_path: Path) -> None:
    with running(tmp_path) as (broker, connection):
        send(connection, "short", 30)
        with ServerLocator(broker.url).create_session_factory() as factory, factory.create_session() as core_session:
            core_session.delete_queue("short")
        send(connection, "orders", 3)
    result = audit(spark, [tmp_path])
    assert counts(result) == {"short": (30, 0, 0, 30, 0, 0, 0), "orders": (3, 0, 3, 0, 0, 0, 0)}
    result.close()


def test_the_report_is_parquet_and_a_page(spark: SparkSession, tmp_path: Path) -> None:
    with running(tmp_path / "live") as (_, connection):
        send(connection, "orders <&>", 12)
        take(connection, "orders <&>", 5)
    result = audit(spark, [tmp_path / "live"])
    page = write_audit(result, tmp_path / "report").read_text()
    assert (
        spark.read.parquet(str(tmp_path / "report" / "queues")).where("stored = 12 and acknowledged = 5").count() == 1
    )
    assert "orders &lt;&amp;&gt;" in page and "<polyline" in page and "No audit log was read" in page
    assert {path.name for path in (tmp_path / "report").iterdir()} == {
        "queues", "problems", "transactions", "traffic", "segments", "report.html",
    }  # fmt: skip
    result.close()


def test_places_without_a_journal_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no journal in"):
        audit(spark, [tmp_path])
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        audit(spark, [tmp_path / "missing"])
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(ValueError, match="neither a directory nor an archive"):
        audit(spark, [tmp_path / "text"])


@pytest.mark.long
def test_branches_that_were_committed_as_a_set_are_committed(spark: SparkSession, tmp_path: Path) -> None:
    """Sent in two branches, one of them in an older segment; a third branch stays in doubt."""
    branches = [Xid(7, b"batch", bytes([number])) for number in range(3)]
    with running(tmp_path, segment_size_bytes=128 * 1024) as (broker, connection):
        prepared(broker.url, "orders", 8, branch=branches[0])
        send(connection, "prices", 200)
        prepared(broker.url, "orders", 5, branch=branches[1])
        prepared(broker.url, "orders", 2, branch=branches[2])
        link = BrokerConnection(ConnectionOptions(broker.url))
        services = Services(link)
        named = [
            {"format": 7, "global": xid.global_transaction_id.hex(), "branch": xid.branch_qualifier.hex()}
            for xid in branches[:2]
        ]
        assert services.call("commit-set", marker="m", expected=None, value=1, branches=named)["result"] == "committed"
        services.close()
        link.close()
    result = audit(spark, [tmp_path])
    assert counts(result)["orders"] == (13, 0, 13, 0, 0, 0, 0)
    [branch] = result.transactions.collect()
    assert (branch["state"], branch["sent"]) == ("in doubt", 2)
    result.close()


@pytest.mark.long
def test_a_segment_that_is_missing_is_damage(spark: SparkSession, tmp_path: Path) -> None:
    with running(tmp_path) as (_, connection):
        send(connection, "orders", 300)
    segments(tmp_path)[1].unlink()
    result = audit(spark, [tmp_path])
    assert [each.text for each in result.findings if not each.torn] == ["segment 2 to 2 is missing"]
    assert not result.sound
    result.close()


@pytest.mark.long
def test_segments_that_go_while_they_are_read_are_looked_for_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction removes files between listing and reading: the first listing is stale, then all are."""
    with running(tmp_path / "live") as (_, connection):
        send(connection, "orders", 50)
    stale = journal_sources([crash_image(tmp_path / "live", tmp_path / "gone")])
    for path in segments(tmp_path / "gone"):
        path.unlink()
    listings = iter([stale])
    monkeypatch.setattr(_audit, "journal_sources", lambda places: next(listings, None) or journal_sources(places))
    result = audit(spark, [tmp_path / "live"])
    assert counts(result) == {"orders": (50, 0, 50, 0, 0, 0, 0)}
    result.close()
    monkeypatch.setattr(_audit, "journal_sources", lambda _places: stale)
    with pytest.raises(JournalMoved, match="was removed before it was read"):
        audit(spark, [tmp_path / "live"])
