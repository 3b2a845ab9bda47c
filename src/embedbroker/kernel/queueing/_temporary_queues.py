"""The temporary queues of one connection, which end with it.

Responsible for not keeping a queue that was deleted before, whatever deleted it. Does not depend on connections and on
how a queue is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from ._queue import Queue

__all__ = ["TemporaryQueues"]


class TemporaryQueues:
    """Hold the temporary queues of one connection, oldest first. A queue belongs to one connection at most."""

    __slots__ = ("_queues",)

    def __init__(self) -> None:
        self._queues: dict[Queue, None] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def __iter__(self) -> Iterator[Queue]:
        return iter(list(self._queues))

    def add(self, queue: Queue) -> None:
        """Add a queue, which belongs to no other connection from now on."""
        if queue.keeper is not None:
            queue.keeper.discard(queue)
        self._queues[queue] = None
        queue.keeper = self

    def discard(self, queue: Queue) -> None:
        """Forget a queue, which was deleted or belongs to another connection."""
        del self._queues[queue]
        queue.keeper = None

    def take_over(self, others: TemporaryQueues) -> None:
        """Add the queues of a connection that this one replaces."""
        for queue in others:
            self.add(queue)
