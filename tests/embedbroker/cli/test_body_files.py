"""`send --file` and `receive --save`: bodies of any size go from files to files, whole or not at all."""

from __future__ import annotations

import errno
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve
from click.testing import CliRunner, Result

from embedbroker import EmbeddedBroker
from embedbroker.cli._body_files import SavePlace, new_file
from embedbroker.cli._commands import commands
from embedbroker.cli._connection_options import with_parameter
from embedbroker.cli._progress import progress_line
from embedclient import Message
from embedclient._client._url import parse_url
from embedclient.blocking import ConnectionFactory
from tests.embedbroker.cli.command_processes import COMMAND, finished, started
from tests.interop.relay import Relay

Command = Callable[..., Result]
CONTENT = bytes(range(256)) * 12_000
# For a receive that finds nothing.
NOW = ("--timeout", "0.1")


@pytest.fixture
def broker() -> Iterator[Any]:
    with EmbeddedBroker.in_thread() as broker:
        yield broker


@pytest.fixture
def run(broker: Any) -> Command:
    def run(name: str, *arguments: str | Path, parameters: str = "") -> Result:
        return CliRunner().invoke(commands, [name, "--url", broker.url + parameters, *map(str, arguments)])

    return run


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.bin"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "folder"
    path.mkdir()
    return path


def sent(run: Command, *arguments: str | Path) -> None:
    result = run("send", "q", *arguments)
    assert result.exit_code == 0, result.output


# -- there and back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 64 * 1024 + 1, len(CONTENT)])
def test_a_file_arrives_as_a_file(run: Command, source: Path, folder: Path, size: int) -> None:
    source.write_bytes(CONTENT[:size])
    sent(run, "--file", source, "-p", "name=source.bin", "--correlation-id", "c-1")
    target = folder / "target.bin"
    result = run("receive", "q", "--save", target, "--headers")
    assert (result.exit_code, target.read_bytes()) == (0, CONTENT[:size])
    assert "type: bytes\n" in result.stdout and "name: source.bin\n" in result.stdout
    assert result.stdout.endswith(f"\n\n{target}\n\n")
    assert list(folder.iterdir()) == [target]
    assert run("receive", "q", *NOW).exit_code == 1


def test_each_body_is_a_file_of_its_directory(run: Command, source: Path, folder: Path) -> None:
    other = source.with_name("other")
    other.write_bytes(b"other")
    sent(run, "--file", source, "--file", other, "--count", "2", "--transacted")
    sent(run, "text")
    result = run("receive", "q", "--save", folder, "--count", "5")
    assert result.exit_code == 0, result.output
    files = [Path(line) for line in result.stdout.splitlines()]
    assert [file.read_bytes() for file in files] == [CONTENT, CONTENT, b"other", b"other", b"text"]
    assert sorted(folder.iterdir()) == sorted(files)


def test_a_body_above_the_limit_of_the_memory_is_saved_and_named(run: Command, source: Path, folder: Path) -> None:
    limit = "?maxLargeMessageBodySize=1000000"
    sent(run, "--file", source)
    for command in ("receive", "browse"):
        refused = run(command, "q", parameters=limit)
        assert refused.exit_code == 6
        assert "is above maxLargeMessageBodySize=1000000: receive it with --save" in refused.stderr
    result = run("receive", "q", "--save", folder, "--json", parameters=limit)
    (file,) = folder.iterdir()
    assert file.read_bytes() == CONTENT and f'"body": {{"file": "{file}"}}' in result.stdout


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("tcp://a:1", "tcp://a:1?x=0"),
        ("tcp://a:1?ha=true", "tcp://a:1?ha=true&x=0"),
        ("(tcp://a:1?ha=true,tcp://b:2)", "(tcp://a:1?ha=true,tcp://b:2)?x=0"),
        ("(tcp://a:1,tcp://b:2)?ha=true", "(tcp://a:1,tcp://b:2)?ha=true&x=0"),
        ("tcp://a:1#tcp://b:2", "tcp://a:1?x=0#tcp://b:2"),
        ("tcp://a:1?x=7", "tcp://a:1?x=7"),
        ("tcp://a:1?ha=true;x=7#tcp://b:2", "tcp://a:1?ha=true;x=7#tcp://b:2"),
        ("(tcp://a:1,tcp://b:2)?x=7", "(tcp://a:1,tcp://b:2)?x=7"),
        ("(tcp://a:1?x=7,tcp://b:2?host=c)", "(tcp://a:1?x=7,tcp://b:2?host=c)"),
        # A bracket in a value.
        ("tcp://a:1?user=u&password=p)", "tcp://a:1?user=u&password=p)&x=0"),
        ("tcp://a:1?password=)p#tcp://b:2", "tcp://a:1?password=)p&x=0#tcp://b:2"),
        ("(tcp://a:1)?password=p)", "(tcp://a:1)?password=p)&x=0"),
        # A number sign in a password for a list.
        ("(tcp://a:1)?password=p#q", "(tcp://a:1)?password=p#q&x=0"),
        # The name in a value, and in another name.
        ("tcp://a:1?password=x", "tcp://a:1?password=x&x=0"),
        ("tcp://x:1?max=x=7", "tcp://x:1?max=x=7&x=0"),
        ("(tcp://x:1,tcp://b:2?host=x)", "(tcp://x:1,tcp://b:2?host=x)?x=0"),
    ],
)
def test_a_parameter_is_added_to_every_form_of_a_url(url: str, expected: str) -> None:
    assert with_parameter(url, "x", 0) == expected


