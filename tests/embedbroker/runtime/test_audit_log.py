"""The audit log of a broker on real files: what clients saw is in it, and its disk affects nothing but the log."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedbroker import BrokerConfig, EmbeddedBroker
from embedbroker.runtime._disk import FileDisk
from embedbroker.storage import AuditRecordKind, DiskFault, DiskOperation, FaultKind
from embedclient.blocking import Connection, ConnectionFactory
from embedclient.errors import ResourceAllocationException
from tests.audit_logs import AuditEntry, entries_in

KIND = AuditRecordKind


def config(directory: Path, **more: object) -> BrokerConfig:
    return BrokerConfig(data_directory=str(directory / "data"), audit_directory=str(directory / "audit"), **more)  # type: ignore[arg-type]  # fields


@contextmanager
def connected(settings: BrokerConfig) -> Iterator[Connection]:
    with (
        EmbeddedBroker.in_thread(settings) as broker,
        ConnectionFactory(f"{broker.url}?blockOnAcknowledge=true").connect() as connection,
    ):
        yield connection


def send(connection: Connection, *bodies: str) -> None:
    with connection.session() as session, session.create_producer("orders") as producer:
        for body in bodies:
            producer.send(body)


def take(connection: Connection, count: int) -> list[str]:
    with connection.session() as session, session.create_consumer("orders") as consumer:
        received = [consumer.receive(timeout=60) for _ in range(count)]
    return [str(message.body) for message in received if message is not None]


def ids(entries: list[AuditEntry], kind: AuditRecordKind) -> list[object]:
    return [entry.facts["message_id"] for entry in entries if entry.kind is kind]


def test_what_happens_to_each_message_is_written_in_order(tmp_path: Path) -> None:
    with connected(config(tmp_path)) as connection:
        send(connection, "a", "b")
        assert take(connection, 2) == ["a", "b"]
    entries = entries_in(tmp_path / "audit")
    sent = ids(entries, KIND.SENT)
    assert len(sent) == 2 and ids(entries, KIND.DELIVERED) == ids(entries, KIND.LEFT) == sent
    confirmed = [entry.facts["number"] for entry in entries if entry.kind is KIND.CONFIRMED]
    assert confirmed[-1] == sent[-1]
    assert entries[0].name == "BEGUN" and entries[-1].name == "ENDED"


def test_a_message_that_comes_back_is_returned_and_delivered_with_its_flag(tmp_path: Path) -> None:
    with connected(config(tmp_path)) as connection:
        send(connection, "a")
        with connection.session(transacted=True) as session, session.create_consumer("orders") as consumer:
            assert consumer.receive(timeout=60) is not None
            session.rollback()
            again = consumer.receive(timeout=60)
            assert again is not None and again.redelivered
            session.commit()
    entries = entries_in(tmp_path / "audit")
    assert [entry.facts["flags"] for entry in entries if entry.kind is KIND.DELIVERED] == [0, 1]
    assert [entry.facts["flags"] for entry in entries if entry.kind is KIND.RETURNED] == [1]
    left = [entry for entry in entries if entry.kind is KIND.LEFT]
    committed = [entry.facts["transaction_ids"] for entry in entries if entry.kind is KIND.COMMITTED]
    # What was rolled back was acknowledged in a transaction that is not among these.
    assert committed == [[left[-1].facts["transaction_id"]]] and [left[0].facts["transaction_id"]] not in committed


def test_browsers_are_given_nothing(tmp_path: Path) -> None:
    with connected(config(tmp_path)) as connection:
        send(connection, "a")
        with connection.session() as session, session.create_browser("orders") as browser:
            assert len(list(browser)) == 1
    assert ids(entries_in(tmp_path / "audit"), KIND.DELIVERED) == []


def test_a_kill_leaves_out_nothing_that_a_client_saw(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "embedbroker.cli", "run", "--json", "--port", "0"]
    command += ["--data", str(tmp_path / "data"), "--audit", str(tmp_path / "audit")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        factory = ConnectionFactory(f"{url}?blockOnAcknowledge=true&reconnectAttempts=0")
        with factory.connect() as connection:
            send(connection, *[str(number) for number in range(50)])
            assert len(take(connection, 20)) == 20
            os.kill(process.pid, signal.SIGKILL)
    entries = entries_in(tmp_path / "audit")
    sent = ids(entries, KIND.SENT)
    assert len(sent) == 50
    assert ids(entries, KIND.DELIVERED)[:20] == ids(entries, KIND.LEFT)[:20] == sent[:20]
    assert max(entry.facts["number"] for entry in entries if entry.kind is KIND.CONFIRMED) >= sent[-1]  # type: ignore[type-var, operator]  # numbers
    assert entries[-1].name != "ENDED"
    with connected(config(tmp_path)) as connection:
        assert len(take(connection, 30)) == 30
    assert len(set(ids(entries_in(tmp_path / "audit"), KIND.LEFT))) == 50


def test_a_full_disk_ends_the_log_and_not_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run, full = FileDisk.run, False

    def refusing(self: FileDisk, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        if full and self.directory.name == "audit":
            raise DiskFault(FaultKind.FULL, "audit-0000000001.log", "No space left on device")
        return run(self, operations)

    monkeypatch.setattr(FileDisk, "run", refusing)
    with caplog.at_level(logging.ERROR), connected(config(tmp_path)) as connection:
        send(connection, "a")
        full = True
        send(connection, "b")
        full = False
        send(connection, "c")
        assert take(connection, 3) == ["a", "b", "c"]
    said = [record.message for record in caplog.records if "audit" in record.message]
    assert said == [
        "the audit log stops, the broker goes on without it until it starts again: "
        "audit-0000000001.log: No space left on device"
    ]
    assert len(ids(entries_in(tmp_path / "audit"), KIND.SENT)) == 1
    # It begins anew with the next life.
    with connected(config(tmp_path)) as connection:
        send(connection, "d")
    assert len(ids(entries_in(tmp_path / "audit"), KIND.SENT)) == 2


def test_a_directory_that_another_broker_uses_is_an_error_at_the_start(tmp_path: Path) -> None:
    second = BrokerConfig(data_directory=str(tmp_path / "other"), audit_directory=str(tmp_path / "audit"))
    refused = pytest.raises(ResourceAllocationException, match=r"audit log: directory .* is used by")
    with connected(config(tmp_path)), refused, EmbeddedBroker.in_thread(second):
        pass
    # What the refused broker took, it gave back.
    with connected(second) as connection:
        send(connection, "a")


def test_the_retention_holds_while_a_broker_runs(tmp_path: Path) -> None:
    small = config(tmp_path, segment_size_bytes=16 * 1024, audit_retention=64 * 1024)
    with connected(small) as connection:
        for _ in range(15):
            send(connection, *["x"] * 10)
            assert len(take(connection, 10)) == 10
    sizes = [path.stat().st_size for path in (tmp_path / "audit").glob("audit-*.log")]
    assert sum(sizes) <= 64 * 1024
    assert entries_in(tmp_path / "audit")
