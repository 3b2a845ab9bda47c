"""`embedbroker journal`: sound, damaged, used and missing journals, listed and saved."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from embedbroker import EmbeddedBroker
from embedbroker.cli._commands import commands
from embedclient import TextMessage
from embedclient.blocking import ConnectionFactory
from tests.embedbroker.cli.command_processes import finished

MESSAGES = 20


def journal(*arguments: str | Path) -> Result:
    return CliRunner().invoke(commands, ["journal", *map(str, arguments)])


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """The journal of a stopped broker: twenty messages, the first acknowledged."""
    data = tmp_path / "data"
    with (
        EmbeddedBroker.in_thread(data_directory=str(data)) as broker,
        ConnectionFactory(f"{broker.url}?blockOnAcknowledge=true").connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer("orders")
        for number in range(MESSAGES):
            producer.send(f"message {number}")
        with session.create_consumer("orders") as consumer:
            message = consumer.receive()
            assert message is not None
    yield data


def damage(directory: Path) -> tuple[Path, int]:
    """Change one byte in the middle of what is used."""
    segment = min(directory.glob("*.journal"))
    with segment.open("r+b") as file:
        place = file.read().index("message 5".encode("utf-16-le"))
        file.seek(place)
        file.write(b"X")
    return segment, place


def test_duplicate_ids_are_counted_and_listed(tmp_path: Path) -> None:
    with (
        EmbeddedBroker.in_thread(data_directory=str(tmp_path)) as broker,
        ConnectionFactory(broker.url).connect() as connection,
        connection.session() as session,
    ):
        producer = session.create_producer("orders")
        for identity in ("one", b"two", "one"):
            producer.send(TextMessage("x", properties={"_AMQ_DUPL_ID": identity}))
    assert "state: 2 messages, 3 queues, 0 prepared transactions, 2 duplicate ids; sealed" in (
        journal("verify", tmp_path).stdout
    )
    rows = journal("show", tmp_path, "--kind", "DUPLICATE_ID").stdout.splitlines()
    assert [row.rpartition(" ")[2] for row in rows] == ["one".encode("utf-16-le").hex(), b"two".hex()]


def test_a_sound_journal_is_sound(directory: Path) -> None:
    result = journal("verify", directory)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "sound"
    assert f"{MESSAGES - 1} messages" in result.stdout
    report = json.loads(journal("verify", directory, "--json").stdout)
    assert report["sound"] is True
    assert report["starts"] is True
    assert report["sealed"] is True
    assert report["records"]["ADD_MESSAGE"] == MESSAGES


def test_a_damaged_journal_is_told_with_file_and_offset(directory: Path) -> None:
    segment, _ = damage(directory)
    result = journal("verify", directory)
    assert result.exit_code == 1
    assert f"found: {segment.name} at offset " in result.stdout
    assert "a broker refuses to start" in result.stdout
    assert "state: unknown; " in result.stdout and "messages" not in result.stdout
    report = json.loads(journal("verify", directory, "--json").stdout)
    assert report["starts"] is False
    assert [report[what] for what in ("messages", "queues", "prepared_transactions")] == [None, None, None]


def test_records_are_listed_with_damage_where_it_is(directory: Path) -> None:
    rows = [json.loads(line) for line in journal("show", directory, "--json").stdout.splitlines()]
    assert [row["kind"] for row in rows].count("ADD_MESSAGE") == MESSAGES
    assert [row["offset"] for row in rows] == sorted(row["offset"] for row in rows)
    damage(directory)
    lines = journal("show", directory, "--kind", "add-message").stdout.splitlines()
    assert len([line for line in lines if "ADD_MESSAGE" in line]) == MESSAGES - 1
    assert len([line for line in lines if line.startswith("found: ")]) == 1
    assert len(journal("show", directory, "--limit", "3").stdout.splitlines()) == 3


def test_a_salvaged_copy_holds_what_can_be_read(directory: Path, tmp_path: Path) -> None:
    damage(directory)
    before = {path.name: path.read_bytes() for path in directory.glob("*.journal")}
    copy = tmp_path / "copy"
    result = journal("repair", directory, copy)
    assert result.exit_code == 0, result.output
    assert f"saved to {copy}: {MESSAGES - 2} messages" in result.stdout
    assert {path.name: path.read_bytes() for path in directory.glob("*.journal")} == before
    assert journal("verify", copy).stdout.splitlines()[-1] == "sound"
    with (
        EmbeddedBroker.in_thread(data_directory=str(copy)) as broker,
        ConnectionFactory(broker.url).connect() as connection,
        connection.session() as session,
        session.create_consumer("orders") as consumer,
    ):
        first = consumer.receive(5)
        assert first is not None
        assert first.body == "message 1"
    again = journal("repair", directory, copy)
    assert again.exit_code == 6
    assert str(copy) in again.stderr


def test_a_copy_for_which_there_is_no_room_is_named_and_refused(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    code = (
        "import resource, sys, embedbroker.cli\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "embedbroker.cli.main()\n"
    )
    ended = finished("journal", "repair", directory, copy, command=[sys.executable, "-c", code])
    assert (ended.returncode, ended.stdout) == (3, "")
    assert f"the copy of {directory} in {copy} was not finished: " in ended.stderr
    assert ended.stderr.count("\n") == 1
    result = journal("verify", copy)
    assert result.exit_code == 1 or result.stderr == f"embedbroker: there is no journal in {copy}\n"


@pytest.mark.parametrize("was_used_here", [True, False])
def test_looking_at_a_journal_needs_no_right_to_write_and_leaves_nothing(
    directory: Path, was_used_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not was_used_here:  # a copy of the journal alone
        (directory / "broker.lock").unlink()
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}
    changed = directory.stat().st_mtime_ns
    opened = []
    system_open = os.open

    def open_read_only(path: str | Path, flags: int, *arguments: int) -> int:
        """As on a read-only file system, which a test cannot mount, with rights that bind the superuser too."""
        if Path(path).is_relative_to(directory):
            opened.append(path)
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return system_open(path, flags, *arguments)

    monkeypatch.setattr(os, "open", open_read_only)
    assert journal("verify", directory).stdout.splitlines()[-1] == "sound"
    assert len(journal("show", directory, "--kind", "add-message").stdout.splitlines()) == MESSAGES
    assert opened
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()} == before
    assert directory.stat().st_mtime_ns == changed


def test_a_journal_in_use_is_left_alone(directory: Path) -> None:
    with EmbeddedBroker.in_thread(data_directory=str(directory), name="busy"):
        for command in ("verify", "show"):
            result = journal(command, directory)
            assert result.exit_code == 3
            assert "'busy'" in result.stderr


def test_a_directory_without_a_journal_is_named(tmp_path: Path) -> None:
    missing = journal("verify", tmp_path / "nowhere")
    assert missing.exit_code == 3
    assert str(tmp_path / "nowhere") in missing.stderr
    copy = tmp_path / "copy"
    for command, *copies in (("verify",), ("show",), ("repair", str(copy))):
        empty = journal(command, tmp_path, *copies)
        assert (empty.exit_code, empty.stderr) == (3, f"embedbroker: there is no journal in {tmp_path}\n")
    assert not copy.exists()


def test_a_kind_of_record_that_does_not_exist_is_named(directory: Path) -> None:
    result = journal("show", directory, "--kind", "ADD_MASSAGE")
    assert result.exit_code == 2
    assert "'ADD_MASSAGE' is not one of ADD_MESSAGE, " in result.stderr


def test_a_copy_in_the_same_directory_is_refused(directory: Path) -> None:
    refused = journal("repair", directory, directory / ".." / directory.name)
    assert refused.exit_code == 6
    assert refused.stderr.endswith(": COPY must be another directory than DIRECTORY\n")


def test_ctrl_c_while_a_journal_is_read_is_no_verdict(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("embedbroker.cli._journal.inspect_journal", interrupt)
    result = journal("verify", directory)
    assert (result.exit_code, result.output) == (128 + signal.SIGINT, "")


def test_a_copy_of_nothing_to_a_directory_that_is_there_is_refused(tmp_path: Path) -> None:
    refused = journal("repair", tmp_path / "nowhere", tmp_path)
    assert (refused.exit_code, refused.stderr.count("\n")) == (3, 1)
    assert str(tmp_path / "nowhere") in refused.stderr


def test_more_rows_than_can_be_counted_are_refused(directory: Path) -> None:
    refused = journal("show", directory, "--limit", str(sys.maxsize + 1))
    assert refused.exit_code == 2
    assert "--limit" in refused.stderr