def test_a_url_with_another_parameter_is_the_same_to_the_client() -> None:
    name = "maxLargeMessageBodySize"
    for url in (
        f"tcp://a:1?user=u&password={name}",
        "tcp://a:1?user=u&password=p)",
        "(tcp://a:1?tcpNoDelay=false,tcp://b:2)?user=u&password=a#b",
        " (tcp://a:1,tcp://b:2) ",
    ):
        before, after = parse_url(url), parse_url(with_parameter(url, name, 0))
        assert after.settings == evolve(before.settings, max_large_message_body_size=0)
        assert (after.factory, after.connectors) == (before.factory, before.connectors)


def test_a_pipe_is_sent_to_its_end(run: Command, tmp_path: Path, folder: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(CONTENT,))
    writer.start()
    sent(run, "--file", pipe)
    writer.join()
    assert run("receive", "q", "--save", folder / "target").exit_code == 0
    assert (folder / "target").read_bytes() == CONTENT


def test_a_pipe_is_not_sent_several_times(run: Command, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused = run("send", "q", "--file", pipe, "--count", "2")
    assert refused.exit_code == 2
    assert f"--count 2 cannot repeat {pipe}: a pipe or device is read once. Save its content" in refused.stderr
    assert run("receive", "q", *NOW).exit_code == 1


# -- durability --------------------------------------------------------------------------------------------------


class Recorded:
    """Calls that make a file durable, and the acknowledgement, in their order."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self._folder = folder
        self._fsync = os.fsync
        self.failure: int | None = None
        monkeypatch.setattr(os, "fsync", self._sync)
        for owner, name in ((os, "link"), (os, "replace"), (Message, "acknowledge")):
            monkeypatch.setattr(owner, name, self._noted(name, getattr(owner, name)))

    def _sync(self, descriptor: int) -> None:
        is_folder = os.path.samestat(os.fstat(descriptor), self._folder.stat())
        self.calls.append("sync the directory" if is_folder else "sync the file")
        if is_folder and self.failure is not None:
            raise OSError(self.failure, os.strerror(self.failure))
        self._fsync(descriptor)

    def _noted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any) -> Any:
            self.calls.append(name)
            return function(*arguments)

        return noted


@pytest.mark.parametrize(("options", "naming"), [((), "link"), (("--overwrite",), "replace")])
def test_file_and_name_are_on_disk_before_the_message_is_acknowledged(
    run: Command, source: Path, folder: Path, options: tuple[str, ...], naming: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(run, "--file", source)
    recorded = Recorded(folder, monkeypatch)
    assert run("receive", "q", "--save", folder / "target", *options).exit_code == 0
    assert recorded.calls == ["sync the file", naming, "sync the directory", "acknowledge"]


def test_a_name_that_is_not_synced_is_given_back_and_the_message_comes_again(
    run: Command, source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(run, "--file", source)
    recorded = Recorded(folder, monkeypatch)
    recorded.failure = errno.EIO
    target = folder / "target"
    refused = run("receive", "q", "--save", target)
    assert refused.exit_code == 6
    assert refused.stderr == f"embedbroker: cannot write {target}: Input/output error; the message comes again\n"
    assert list(folder.iterdir()) == []
    # A file system that cannot sync directories is no failure.
    recorded.failure = errno.EINVAL
    assert run("receive", "q", "--save", target).exit_code == 0
    assert target.read_bytes() == CONTENT


# -- names that are taken ----------------------------------------------------------------------------------------


def test_a_file_that_exists_is_replaced_only_if_that_is_requested(run: Command, source: Path, folder: Path) -> None:
    sent(run, "--file", source)
    target = folder / "target"
    target.write_bytes(b"precious")
    refused = run("receive", "q", "--save", target)
    assert (refused.exit_code, target.read_bytes()) == (2, b"precious")
    assert f"'{target}' exists: choose another name, or add --overwrite" in refused.stderr
    assert run("receive", "q", "--save", target, "--overwrite").exit_code == 0
    assert target.read_bytes() == CONTENT


def test_a_file_of_the_directory_is_not_replaced_and_its_message_comes_again(
    run: Command, source: Path, folder: Path
) -> None:
    sent(run, "--file", source)
    shown = run("browse", "q", "--headers").stdout
    (identifier,) = (line.removeprefix("id: ID:") for line in shown.splitlines() if line.startswith("id: "))
    (folder / identifier).write_bytes(b"precious")
    refused = run("receive", "q", "--save", folder)
    assert refused.exit_code == 6
    assert f"'{folder / identifier}' exists: move it, or add --overwrite; the message comes again" in refused.stderr
    assert bodies(folder) == [b"precious"]
    assert run("receive", "q", "--save", folder, "--overwrite").exit_code == 0
    assert bodies(folder) == [CONTENT]


def names_of(place: SavePlace, *identifiers: str | None) -> list[tuple[str, bool]]:
    """The names of messages, which are taken at once, and whether each replaces a file."""
    names = []
    for identifier in identifiers:
        message = Message()
        message.message_id = identifier
        path, overwrites = place.file_for(message)
        path.touch()
        names.append((path.name, overwrites))
    return names


@pytest.mark.parametrize("overwrites", [True, False])
def test_a_message_without_an_id_gets_the_next_free_number(folder: Path, overwrites: bool) -> None:
    (folder / "message-2").touch()
    (folder / "message-4").symlink_to("missing")
    place = SavePlace.of_option(str(folder), overwrites=overwrites, count=0)
    assert names_of(place, None, "ID:a", None, "ID:") == [
        ("message-1", False),
        ("a", overwrites),
        ("message-3", False),
        ("message-5", False),
    ]
    # The next command.
    place = SavePlace.of_option(str(folder), overwrites=overwrites, count=0)
    assert names_of(place, None) == [("message-6", False)]


@pytest.mark.parametrize("overwrites", [True, False])
def test_two_ids_do_not_share_a_name(folder: Path, overwrites: bool) -> None:
    place = SavePlace.of_option(str(folder), overwrites=overwrites, count=0)
    long = "x" * 200
    named = names_of(place, "ID:a_b", "ID:a/b", "ID:a:b", f"ID:{long}", f"ID:{long}y", f"ID:{long}z", "ID:message-1")
    names = [name for name, _ in named]
    assert [name[:-17] for name in names[1:3] + names[4:]] == ["a_b", "a_b", long, long, "message-1"]
    assert (names[0], names[3], len(set(names))) == ("a_b", long, len(named))
    assert {may_replace for _, may_replace in named} == {overwrites}
    # A message that comes again has its name again.
    assert names_of(place, "ID:a/b") == [named[1]]


def test_bodies_without_an_id_replace_none_of_an_earlier_command(run: Command, broker: Any, folder: Path) -> None:
    for body in ("first", "second"):
        with ConnectionFactory(broker.url).connect() as connection, connection.session() as session:
            producer = session.create_producer("q")
            producer.disable_message_id = True
            producer.send(body)
        assert run("receive", "q", "--save", folder, "--overwrite").exit_code == 0
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"message-1": "first", "message-2": "second"}


def bodies(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.iterdir()]


@pytest.mark.parametrize("has_links", [True, False])
async def test_a_file_that_appears_meanwhile_is_not_replaced(
    folder: Path, has_links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(os, "link", link)
    target = folder / "target"
    with pytest.raises(FileExistsError):
        async with new_file(target, overwrites=False) as file:
            file.write(b"new")
            target.write_bytes(b"precious")
    assert bodies(folder) == [b"precious"]
    target.unlink()
    async with new_file(target, overwrites=False) as file:
        file.write(b"new")
        assert not target.exists()
    assert bodies(folder) == [b"new"]


async def test_a_cancelled_file_leaves_nothing(folder: Path) -> None:
    with trio.CancelScope() as scope:
        async with new_file(folder / "target", overwrites=True) as file:
            file.write(b"half")
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert bodies(folder) == []


# -- wrong input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("send", "q", "--file", "missing"), "'missing' does not exist"),
        (("send", "q", "--file", "."), "'.' is a directory"),
        (("send", "q", "body", "--file", "/dev/null"), "--file takes the place of BODY and --lines"),
        (("send", "q", "--lines", "--file", "/dev/null"), "--file takes the place of BODY and --lines"),
        (("send", "q", "--type", "text", "--file", "/dev/null"), "--file sends bytes messages, not --type text"),
        (
            ("send", "q", "--count", "2", "--file", "/dev/null"),
            "--count 2 cannot repeat /dev/null: a pipe or device is",
        ),
        (("receive", "q", "--overwrite"), "--overwrite needs --save"),
        (("receive", "q", "--save", "missing/file"), "missing' does not exist"),
        (("receive", "q", "--save", "inbox/"), "'inbox/' does not exist: create the directory with mkdir"),
        (
            ("receive", "q", "--save", "inbox//", "--count", "0"),
            "'inbox//' does not exist: create the directory with mkdir",
        ),
        (
            ("receive", "q", "--save", "inbox/.", "--overwrite"),
            "'inbox/.' does not exist: create the directory with mkdir",
        ),
        (("receive", "q", "--save", "/dev/null/"), "'/dev/null/' is no directory"),
        (("receive", "q", "--save", "file", "--count", "2"), "--save file is one file, and --count is 2"),
        (("receive", "q", "--save", "/dev/null", "--overwrite"), "'/dev/null' is neither a file nor a directory"),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    arguments: tuple[str, ...], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(commands, arguments)
    assert (result.exit_code, said in result.stderr) == (2, True), result.output
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that cannot be read is one of /proc")
def test_a_file_that_cannot_be_read_is_named(run: Command) -> None:
    refused = run("send", "q", "--file", "/proc/self/mem")
    assert refused.exit_code == 6
    assert refused.stderr.endswith("cannot read /proc/self/mem: Input/output error; it was not sent\n")
    assert run("receive", "q", *NOW).exit_code == 1


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that cannot be read is one of /proc")
@pytest.mark.parametrize(
    ("times", "said"), [(1, "; 1 message before it was sent\n"), (2, "; 2 messages before it were sent\n")]
)
def test_a_failure_names_the_messages_before_it(
    run: Command, source: Path, folder: Path, times: int, said: str
) -> None:
    good = ("--file", source) * times
    refused = run("send", "q", *good, "--file", "/proc/self/mem", "--file", source)
    assert refused.exit_code == 6
    assert refused.stderr.endswith(f"cannot read /proc/self/mem: Input/output error; it was not sent{said}")
    assert run("receive", "q", "--save", folder, "--count", "0", *NOW).exit_code == 0
    assert bodies(folder) == [CONTENT] * times


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that cannot be read is one of /proc")
def test_a_transaction_sends_all_files_or_none(run: Command, source: Path) -> None:
    refused = run("send", "q", "--file", source, "--file", "/proc/self/mem", "--transacted")
    assert refused.exit_code == 6
    assert refused.stderr.endswith("cannot read /proc/self/mem: Input/output error; it was not sent\n")
    assert run("receive", "q", *NOW).exit_code == 1


def test_a_broker_that_goes_away_leaves_the_number_of_messages(broker: Any, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with (
        Relay(broker.port) as relay,
        started(
            "send", "--url", f"tcp://127.0.0.1:{relay.port}", "q", "--file", "/dev/null", "--file", pipe
        ) as command,
    ):
        # Open: the first file is sent. The end of the pipe lets the command go on.
        with open(pipe, "wb"):
            relay.cut()
        assert command.exit_code() == 5
        assert command.rest_of_errors().endswith("; 1 message before it was sent\n")


def test_a_disk_without_room_leaves_no_file_and_the_message_comes_again(
    run: Command, broker: Any, source: Path, folder: Path
) -> None:
    sent(run, "--file", source)
    code = (
        "import resource, embedbroker.cli\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "embedbroker.cli.main()\n"
    )
    target = folder / "target"
    ended = finished("receive", "--url", broker.url, "q", "--save", target, command=[sys.executable, "-c", code])
    assert (ended.returncode, ended.stdout) == (6, "")
    assert ended.stderr == f"embedbroker: cannot write {target}: File too large; the message comes again\n"
    assert list(folder.iterdir()) == []
    assert run("receive", "q", "--save", target).exit_code == 0
    assert target.read_bytes() == CONTENT


# -- Ctrl-C in the middle, and the line of progress --------------------------------------------------------------


class Stalls(Relay):
    """Carry so many bytes of each direction, and nothing more until `go_on`."""

    def __init__(self, port: int, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._goes_on = threading.Event()
        super().__init__(port)

    def go_on(self) -> None:
        self._goes_on.set()

    def _carry(self, source: socket.socket, sink: socket.socket, from_broker: bool) -> None:
        done = 0
        try:
            while data := source.recv(65536):
                done += len(data)
                sink.sendall(data)
                if done >= self._bytes_max:
                    self._goes_on.wait()
        except OSError:
            pass
        self.cut()


@pytest.fixture
def relay(broker: Any) -> Iterator[Stalls]:
    with Stalls(broker.port, len(CONTENT) // 4) as relay:
        try:
            yield relay
        finally:
            relay.go_on()


class AtTerminal:
    """A command whose stderr is a terminal."""

    def __init__(self, *arguments: str | Path) -> None:
        self._end, other = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=other, env=environment
        )
        os.close(other)

    def __enter__(self) -> AtTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)

    def wait_for(self, text: bytes) -> None:
        """Read what the terminal shows until the text is there."""
        shown = b""
        while text not in shown:
            shown += os.read(self._end, 4096)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)


def test_an_interrupted_receive_leaves_no_file_and_the_message_comes_again(
    run: Command, relay: Stalls, source: Path, folder: Path
) -> None:
    sent(run, "--file", source)
    target = folder / "target"
    with AtTerminal("receive", "--url", f"tcp://127.0.0.1:{relay.port}", "q", "--save", target) as command:
        command.wait_for(b" of 2.9 MiB")
        (half,) = folder.iterdir()
        assert half.suffix == ".part"
        command.interrupt()
        relay.go_on()
        assert command.process.wait() == 128 + signal.SIGINT
    assert list(folder.iterdir()) == []
    assert run("receive", "q", "--save", target).exit_code == 0
    assert target.read_bytes() == CONTENT


def test_an_interrupted_send_sends_nothing(run: Command, relay: Stalls, source: Path) -> None:
    with AtTerminal("send", "--url", f"tcp://127.0.0.1:{relay.port}", "q", "--file", source) as command:
        command.wait_for(b" of 2.9 MiB")
        command.interrupt()
        relay.go_on()
        assert command.process.wait() == 128 + signal.SIGINT
    assert run("receive", "q", *NOW).exit_code == 1


@pytest.mark.parametrize(
    ("options", "shown", "arrived"),
    [((), "interrupted; sent 1 message to q before\n", [CONTENT]), (("--transacted",), "", [])],
)
def test_an_interrupted_send_names_the_messages_before(
    run: Command,
    broker: Any,
    source: Path,
    folder: Path,
    options: tuple[str, ...],
    shown: str,
    arrived: list[bytes],
) -> None:
    pipe = folder.with_name("pipe")
    os.mkfifo(pipe)
    arguments = ("send", "--url", broker.url, "q", "--file", source, "--file", pipe, *options)
    with started(*arguments) as command, open(pipe, "wb"):
        # Open: the first file is sent.
        command.send(signal.SIGINT)
        assert command.exit_code() == 128 + signal.SIGINT
        assert command.rest_of_errors() == shown
    run("receive", "q", "--save", folder, "--count", "0", *NOW)
    assert bodies(folder) == arrived


def test_a_wait_for_a_pipe_is_ended_by_ctrl_c(run: Command, broker: Any, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with started("send", "--url", broker.url, "q", "--file", pipe) as command, open(pipe, "wb") as writer:
        # Open: the command has come to the file.
        writer.write(b"half")
        writer.flush()
        command.send(signal.SIGINT)
        assert command.exit_code() == 128 + signal.SIGINT
        assert command.rest_of_errors() == ""
    assert run("receive", "q", *NOW).exit_code == 1


def test_the_line_of_progress_has_the_part_if_the_size_is_known() -> None:
    mib = 1 << 20
    assert progress_line("a.bin", 512 * mib, 2048 * mib) == "a.bin  512.0 of 2,048.0 MiB  25%"
    assert progress_line("pipe", 512 * mib, None) == "pipe  512.0 MiB"
    assert progress_line("empty", 0, 0) == "empty  0.0 of 0.0 MiB"
