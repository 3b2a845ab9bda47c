"""Lines of the log that are written once, or once in a while, although what they report is repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ._clock import Clock

__all__ = ["LineBudget", "LogOnce", "LogSometimes"]

# Keys have names that clients choose: all are forgotten when there are this many.
_KEYS_MAX = 1000


class LogOnce:
    """Log each line once for its key."""

    __slots__ = ("_keys", "_log")

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._keys: set[str] = set()

    def __call__(self, key: str, text: str) -> None:
        """Log a line, unless one with this key was logged."""
        if key in self._keys:
            return
        if len(self._keys) >= _KEYS_MAX:
            self._keys.clear()
        self._keys.add(key)
        self._log(text)


class LineBudget:
    """Bound the lines of the log about one matter: a remark stands for the lines too many within a period.

    Args:
        remark: Writes one line, whose text is the argument.
        subject: What the lines are about, and what to do if there are too many.
    """

    __slots__ = ("_ends_at", "_lines", "_remark", "_subject")

    LINES_MAX: Final = 50
    PERIOD_S: Final = 60.0

    def __init__(self, remark: Callable[[str], None], subject: str) -> None:
        self._remark = remark
        self._subject = subject
        self._lines, self._ends_at = 0, 0.0

    def takes_line(self, now: float) -> bool:
        """Return True if one more line may be written at the time ``now``, in monotonic seconds."""
        if now >= self._ends_at:
            self._lines, self._ends_at = 0, now + self.PERIOD_S
        self._lines += 1
        if self._lines == self.LINES_MAX + 1:
            left_out = f"{self.LINES_MAX} lines within {self.PERIOD_S:g} s, further ones are left out for that time"
            self._remark(f"{left_out}: {self._subject}")
        return self._lines <= self.LINES_MAX


class LogSometimes:
    """Log a line for each key, and again when so many seconds have passed since the last one of the key.

    Args:
        log: Writes one line.
        clock: Names the time.
        pause_s: How long a key has no other line.
        subject: What the lines are about, for the one that there are too many of all keys.
    """

    __slots__ = ("_budget", "_clock", "_log", "_pause_s", "_times")

    def __init__(self, log: Callable[[str], None], clock: Clock, pause_s: float, subject: str) -> None:
        self._log = log
        self._clock = clock
        self._pause_s = pause_s
        self._times: dict[str, float] = {}
        self._budget = LineBudget(log, subject)

    def __call__(self, key: str, text: Callable[[], str]) -> None:
        """Log a line, unless one with this key was logged lately. ``text`` is called for a line that is written."""
        now, last = self._clock.monotonic, self._times.get(key)
        if (last is not None and now - last < self._pause_s) or not self._budget.takes_line(now):
            return
        if len(self._times) >= _KEYS_MAX:
            self._times.clear()
        self._times[key] = now
        self._log(text())
