"""Settling: what becomes of deliveries, inside and outside transactions, one or a hundred thousand at once.

Responsible for the records, counters and memory of what leaves its queue, and for what goes back. Refuses to know who
decided and why (sessions do), and where dead and expired messages go (`DeadLetterRouting` does).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from .._deferred import AT_ONCE_MAX, drained
from .._observer import Leaving
from ..queueing._backlog import Reference
from ..queueing._consumer import Consumer
from ..queueing._deliveries import Bundle
from ..queueing._queue import Queue
from ..transactions._transaction import Transaction, TransactionState
from ._outcome import Outcome

if TYPE_CHECKING:
    from .._kernel import Kernel

__all__ = ["Settlement"]

_ACCEPTED, _REJECTED, _EXPIRED = Outcome.ACCEPTED, Outcome.REJECTED, Outcome.EXPIRED
_ACKNOWLEDGED = Leaving.ACKNOWLEDGED


class Settlement:
    """The one command, `settle`, and what it is made of."""

    __slots__ = ("_counts_first", "_kernel", "_observers", "_removal", "_store")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._removal = kernel.removal
        self._store = kernel.store
        self._observers = kernel.observers
        self._counts_first = kernel.config.persist_delivery_count_before_delivery

    def settle(
        self,
        queue: Queue,
        references: Collection[Reference],
        outcome: Outcome,
        transaction: Transaction | None = None,
        consumer: Consumer | None = None,
        finished: Callable[[], None] | None = None,
    ) -> None:
        """Decide about deliveries that their consumer does not hold any more, in order.

        In a transaction the decision takes effect with the commit: what is accepted leaves its queue, what is rejected
        or expired moves together with everything else the transaction does, and the others go back. A rollback takes
        all of them back as failed deliveries.

        Many are settled over the next steps, and so are the rest of a large request, for which ``finished`` is called
        in the end. The transaction may be rolled back at any time, but committed only behind this, as another chore.
        ``consumer`` is the one for which they are undeliverable.
        """
        if finished is not None or len(references) > AT_ONCE_MAX:
            self._settle_over_steps(queue, references, outcome, transaction, consumer, finished)
        elif outcome is _ACCEPTED:
            if transaction is not None:
                transaction.take(queue, references, outcome)
            self._removal.leave(queue, references, _ACKNOWLEDGED, transaction)
        else:
            if transaction is not None:
                transaction.take(queue, references, outcome, consumer)
            for reference in references:
                self._settle_other(queue, reference, outcome, transaction, consumer)

    def _settle_over_steps(
        self,
        queue: Queue,
        references: Collection[Reference],
        outcome: Outcome,
        transaction: Transaction | None,
        consumer: Consumer | None,
        finished: Callable[[], None] | None,
    ) -> None:
        deferred = self._kernel.deferred
        if transaction is not None:
            transaction.take(queue, references, outcome, consumer)
            transaction.unsettled += 1

        def settlements() -> Iterator[None]:
            # What a transaction decides about is its own until it ends.
            for reference in references if transaction is not None else _taken_from(references):
                if transaction is not None and transaction.state is TransactionState.ENDED:
                    break
                if outcome is not _ACCEPTED:
                    self._settle_other(queue, reference, outcome, transaction, consumer)
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

    def committed(self, transaction: Transaction) -> Iterator[None]:
        """What a committed transaction was given leaves, or goes back where that was its outcome."""
        for queue, references, outcome, consumer in drained(transaction.acknowledged):
            for reference in _taken_from(references):
                if outcome.leaves:
                    self._removal.finish(queue, reference)
                else:
                    self._settle_other(queue, reference, outcome, None, consumer)
                yield

    def rolled_back(self, transaction: Transaction) -> Iterator[None]:
        """All that a transaction was given goes back, as failed deliveries."""
        for queue, references, _outcome, _consumer in drained(transaction.acknowledged):
            for reference in _taken_from(references):
                self._settle_other(queue, reference, Outcome.FAILED, None, None)
                yield

    # -- other outcomes ------------------------------------------------------------------------------------------

    def _settle_other(
        self,
        queue: Queue,
        reference: Reference,
        outcome: Outcome,
        transaction: Transaction | None,
        consumer: Consumer | None,
    ) -> None:
        dead_letters = self._kernel.dead_letters
        if transaction is None:
            queue.delivering_count -= 1
        if queue.deleted:
            if transaction is None:
                self._removal.drop(queue, reference.message)
        elif outcome is _EXPIRED:
            dead_letters.move_expired(queue, reference, transaction)
        elif outcome is _REJECTED:
            dead_letters.move_dead(queue, reference, transaction)
        elif transaction is None:
            self.give_back(queue, reference, outcome, consumer)
        # In a transaction, what goes back needs no record: after a crash it is where it was.

    def give_back(self, queue: Queue, reference: Reference, outcome: Outcome, consumer: Consumer | None) -> None:
        """A message that is not in delivery any more returns to its place, unless it was delivered too often."""
        observers, message = self._observers, reference.message
        observers.call(observers.commit.settled, queue, reference, outcome, None)
        for observe in observers.decision.returned:
            observe(queue, message.message_id, outcome.delivery_failed)
        attempts_max = self._kernel.settings.of(queue.definition.address).max_delivery_attempts
        assert attempts_max is not None
        if not outcome.delivery_failed:
            reference.delivery_count -= 1
        # A count that was written before the delivery is taken back, too.
        if (outcome.delivery_failed or self._counts_first) and message.durable and queue.durable:
            self._store.update_delivery_count(message.message_id, queue.id, reference.delivery_count)
        if 0 < attempts_max <= reference.delivery_count:
            self._kernel.dead_letters.move_dead(queue, reference)
            return
        if outcome.undeliverable_here:
            assert consumer is not None
            queue.decline(consumer, message.message_id)
        queue.backlog.give_back(reference)
        self._kernel.schedule.wake(queue)


def _taken_from(references: Collection[Reference]) -> Iterable[Reference]:
    """Each of them, for the last time."""
    return references.drain() if isinstance(references, Bundle) else references
