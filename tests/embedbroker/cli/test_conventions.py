"""What every command keeps: --json, the closest name for a wrong one, tables that fold, one code per kind of fault."""

from __future__ import annotations

import errno
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from embedbroker import EmbeddedBroker
from embedbroker.cli._commands import commands
from embedbroker.cli._progress import count_line
from embedbroker.cli._text_table import print_framed, print_table, table_lines
from embedbroker.cli.drill._tables import verdict_tables
from tests.embedbroker.cli.test_drill_verdicts import GOOD

# Commands without --json, with the reason.
WITHOUT_JSON: dict[str, str] = {}


def walk(command: click.Command, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            step = command.get_command(context, name)
            assert step is not None
            yield from walk(step, *words, name)


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(commands, [*map(str, arguments)])


def test_every_command_has_json_or_a_reason() -> None:
    without = {
        " ".join(words)
        for words, each in walk(commands)
        if not isinstance(each, click.Group) and not any("--json" in option.opts for option in each.params)
    }
    assert without == set(WITHOUT_JSON)


def test_every_group_names_the_closest_command() -> None:
    groups = [(words, each) for words, each in walk(commands) if isinstance(each, click.Group)]
    assert len(groups) > 10
    for words, group in groups:
        name = group.list_commands(click.Context(group))[0]
        mistyped = command(*words, f"{name}x")
        assert mistyped.exit_code == 2 and mistyped.stderr.count(f"Did you mean {name!r}?") == 1, words
    assert "'lst'. Did you mean 'list'?" in command("queue", "lst").stderr
    assert "There are add, list, remove, reset." in command("user", "xyzzy").stderr
    assert "No such option" in command("queue", "--lst").stderr


def test_commands_that_end_with_a_value_print_one_json_document(tmp_path: Path) -> None:
    masked = json.loads(command("mask", "--json", "secret").stdout)
    assert masked["kind"] == "mask" and masked["password"].startswith("ENC(")
    files = [json.loads(line) for line in command("cert", "--json", tmp_path / "keys").stdout.splitlines()]
    assert {Path(each["file"]).name for each in files} == {"ca.pem", "server.pem", "client.pem"}
    with EmbeddedBroker.in_thread(data_directory=str(tmp_path / "data")) as broker:
        command("send", "--url", broker.url, "orders", "one", "two")
        counted = command("message", "count", "--url", broker.url, "orders", "--json")
        assert json.loads(counted.stdout) == {"queue": "orders", "messages": 2}
        listed = command("queue", "list", "--url", broker.url)
        assert listed.stdout.splitlines()[0] == command("queue", "stat", "--url", broker.url).stdout.splitlines()[0]
        assert any(line.startswith("orders ") for line in listed.stdout.splitlines())
    saved = json.loads(command("journal", "repair", "--json", tmp_path / "data", tmp_path / "copy").stdout)
    assert (saved["copy"], saved["messages"], saved["findings"]) == (str(tmp_path / "copy"), 2, [])


def raises(error: OSError, _descriptor: int) -> os.terminal_size:
    raise error


def test_a_table_folds_instead_of_being_cut(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    rows = [["orders.eu.west", "12", ""], ["注文", "7", "x"]]
    wide = ["NAME            MESSAGES  FILTER", "orders.eu.west        12", "注文                   7  x"]
    titles = ["NAME", "MESSAGES", "FILTER"]
    assert table_lines(titles, rows, None) == table_lines(titles, rows, 32) == wide
    assert table_lines(titles, rows, 31) == [
        *("NAME: orders.eu.west", "MESSAGES: 12", ""), *("NAME: 注文", "MESSAGES: 7", "FILTER: x"),
    ]  # fmt: skip
    assert table_lines(titles, [], 3) == ["NAME  MESSAGES  FILTER"]
    monkeypatch.setenv("COLUMNS", "50")
    console = Console(width=50, record=True, file=io.StringIO())
    # As for a child process of a Python with readline: stdout is a pipe.
    monkeypatch.setattr(os, "get_terminal_size", partial(raises, OSError(errno.ENOTTY, "not a terminal")))
    print_table(titles, wide_rows := [["n" * 60, "12", ""]])
    assert capfd.readouterr().out.splitlines() == table_lines(titles, wide_rows, None)
    monkeypatch.setattr(os, "get_terminal_size", lambda _descriptor: os.terminal_size((200, 24)))
    for table in verdict_tables(GOOD):
        print_framed(console, table)
    text = console.export_text()
    assert "…" not in text and "delivery: 644\n" in text
    assert all(
        re.search(rf"^until: {name}$", text, re.MULTILINE) for name in ("first delivery", "first confirmed send")
    )


def test_the_line_of_progress_of_many_messages() -> None:
    assert count_line(12_345, 2.0) == "sent 12,345 messages  6,172 per second"


def test_send_of_lines_shows_their_number_on_a_terminal_and_takes_it_back() -> None:
    terminal, other = pty.openpty()
    with EmbeddedBroker.in_thread() as broker, open(terminal, "rb", buffering=0) as screen:
        command = [sys.executable, "-m", "embedbroker", "send", "--url", broker.url, "q", "--lines"]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=other, env=environment) as process:
            os.close(other)
            assert process.stdin is not None
            shown = b""
            while b" per second" not in shown:  # it shows the first number after a quarter of a second
                process.stdin.write(b"a line\n")
                process.stdin.flush()
                if select.select([screen], [], [], 0.02)[0]:
                    shown += screen.read(4096)
            process.stdin.close()
            with suppress(OSError):  # the end of a terminal
                while more := screen.read(4096):
                    shown += more
        found = re.search(rb"sent ([\d,]+) messages  [\d,]+ per second", shown)
        assert found is not None and process.returncode == 0
        last = shown.decode().splitlines()[-1]
        count = broker.queue("q").message_count
        assert 1 <= int(found[1].replace(b",", b"")) <= count
        assert last.endswith(f"sent {count} messages to q") and "\x1b[2K" in shown.decode()


_OF_ARTEMIS = (
    "cannot open directory {}: it holds the journal of an Apache Artemis broker, which cannot be read: choose "
    "another directory, and let a bridge move the messages"
)
#: Kind of directory of Artemis, with one of its files.
ARTEMIS_FILES = {
    "of Artemis": "bindings/activemq-bindings-1.bindings",
    "instance of Artemis": "data/journal/activemq-data-1.amq",
    "replica of Artemis": "oldreplica.1/activemq-data-1.amq",
}
#: Kind of directory, with the reason on stderr.
WRONG = {
    "missing": "cannot open directory {}: No such file or directory",
    "file": "cannot open directory {}: Not a directory",
    "inside a file": "cannot open directory {}: Not a directory",
    "locked away": "cannot open directory {}: Permission denied",
    "used": f"directory {{}} is used by broker 'busy' in this process ({os.getpid()})",
    "empty": "there is no journal in {}",
    **dict.fromkeys(ARTEMIS_FILES, _OF_ARTEMIS),
}
#: A broker makes its directory, and begins a journal in it.
MADE = {"missing", "empty"}
#: An audit log is no journal.
NOT_FOR_AUDIT = set(ARTEMIS_FILES)


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_directory_has_one_exit_code_and_one_text(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no journal")
    for name in ("locked away", "empty"):
        (tmp_path / name).mkdir(parents=True)
    for name, place in ARTEMIS_FILES.items():
        (tmp_path / name / place).parent.mkdir(parents=True)
        (tmp_path / name / place).write_bytes(b"\0" * 16)
    directory = tmp_path / "file" / "data" if kind == "inside a file" else tmp_path / kind
    opened = os.open

    def guarded(path: str | Path, *arguments: int) -> int:
        if "locked away" in str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *arguments)

    monkeypatch.setattr(os, "open", guarded)
    with EmbeddedBroker.in_thread(data_directory=str(tmp_path / "used"), name="busy"):
        results = {
            "verify": command("journal", "verify", directory),
            "show": command("journal", "show", directory, "--json"),
            "repair": command("journal", "repair", directory, tmp_path / "copy"),
        }
        if kind not in MADE:
            results["run"] = command("run", "--port", "0", "--data", directory)
        if kind not in MADE | NOT_FOR_AUDIT:
            results["audit"] = command("run", "--port", "0", "--data", tmp_path / "new", "--audit", directory)
            assert results.pop("audit").stderr.endswith(f"embedbroker: audit log: {WRONG[kind].format(directory)}\n")
    for name, result in results.items():
        assert (result.exit_code, result.stdout) == (3, ""), name
        assert result.stderr == f"embedbroker: {WRONG[kind].format(directory)}\n", name
    assert not (tmp_path / "copy").exists()
    assert not list((tmp_path / "of Artemis").glob("*.*"))  # nothing was begun there
