"""The beginning of an orderly stop: accepted requests are carried out and durable before clients are disconnected.

Otherwise calls that wait for the disk would be in doubt for nothing. What clients send meanwhile is not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedbroker.kernel import Kernel

if TYPE_CHECKING:
    from embedbroker.storage import Journal

__all__ = ["FLUSH_SECONDS_MAX", "OrderlyStop"]

#: How long an orderly stop waits for the disk before it disconnects clients. A sync takes milliseconds.
FLUSH_SECONDS_MAX = 5.0


class OrderlyStop:
    """One instance per node. ``is_under_way`` is True from `begin` until the lifecycle resets it."""

    __slots__ = ("_due", "_journal", "_kernel", "is_under_way")

    def __init__(self, kernel: Kernel, journal: Journal | None) -> None:
        self.is_under_way = False
        self._kernel = kernel
        self._journal = journal
        self._due = 0.0

    def begin(self, now: float) -> None:
        """Wait from now on, at most `FLUSH_SECONDS_MAX`."""
        self.is_under_way = True
        self._due = now + FLUSH_SECONDS_MAX

    def next_deadline(self) -> float | None:
        """Return when the wait ends in any case; None while no stop is under way."""
        return self._due if self.is_under_way else None

    def is_done(self, now: float) -> bool:
        """Return True if everything that was accepted is carried out and durable, or takes too long."""
        journal = self._journal
        if not self._kernel.deferred.waiting and (journal is None or journal.point() <= journal.reached):
            return True
        return now >= self._due
