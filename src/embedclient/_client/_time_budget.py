"""Seconds that many waits share, so that nested waits do not add up.

Does not depend on what is waited for, nor on a clock: callers pass the time.
"""

from __future__ import annotations


class TimeBudget:
    """At most `seconds` of waiting. A second in which nothing waits gives one second back.

    Waits at the same time spend their seconds together. Invariant: `0 <= _left_s <= _seconds`.
    """

    __slots__ = ("_left_s", "_seconds", "_since", "_waiting")

    def __init__(self, seconds: float) -> None:
        self._seconds = self._left_s = max(0.0, seconds)
        self._waiting = 0
        # When the budget was last counted.
        self._since: float | None = None

    def begin(self, now: float) -> float:
        """Begin a wait at `now`, in seconds of a monotonic clock. Return how many seconds it may take."""
        self._count(now)
        self._waiting += 1
        return self._left_s

    def end(self, now: float) -> None:
        """End a wait."""
        self._count(now)
        self._waiting -= 1

    def _count(self, now: float) -> None:
        if self._since is not None:
            passed_s = now - self._since
            change_s = -passed_s if self._waiting else passed_s
            self._left_s = min(self._seconds, max(0.0, self._left_s + change_s))
        self._since = now
