"""A queue and its consumers: a backlog that keeps order, a dispatcher that chooses, browsers, markers and counters.

A consumer takes messages from one queue, and holds what it has taken but not settled. It hands them to a port of its
protocol, and is charged what the port returns.

Responsible for when a message becomes visible, for handing messages over, for markers and for the counters. Does not
depend on transactions, records, expiry addresses and protocols: the kernel removes messages for good.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, takewhile
from typing import Protocol

from .._client_view import SessionView
from .._definitions import QueueDefinition
from .._statistics import QueueStatistics
from ..message._message import Message
from ..selector._selector import NOTHING, Selector
from ._backlog import Backlog, Bookmark, PackedReference, Reference, Restore
from ._backpressure import Backpressure
from ._credit import Credit
from ._cursor import Cursor
from ._deliveries import CHUNK_ENTRIES, Deliveries
from ._dispatcher import Dispatcher, Filter
from ._groups import GroupDispatcher
from ._scheduled import ScheduledReferences

__all__ = ["Consumer", "ConsumerPort", "Queue", "QueueKeeper", "QueueOwner", "RunPort"]

# Messages that are taken out of the backlog before the consumer gets any of them.
_RUN_MAX = 64


class QueueKeeper(Protocol):
    """Hold a queue until it is deleted: a connection, for its temporary queues."""

    def discard(self, queue: Queue) -> None:
        """Forget a queue, which was deleted or has another keeper."""


class QueueOwner(Protocol):
    """Connect a queue to the kernel around it."""

    @property
    def now_ms(self) -> int:
        """Return the wall time of the step in Unix milliseconds."""

    @property
    def is_publishing(self) -> bool:
        """Return True if messages that are safe still wait for their turn to become visible."""

    def wake(self, queue: Queue) -> None:
        """Call `dispatch` later in this step."""

    def call_at(self, due_ms: int, queue: Queue) -> None:
        """Call `release_due` once the wall time is ``due_ms``."""

    def examine_rebalance(self, queue: Queue) -> None:
        """Call `end_rebalance` in this step if `has_in_flight` is False then."""

    def expire(self, queue: Queue, reference: Reference) -> bool:
        """Handle a message that was found expired just before its delivery, and has left the queue.

        Return False if nothing expires in this queue: the message must be delivered.
        """

    def expires(self, queue: Queue) -> bool:
        """Return True if messages expire in a queue."""

    def settle_delivered(self, queue: Queue, reference: Reference) -> None:
        """Handle a message that was delivered to a consumer that acknowledges by taking."""


class ConsumerPort(Protocol):
    """Receive deliveries for a protocol."""

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        """Send one message to the peer and return what it costs in credit (bytes, or 1 where messages are counted)."""

    def deliver_behind(self, point: int, consumer: Consumer, reference: Reference) -> int:
        """Deliver like `deliver` and charge the cost now; the peer gets it, in order, once that point is durable."""

    def deliver_marker(self, consumer: Consumer, sequence: int) -> None:
        """Notify the peer that nothing more can be delivered now (forced delivery, drained credit)."""

    def closed_by_broker(self, consumer: Consumer) -> None:
        """Handle the deletion of the queue under the consumer."""


class RunPort(Protocol):
    """Receive runs of deliveries for a part of the broker."""

    def deliver_run(self, references: Sequence[Reference]) -> int:
        """Take messages, and return what they cost in credit: the sizes of all, or less."""


class Remaining:
    """Filter for a consumer with undeliverable messages: match what the consumer wants, without those."""

    __slots__ = ("declined", "wanted")

    def __init__(self, wanted: Filter | None) -> None:
        self.wanted = wanted
        # Ids of messages that are still in the queue, or delivered to other consumers of it.
        self.declined: set[int] = set()

    def matches(self, message: Message) -> bool:
        """Return True if the consumer may get this message."""
        return message.message_id not in self.declined and (self.wanted is None or self.wanted.matches(message))


class Consumer:
    """Hold one consumer or browser of one queue.

    It is ready while it is started, has credit and its peer keeps up.
    """

    __slots__ = (
        "backpressure",
        "browse",
        "closed",
        "created_ms",
        "credit",
        "cursor",
        "filter_text",
        "fqqn",
        "in_ready",
        "key",
        "marker",
        "number",
        "owner",
        "port",
        "pre_acknowledge",
        "priority",
        "queue",
        "run_port",
        "selector",
        "sequential_id",
        "session",
        "started",
        "unsettled",
    )

    def __init__(
        self,
        key: int,
        queue: Queue,
        port: ConsumerPort,
        selector: Selector | None,
        backpressure: Backpressure,
        credit: Credit,
        *,
        browse: bool,
        priority: int,
    ) -> None:
        self.key = key
        self.queue = queue
        self.port = port
        self.selector: Filter | None = selector
        self.backpressure = backpressure
        self.browse = browse
        self.priority = priority
        self.credit = credit
        self.started = browse
        self.closed = False
        self.in_ready = False
        self.pre_acknowledge = False
        self.cursor = Bookmark()
        self.unsettled = Deliveries()
        # Sequence of a forced delivery that is still to be answered.
        self.marker: int | None = None
        # For an audit trail: its number there, 0 for none yet, and the name of its session.
        self.number = 0
        self.session = ""
        # The session, for observers and management; None for a consumer of the broker itself.
        self.owner: SessionView | None = None
        # Set for a consumer that takes runs of messages.
        self.run_port: RunPort | None = None
        self.filter_text: str | None = None
        # ``address::queue``, if the consumer named its queue so.
        self.fqqn: str | None = None
        self.created_ms = 0
        # Number in the broker, for management; `key` is that in its session.
        self.sequential_id = 0

    @property
    def ready(self) -> bool:
        """Return True if the next message can be handed over now."""
        return self.started and not self.backpressure.is_shut and not self.closed and self.credit.can_take(0)

    @property
    def has_in_flight(self) -> bool:
        """Return True if it holds messages, or the current transaction of its session acknowledged some."""
        if self.closed:
            return False
        return bool(self.unsettled) or (self.owner is not None and self.owner.has_taken_from(self.queue))

    def add_credit(self, amount: int) -> None:
        """Add what the peer granted to the credit."""
        self.credit.grant(amount)
        if self.credit.can_take(0):
            self.queue.consumer_ready(self)

    def decline(self, message_id: int) -> None:
        """Exclude this message from all later deliveries to the consumer."""
        if not isinstance(self.selector, Remaining):
            self.selector = Remaining(self.selector)
        self.selector.declined.add(message_id)

    @property
    def declined(self) -> set[int]:
        """Return the ids of messages that are undeliverable to it and have not left the queue."""
        return self.selector.declined if isinstance(self.selector, Remaining) else set()

    # -- for its queue -------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Continue after the back-pressure of its connection, which held it up."""
        self.queue.consumer_ready(self)

    def show(self, backlog: Backlog, budget: int) -> int:
        """Show a browser what it has not seen, as far as credit and the budget go; return the rest of the budget."""
        matches = self.selector.matches if self.selector is not None else None
        while self.ready and budget > 0:
            reference, budget = backlog.browse(self.cursor, budget)
            if reference is None:
                break
            if matches is None or matches(reference.message):
                # Looking is no delivery: the count stays, 0 for a message that no consumer was given.
                self.credit.left -= self.port.deliver(self, reference)
        if self.backpressure.is_shut:
            self.backpressure.wait(self)
        return budget

    def send_marker(self) -> None:
        """Answer the last request for a marker; see `Credit.on_marker`, too."""
        sequence, self.marker = self.marker, None
        assert sequence is not None
        self.credit.on_marker()
        self.port.deliver_marker(self, sequence)


