"""Lines of the log that are written once, or once in a while, although what they report is repeated."""

from __future__ import annotations

from collections.abc import Callable

from ._clock import Clock

__all__ = ["LogOnce", "LogSometimes"]

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


class LogSometimes:
    """Log a line for each key, and again when so many seconds have passed since the last one of the key."""

    __slots__ = ("_clock", "_log", "_pause_s", "_times")

    def __init__(self, log: Callable[[str], None], clock: Clock, pause_s: float) -> None:
        self._log = log
        self._clock = clock
        self._pause_s = pause_s
        self._times: dict[str, float] = {}

    def __call__(self, key: str, text: str) -> None:
        """Log a line, unless one with this key was logged lately."""
        now, last = self._clock.monotonic, self._times.get(key)
        if last is not None and now - last < self._pause_s:
            return
        if len(self._times) >= _KEYS_MAX:
            self._times.clear()
        self._times[key] = now
        self._log(text)
