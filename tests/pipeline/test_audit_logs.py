"""The audit with an audit log, of brokers that ran: every number is compared with what the clients did."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embedbroker import BrokerConfig, EmbeddedBroker
from embedbroker.pipeline import audit, write_audit
from embedbroker.pipeline._audit_log_files import log_places, log_sources
from embedclient.blocking import ConnectionFactory
from tests.pipeline.journals import send, take, transaction

COUNTS = ("sent", "confirmed", "delivered", "acknowledged", "present", "never_delivered", "delivered_twice",
          "never_acknowledged", "not_logged")  # fmt: skip


@pytest.mark.long
def test_two_lives_of_a_broker_and_what_is_left(spark: SparkSession, tmp_path: Path) -> None:
    """Small segments; committed and rolled back transactions; messages given back; a look while the broker runs."""
    config = BrokerConfig(
        data_directory=str(tmp_path / "journal"),
        audit_directory=str(tmp_path / "audit"),
        segment_size_bytes=128 * 1024,
    )
    for _ in range(2):
        with (
            EmbeddedBroker.in_thread(config) as broker,
            ConnectionFactory(f"{broker.url}?blockOnAcknowledge=true").connect() as connection,
        ):
            send(connection, "orders", 300)
            take(connection, "orders", 100)
            transaction(connection, "orders", 10, 20, commit=True)
            transaction(connection, "orders", 5, 3, commit=False)
    result = audit(spark, [tmp_path / "journal"])
    assert result.log is not None and result.sound and result.log.gaps == []
    (row,) = result.log.queues.collect()
    assert [row[name] for name in COUNTS] == [620, 620, 620, 240, 380, 0, 0, 0, 0]
    assert 0 <= row["p50_ms"] <= row["p90_ms"] <= row["p99_ms"] <= row["max_ms"]
    assert [each["ended"] for each in result.log.lives.collect()] == [True, True]
    assert not any("cannot be proven" in text for text in result.limits())
    assert any("audit log was read" in text for text in result.limits())
    page = write_audit(result, tmp_path / "report").read_text()
    assert "percent of messages acknowledged within" in page and "never delivered" in page
    assert spark.read.parquet(str(tmp_path / "report" / "log_queues")).count() == 1
    result.close()


def test_a_log_that_stopped_is_a_gap(spark: SparkSession, tmp_path: Path) -> None:
    """What the journal has and the log has not is counted, and a message that it may explain is not called lost."""
    config = BrokerConfig(data_directory=str(tmp_path / "journal"), audit_directory=str(tmp_path / "audit"))
    for logged in (True, False):
        life = config if logged else BrokerConfig(data_directory=str(tmp_path / "journal"))
        with (
            EmbeddedBroker.in_thread(life) as broker,
            ConnectionFactory(f"{broker.url}?blockOnAcknowledge=true").connect() as connection,
        ):
            send(connection, "orders", 10)
            if not logged:
                take(connection, "orders", 4)
    result = audit(spark, [tmp_path / "journal", tmp_path / "audit"])
    assert result.log is not None and not result.sound
    (row,) = result.log.queues.collect()
    assert [row[name] for name in COUNTS] == [10, 10, 0, 0, 6, 0, 0, 0, 14]
    assert any("14 in the journal, NOT IN THE LOG" in line for line in result.lines())
    result.close()


@pytest.fixture
def archives(tmp_path: Path) -> list[Path]:
    """Of a broker that took 10 messages and gave 4 out: its journal with its log, and the log alone."""
    config = BrokerConfig(data_directory=str(tmp_path / "journal"), audit_directory=str(tmp_path / "audit"))
    with (
        EmbeddedBroker.in_thread(config) as broker,
        ConnectionFactory(f"{broker.url}?blockOnAcknowledge=true").connect() as connection,
    ):
        send(connection, "orders", 10)
        take(connection, "orders", 4)
    both, alone = tmp_path / "both.tar.gz", tmp_path / "alone.zip"
    with tarfile.open(both, "w:gz") as tar:
        tar.add(tmp_path / "journal", "./day1/journal")
        tar.add(tmp_path / "audit", "./day1/logs")
    with zipfile.ZipFile(alone, "w") as zipped:
        for path in (tmp_path / "audit").iterdir():
            zipped.write(path, path.name)
    return [both, alone]


def test_logs_are_found_in_archives(archives: list[Path], tmp_path: Path) -> None:
    both, alone = archives
    folders, without_journal = log_places([both, alone])
    assert [folder.name for folder in folders] == [f"{both}:./day1/logs", f"{alone}:."]
    assert without_journal == [alone]
    plain = log_sources(log_places([tmp_path / "audit"])[0])[0]
    for source in log_sources(folders):
        assert source.segments == plain.segments
        for number, _ in source.segments:
            assert source.folder.read(number) == plain.folder.read(number)
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(ValueError, match="neither a directory nor an archive"):
        log_places([tmp_path / "text"])
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(both.read_bytes()[:-200])
    with pytest.raises(ValueError, match="cut short"):
        log_places([cut])


def test_an_archive_with_journal_and_log_is_audited_as_directories_are(
    spark: SparkSession, archives: list[Path]
) -> None:
    result = audit(spark, archives[:1])
    assert result.log is not None and result.sound and result.log.gaps == []
    (row,) = result.log.queues.collect()
    assert [row[name] for name in COUNTS] == [10, 10, 10, 4, 6, 0, 0, 0, 0]
    result.close()
