"""`embedbroker` as a real process, or in this one: its lines are read as they come, and its end is waited for.

Waiting means reading; the tests' own time-out ends a process that writes nothing.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from embedbroker.cli._commands import commands

COMMAND = [sys.executable, "-m", "embedbroker.cli"]


class CommandProcess:
    """One running command."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def event(self) -> dict[str, Any]:
        """The next line of stdout, read as JSON."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended; stderr: {self.rest_of_errors()}"
        event = json.loads(line)
        assert isinstance(event, dict)
        return event

    def error_line(self) -> str:
        """The next line of stderr."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def rest_of_output(self) -> str:
        """Return the rest of stdout, until the process closes it."""
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def rest_of_errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def exit_code(self) -> int:
        return self.process.wait()


@contextmanager
def started(*arguments: str | Path, command: list[str] = COMMAND, stdin: int | None = None) -> Iterator[CommandProcess]:
    """A command that runs; what is left of it at the end of the block is killed."""
    with subprocess.Popen(
        [*command, *map(str, arguments)], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield CommandProcess(process)
        finally:
            process.kill()


@contextmanager
def broker(*arguments: str | Path) -> Iterator[tuple[CommandProcess, str]]:
    """`embedbroker run --json` on a free port, and its url."""
    with started("run", "--json", "--port", "0", *arguments) as process:
        ready = process.event()
        assert ready["event"] == "ready"
        yield process, ready["url"]


def finished(*arguments: str | Path, command: list[str] = COMMAND) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself, in a separate process: for what depends on one. `called` is cheaper."""
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, check=False)


def called(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself, in this process."""
    words = [*map(str, arguments)]
    result = CliRunner().invoke(commands, words, prog_name="embedbroker")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return subprocess.CompletedProcess(words, result.exit_code, result.stdout, result.stderr)
