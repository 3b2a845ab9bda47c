"""Settlement of deliveries, in and outside of transactions, one or a hundred thousand at once.

Responsible for carrying out outcomes: what leaves goes to `Removal`, dead letters or expiry, and the rest returns to
its queue. Does not depend on sessions, which decide about outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import repeat

from embedbroker.config import AddressSettingsRepository

from .._deferred import AT_ONCE_MAX, DeferredWork, drained
from .._observer import Leaving, Observers
from .._store import Store
from ..queueing._backlog import Reference
from ..queueing._deliveries import Bundle
from ..queueing._queue import Consumer, Queue
from ._dead_letters import DeadLetters
from ._expiry import Expiry
from ._outcome import Outcome
from ._redelivery import redelivery_delay_ms
from ._removal import Removal
from ._unit_of_work import Taken, UnitOfWork

__all__ = ["Settlement"]

_ACCEPTED, _REJECTED, _EXPIRED = Outcome.ACCEPTED, Outcome.REJECTED, Outcome.EXPIRED
_ACKNOWLEDGED = Leaving.ACKNOWLEDGED
_LONG_MAX = 2**63 - 1


class Settlement:
    """Carry out the one command, `settle`, and its parts."""

    __slots__ = (
        "_counts_first",
        "_dead_letters",
        "_deferred",
        "_expiry",
        "_observers",
        "_removal",
        "_settings",
        "_store",
    )

    def __init__(
        self,
        store: Store,
        removal: Removal,
        dead_letters: DeadLetters,
        expiry: Expiry,
        settings: AddressSettingsRepository,
        deferred: DeferredWork,
        observers: Observers,
        *,
        counts_first: bool,
    ) -> None:
        """Create it from its parts; ``counts_first``: delivery counts are recorded before deliveries."""
        self._store = store
        self._removal = removal
        self._dead_letters = dead_letters
        self._expiry = expiry
        self._settings = settings
        self._deferred = deferred
        self._observers = observers
        self._counts_first = counts_first

    def settle(
        self,
        queue: Queue,
        references: Collection[Reference],
        outcome: Outcome,
        transaction: UnitOfWork | None = None,
        consumer: Consumer | None = None,
        finished: Callable[[], None] | None = None,
        *,
        is_rollback: bool = False,
    ) -> None:
        """Settle deliveries that their consumer no longer holds, in order.

        In a transaction the decision takes effect with the commit. Accepted messages leave their queue. Rejected or
        expired ones move together with all other work of the transaction, and the others return. A rollback returns all
        of them as failed deliveries.

        Many are settled over the next steps, and so is the rest of a large request, for which ``finished`` is called in
        the end. The transaction may be rolled back at any time, but must be committed only behind this, as later
        deferred work. ``consumer`` is the one for which they are undeliverable. With ``is_rollback``, those that return
        wait for the redelivery delay.
        """
        if queue.awaited is not None:
            queue.on_settled()
        if finished is not None or len(references) > AT_ONCE_MAX:
            self._settle_over_steps(queue, references, outcome, transaction, consumer, finished, is_rollback)
        elif outcome is _ACCEPTED:
            if transaction is not None:
                transaction.take(queue, references, outcome, consumer)
            self._removal.leave(queue, references, _ACKNOWLEDGED, transaction)
        else:
            if transaction is not None:
                transaction.take(queue, references, outcome, consumer)
            for reference in references:
                self._settle_other(queue, reference, outcome, transaction, consumer, is_rollback)

    def _settle_over_steps(
        self,
        queue: Queue,
        references: Collection[Reference],
        outcome: Outcome,
        transaction: UnitOfWork | None,
        consumer: Consumer | None,
        finished: Callable[[], None] | None,
        is_rollback: bool,
    ) -> None:
        deferred = self._deferred
        if transaction is not None:
            transaction.take(queue, references, outcome, consumer)
            transaction.unsettled += 1

        def settlements() -> Iterator[None]:
            # Deliveries that a transaction decides about belong to it until it ends.
            for reference in references if transaction is not None else _taken_from(references):
                if transaction is not None and transaction.is_ended:
                    break
                if outcome is not _ACCEPTED:
                    self._settle_other(queue, reference, outcome, transaction, consumer, is_rollback)
                else:
                    self._removal.leave(queue, (reference,), _ACKNOWLEDGED, transaction)
                yield
            if transaction is not None:
                transaction.unsettled -= 1
            if finished is not None:
                finished()

        if transaction is None and outcome is not _ACCEPTED:
            deferred.add_holding((queue,), settlements())
        else:
            deferred.add(settlements())

    # -- ends of transactions -------------------------------------------------------------------------------------

    def carry_out(self, acknowledged: list[Taken]) -> Iterator[None]:
        """Carry out what a committed transaction decided about deliveries, one with each step."""
        for queue, references, outcome, consumer in drained(acknowledged):
            if outcome is _ACCEPTED and 1 < len(references) <= AT_ONCE_MAX:
                self._removal.finish_run(queue, references)
                yield from repeat(None, len(references))
                continue
            for reference in _taken_from(references):
                if outcome is _ACCEPTED:
                    queue.acknowledged_count += 1
                    self._removal.finish(queue, reference)
                elif outcome.leaves:
                    # Counted as expired or killed.
                    self._removal.finish(queue, reference)
                else:
                    self._settle_other(queue, reference, outcome, None, consumer, False)
                yield

    def take_back(self, acknowledged: list[Taken]) -> Iterator[None]:
        """Return the deliveries of a transaction that is rolled back, as failed, one with each step."""
        for queue, references, outcome, _consumer in drained(acknowledged):
            for reference in _taken_from(references):
                if outcome is _ACCEPTED:
                    queue.withdrawn_count += 1
                self._settle_other(queue, reference, Outcome.FAILED, None, None, True)
                yield

    # -- other outcomes ------------------------------------------------------------------------------------------

    def _settle_other(
        self,
        queue: Queue,
        reference: Reference,
        outcome: Outcome,
        transaction: UnitOfWork | None,
        consumer: Consumer | None,
        is_rollback: bool,
    ) -> None:
        if transaction is None:
            queue.delivering_count -= 1
        if queue.deleted:
            if transaction is None:
                self._removal.drop(queue, reference.message)
        elif outcome is _EXPIRED:
            self._expiry.move(queue, reference, transaction)
        elif outcome is _REJECTED:
            self._dead_letters.move(queue, reference, transaction)
        elif transaction is None:
            self._give_back(queue, reference, outcome, consumer, is_rollback)
        # In a transaction, what returns needs no record: after a crash it is at its old place.

    def _give_back(
        self, queue: Queue, reference: Reference, outcome: Outcome, consumer: Consumer | None, is_rollback: bool
    ) -> None:
        """Return a message that is no longer in delivery to its place, unless it was delivered too often.

        After a rollback it waits for the redelivery delay of the address first.
        """
        observers, message = self._observers, reference.message
        observers.call(observers.commit.settled, queue, reference, outcome, None)
        for observe in observers.decision.returned:
            observe(queue, message.message_id, outcome.delivery_failed)
        settings = self._settings.of(queue.definition.address)
        attempts_max = settings.max_delivery_attempts
        assert attempts_max is not None
        if not outcome.delivery_failed:
            reference.delivery_count -= 1
        is_dead = 0 < attempts_max <= reference.delivery_count
        if not is_dead and queue.definition.purge_on_no_consumers and not queue.consumers:
            # It was purged with what waited when its last consumer closed.
            self._removal.leave(queue, (reference,), Leaving.REMOVED)
            return
        delay_ms = 0
        if is_rollback and settings.redelivery_delay_ms and not is_dead:
            delay_ms = redelivery_delay_ms(settings, reference.delivery_count, message.message_id)
        due_ms = min(queue.owner.now_ms + delay_ms, _LONG_MAX) if delay_ms else 0
        # A count that was written before the delivery is taken back, too.
        if (outcome.delivery_failed or self._counts_first or due_ms) and message.durable and queue.durable:
            self._store.update_delivery_count(message.message_id, queue.id, reference.delivery_count, due_ms)
        if is_dead:
            self._dead_letters.move(queue, reference)
            return
        if outcome.undeliverable_here:
            assert consumer is not None
            queue.decline(consumer, message.message_id)
        if due_ms:
            queue.schedule(reference, due_ms)
        else:
            queue.backlog.give_back(reference)
            queue.owner.wake(queue)


def _taken_from(references: Collection[Reference]) -> Iterable[Reference]:
    """Yield each of them, for the last time."""
    return references.drain() if isinstance(references, Bundle) else references
