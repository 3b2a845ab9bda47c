"""Removal: the one path of every reference that leaves its queue for good.

Responsible for the record, the memory, the counters, the declined marks and the observers of it, in one place. Does not
depend on the reason; `Settlement`, dead letters, expiry, purges and cursors give it.

A reference leaves in one call, or in two halves with a transaction: `Removal.leave` records it, `Removal.finish`
carries it out after the commit. One that is removed with its deleted queue, or was never visible, is only dropped: the
record of that covers it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .._memory import MemoryAccount
from .._observer import Leaving, Observers
from .._store import Store
from ..message._message import Message
from ..queueing._backlog import PackedReference, Reference
from ..queueing._queue import Queue
from ._outcome import Outcome
from ._unit_of_work import UnitOfWork

__all__ = ["LEAVING_OF", "Removal"]

_ACKNOWLEDGED = Leaving.ACKNOWLEDGED

LEAVING_OF = {
    Outcome.ACCEPTED: Leaving.ACKNOWLEDGED,
    Outcome.REJECTED: Leaving.REJECTED,
    Outcome.EXPIRED: Leaving.EXPIRED,
}
"""The reason for each outcome with which a delivery leaves its queue."""

_OUTCOMES = {Leaving.REJECTED: Outcome.REJECTED, Leaving.EXPIRED: Outcome.EXPIRED}


class Removal:
    """Remove references from queues. They must not be in any list of the queue."""

    __slots__ = ("_at_commit", "_at_decision", "_memory", "_observers", "_store")

    def __init__(self, store: Store, memory: MemoryAccount, observers: Observers) -> None:
        self._store = store
        self._memory = memory
        self._observers = observers
        self._at_decision = observers.decision.settled
        self._at_commit = observers.commit.settled

    def leave(
        self, queue: Queue, references: Collection[Reference], why: Leaving, transaction: UnitOfWork | None = None
    ) -> None:
        """Remove a run of references from a queue.

        With ``transaction``, only record that they leave with its commit; `finish` does the rest. Without, those that
        are ACKNOWLEDGED were in delivery until now, and all others were not.
        """
        if transaction is not None:
            self._record(queue, references, why, transaction)
            return
        if queue.deleted:
            for reference in references:
                self.drop(queue, reference.message)
        else:
            if len(references) > 1 and not self._at_decision:
                self._leave_together(queue, references)
            else:
                self._leave_each(queue, references, why)
            if queue.decliners:
                for reference in references:
                    queue.forget_declined(reference.message.message_id)
        queue.used = True
        if why is _ACKNOWLEDGED:
            queue.delivering_count -= len(references)
            queue.acknowledged_count += len(references)
            assert queue.delivering_count >= 0, queue.name
        if self._at_commit and not queue.deleted:
            outcome = _OUTCOMES.get(why, Outcome.ACCEPTED)
            for reference in references:
                self._observers.call(self._at_commit, queue, reference, outcome, None)

    def _leave_each(self, queue: Queue, references: Collection[Reference], why: Leaving) -> None:
        at_decision, is_recorded = self._at_decision, queue.durable
        release, address = self._memory.release, queue.definition.address
        for reference in references:
            message = reference.message
            if is_recorded and message.durable:
                self._store.acknowledge(message.message_id, queue.id, 0)
            if at_decision:
                for observe in at_decision:
                    observe(queue, message.message_id, int(why), 0)
            release(message.message_id, address, message.memory_size)

    def _leave_together(self, queue: Queue, references: Collection[Reference]) -> None:
        messages = [reference.message for reference in references]
        if queue.durable:
            durable = [message.message_id for message in messages if message.durable]
            if durable:
                self._store.acknowledge_run(durable, queue.id, 0)
        self._memory.release_run(messages, queue.definition.address)

    def leave_packed(self, queue: Queue, taken: Sequence[PackedReference], why: Leaving) -> None:
        """Remove references that are packed and were not in delivery. They count as acknowledged."""
        address, is_recorded = queue.definition.address, queue.durable
        acknowledge, release, at_decision = self._store.acknowledge, self._memory.release, self._at_decision
        for _position, _count, _expiration, _encoding, stored, message_id, durable in taken:
            if durable and is_recorded:
                acknowledge(message_id, queue.id, 0)
            for observe in at_decision:
                observe(queue, message_id, int(why), 0)
            release(message_id, address, len(stored))
        queue.acknowledged_count += len(taken)
        queue.used = True
        if queue.decliners:
            for entry in taken:
                queue.forget_declined(entry[5])
        if self._at_commit:
            for entry in taken:
                self._observers.call(self._at_commit, queue, queue.backlog.restored(entry), Outcome.ACCEPTED, None)

    def finish_packed(self, queue: Queue, taken: Sequence[PackedReference]) -> None:
        """Carry out the removal of references that are packed, and whose places others took. The caller counts them."""
        self._memory.release_packed(taken, queue.definition.address)
        if queue.decliners:
            for entry in taken:
                queue.forget_declined(entry[5])

    def _record(self, queue: Queue, references: Collection[Reference], why: Leaving, transaction: UnitOfWork) -> None:
        is_recorded = queue.durable and not queue.deleted
        if is_recorded and len(references) > 1 and not self._at_decision:
            durable = [message.message_id for reference in references if (message := reference.message).durable]
            if durable:
                self._store.acknowledge_run(durable, queue.id, transaction.id)
                transaction.recorded = True
            return
        for reference in references:
            message = reference.message
            if is_recorded and message.durable:
                self._store.acknowledge(message.message_id, queue.id, transaction.id)
                transaction.recorded = True
            for observe in self._at_decision:
                observe(queue, message.message_id, int(why), transaction.id)

    def finish(self, queue: Queue, reference: Reference) -> None:
        """Carry out the removal of a delivery that left with a committed transaction. The caller counts it."""
        message = reference.message
        queue.delivering_count -= 1
        queue.used = True
        self._memory.release(message.message_id, queue.definition.address, message.memory_size)
        if queue.decliners:
            queue.forget_declined(message.message_id)
        assert queue.delivering_count >= 0, queue.name

    def finish_run(self, queue: Queue, references: Collection[Reference]) -> None:
        """Like `finish`, for accepted deliveries; they are counted here."""
        queue.delivering_count -= len(references)
        queue.acknowledged_count += len(references)
        queue.used = True
        self._memory.release_run([reference.message for reference in references], queue.definition.address)
        if queue.decliners:
            for reference in references:
                queue.forget_declined(reference.message.message_id)
        assert queue.delivering_count >= 0, queue.name

    def drop(self, queue: Queue, message: Message) -> None:
        """Free what a message takes whose queue is deleted, or whose transaction is rolled back."""
        self._memory.release(message.message_id, queue.definition.address, message.memory_size)
