"""Lines of the log that are written once, although what they report is repeated."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["LogOnce"]

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
