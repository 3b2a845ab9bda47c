"""Redistribution: messages that no consumer here takes go to a queue of another broker that has one.

Responsible for when a queue is redistributed (cluster-and-ha 9), for which messages leave it, and for moving them in
portions. Does not depend on bridges: a message moves to a store-and-forward queue.

A queue that is redistributed has a hidden consumer of the lowest priority, which matches what can go elsewhere. So the
messages keep their order, later ones are found without a scan, and a paused or exclusive queue keeps its rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat

from embedbroker.config import AddressSettingsRepository, MessageLoadBalancing
from embedclient.errors import RemoteProtocolError

from ._clock import Clock
from ._deferred import AT_ONCE_MAX, DeferredWork
from ._log_once import LogOnce
from ._refusal import Refused
from ._schedule import Schedule, is_shallow
from .addressing._addresses import AddressManager, split_fqqn
from .addressing._remote_binding import RemoteBinding
from .addressing._rotation import Group, Shared
from .message._message import Message
from .queueing._backlog import Bookmark, Reference
from .queueing._credit import CountCredit
from .queueing._queue import Consumer, Queue
from .settling._forwarding import Forwarding
from .settling._outcome import Outcome
from .settling._settlement import Settlement
from .transactions._packed_moves import PackedMoves
from .transactions._placement import Placement
from .transactions._transaction import Transactions

__all__ = ["Redistribution"]

# Share of a step's work that moving one message takes, beside its dispatch.
_MOVE_COST = 4
# The same for messages that move together, and portions of them before other work has its turn. They do not wait for
# the dispatcher, so the cost alone limits those of a step.
_RUN_COST = 8
_RUNS_MAX = 4
# Bytes of messages that cost as much as one message beside that: they are copied, and may be recorded.
_BYTES_PER_COST = 4096
# Below all priorities of consumers: those get what they want first.
_PRIORITY = -(1 << 40)
_ANYCAST = 1
_MOVING = (MessageLoadBalancing.ON_DEMAND, MessageLoadBalancing.OFF_WITH_REDISTRIBUTION)


class _Taker:
    """Take the messages of one queue that can go elsewhere: the port and the filter of its hidden consumer."""

    __slots__ = ("consumer", "has_turn", "held_by", "queue", "redistribution", "refused")

    def __init__(self, redistribution: Redistribution, queue: Queue, schedule: Schedule) -> None:
        self.redistribution = redistribution
        self.queue = queue
        consumer = Consumer(
            0, queue, self, None, schedule.make_backpressure(), CountCredit(), browse=False, priority=_PRIORITY
        )
        consumer.selector = self
        consumer.started = True
        self.consumer = consumer
        # The store-and-forward queue that it waits for, because many messages are there.
        self.held_by: Queue | None = None
        # Whether that wait is over, and no message has moved since.
        self.has_turn = False
        # Ids of messages that could not be copied, and stay.
        self.refused: set[int] = set()

    def matches(self, message: Message) -> bool:
        """Return True if a message leaves the queue: no consumer here wants it, and one elsewhere does."""
        queue = self.queue
        if queue.cursor is not None or queue.has_matching_consumer(message) or not self.may_leave(message):
            return False
        group = self.redistribution.group_of(queue)
        return group is not None and group.has_elsewhere(message, queue, required_name(queue))

    def may_leave(self, message: Message) -> bool:
        """Return True unless a message stays, even if a consumer elsewhere wants it."""
        if self.refused and message.message_id in self.refused:
            return False
        try:
            # All messages of a group go to one consumer, and the group is here.
            return message.group_id is None
        except RemoteProtocolError:
            return False

    def refuse(self, message: Message) -> None:
        """Leave a message where it is from now on."""
        self.refused.add(message.message_id)

    def go_on(self) -> None:
        """Move more, unless the wait for a store-and-forward queue has ended in another way."""
        if self.held_by is not None:
            self.held_by, self.has_turn = None, True
            self.redistribution.move_more(self)

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        self.redistribution.expect(self)
        return 1

    def deliver_behind(self, point: int, consumer: Consumer, reference: Reference) -> int:
        return self.deliver(consumer, reference)

    def deliver_marker(self, consumer: Consumer, sequence: int) -> None:
        """Do nothing: no marker is requested."""

    def closed_by_broker(self, consumer: Consumer) -> None:
        """Do nothing: `Redistribution.forget` is called for a queue that is deleted."""


def required_name(queue: Queue) -> str | None:
    """Return the name that queues elsewhere must have; None for any with the same routing name.

    Consumers of an anycast queue whose name differs from its address chose that queue.
    """
    return None if queue.name == queue.definition.address else queue.name


class Redistribution:
    """Redistribute queues without consumers, and messages that no consumer of their queue wants.

    ``due`` is the monotonic time of the next delay that ends; infinity for none. ``on_due`` is called when it changes.
    """

    __slots__ = (
        "_active",
        "_addresses",
        "_changed",
        "_clock",
        "_deferred",
        "_expected",
        "_forwarding",
        "_log_once",
        "_packed_moves",
        "_placement",
        "_schedule",
        "_settings",
        "_settlement",
        "_transactions",
        "_waiting",
        "due",
        "on_due",
    )

    def __init__(
        self,
        addresses: AddressManager,
        settings: AddressSettingsRepository,
        clock: Clock,
        forwarding: Forwarding,
        placement: Placement,
        settlement: Settlement,
        packed_moves: PackedMoves,
        transactions: Transactions,
        deferred: DeferredWork,
        schedule: Schedule,
        log: Callable[[str], None],
    ) -> None:
        self._addresses = addresses
        self._settings = settings
        self._clock = clock
        self._forwarding = forwarding
        self._placement = placement
        self._settlement = settlement
        self._packed_moves = packed_moves
        self._transactions = transactions
        self._deferred = deferred
        self._schedule = schedule
        self._log_once = LogOnce(log)
        # Queues that are redistributed, and those whose delay runs, with its end.
        self._active: dict[Queue, _Taker] = {}
        self._waiting: dict[Queue, float] = {}
        # Those among the former that have messages to move.
        self._expected: dict[_Taker, None] = {}
        # Queues to consider in a later step, each with True if it may have a new target.
        self._changed: dict[Queue, bool] = {}
        self.due = math.inf
        self.on_due: Callable[[], None] = _nothing

    # -- triggers ------------------------------------------------------------------------------------------------

    def on_queue(self, queue: Queue) -> None:
        """Handle a new queue. Observes `CommitObserver.queue_added`."""
        if self._delay_of(queue) != -1 and self._addresses.resolution.has_remote:
            self._consider_later(queue, has_new_target=False)

    def on_remote_consumer(self, binding: RemoteBinding, *_details: object) -> None:
        """Handle a consumer that a queue of another broker got, or another filter of that queue.

        Observes `CommitObserver.remote_consumer_added` and `CommitObserver.remote_binding_updated`.

        Args:
            binding: The binding of that queue.
            _details: Values of the event that are of no use here.
        """
        for queue in self._queues_of(binding):
            if self._delay_of(queue) != -1:
                self._consider_later(queue, has_new_target=True)

    def on_remote_end(self, binding: RemoteBinding, *_details: object) -> None:
        """Handle the end of a queue of another broker, or of one of its consumers.

        Observes `CommitObserver.remote_binding_removed` and `CommitObserver.remote_consumer_removed`.

        Args:
            binding: The binding of that queue.
            _details: Values of the event that are of no use here.
        """
        if self._active or self._waiting:
            for queue in self._queues_of(binding):
                if queue in self._active or queue in self._waiting:
                    self._consider_later(queue, has_new_target=False)

    def on_settings(self) -> None:
        """Handle other settings of addresses. Observes `DecisionObserver.address_settings_changed`."""
        if self._addresses.resolution.has_remote:
            for queue in self._addresses.queues.values():
                self._consider_later(queue, has_new_target=False)

    def _queues_of(self, binding: RemoteBinding) -> Iterator[Queue]:
        """Yield the queues that may share messages with a queue of another broker.

        They are found by name, not by the group: each binding of a snapshot forgets the groups of its address.
        """
        named = self._addresses.queues.get(binding.routing_name)
        if named is not None and named.definition.routing_type != _ANYCAST:
            yield named
        address = self._addresses.addresses.get(binding.routing_name)
        if address is not None:
            yield from address.anycast

    def _consider_later(self, queue: Queue, *, has_new_target: bool) -> None:
        """Consider a queue once for all changes of this step: the first look resolves its address again."""
        if not self._changed:
            self._deferred.add(self._consider_changed())
        self._changed[queue] = has_new_target or self._changed.get(queue, False)

    def _consider_changed(self) -> Iterator[None]:
        changed, self._changed = self._changed, {}
        for queue, has_new_target in changed.items():
            if has_new_target or queue not in self._active or not self._is_due(queue):
                self.consider(queue)
            yield

    def consider(self, queue: Queue) -> None:
        """Redistribute a queue, now or after the delay, if it is time to; end that if it is not any more.

        Must be called for a queue that lost a consumer or got one.
        """
        if not self._addresses.resolution.has_remote or not self._is_due(queue):
            self.cancel(queue)
            return
        taker = self._active.get(queue)
        if taker is not None:
            # What had no target may have one now, and what waits for one target may have another.
            only = self._only_elsewhere(queue)
            goes_on = only is None or only.store_and_forward is not taker.held_by
            if goes_on and self._end_hold(taker):
                self.move_more(taker)
            taker.consumer.cursor = Bookmark()
            queue.consumer_ready(taker.consumer)
            return
        delay_ms = self._delay_of(queue)
        assert delay_ms is not None
        if delay_ms == 0:
            self._begin(queue)
        elif queue not in self._waiting:
            self._waiting[queue] = self._clock.monotonic + delay_ms / 1000
            self._change_due()

    def cancel(self, queue: Queue) -> None:
        """End the redistribution of a queue, or its delay: it gets a consumer, or is deleted."""
        if not self._waiting and not self._active:
            return
        if self._waiting.pop(queue, None) is not None:
            self._change_due()
        taker = self._active.pop(queue, None)
        if taker is not None:
            self._end_hold(taker)
            self._expected.pop(taker, None)
            queue.remove_consumer(taker.consumer)
            self._settlement.settle(queue, taker.consumer.unsettled.take_all(), Outcome.RELEASED)

    def run_due(self) -> None:
        """Redistribute the queues whose delay has ended, if it is still time to."""
        now = self._clock.monotonic
        for queue in [queue for queue, due in self._waiting.items() if due <= now]:
            del self._waiting[queue]
            if not queue.deleted and self._is_due(queue):
                self._begin(queue)
        self._change_due()

    def _change_due(self) -> None:
        self.due = min(self._waiting.values(), default=math.inf)
        self.on_due()

    def _delay_of(self, queue: Queue) -> int | None:
        return self._settings.of(queue.definition.address).redistribution_delay_ms

    def _is_due(self, queue: Queue) -> bool:
        """Return True if a queue may have messages that no consumer here wants, and that have one elsewhere."""
        definition = queue.definition
        if definition.internal or queue.deleted or self._delay_of(queue) == -1:
            return False
        if any(consumer.selector is None for consumer in queue.consumers):
            return False
        group = self.group_of(queue)
        return group is not None and group.has_consumers_elsewhere

    def group_of(self, queue: Queue) -> Group | None:
        """Return the bindings that share messages with a queue; None if nothing is redistributed there."""
        definition = queue.definition
        address = self._addresses.resolution.find(definition.address)
        rotation = address.others.rotation if address is not None and address.others is not None else None
        if rotation is None or rotation.load_balancing not in _MOVING:
            return None
        return rotation.groups.get(definition.address if definition.routing_type == _ANYCAST else queue.name)

    def _only_elsewhere(self, queue: Queue) -> RemoteBinding | None:
        """Return the binding that takes all messages of a queue; None if each must be looked at."""
        group = self.group_of(queue)
        return group.only_elsewhere(queue, required_name(queue)) if group is not None else None

    # -- moving --------------------------------------------------------------------------------------------------

    def _begin(self, queue: Queue) -> None:
        taker = self._active[queue] = _Taker(self, queue, self._schedule)
        taker.consumer.add_credit(AT_ONCE_MAX)

    def expect(self, taker: _Taker) -> None:
        """Move what was given to a taker, in a later step."""
        if taker not in self._expected:
            self._expected[taker] = None
            self._deferred.add(chain.from_iterable(self._move_given(taker)))

    def _move_given(self, taker: _Taker) -> Iterator[Iterable[None]]:
        """Move what was given, with runs of what follows it, and make room for the next.

        Yields the cost of each portion, as steps of deferred work.
        """
        if self._expected.pop(taker, self) is self:
            # It was cancelled.
            return
        queue, given = taker.queue, list(taker.consumer.unsettled.take_all())
        # The dispatcher gives none meanwhile: a portion between would overtake what it has given.
        taker.consumer.credit.grant(0)
        for _ in range(_RUNS_MAX):
            only = self._only_elsewhere(queue)
            # In its turn a portion moves in any case: other queues may have taken the room meanwhile, each time.
            if only is not None and not taker.has_turn and not is_shallow(only.store_and_forward):
                self._hold(taker, given, only.store_and_forward)
                return
            cost, has_more = self._move_portion(taker, given, only)
            taker.has_turn = taker.has_turn and not has_more
            yield repeat(None, cost)
            if self._active.get(queue) is not taker:
                return
            if not has_more:
                taker.consumer.add_credit(AT_ONCE_MAX)
                return
            given = []
        # Other work has its turn.
        self.move_more(taker)

    def move_more(self, taker: _Taker) -> None:
        """Move more in a later step. It is not given: messages deep in the backlog stay plain values."""
        self._expected[taker] = None
        self._deferred.add(chain.from_iterable(self._move_given(taker)))

    def _hold(self, taker: _Taker, given: list[Reference], target: Queue) -> None:
        """Leave all messages where they are until few are left in a store-and-forward queue."""
        taker.held_by = target
        self._schedule.when_shallow(target, taker.go_on)
        if given:
            self._settlement.settle(taker.queue, given, Outcome.RELEASED)

    def _end_hold(self, taker: _Taker) -> bool:
        """Return False if there was none."""
        held_by, taker.held_by = taker.held_by, None
        if held_by is not None:
            self._schedule.end_wait(held_by, taker.go_on)
        return held_by is not None

    def _move_portion(self, taker: _Taker, given: list[Reference], only: RemoteBinding | None) -> tuple[int, bool]:
        """Move one portion, in one transaction.

        Args:
            taker: Taker of the queue.
            given: Messages that were given to it.
            only: The binding that takes all messages; None if each must be looked at.

        Returns:
            What it has cost, with the messages that were found expired on the way; and whether more may follow that
            go the same way.
        """
        count, queue = len(given), taker.queue
        if only is not None and not queue.consumers and queue.cursor is None:
            if not given:
                packed, size = self._packed_moves.move(queue, only, AT_ONCE_MAX, taker.refused)
                if packed:
                    return packed * _RUN_COST + size // _BYTES_PER_COST, True
            # All go the same way: no turn of the dispatcher and no choice for each.
            run, looked_at = queue.take_run(taker.may_leave, AT_ONCE_MAX - len(given))
            count += looked_at
            given += run
        more = only is not None and count > 0
        cost_of_bytes = sum([reference.message.memory_size for reference in given]) // _BYTES_PER_COST
        if only is not None and given and self._move_run(taker, given, only):
            return count * _RUN_COST + cost_of_bytes, more
        self._move(taker, given, only)
        return count * _MOVE_COST + cost_of_bytes, more

    def _move_run(self, taker: _Taker, run: list[Reference], only: RemoteBinding) -> bool:
        """Move messages that all go the same way. Return False, without effect, if each must be looked at."""
        queue, group = taker.queue, self.group_of(taker.queue)
        if group is None or group.next_elsewhere(run[0].message, queue, required_name(queue)) is not only:
            return False
        copies = self._forwarding.copies_of_run([reference.message for reference in run], only)
        if copies is None:
            return False
        transaction = self._transactions.begin()
        self._placement.place_run(copies, only.store_and_forward, transaction)
        self._settlement.settle(queue, run, Outcome.ACCEPTED, transaction)
        transaction.commit()
        return True

    def _move(self, taker: _Taker, given: Iterable[Reference], only: RemoteBinding | None) -> None:
        queue, group = taker.queue, self.group_of(taker.queue)
        name = required_name(queue)
        transaction = self._transactions.begin()
        moved: list[Reference] = []
        left: list[Reference] = []
        for reference in given:
            message = reference.message
            binding: Shared | None = only
            if binding is None or not moved:
                binding = group.next_elsewhere(message, queue, name) if group is not None else None
            if binding is None:
                left.append(reference)
                continue
            copies = self._forwarding.copies_for(message, binding)
            if isinstance(copies, Refused):
                self._log_once(queue.name, f"queue {queue.name!r} keeps message {message.message_id}: {copies.text}")
                taker.refuse(message)
                left.append(reference)
                continue
            is_remote = isinstance(binding, RemoteBinding)
            home = None if is_remote else self._addresses.resolution.find(split_fqqn(message.address)[0])
            for copy, target in copies:
                if home is None:
                    self._placement.place(copy, [target], transaction)
                else:
                    # Both queues may be bound to a wildcard address.
                    self._placement.place_at(copy, home, [target], transaction)
            moved.append(reference)
        if moved:
            self._settlement.settle(queue, moved, Outcome.ACCEPTED, transaction)
            transaction.commit()
        if left:
            self._settlement.settle(queue, left, Outcome.RELEASED)


def _nothing() -> None:
    """Do nothing."""
