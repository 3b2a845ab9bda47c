"""The consumers of one queue, and the choice of the one that gets the next message.

Responsible for turns inside the highest consumer priority that can take, for filters of consumers and for exclusive
queues. A queue with message groups has a `GroupDispatcher`. Does not depend on the effect of a delivery: the caller
hands messages over and keeps the counters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeAlias, TypeVar

from ..message._message import Message
from ._backlog import Backlog, Bookmark
from ._backpressure import Backpressure, HeldUp
from ._credit import Credit
from ._reference import Reference

__all__ = ["Candidate", "Dispatcher", "Filter", "Hand", "Level"]


class Filter(Protocol):
    """Decide which messages a consumer may get."""

    def matches(self, message: Message, /) -> bool:
        """Return True if the consumer may get this message."""


class Candidate(HeldUp, Protocol):
    """Provide what the choice among consumers depends on; see `Consumer`."""

    in_ready: bool
    cursor: Bookmark
    """How far it has looked for messages that it may get."""

    @property
    def started(self) -> bool:
        """Return True if its session delivers."""

    @property
    def closed(self) -> bool:
        """Return True if it was detached."""

    @property
    def priority(self) -> int:
        """Return its consumer priority."""

    @property
    def backpressure(self) -> Backpressure:
        """Return the valve of its connection."""

    @property
    def credit(self) -> Credit:
        """Return what it may still be sent."""

    @property
    def selector(self) -> Filter | None:
        """Return its filter, None for all messages."""


ConsumerT = TypeVar("ConsumerT", bound=Candidate)

Hand: TypeAlias = Callable[[ConsumerT, Reference], None]
"""Give a message to a consumer, unless the message has expired."""


class Level(Generic[ConsumerT]):
    """Hold the consumers of one priority that can take a message, the next one first.

    Closed ones stay until they are many.
    """

    __slots__ = ("closed_count", "priority", "ready")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.ready: deque[ConsumerT] = deque()
        self.closed_count = 0

    def forget_closed(self) -> None:
        """Count one more closed consumer. Idle queues meet many that come and go."""
        self.closed_count += 1
        if 2 * self.closed_count > len(self.ready):
            kept = [consumer for consumer in self.ready if not consumer.closed]
            self.ready.clear()
            self.ready.extend(kept)
            self.closed_count = 0


class Dispatcher(Generic[ConsumerT]):
    """Choose consumers for the messages of one queue.

    ``holder`` is the consumer of an exclusive queue that got a message; no other gets one while it is there.
    """

    __slots__ = ("consumers", "holder", "levels")

    def __init__(self) -> None:
        self.consumers: dict[ConsumerT, None] = {}
        self.holder: ConsumerT | None = None
        # Highest priority first; only priorities that have a consumer.
        self.levels: list[Level[ConsumerT]] = []

    # -- consumers -----------------------------------------------------------------------------------------------

    def add(self, consumer: ConsumerT) -> bool:
        """Attach a consumer. Return True if others must be offered again what waits."""
        self.consumers[consumer] = None
        return False

    def remove(self, consumer: ConsumerT) -> bool:
        """Forget a closed consumer. Return True if others must be offered again what only this one could get."""
        self.consumers.pop(consumer, None)
        for level in self.levels:
            if level.priority == consumer.priority:
                if consumer.in_ready:
                    level.forget_closed()
                if not any(other.priority == consumer.priority for other in self.consumers):
                    # A new list: a dispatch may be walking the old one.
                    self.levels = [other_level for other_level in self.levels if other_level is not level]
                break
        if self.holder is not consumer:
            return False
        self.holder = None
        return True

    def enter(self, consumer: ConsumerT) -> None:
        """Give a turn to a consumer that is ready and has none."""
        self._level_of(consumer.priority).ready.append(consumer)
        consumer.in_ready = True

    def _level_of(self, priority: int) -> Level[ConsumerT]:
        levels = self.levels
        for index, level in enumerate(levels):
            if level.priority == priority:
                return level
            if level.priority < priority:
                created: Level[ConsumerT] = Level(priority)
                levels.insert(index, created)
                return created
        created = Level(priority)
        levels.append(created)
        return created

    def check(self) -> None:
        """Raise AssertionError if turns do not agree with the consumers."""
        priorities = [level.priority for level in self.levels]
        assert priorities == sorted(set(priorities), reverse=True), priorities
        assert self.holder is None or self.holder in self.consumers
        waiting = [consumer for level in self.levels for consumer in level.ready]
        assert len(waiting) == len(set(waiting)), "a consumer has two turns"
        assert all(consumer.in_ready for consumer in waiting), "a consumer with a turn is marked as without"

    # -- choosing ------------------------------------------------------------------------------------------------

    def choose(self, reference: Reference) -> ConsumerT | None:
        """Return the consumer that gets this message, if any can take it; its next turn is behind the others."""
        message = reference.message
        size = message.encoded_size
        for level in self.levels:
            ready = level.ready
            for _ in range(len(ready)):
                consumer = self._next_ready(level, size)
                if consumer is None:
                    break
                if len(ready) > 1:
                    ready.rotate(-1)
                if consumer.selector is None or consumer.selector.matches(message):
                    return consumer
        return None

    def dispatch(self, backlog: Backlog, hand: Hand[ConsumerT], budget: int) -> int:
        """Take waiting messages out for ready consumers; return what is left of the budget.

        Consumers of a lower priority get what all above them are too busy for, or do not want. A consumer with a filter
        continues where it stopped looking: it examines no message twice.
        """
        for level in self.levels:
            taken = True
            while taken and budget > 0 and backlog.size:
                budget, taken = self._dispatch_round(level, backlog, hand, budget)
        return budget

    def _dispatch_round(
        self, level: Level[ConsumerT], backlog: Backlog, hand: Hand[ConsumerT], budget: int
    ) -> tuple[int, bool]:
        """Hand out one message for each consumer of a level, in turn."""
        taken = False
        for _ in range(len(level.ready)):
            consumer = self._next_ready(level, 0)
            if consumer is None or budget <= 0 or not backlog.size:
                break
            if len(level.ready) > 1:
                level.ready.rotate(-1)
            if consumer.selector is None:
                reference: Reference | None = backlog.pop()
                budget -= 1
            else:
                reference, budget = backlog.take_matching(consumer.cursor, consumer.selector.matches, budget)
            if reference is not None:
                taken = True
                hand(consumer, reference)
        return budget, taken

    def _next_ready(self, level: Level[ConsumerT], size: int) -> ConsumerT | None:
        """Return the consumer of this level that is next, dropping those that cannot take any more.

        ``size`` is that of the message, 0 where it is not known yet.
        """
        ready = level.ready
        holder = self.holder
        while ready:
            consumer = ready[0]
            # `Consumer.ready`, written out: this runs for each message.
            if (
                consumer.started
                and not consumer.backpressure.is_shut
                and not consumer.closed
                and consumer.credit.can_take(size)
                and (holder is None or consumer is holder)
            ):
                return consumer
            ready.popleft()
            consumer.in_ready = False
            if consumer.closed:
                level.closed_count -= 1
            elif consumer.backpressure.is_shut:
                consumer.backpressure.wait(consumer)
        return None
