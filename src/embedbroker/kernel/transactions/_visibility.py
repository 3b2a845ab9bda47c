"""Messages that are routed but not visible yet, in the order in which they become visible.

A durable message is not visible before its record is synced, and nothing may overtake it in its queue. One list for the
whole broker keeps both promises: records become durable in the order of their points. A commit is one entry whatever
its size, so that committing a hundred thousand messages costs each step no more than its budget.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import TypeAlias

from ..message._message import Message
from ..queueing._backlog import Reference
from ..queueing._queue import Queue
from ..settling._removal import Removal

__all__ = ["Sending", "VisibilityQueue", "references_of"]

Sending: TypeAlias = tuple[Message, list[Queue], int]
"""A message, the queues it goes to, and its place: how far its position is above that of the transaction's first."""


def references_of(sent: Iterable[Sending], first_position: int) -> Iterator[tuple[Queue, Reference]]:
    """Return what a committed transaction puts into queues, each message at the place that its record names."""
    for message, targets, place in sent:
        for queue in targets:
            yield queue, Reference(message, first_position + place)


class VisibilityQueue:
    """Hold entries, first in, first out; each waits for its durability point.

    ``removal`` drops references whose queue was deleted in the meantime. `publish` has something to show once
    ``next_point`` is reached; it is infinite while nothing waits. ``pending`` is public for reading: each send checks
    whether there is any.
    """

    __slots__ = ("_is_publishing", "_removal", "last_point", "next_point", "pending")

    def __init__(self, removal: Removal) -> None:
        self.pending: deque[tuple[int, Queue, Reference] | tuple[int, Iterator[tuple[Queue, Reference]], None]] = (
            deque()
        )
        self._removal = removal
        self._is_publishing = False
        self.last_point = 0
        self.next_point: float = math.inf

    def add(self, point: int, queue: Queue, reference: Reference) -> None:
        """Show ``reference`` in ``queue`` once ``point`` is reached and everything added before was shown."""
        if point > self.last_point:
            self.last_point = point
        if not self.pending:
            self.next_point = self.last_point
        queue.expect(1)
        self.pending.append((self.last_point, queue, reference))

    def add_run(self, point: int, queue: Queue, references: Sequence[Reference]) -> None:
        """Show references in ``queue``, as `add` does with each."""
        if point > self.last_point:
            self.last_point = point
        if not self.pending:
            self.next_point = self.last_point
        queue.expect(len(references))
        self.pending.append((self.last_point, zip(repeat(queue), references, strict=False), None))

    def add_commit(self, point: int, sent: Iterator[Sending], counts: dict[Queue, int], first_position: int) -> None:
        """Show what transactions sent; ``counts`` is the number of messages for each queue."""
        if point > self.last_point:
            self.last_point = point
        if not self.pending:
            self.next_point = self.last_point
        for queue, count in counts.items():
            queue.expect(count)
        self.pending.append((self.last_point, references_of(sent, first_position), None))

    def publish(self, reached: int, budget: int) -> int:
        """Show what is durable; return what is left of the budget.

        A consumer that is shown a message may send at once. Messages that it sends are added meanwhile, and shown in
        their turn by the current call, or by the next one.
        """
        if self._is_publishing:
            return budget
        self._is_publishing = True
        pending = self.pending
        while pending and budget > 0 and pending[0][0] <= reached:
            _point, first, reference = pending[0]
            if isinstance(first, Queue):
                pending.popleft()
                assert reference is not None
                if first.deleted:
                    self._removal.drop(first, reference.message)
                else:
                    first.publish_expected(reference)
                budget -= 1
                continue
            before = budget
            queue, run = None, list[Reference]()
            for following_queue, following in islice(first, budget):
                if following_queue is not queue:
                    if queue is not None:
                        self._show(queue, run)
                    queue, run = following_queue, []
                run.append(following)
                budget -= 1
            if queue is not None:
                self._show(queue, run)
            if before == budget or budget > 0:
                pending.popleft()
        self._is_publishing = False
        self.next_point = pending[0][0] if pending else math.inf
        return budget

    def _show(self, queue: Queue, run: list[Reference]) -> None:
        if queue.deleted:
            for reference in run:
                self._removal.drop(queue, reference.message)
        elif len(run) == 1:
            queue.publish_expected(run[0])
        else:
            queue.publish_expected_run(run)
