"""Deferred work of large requests: commits, rollbacks, acknowledgements and removals of many messages.

Responsible for doing it in order of arrival, in portions, and for pausing a queue while its messages are on their way.
Does not depend on the effects of the work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import TypeVar

from .queueing._queue import Queue

__all__ = ["AT_ONCE_MAX", "DeferredWork", "drained"]

T = TypeVar("T")

# Up to this many effects of one request are carried out at once; the rest of a larger one is spread over steps.
AT_ONCE_MAX = 64


class DeferredWork:
    """Run deferred work, first in, first out. Each chore is an iterator whose steps cost about as much as one message.

    ``waiting`` is public for reading: each step checks whether any work waits.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[Iterator[None]] = deque()

    def add(self, chore: Iterator[None]) -> None:
        """Run a chore behind all earlier work."""
        self.waiting.append(chore)

    def add_action(self, action: Callable[[], None]) -> None:
        """Like `add`, for an action that costs no more than one message."""

        def once() -> Iterator[None]:
            action()
            yield

        self.waiting.append(once())

    def in_turn(self, action: Callable[[], None]) -> None:
        """Like `add_action`, but run the action at once if no earlier work waits."""
        if self.waiting:
            self.add_action(action)
        else:
            action()

    def add_holding(self, queues: Collection[Queue], chore: Iterator[None]) -> None:
        """Like `add`, but pause dispatch from ``queues`` until the work is done, to keep order."""
        for queue in queues:
            queue.hold()

        def held() -> Iterator[None]:
            yield from chore
            for queue in queues:
                queue.let_go()

        self.waiting.append(held())

    def carry_out(self, effects: Iterator[None], count: int, held: Collection[Queue] = ()) -> None:
        """Carry out ``count`` effects: at once if they are few, else over the next steps, with ``held`` queues held."""
        if count <= AT_ONCE_MAX:
            deque(effects, maxlen=0)
        else:
            self.add_holding(held, effects)

    def run(self, budget: int) -> int:
        """Run up to ``budget`` steps; return how many were run."""
        waiting, done = self.waiting, 0
        while waiting and done < budget:
            done += len(list(islice(waiting[0], budget - done)))
            if done < budget:
                waiting.popleft()
        return done


def drained(entries: list[T]) -> Iterator[T]:
    """Yield each entry once, in order.

    The list is emptied on the way: freeing a large one takes as long as using it.
    """
    entries.reverse()
    while entries:
        yield entries.pop()
