"""`embedbroker run` as a process: its first line, signals, and every way in which it cannot start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.embedbroker.cli.command_processes import COMMAND, broker, finished, started

CANNOT_START = 3


def one_line(errors: str) -> str:
    """What stands on stderr, which has to be one line for people."""
    assert errors.count("\n") == 1, errors
    assert "Traceback" not in errors
    assert errors.startswith("embedbroker: ")
    return errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_and_stops_in_order(number: signal.Signals, tmp_path: Path) -> None:
    with started("run", "--json", "--port", "0", "--data", tmp_path / "data", "--name", "orders") as process:
        ready = process.event()
        assert ready["event"] == "ready"
        assert ready["name"] == "orders"
        assert ready["pid"] == process.process.pid
        scheme, _, place = ready["url"].partition("://")
        host, _, port = place.rpartition(":")
        assert scheme == "tcp"
        with socket.create_connection((host, int(port))):
            pass
        process.send(number)
        assert process.event() == {"event": "stopping", "signal": number.name}
        assert process.event() == {"event": "stopped"}
        assert process.exit_code() == 0
        assert process.rest_of_errors() == ""


def test_without_json_it_says_the_same_to_people() -> None:
    with started("run", "--port", "0") as process:
        assert process.process.stdout is not None
        line = process.process.stdout.readline()
        assert line.startswith("broker 'embedbroker' is ready: tcp://127.0.0.1:")
        assert line.endswith("(in memory)\n")
        process.send(signal.SIGTERM)
        assert process.exit_code() == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_it_stops_in_order_when_nobody_reads_what_it_says(unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        [*COMMAND, "run", "--json", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["event"] == "ready"
        process.stdout.close()
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read() == ""
        assert process.wait() == 0


def test_it_ends_with_its_stdin_where_that_is_wanted() -> None:
    command = [*COMMAND, "run", "--json", "--port", "0", "--until-eof"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "ready"
        process.stdin.write("this means nothing\n")
        process.stdin.close()
        assert [json.loads(line)["event"] for line in process.stdout] == ["stopping", "stopped"]
        assert process.wait() == 0


def test_a_second_signal_stops_it_at_once() -> None:
    # A broker whose orderly stop takes for ever.
    code = (
        "import sys, trio, embedbroker.cli, embedbroker as b\n"
        "async def stop(self): await trio.sleep_forever()\n"
        "b.EmbeddedBroker.stop = stop\n"
        "sys.argv[1:] = ['run', '--port', '0', '--json']\n"
        "embedbroker.cli.main()\n"
    )
    with started(command=[sys.executable, "-c", code]) as process:
        assert process.event()["event"] == "ready"
        process.send(signal.SIGTERM)
        assert process.event()["event"] == "stopping"
        process.send(signal.SIGINT)
        assert process.exit_code() == -signal.SIGINT


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = finished("run", "--port", str(port))
    assert ended.returncode == CANNOT_START
    assert one_line(ended.stderr) == f"embedbroker: cannot listen on 127.0.0.1:{port}: Address already in use\n"
    assert ended.stdout == ""


def test_a_host_that_is_not_there_is_named() -> None:
    ended = finished("run", "--host", "192.0.2.1", "--port", "0")
    assert ended.returncode == CANNOT_START
    assert "192.0.2.1" in one_line(ended.stderr)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--host", "no..host", "'no..host' is not the name of a host"),
        ("--data", "", "data_directory must be a path, not ''"),
        ("--name", "", "name must not be empty"),
        ("--name", "\udcff", "name must be Unicode text"),
    ],
)
def test_a_value_that_nothing_can_be_done_with_is_named(option: str, value: str, said: str) -> None:
    ended = finished("run", "--port", "0", option, value)
    assert ended.returncode == CANNOT_START
    assert said in one_line(ended.stderr)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    directory = tmp_path / "file" / "data"
    ended = finished("run", "--port", "0", "--data", directory)
    assert ended.returncode == CANNOT_START
    assert str(directory) in one_line(ended.stderr)


def test_a_second_broker_on_a_directory_learns_who_has_it(tmp_path: Path) -> None:
    with broker("--data", tmp_path, "--name", "first") as (first, _):
        ended = finished("run", "--port", "0", "--data", tmp_path, "--name", "second")
        assert ended.returncode == CANNOT_START
        line = one_line(ended.stderr)
        assert str(tmp_path) in line
        assert f"'first' in process {first.process.pid}" in line


def test_a_killed_broker_leaves_no_lock_behind(tmp_path: Path) -> None:
    with broker("--data", tmp_path) as (first, _):
        first.send(signal.SIGKILL)
        assert first.exit_code() == -signal.SIGKILL
        with broker("--data", tmp_path):
            pass


def test_a_damaged_journal_is_named_with_its_place(tmp_path: Path) -> None:
    with broker("--data", tmp_path) as (process, url):
        assert finished("send", "--url", url, "orders", "text", "--count", "20").returncode == 0
        process.send(signal.SIGTERM)
        assert process.exit_code() == 0
    segment = min(tmp_path.glob("*.journal"))
    with segment.open("r+b") as file:
        place = file.read().index(b"t\0e\0x\0t")  # the body of the first message
        file.seek(place)
        file.write(b"X")
    ended = finished("run", "--port", "0", "--data", tmp_path)
    assert ended.returncode == CANNOT_START
    line = one_line(ended.stderr)
    assert segment.name in line
    assert "offset" in line


def test_a_file_full_of_garbage_is_named(tmp_path: Path) -> None:
    (tmp_path / "segment-0000000001.journal").write_bytes(bytes(range(256)) * 256)
    (tmp_path / "segment-0000000002.journal").write_bytes(bytes(range(256)) * 256)
    ended = finished("run", "--port", "0", "--data", tmp_path)
    assert ended.returncode == CANNOT_START
    assert "segment-000000000" in one_line(ended.stderr)


def test_wrong_options_are_two() -> None:
    ended = finished("run", "--port", "70000")
    assert ended.returncode == 2
    assert "70000" in ended.stderr


def test_a_missing_extra_is_named() -> None:
    code = "import sys; sys.modules['click'] = None; from embedbroker.cli import main; main()"
    ended = finished(command=[sys.executable, "-c", code])
    assert ended.returncode == 2
    assert "pip install 'embedbroker[cli]'" in one_line(ended.stderr)


def test_run_loads_nothing_that_only_other_commands_need() -> None:
    code = (
        "import sys; sys.argv[1:] = ['run', '--help']\n"
        "import atexit; atexit.register(lambda: print('loaded', 'rich' in sys.modules, 'statistics' in sys.modules))\n"
        "from embedbroker.cli import main; main()"
    )
    ended = finished(command=[sys.executable, "-c", code])
    assert ended.stdout.splitlines()[-1] == "loaded False False"


def test_every_command_has_a_line_of_help() -> None:
    ended = finished("--help", command=[*COMMAND])
    assert ended.returncode == 0
    for name in ("run", "drill", "perf", "send", "receive", "browse", "journal"):
        assert f"\n  {name} " in ended.stdout, os.linesep + ended.stdout
