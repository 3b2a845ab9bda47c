"""Programs started by the tests: their lines are read as they come, and waiting means reading.

It does not depend on what the programs are.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

LINES_KEPT = 200


class ProgramError(Exception):
    """A program ended, was silent too long or wrote something unexpected; the text ends with its last lines."""


class Program:
    """A running program whose standard output (and error, unless kept apart) is read line by line.

    A context manager: leaving it kills what is left of the program's process group.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        errors_to: Path | None = None,
    ) -> None:
        self.name = " ".join(Path(str(word)).name for word in command[:3])
        self._errors_to = errors_to
        with ExitStack() as files:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=files.enter_context(errors_to.open("a")) if errors_to else subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                cwd=directory,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._seen: list[str] = []
        self._reader = threading.Thread(target=self._read, name=f"reads {self.name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id of the program itself."""
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def line(self, *, seconds_max: float) -> str | None:
        """The next line, or None when the output has ended."""
        try:
            line = self._lines.get(timeout=max(seconds_max, 0))
        except queue.Empty:
            raise self._error(f"said nothing for {seconds_max:.0f} s") from None
        if line is None:
            self._lines.put(None)
        else:
            self._seen = [*self._seen[1 - LINES_KEPT :], line]
        return line

    def wait_for(self, pattern: str, *, seconds_max: float) -> re.Match[str]:
        """Reads until a line holds `pattern`."""
        deadline = monotonic() + seconds_max
        while (line := self.line(seconds_max=deadline - monotonic())) is not None:
            if found := re.search(pattern, line):
                return found
        raise self._error(f"ended before it said {pattern!r}")

    def say(self, line: str) -> None:
        """Writes one line to the program's standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def output(self, *, seconds_max: float) -> list[str]:
        """Reads to the end and waits for the exit, which must be orderly."""
        deadline = monotonic() + seconds_max
        lines = []
        while (line := self.line(seconds_max=deadline - monotonic())) is not None:
            lines.append(line)
        if self._process.wait(timeout=max(deadline - monotonic(), 1)) != 0:
            raise self._error(f"ended with exit code {self._process.returncode}")
        return lines

    def interrupt(self, *, seconds_max: float = 20) -> int:
        """Sends SIGTERM and returns the exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            raise self._error(f"did not stop within {seconds_max:.0f} s") from None

    def ended(self, *, seconds_max: float) -> int:
        """Wait for an end that no test requests, and return the exit code."""
        try:
            return self._process.wait(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            raise self._error(f"did not end within {seconds_max:.0f} s") from None

    def kill_at_once(self) -> None:
        """Kills the program and what it started, and does not wait for their end; harmless when they have ended."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def kill(self) -> None:
        """Ends the program and what it started at once; harmless when it has ended."""
        self.kill_at_once()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _error(self, what: str) -> ProgramError:
        tail = self._seen[-40:]
        if self._errors_to is not None and self._errors_to.exists():
            tail = [*tail, *self._errors_to.read_text(errors="replace").splitlines()[-40:]]
        return ProgramError("\n  ".join([f"{self.name} {what}; its last lines:", *tail]))

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