class Queue:
    """Hold a queue with its consumers. All public counters count messages."""

    __slots__ = (
        "_holds",
        "_markers",
        "_waiting_visible",
        "acknowledged_count",
        "added_count",
        "address_paused",
        "awaited",
        "backlog",
        "browsers",
        "consumers",
        "cursor",
        "decliners",
        "definition",
        "deleted",
        "delivering_count",
        "dispatcher",
        "durable",
        "expired_count",
        "filter",
        "id",
        "idle_since_ms",
        "keeper",
        "killed_count",
        "name",
        "owner",
        "paused",
        "pledged",
        "scheduled",
        "swept",
        "used",
        "withdrawn_count",
    )

    def __init__(
        self, definition: QueueDefinition, selector: Selector | None, owner: QueueOwner, restore: Restore
    ) -> None:
        self.definition = definition
        self.id = definition.id
        self.name = definition.name
        self.durable = definition.durable
        # Routing uses this one. A disabled queue takes no message, which costs the others nothing.
        self.filter = selector if definition.enabled else NOTHING
        self.owner = owner
        self.backlog = Backlog(restore)
        # A `GroupDispatcher` once there was a message of a group.
        self.dispatcher: Dispatcher[Consumer] = Dispatcher()
        self.consumers = self.dispatcher.consumers
        self.browsers: dict[Consumer, None] = {}
        # Messages that must not be delivered yet; None until there is one.
        self.scheduled: ScheduledReferences | None = None
        # The cursor that reads it by ranges of positions; see `Cursors`.
        self.cursor: Cursor | None = None
        # Consumers for which some of its messages are undeliverable.
        self.decliners: dict[Consumer, None] = {}
        # Consumers whose marker is sent behind everything that can be delivered. Browsers are not among them.
        self._markers: dict[Consumer, None] = {}
        # Messages routed here whose durability is still awaited. They are not visible; later ones must not overtake
        # them.
        self._waiting_visible = 0
        self._holds = 0
        # Paused by itself, and with its address. A queue that is paused has one hold for that.
        self.paused = False
        self.address_paused = False
        # Consumers that may have messages in flight while a rebalance waits for those; None otherwise. It is one hold.
        # What settles messages must call `on_settled` meanwhile.
        self.awaited: list[Consumer] | None = None
        self.delivering_count = 0
        # Messages of open transactions that will arrive here if those are committed.
        self.pledged = 0
        self.added_count = 0
        self.acknowledged_count = 0
        # Messages that expired here, and that were given up as dead letters.
        self.expired_count = 0
        self.killed_count = 0
        # Acknowledgements of transactions that were rolled back, and what a reset took from the three counts above.
        self.withdrawn_count = 0
        self.used = False
        self.swept = False
        self.idle_since_ms = 0
        self.deleted = False
        # What must forget it when it is deleted.
        self.keeper: QueueKeeper | None = None

    def statistics(self) -> QueueStatistics:
        """Return the current figures."""
        levels = self.dispatcher.levels
        return QueueStatistics(
            name=self.name,
            backlog=self.backlog.statistics(),
            delivering=self.delivering_count,
            scheduled=self.scheduled_count,
            waiting_visible=self._waiting_visible,
            added=self.added_count,
            acknowledged=self.acknowledged_count,
            consumers=len(self.consumers),
            browsers=len(self.browsers),
            consumer_priorities=tuple([level.priority for level in levels]),
            turns=sum([len(level.ready) for level in levels]),
        )

    @property
    def message_count(self) -> int:
        """Return the number of messages that wait, are scheduled or in delivery, as Artemis counts them."""
        return self.backlog.size + self.delivering_count + self.scheduled_count

    @property
    def scheduled_count(self) -> int:
        """Return the number of messages that must not be delivered yet."""
        return len(self.scheduled) if self.scheduled is not None else 0

    def undelivered(self) -> Iterator[Reference]:
        """Return the messages that wait or are scheduled. For queries: messages may leave meanwhile."""
        return chain(self.backlog, self.scheduled or ())

    @property
    def consumer_count(self) -> int:
        """Return the number of consumers without browsers."""
        return len(self.consumers)

    def has_matching_consumer(self, message: Message) -> bool:
        """Return True if a consumer wants a message, ready or not."""
        # A loop: this runs for each message of an address with remote bindings.
        for consumer in self.consumers:  # noqa: SIM110
            if consumer.selector is None or consumer.selector.matches(message):
                return True
        return False

    # -- visibility ----------------------------------------------------------------------------------------------

    @property
    def waiting_visible(self) -> int:
        """Return how many routed messages wait for durability."""
        return self._waiting_visible

    def expect(self, count: int) -> None:
        """Announce messages on their way into this queue."""
        self._waiting_visible += count

    def publish_expected(self, reference: Reference) -> None:
        """Publish a message announced by `expect`."""
        self._waiting_visible -= 1
        self.publish(reference)

    def publish_expected_run(self, references: list[Reference]) -> None:
        """Publish messages announced by `expect`, as `publish_expected` does with each."""
        self._waiting_visible -= len(references)
        done = 0
        if not self.backlog.size and (taker := self._run_taker()) is not None:
            done = self._hand_run(taker, references)
            self.added_count += done
        for reference in references[done:] if done else references:
            self.publish(reference)

    def _run_taker(self) -> Consumer | None:
        """Return the only consumer if it takes runs and is ready; None if each message has its turn."""
        if len(self.consumers) != 1 or self._holds or self.browsers:
            return None
        consumer = next(iter(self.consumers))
        if consumer.run_port is None or consumer.selector is not None or not consumer.ready:
            return None
        return None if self.definition.exclusive or isinstance(self.dispatcher, GroupDispatcher) else consumer

    def _hand_run(self, consumer: Consumer, references: list[Reference]) -> int:
        """Hand messages to a consumer that takes runs, up to one that is not handed so; return how many it got."""
        now_ms, left, count = self.owner.now_ms, consumer.credit.left, 0
        unsettled = consumer.unsettled.newest
        for reference in references:
            message = reference.message
            if left <= 0 or 0 < message.expiration <= now_ms or message.is_directed:
                break
            left -= message.encoded_size
            reference.delivery_count += 1
            if len(unsettled) >= CHUNK_ENTRIES:
                unsettled = consumer.unsettled.grow()
            unsettled[message.message_id] = reference
            count += 1
        if count:
            self.delivering_count += count
            assert consumer.run_port is not None
            consumer.credit.left -= consumer.run_port.deliver_run(references[:count])
        return count

    def _dispatch_runs(self, taker: Consumer, budget: int) -> int:
        """Hand waiting messages to a consumer that takes runs; return the rest of the budget."""
        backlog = self.backlog
        while backlog.size and budget > 0:
            run = backlog.pop_run(min(budget, _RUN_MAX))
            done = self._hand_run(taker, run)
            budget -= done
            if done < len(run):
                for reference in run[done:]:
                    backlog.give_back(reference)
                break
        return budget

    def publish(self, reference: Reference) -> None:
        """Make a message visible: straight to a consumer when nothing waits, else behind what waits."""
        self.added_count += 1
        if reference.message.is_directed and self._is_kept_back(reference):
            return
        backlog = self.backlog
        if backlog.size == 0 and not self._holds:
            consumer = self.dispatcher.choose(reference)
            if consumer is not None:
                self._hand(consumer, reference)
                return
            backlog.append(reference)
            if self.browsers:
                self.owner.wake(self)
            return
        backlog.append(reference)
        if self.dispatcher.levels or self.browsers:
            self.owner.wake(self)

    # -- groups and scheduled messages ---------------------------------------------------------------------------

    def _is_kept_back(self, reference: Reference) -> bool:
        """Return True if a message with a time is not due yet: it is scheduled. Prepare for the group of a message."""
        message = reference.message
        if message.is_grouped:
            self.expect_groups()
        if message.deliver_at <= self.owner.now_ms:
            return False
        self.schedule(reference, message.deliver_at)
        return True

    @property
    def group_count(self) -> int | None:
        """Return the number of groups that have a consumer; None if messages of groups are not kept together."""
        dispatcher = self.dispatcher
        return dispatcher.group_count if isinstance(dispatcher, GroupDispatcher) else None

    def groups(self, limit: int) -> list[tuple[str, Consumer]]:
        """Return groups with their consumers; a bucket of groups counts as one."""
        dispatcher = self.dispatcher
        return dispatcher.groups(limit) if isinstance(dispatcher, GroupDispatcher) else []

    def reset_groups(self, group: str | None = None) -> None:
        """Let the next message of a group choose a consumer; None: of each group. Messages in delivery stay there."""
        dispatcher = self.dispatcher
        if isinstance(dispatcher, GroupDispatcher) and dispatcher.reset(group):
            for consumer in self.consumers:
                self.consumer_ready(consumer)

    def is_expired(self, message: Message) -> bool:
        """Return True if a message has expired, so that it is not delivered."""
        return 0 < message.expiration <= self.owner.now_ms and self.owner.expires(self)

    def expect_groups(self) -> None:
        """Keep messages of a group together from now on. An exclusive queue does that with all messages."""
        definition = self.definition
        if definition.exclusive or definition.internal or definition.group_buckets == 0:
            return
        if isinstance(self.dispatcher, GroupDispatcher):
            return
        self.dispatcher = GroupDispatcher(self.dispatcher, self)

    def schedule(self, reference: Reference, due_ms: int) -> None:
        """Keep a message out of sight until the wall time is ``due_ms``."""
        scheduled = self.scheduled
        if scheduled is None:
            scheduled = self.scheduled = ScheduledReferences()
        scheduled.add(due_ms, reference)
        if due_ms < scheduled.announced:
            scheduled.announced = due_ms
            self.owner.call_at(due_ms, self)

    def release_due(self, due_ms: int, limit: int) -> int:
        """Put messages that are due to their places, up to ``limit``; return how many.

        Their places are those of their sends: behind what was sent before, in front of what was sent later. ``due_ms``
        is the time of the call that this answers; without effect if it is out of date.
        """
        scheduled = self.scheduled
        if scheduled is None or scheduled.announced != due_ms:
            return 0
        due = scheduled.take_due(self.owner.now_ms, limit)
        for reference in due:
            self.backlog.give_back(reference)
        scheduled.announced = scheduled.first_due_ms
        if scheduled:
            self.owner.call_at(int(scheduled.announced), self)
        if due:
            self.owner.wake(self)
        return len(due)

    def release_early(self, reference: Reference) -> None:
        """Put a scheduled message to its place before it is due; without effect on one that is not scheduled."""
        if self.scheduled is not None and self.scheduled.discard(reference):
            self.backlog.give_back(reference)
            self.owner.wake(self)

    @property
    def lowest_scheduled(self) -> float:
        """Return the lowest position of a message that must not be delivered yet; infinity for none."""
        return self.scheduled.lowest_position if self.scheduled else math.inf

    # -- holding back --------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Deliver nothing that waits until `let_go`: messages are on their way back or out."""
        self._holds += 1

    @property
    def is_held(self) -> bool:
        """Return True if `hold` is in force."""
        return self._holds > self.is_paused + self.is_rebalancing

    @property
    def is_rebalancing(self) -> bool:
        """Return True if nothing is delivered until the messages in flight are settled, since a consumer joined."""
        return self.awaited is not None

    @property
    def is_paused(self) -> bool:
        """Return True if nothing is delivered until the queue, or its address, is resumed."""
        return self.paused or self.address_paused

    def set_paused(self, *, itself: bool | None = None, with_address: bool | None = None) -> None:
        """Pause or resume deliveries; None keeps a reason. Browsers, acknowledgements and arrivals go on."""
        before = self.is_paused
        if itself is not None:
            self.paused = itself
        if with_address is not None:
            self.address_paused = with_address
        if self.is_paused and not before:
            self._holds += 1
        elif before and not self.is_paused:
            self.let_go()

    def update(self, definition: QueueDefinition, selector: Selector | None) -> None:
        """Use another definition of the same queue. It is bound anew if the routing type differs."""
        before, self.definition = self.definition, definition
        self.filter = selector if definition.enabled else NOTHING
        if _ways_to_share(before) != _ways_to_share(definition):
            # Messages of groups may wait that were not kept together until now.
            ignored = before.exclusive or before.group_buckets == 0
            self._share_anew(is_grouped=ignored or isinstance(self.dispatcher, GroupDispatcher))

    def _share_anew(self, *, is_grouped: bool) -> None:
        """Choose consumers in the way of a changed definition. ``is_grouped``: messages of groups may wait."""
        before = self.dispatcher
        self.dispatcher = Dispatcher()
        self.dispatcher.consumers, self.dispatcher.levels = before.consumers, before.levels
        if is_grouped:
            self.expect_groups()
        for consumer in self.consumers:
            consumer.cursor = Bookmark()
            self.consumer_ready(consumer)

    def _begin_rebalance(self) -> None:
        """Deliver nothing until the consumers have settled what they hold now, so that groups stay in order.

        As in Artemis, browsers and markers go on, and what a prepared transaction acknowledged is not awaited.
        """
        if self.awaited is not None or not self.delivering_count:
            return
        self.awaited = list(self.consumers)
        if self.has_in_flight:
            self._holds += 1
        else:
            self.awaited = None

    @property
    def has_in_flight(self) -> bool:
        """Return True if a rebalance waits for messages of a consumer."""
        awaited = self.awaited
        # A consumer that has settled all gets no more during the pause: it is examined once.
        while awaited and not awaited[-1].has_in_flight:
            awaited.pop()
        return bool(awaited)

    def on_settled(self) -> None:
        """Handle that a consumer may have nothing in flight any more. Must be called while a rebalance waits."""
        self.owner.examine_rebalance(self)

    def end_rebalance(self) -> None:
        """Deliver again: the messages in flight are settled."""
        self.awaited = None
        self.let_go()

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
            self.swept = False
            if self.definition.group_rebalance_pause_dispatch and self.definition.group_rebalance:
                self._begin_rebalance()
            if self.dispatcher.add(consumer):
                for other in self.consumers:
                    self.consumer_ready(other)
        self.consumer_ready(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Detach a consumer; what it had not settled was returned before."""
        consumer.closed = True
        consumer.backpressure.forget(consumer)
        self._markers.pop(consumer, None)
        if consumer.browse:
            self.browsers.pop(consumer, None)
            return
        self.decliners.pop(consumer, None)
        others_wait = self.dispatcher.remove(consumer)
        self.used = True
        self.idle_since_ms = self.owner.now_ms
        if others_wait:
            for other in self.consumers:
                self.consumer_ready(other)

    def consumer_ready(self, consumer: Consumer) -> None:
        """Handle a consumer that received credit, was started, or whose peer caught up."""
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
            self.dispatcher.enter(consumer)
        if self.backlog.size or consumer.marker is not None:
            self.owner.wake(self)

    def decline(self, consumer: Consumer, message_id: int) -> None:
        """Mark a message as undeliverable to a consumer; others may get it."""
        if not consumer.closed:
            consumer.decline(message_id)
            self.decliners[consumer] = None

    def forget_declined(self, message_id: int) -> None:
        """Forget the marks of a message that has left."""
        for consumer in self.decliners:
            consumer.declined.discard(message_id)

    # -- delivery ------------------------------------------------------------------------------------------------

    def _hand(self, consumer: Consumer, reference: Reference) -> None:
        owner = self.owner
        expiration = reference.message.expiration
        if expiration and owner.now_ms >= expiration and owner.expire(self, reference):
            return
        if self.definition.exclusive:
            self.dispatcher.holder = consumer
        reference.delivery_count += 1
        self.delivering_count += 1
        if consumer.pre_acknowledge:
            consumer.credit.left -= consumer.port.deliver(consumer, reference)
            owner.settle_delivered(self, reference)
            return
        unsettled = consumer.unsettled.newest
        if len(unsettled) >= CHUNK_ENTRIES:
            unsettled = consumer.unsettled.grow()
        unsettled[reference.message.message_id] = reference
        consumer.credit.left -= consumer.port.deliver(consumer, reference)

    def take_run(self, wants: Callable[[Message], bool], limit: int) -> tuple[list[Reference], int]:
        """Take out the first waiting messages, up to the first that is not wanted, for a consumer that has had a turn.

        They are in delivery from then on. The run is empty where deliveries have rules of their own.

        Args:
            wants: Returns whether the consumer gets a message.
            limit: Number of messages to look at; one that has expired is not part of the run, and counts.

        Returns:
            The run, and how many messages left the queue for it.
        """
        taken: list[Reference] = []
        owner, backlog = self.owner, self.backlog
        if self._holds or self.definition.exclusive or isinstance(self.dispatcher, GroupDispatcher):
            return taken, 0
        looked, now_ms = 0, owner.now_ms
        # Those that follow deep in the backlog are left to `first_packed`.
        while backlog.size and looked < limit and not (looked and backlog.first_packed(1)):
            run = backlog.pop_run(limit - looked)
            for index, reference in enumerate(run):
                message = reference.message
                if not wants(message):
                    for unwanted in run[index:]:
                        backlog.give_back(unwanted)
                    looked, limit = looked + index, 0
                    break
                if not (0 < message.expiration <= now_ms and owner.expire(self, reference)):
                    reference.delivery_count += 1
                    taken.append(reference)
            else:
                looked += len(run)
        self.delivering_count += len(taken)
        return taken, looked

    def first_packed(self, limit: int) -> list[PackedReference]:
        """Return the first waiting messages, all durable or none, up to one that has expired, without taking them.

        Empty where deliveries follow other rules, and unless the messages are deep in the backlog; see `take_packed`.
        """
        if self._holds or self.definition.exclusive or isinstance(self.dispatcher, GroupDispatcher):
            return []
        first, now_ms = self.backlog.first_packed(limit), self.owner.now_ms
        return list(takewhile(lambda entry: entry[6] == first[0][6] and not 0 < entry[2] <= now_ms, first))

    def take_packed(self, count: int) -> None:
        """Take out the first messages of what `first_packed` has just returned: they leave for good."""
        self.backlog.take_packed(count)
        self.acknowledged_count += count
        self.used = True

    @property
    def _is_publishing(self) -> bool:
        """Return True if messages of this queue are safe and still wait for their turn to become visible."""
        return self._waiting_visible > 0 and self.owner.is_publishing

    def dispatch(self, budget: int) -> int:
        """Hand waiting messages to ready consumers and browsers, then send markers; return the rest of the budget."""
        backlog = self.backlog
        if not self._holds:
            taker = self._run_taker()
            if taker is not None:
                budget = self._dispatch_runs(taker, budget)
            budget = self.dispatcher.dispatch(backlog, self._hand, budget)
        elif self.is_held:
            return budget
        for browser in list(self.browsers):
            budget = browser.show(backlog, budget)
            has_seen_all = budget > 0 and not browser.backpressure.is_shut
            if browser.marker is not None and has_seen_all:
                if self._is_publishing:
                    self.owner.wake(self)
                else:
                    browser.send_marker()
        if budget <= 0:
            self.owner.wake(self)
            return 0
        if self._markers:
            if self._is_publishing:
                self.owner.wake(self)
            else:
                self._send_markers()
        return budget

    def _send_markers(self) -> None:
        """Send the markers, except where a message waits only because the peer does not keep up."""
        for consumer in list(self._markers):
            if consumer.backpressure.is_shut and self.backlog.size > 0:
                consumer.backpressure.wait(consumer)
            else:
                del self._markers[consumer]
                consumer.send_marker()

    def force_delivery(self, consumer: Consumer, sequence: int) -> None:
        """Answer with a marker once everything that can be delivered now was delivered; see `Credit.on_marker`, too."""
        nothing_waits = self.backlog.size == 0 and not self._waiting_visible and not self._holds
        is_first = consumer.marker is None
        consumer.marker = sequence
        if is_first and not consumer.browse and nothing_waits:
            consumer.send_marker()
            return
        if not consumer.browse:
            self._markers[consumer] = None
        self.owner.wake(self)


def _ways_to_share(definition: QueueDefinition) -> tuple[object, ...]:
    """Return what decides which consumers may get a message."""
    return definition.exclusive, definition.group_buckets, definition.group_rebalance
