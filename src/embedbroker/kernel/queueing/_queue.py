"""One queue: what waits in it, who consumes from it, who gets the next message.

Responsible for order, round robin inside the highest consumer priority that can take, exclusive consumers, filters of
consumers, browsers and forced delivery. Refuses to know transactions, records, expiry addresses and protocols: whoever
removes a message for good tells the kernel.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from ..addressing._definitions import QueueDefinition
from ..cursors._cursor import Cursor
from ..selector._selector import Selector
from ._backlog import Backlog, Reference, Restore
from ._consumer import Consumer
from ._deliveries import CHUNK_ENTRIES

__all__ = ["Queue", "QueueOwner"]


class QueueOwner(Protocol):
    """What a queue needs of the kernel around it."""

    now_ms: int

    @property
    def is_publishing(self) -> bool:
        """Whether messages that are safe still wait for their turn to become visible."""

    def wake(self, queue: Queue) -> None:
        """Call `dispatch` later in this step."""

    def expire(self, queue: Queue, reference: Reference) -> bool:
        """A message was found expired when it was about to be delivered, and has left the queue.

        False when nothing expires in this queue: the message is to be delivered.
        """

    def settle_delivered(self, queue: Queue, reference: Reference) -> None:
        """A message was delivered to a consumer that acknowledges by taking."""


class _ConsumerLevel:
    """Consumers of one priority that can take a message, the next one first. Closed ones stay until they are many."""

    __slots__ = ("closed_count", "priority", "ready")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.ready: deque[Consumer] = deque()
        self.closed_count = 0

    def forget_closed(self) -> None:
        """One more of the consumers here was closed. Idle queues meet many that come and go."""
        self.closed_count += 1
        if 2 * self.closed_count > len(self.ready):
            kept = [consumer for consumer in self.ready if not consumer.closed]
            self.ready.clear()
            self.ready.extend(kept)
            self.closed_count = 0


class Queue:
    """A queue with its consumers. All public counters count messages."""

    __slots__ = (
        "_holds",
        "_levels",
        "_marked",
        "_waiting_visible",
        "acknowledged_count",
        "added_count",
        "backlog",
        "browsers",
        "consumers",
        "cursor",
        "decliners",
        "definition",
        "deleted",
        "delivering_count",
        "durable",
        "exclusive_holder",
        "filter",
        "id",
        "idle_since_ms",
        "name",
        "owner",
        "pledged",
        "swept",
        "used",
    )

    def __init__(
        self, definition: QueueDefinition, selector: Selector | None, owner: QueueOwner, restore: Restore
    ) -> None:
        self.definition = definition
        self.id = definition.id
        self.name = definition.name
        self.durable = definition.durable
        self.filter = selector
        self.owner = owner
        self.backlog = Backlog(restore)
        self.consumers: dict[Consumer, None] = {}
        self.browsers: dict[Consumer, None] = {}
        # Whoever reads it by ranges of positions; see `Cursors`.
        self.cursor: Cursor | None = None
        # Consumers for which some of its messages are undeliverable.
        self.decliners: dict[Consumer, None] = {}
        self._levels: list[_ConsumerLevel] = []
        # Consumers that asked for a marker behind everything that can be delivered.
        self._marked: dict[Consumer, None] = {}
        self.exclusive_holder: Consumer | None = None
        # Messages routed here whose durability is still awaited; nobody sees them, later ones may not overtake them.
        self._waiting_visible = 0
        self._holds = 0
        self.delivering_count = 0
        # Messages of open transactions that will come here if those are committed.
        self.pledged = 0
        self.added_count = 0
        self.acknowledged_count = 0
        self.used = False
        self.swept = False
        self.idle_since_ms = 0
        self.deleted = False

    @property
    def message_count(self) -> int:
        """Messages that wait or are in delivery, as Artemis counts them."""
        return self.backlog.size + self.delivering_count

    @property
    def consumer_count(self) -> int:
        """Consumers without browsers."""
        return len(self.consumers)

    # -- visibility ----------------------------------------------------------------------------------------------

    @property
    def waiting_visible(self) -> int:
        """How many routed messages wait for durability."""
        return self._waiting_visible

    def expect(self, count: int) -> None:
        """Messages are on their way into this queue."""
        self._waiting_visible += count

    def publish_expected(self, reference: Reference) -> None:
        """A message announced by `expect` became visible."""
        self._waiting_visible -= 1
        self.publish(reference)

    def publish(self, reference: Reference) -> None:
        """Make a message visible: straight to a consumer when nothing waits, else behind what waits."""
        self.added_count += 1
        backlog = self.backlog
        if backlog.size == 0 and not self._holds:
            message = reference.message
            for level in self._levels:
                consumer = self._take_ready(level, reference) if level.ready else None
                if consumer is not None:
                    if not (message.expiration and self._expired(reference)):
                        self._hand(consumer, reference)
                    return
            backlog.append(reference)
            if self.browsers:
                self.owner.wake(self)
            return
        backlog.append(reference)
        if self._levels or self.browsers:
            self.owner.wake(self)

    def hold(self) -> None:
        """Deliver nothing that waits until `let_go`: messages are on their way back or out."""
        self._holds += 1

    @property
    def is_held(self) -> bool:
        """Whether `hold` is in force."""
        return self._holds > 0

    def let_go(self) -> None:
        """End one `hold`."""
        assert self._holds > 0, self.name
        self._holds -= 1
        self.owner.wake(self)

    # -- consumers -----------------------------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        """Attach a consumer or browser."""
        if consumer.browse:
            self.browsers[consumer] = None
        else:
            self.consumers[consumer] = None
            self.swept = False
        self.consumer_ready(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Detach a consumer; what it had not settled was returned before."""
        consumer.closed = True
        consumer.backpressure.forget(consumer)
        self._marked.pop(consumer, None)
        if consumer.browse:
            self.browsers.pop(consumer, None)
            return
        self.consumers.pop(consumer, None)
        self.decliners.pop(consumer, None)
        self._leave_level(consumer)
        self.used = True
        self.idle_since_ms = self.owner.now_ms
        if self.exclusive_holder is consumer:
            self.exclusive_holder = None
            for other in self.consumers:
                self.consumer_ready(other)

    def consumer_ready(self, consumer: Consumer) -> None:
        """A consumer got credit, was started, or its peer caught up."""
        if not consumer.ready:
            if consumer.backpressure.is_shut:
                consumer.backpressure.wait(consumer)
            if consumer.marker is not None:
                self.owner.wake(self)
            return
        if consumer.browse:
            self.owner.wake(self)
            return
        if not consumer.in_ready:
            self._level_of(consumer.priority).ready.append(consumer)
            consumer.in_ready = True
        if self.backlog.size or consumer.marker is not None:
            self.owner.wake(self)

    def decline(self, consumer: Consumer, message_id: int) -> None:
        """A message is undeliverable to a consumer; others may get it."""
        if not consumer.closed:
            consumer.decline(message_id)
            self.decliners[consumer] = None

    def forget_declined(self, message_id: int) -> None:
        """A message has left."""
        for consumer in self.decliners:
            consumer.declined.discard(message_id)

    def _leave_level(self, consumer: Consumer) -> None:
        for level in self._levels:
            if level.priority == consumer.priority:
                if consumer.in_ready:
                    level.forget_closed()
                if not any(other.priority == consumer.priority for other in self.consumers):
                    # A new list: somebody may be walking the old one.
                    self._levels = [other_level for other_level in self._levels if other_level is not level]
                return

    def _level_of(self, priority: int) -> _ConsumerLevel:
        levels = self._levels
        for index, level in enumerate(levels):
            if level.priority == priority:
                return level
            if level.priority < priority:
                created = _ConsumerLevel(priority)
                levels.insert(index, created)
                return created
        created = _ConsumerLevel(priority)
        levels.append(created)
        return created

    def _usable(self, level: _ConsumerLevel, size: int) -> Consumer | None:
        """The consumer of this level whose turn it is, dropping those that cannot take any more.

        ``size`` is that of the message, 0 where it is not known yet.
        """
        ready = level.ready
        holder = self.exclusive_holder
        while ready:
            consumer = ready[0]
            # `Consumer.ready`, written out: this is asked for each message.
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

    def _take_ready(self, level: _ConsumerLevel, reference: Reference) -> Consumer | None:
        """The next consumer of the level whose filter lets this message pass; it moves to the end of the turn."""
        ready = level.ready
        size = len(reference.message.raw)
        for _ in range(len(ready)):
            consumer = self._usable(level, size)
            if consumer is None:
                return None
            if len(ready) > 1:
                ready.rotate(-1)
            if consumer.selector is None or consumer.selector.matches(reference.message):
                return consumer
        return None

    # -- delivery ------------------------------------------------------------------------------------------------

    def _hand(self, consumer: Consumer, reference: Reference) -> None:
        if self.definition.exclusive:
            self.exclusive_holder = consumer
        reference.delivery_count += 1
        self.delivering_count += 1
        if consumer.pre_acknowledge:
            consumer.credit.left -= consumer.port.deliver(consumer, reference)
            self.owner.settle_delivered(self, reference)
            return
        unsettled = consumer.unsettled.newest
        if len(unsettled) >= CHUNK_ENTRIES:
            unsettled = consumer.unsettled.grow()
        unsettled[reference.message.message_id] = reference
        consumer.credit.left -= consumer.port.deliver(consumer, reference)

    def _expired(self, reference: Reference) -> bool:
        owner = self.owner
        return owner.now_ms >= reference.message.expiration and owner.expire(self, reference)

    def dispatch(self, budget: int) -> int:
        """Hand waiting messages to ready consumers and browsers; returns what is left of the budget.

        Consumers of a lower priority get what all above them are too busy for, or do not want. A consumer with a filter
        is asked from where it stopped looking; nobody is asked twice about one message.
        """
        if self._holds:
            return budget
        for level in self._levels:
            taken = True
            while taken and budget > 0 and self.backlog.size:
                budget, taken = self._dispatch_level(level, budget)
        for browser in list(self.browsers):
            budget = self._browse(browser, budget)
        if budget <= 0:
            self.owner.wake(self)
            return 0
        if self._marked and self._waiting_visible and self.owner.is_publishing:
            self.owner.wake(self)
        elif self._marked:
            for consumer in list(self._marked):
                # With a peer that is behind, it waits: what is there could be delivered soon.
                if consumer.backpressure.is_shut and self.backlog.size:
                    consumer.backpressure.wait(consumer)
                else:
                    self._answer_marker(consumer)
        return budget

    def _dispatch_level(self, level: _ConsumerLevel, budget: int) -> tuple[int, bool]:
        """One message for each consumer of a level, in turn."""
        taken = False
        for _ in range(len(level.ready)):
            consumer = self._usable(level, 0)
            if consumer is None or budget <= 0 or not self.backlog.size:
                break
            if len(level.ready) > 1:
                level.ready.rotate(-1)
            if consumer.selector is None:
                reference: Reference | None = self.backlog.pop()
                budget -= 1
            else:
                reference, budget = self.backlog.take_matching(consumer.cursor, consumer.selector.matches, budget)
            if reference is None:
                continue
            taken = True
            if not (reference.message.expiration and self._expired(reference)):
                self._hand(consumer, reference)
        return budget, taken

    def _browse(self, browser: Consumer, budget: int) -> int:
        matches = browser.selector.matches if browser.selector is not None else None
        while browser.ready and budget > 0:
            reference, budget = self.backlog.browse(browser.cursor, budget)
            if reference is None:
                break
            if matches is None or matches(reference.message):
                # Looking is no delivery: the count stays as it is, 0 for a message that nobody was given.
                browser.credit.left -= browser.port.deliver(browser, reference)
        if browser.backpressure.is_shut:
            browser.backpressure.wait(browser)
        elif budget > 0 and browser.marker is not None:
            if self._waiting_visible and self.owner.is_publishing:
                self.owner.wake(self)
            else:
                self._answer_marker(browser)
        return budget

    def force_delivery(self, consumer: Consumer, sequence: int) -> None:
        """Answer with a marker once everything that can be delivered now was delivered; see `Credit.on_marker`, too."""
        nothing_waits = self.backlog.size == 0 and not self._waiting_visible and not self._holds
        if consumer.marker is None and not consumer.browse and nothing_waits:
            consumer.credit.on_marker()
            consumer.port.deliver_marker(consumer, sequence)
            return
        consumer.marker = sequence
        if not consumer.browse:
            self._marked[consumer] = None
        self.owner.wake(self)

    def _answer_marker(self, consumer: Consumer) -> None:
        self._marked.pop(consumer, None)
        sequence, consumer.marker = consumer.marker, None
        assert sequence is not None
        consumer.credit.on_marker()
        consumer.port.deliver_marker(consumer, sequence)
