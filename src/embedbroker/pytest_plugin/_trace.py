"""What happened in a test, for the report of one that fails.

Responsible for a bounded number of lines with their times. Does not depend on their contents.
"""

from __future__ import annotations

import logging
from collections import deque

import trio
import trio.abc

__all__ = ["Trace"]

_LINES_MAX = 2_000
_TAIL_LINES = 40
_LOGGERS = ("embedbroker", "embedclient")


class Trace(logging.Handler):
    """Collect lines; also what broker and client log while it is `attached`."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[str] = deque(maxlen=_LINES_MAX)
        self._count = 0
        #: The clock of the test: blocking clients log in threads, each with its own run of trio and its clock.
        self._clock: trio.abc.Clock | None = None
        self._begun = 0.0

    def begin(self) -> None:
        """Count times from here; needs a trio run."""
        self._clock = trio.lowlevel.current_clock()
        self._begun = self._clock.current_time()

    def note(self, text: str) -> None:
        """Add a line."""
        self._count += 1
        self._lines.append(f"{self.elapsed_s():10.6f} {text}")

    def emit(self, record: logging.LogRecord) -> None:
        self.note(f"{record.name}: {record.getMessage()}")

    def elapsed_s(self) -> float:
        """Return the seconds since the beginning, on the clock of the test, in any thread; 0 before."""
        return 0.0 if self._clock is None else self._clock.current_time() - self._begun

    def tail(self) -> str:
        """Return the last lines."""
        kept = list(self._lines)[-_TAIL_LINES:]
        left_out = self._count - len(kept)
        return "\n".join([f"... {left_out} lines before"] * bool(left_out) + kept)

    def attach(self) -> None:
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self)

    def detach(self) -> None:
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self)
