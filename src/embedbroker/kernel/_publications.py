"""Messages that are routed but not visible yet, in the order in which they will be.

A durable message is shown to nobody before its record is synced, and nothing may overtake it in its queue. One list for
the whole broker keeps both promises: records become durable in the order of their points.
"""

from __future__ import annotations

from collections import deque

from ._backlog import Reference
from ._queue import Queue

__all__ = ["Publications"]


class Publications:
    """First in, first out; each entry waits for its durability point."""

    __slots__ = ("_pending", "last_point")

    def __init__(self) -> None:
        self._pending: deque[tuple[int, Queue, Reference]] = deque()
        self.last_point = 0

    def __bool__(self) -> bool:
        return bool(self._pending)

    def add(self, point: int, queue: Queue, reference: Reference) -> None:
        """Show ``reference`` in ``queue`` once ``point`` is reached and everything added before was shown."""
        if point > self.last_point:
            self.last_point = point
        queue.expect()
        self._pending.append((self.last_point, queue, reference))

    def is_due(self, reached: int) -> bool:
        """Whether `publish` would show something."""
        return bool(self._pending) and self._pending[0][0] <= reached

    def publish(self, reached: int, budget: int) -> int:
        """Show what is durable; returns what is left of the budget."""
        pending = self._pending
        while pending and budget > 0 and pending[0][0] <= reached:
            _point, queue, reference = pending.popleft()
            queue.publish_expected(reference)
            budget -= 1
        return budget

    def withdraw(self, doomed: Queue) -> list[Reference]:
        """Take out what was on its way into a queue that is deleted."""
        withdrawn = [reference for _point, queue, reference in self._pending if queue is doomed]
        if withdrawn:
            self._pending = deque(entry for entry in self._pending if entry[1] is not doomed)
        return withdrawn
