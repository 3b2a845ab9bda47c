"""The end of consumers and queues: their messages return, or are removed with them.

Responsible for detaching consumers, for deleting queues with what they hold, and for purging those that lose their last
consumer. Does not depend on permissions; `Session` checks them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

from ._deferred import AT_ONCE_MAX, DeferredWork
from ._definitions import QueueDefinition
from ._ids import Ids
from ._observer import Leaving, Observers
from ._redistribution import Redistribution
from ._schedule import Schedule
from .addressing._address import Address
from .addressing._addresses import AddressManager
from .cursors._cursors import Cursors
from .queueing._backlog import Reference
from .queueing._queue import Consumer, Queue
from .queueing._scheduled import ScheduledReferences
from .settling._outcome import Outcome
from .settling._removal import Removal
from .settling._settlement import Settlement
from .transactions._duplicate_ids import DuplicateIds

__all__ = ["Teardown"]


class Teardown:
    """Add and end consumers, and end queues."""

    __slots__ = (
        "_address_manager",
        "_cursors",
        "_deferred",
        "_duplicates",
        "_ids",
        "_observers",
        "_redistribution",
        "_removal",
        "_schedule",
        "_settlement",
    )

    def __init__(
        self,
        address_manager: AddressManager,
        cursors: Cursors,
        settlement: Settlement,
        removal: Removal,
        observers: Observers,
        ids: Ids,
        deferred: DeferredWork,
        schedule: Schedule,
        redistribution: Redistribution,
        duplicates: DuplicateIds,
    ) -> None:
        self._address_manager = address_manager
        self._cursors = cursors
        self._settlement = settlement
        self._removal = removal
        self._observers = observers
        self._ids = ids
        self._deferred = deferred
        self._schedule = schedule
        self._redistribution = redistribution
        self._duplicates = duplicates

    def delete_queue(self, queue: Queue, *, keep_address: bool = False) -> None:
        """Delete a queue with what it holds, and close the consumers that are left.

        An auto-created address without other queues is deleted too, unless ``keep_address``.
        """
        # From here on, messages that consumers give back are dropped.
        queue.deleted = True
        for observe in self._observers.decision.queue_removed:
            observe(queue)
        self._redistribution.cancel(queue)
        for consumer in [*queue.consumers, *queue.browsers]:
            self._take_back(consumer, Outcome.FAILED)
            consumer.port.closed_by_broker(consumer)
        self._schedule.forget(queue)
        self._cursors.forget(queue)
        self._address_manager.drop_queue(queue)
        if not keep_address:
            self._drop_idle_address(queue.definition)
        self.purge(queue)

    def _drop_idle_address(self, queue: QueueDefinition) -> None:
        """Remove the address of a deleted queue if that was its last one, and if it was created with it."""
        manager = self._address_manager
        address = manager.addresses.get(queue.address)
        if address is None or manager.is_in_use(address) or not address.definition.auto_created:
            return
        if queue.temporary or manager.settings.of(address.name).auto_delete_addresses_delay_ms == 0:
            self.discard_address(address)

    def discard_address(self, address: Address) -> None:
        """Remove an address that is not used, once others have the duplicate ids that it keeps for them.

        Messages that have passed to a broker may be sent again when that broker has left.
        """
        manager = self._address_manager

        def remove() -> None:
            if manager.addresses.get(address.name) is address and not manager.is_in_use(address):
                manager.remove_address(address)

        if not self._duplicates.hand_over(address, self._heir, remove):
            manager.remove_address(address)

    def _heir(self, name: str) -> Address | None:
        """Return an address here, or that of the queue in which messages wait for a broker that has the address."""
        addresses, remote = self._address_manager.addresses, self._address_manager.remote_bindings_of(name)
        address = addresses.get(name)
        if address is None and remote:
            address = addresses.get(remote[0].store_and_forward.definition.address)
        return address

    def purge(self, queue: Queue) -> None:
        """Take out everything that waits now or is scheduled; messages that arrive meanwhile stay."""
        doomed = self.take_waiting(queue)

        def removal() -> Iterator[None]:
            for reference in doomed:
                if reference is not None:
                    self._removal.leave(queue, (reference,), Leaving.REMOVED)
                yield

        if queue.backlog.size + queue.scheduled_count <= AT_ONCE_MAX and not queue.is_held:
            deque(removal(), maxlen=0)
        else:
            self._deferred.add_holding((queue,), removal())

    def take_waiting(
        self, queue: Queue, matches: Callable[[Reference], bool] | None = None
    ) -> Iterator[Reference | None]:
        """Take out what waits or is scheduled now and matches, yielding each message, and None between portions.

        The caller must let each message leave before it continues, and hold the queue if it pauses.
        """
        limit = self._ids.next_id

        def is_doomed(reference: Reference) -> bool:
            return reference.position < limit and (matches is None or matches(reference))

        waiting = queue.backlog.remove_if(is_doomed, exempt_through=lambda: self._cursors.exempt_through(queue))
        return waiting if queue.scheduled is None else chain(waiting, _scheduled(queue.scheduled, is_doomed))

    def attach(self, consumer: Consumer) -> None:
        """Add a consumer to its queue, which gives no more messages away that this one wants."""
        queue = consumer.queue
        if consumer.browse:
            queue.add_consumer(consumer)
            return
        self._redistribution.cancel(queue)
        queue.add_consumer(consumer)
        self._redistribution.consider(queue)

    def detach(self, consumer: Consumer, outcome: Outcome) -> None:
        """Remove a consumer; what it had not settled returns to the queue.

        ``outcome`` is released when the client closed the consumer in an orderly way, and failed when its connection
        was lost.
        """
        queue = consumer.queue
        self._take_back(consumer, outcome)
        if not consumer.browse:
            self._redistribution.consider(queue)
        if consumer.browse or queue.consumers or queue.deleted:
            return
        if queue.definition.transient:
            self.delete_queue(queue)
        elif queue.definition.purge_on_no_consumers:
            self.purge(queue)

    def _take_back(self, consumer: Consumer, outcome: Outcome) -> None:
        """Remove a consumer from its queue, with what it had not settled."""
        queue = consumer.queue
        queue.remove_consumer(consumer)
        self._observers.call(self._observers.commit.consumer_removed, consumer)
        self._settlement.settle(queue, consumer.unsettled.take_all(), outcome)


def _scheduled(scheduled: ScheduledReferences, is_doomed: Callable[[Reference], bool]) -> Iterator[Reference]:
    """Take out the scheduled messages that match."""
    for reference in list(scheduled):
        if is_doomed(reference) and scheduled.discard(reference):
            yield reference
