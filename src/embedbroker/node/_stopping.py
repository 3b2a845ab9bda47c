"""The beginning of an orderly stop: what clients asked for by now is carried out and durable before they are told.

Calls that wait for the disk would be in doubt for nothing otherwise. What clients send meanwhile is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedbroker.kernel import Kernel

if TYPE_CHECKING:
    from embedbroker.storage import Journal

__all__ = ["FLUSH_SECONDS_MAX", "OrderlyStop"]

#: How long an orderly stop waits for the disk before it tells the clients. A sync takes milliseconds.
FLUSH_SECONDS_MAX = 5.0


class OrderlyStop:
    """Of one life. ``is_under_way`` is for looking at."""

    __slots__ = ("_due", "_journal", "_kernel", "is_under_way")

    def __init__(self, kernel: Kernel, journal: Journal | None) -> None:
        self.is_under_way = False
        self._kernel = kernel
        self._journal = journal
        self._due = 0.0

    def begin(self, now: float) -> float:
        """Wait from now on; the time at which that ends in any case."""
        self.is_under_way = True
        self._due = now + FLUSH_SECONDS_MAX
        return self._due

    def is_done(self, now: float) -> bool:
        """Whether everything that was accepted is carried out and durable, or takes too long."""
        journal = self._journal
        if not self._kernel.deferred.waiting and (journal is None or journal.point() <= journal.reached):
            return True
        return now >= self._due
