"""Placement: routed messages get their place in queues, now or with the commit of their transaction.

Responsible for the record, the memory and the audit of a message that has queues, and for when it becomes visible. Does
not depend on how the queues were chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._facts import DuplicateId
from .._memory import MemoryAccount
from .._observer import Observers
from .._store import Store
from ..addressing._address import Address
from ..message._message import Message
from ..queueing._backlog import Reference
from ..queueing._queue import Queue
from ._duplicate_ids import Identified
from ._transaction import Transaction
from ._visibility import VisibilityQueue

__all__ = ["Placement"]


class Placement:
    """Place messages that have their ids."""

    __slots__ = ("_memory", "_observers", "_store", "_visibility")

    def __init__(self, store: Store, memory: MemoryAccount, observers: Observers, visibility: VisibilityQueue) -> None:
        self._store = store
        self._memory = memory
        self._observers = observers
        self._visibility = visibility

    def place(
        self,
        message: Message,
        targets: list[Queue],
        transaction: Transaction | None,
        identified: Identified | None = None,
        *,
        waits: bool = False,
    ) -> None:
        """Record a message if it is durable, and make it visible once that is safe, or with its transaction.

        One that ``waits`` is visible once everything is durable that is recorded by now, even if it is not durable.
        """
        for queue in targets:
            if queue.definition.purge_on_no_consumers and not queue.consumers:
                targets = [
                    target for target in targets if not target.definition.purge_on_no_consumers or target.consumers
                ]
                if not targets:
                    return
                break
        message_id = message.message_id
        self._memory.hold(message_id, targets[0].definition.address, message.memory_size, len(targets))
        if message.body_number:
            self._memory.hold_body(message_id, message.body_number, len(targets))
        durable = False
        if message.durable:
            position = transaction.places if transaction is not None else message_id
            if len(targets) == 1:
                references = [(targets[0].id, position)] if targets[0].durable else []
            else:
                references = [(queue.id, position) for queue in targets if queue.durable]
            if references:
                durable = True
                if identified is None or transaction is not None or not identified.entry.number:
                    self._store.add_message(message, transaction.id if transaction is not None else 0, references)
                else:
                    self._store.add_message_once(message, references, identified.entry)
                    identified.recorded = True
        if self._observers.decision.routed:
            self._observe_routed(message, targets, transaction)
        if transaction is not None:
            transaction.recorded = transaction.recorded or durable
            transaction.add(message, targets)
            return
        visibility = self._visibility
        if self._observers.commit.routed:
            self._show_and_observe(message, targets, self._store.point() if durable or waits else 0)
            return
        if durable or waits:
            point = self._store.point()
            if point > self._store.reached or visibility.pending:
                for queue in targets:
                    visibility.add(point, queue, Reference(message, message_id))
                return
        elif visibility.pending:
            for queue in targets:
                if queue.waiting_visible:
                    visibility.add(0, queue, Reference(message, message_id))
                else:
                    queue.publish(Reference(message, message_id))
            return
        for queue in targets:
            queue.publish(Reference(message, message_id))

    def place_run(self, messages: Sequence[Message], queue: Queue, transaction: Transaction) -> None:
        """Like `place` for each message, with one queue and a transaction."""
        is_purged = queue.definition.purge_on_no_consumers
        if is_purged or self._observers.decision.routed or any(each.body_number for each in messages):
            for message in messages:
                self.place(message, [queue], transaction)
            return
        self._memory.hold_run(messages, queue.definition.address)
        if queue.durable:
            if all(each.durable for each in messages):
                self._store.add_run(messages, transaction.id, queue.id, transaction.places)
                transaction.recorded = True
            else:
                for place, each in enumerate(messages, transaction.places):
                    if each.durable:
                        self._store.add_message(each, transaction.id, [(queue.id, place)])
                        transaction.recorded = True
        transaction.add_run(messages, queue)

    def takes_runs(self, queue: Queue) -> bool:
        """Return True if `place_run_once` may place messages in a queue."""
        if self._observers.decision.routed or self._observers.commit.routed:
            return False
        return not queue.definition.purge_on_no_consumers or bool(queue.consumers)

    def place_run_once(self, messages: Sequence[Message], queue: Queue, entries: Sequence[DuplicateId]) -> None:
        """Like `place` for each message, with one queue and no transaction. All are durable, or none is.

        The ids are recorded with the messages.
        """
        self._memory.hold_run(messages, queue.definition.address)
        store = self._store
        is_recorded = messages[0].durable and queue.durable
        has_ids = entries[0].number != 0
        if is_recorded and has_ids:
            store.add_run_once(messages, queue.id, entries)
        elif is_recorded:
            store.add_run(messages, 0, queue.id, messages[0].message_id)
        self._show_run([Reference(message, message.message_id) for message in messages], queue, is_recorded=is_recorded)
        if has_ids and not is_recorded:
            for entry in entries:
                store.add_duplicate_id(entry, 0)

    def place_moved(self, messages: Sequence[Message], queue: Queue, left: Sequence[int], origin: Queue) -> None:
        """Like `place_run_once` without ids, for messages that take the places of others.

        Args:
            messages: The messages. All are durable, or none is.
            queue: Their queue.
            left: Ids of the messages that leave, in the same order.
            origin: The queue that those leave. Both queues are durable, or neither is.
        """
        self._memory.hold_run(messages, queue.definition.address)
        store = self._store
        is_recorded = messages[0].durable and queue.durable
        if is_recorded:
            store.add_run(messages, 0, queue.id, messages[0].message_id, left, origin.id)
        self._show_run([Reference(message, message.message_id) for message in messages], queue, is_recorded=is_recorded)

    def _show_run(self, references: Sequence[Reference], queue: Queue, *, is_recorded: bool) -> None:
        """Make messages visible once what is recorded by now is safe."""
        visibility, store = self._visibility, self._store
        point = store.point() if is_recorded else 0
        if (visibility.pending and (is_recorded or queue.waiting_visible)) or point > store.reached:
            visibility.add_run(point, queue, references)
        else:
            for reference in references:
                queue.publish(reference)

    def place_at(
        self,
        message: Message,
        address: Address,
        targets: list[Queue],
        transaction: Transaction | None,
        identified: Identified | None = None,
    ) -> None:
        """Like `place`, for queues of which some may be bound to a wildcard: the message counts on its address."""
        targets = [queue for queue in targets if queue.consumers or not queue.definition.purge_on_no_consumers]
        if not targets:
            return
        if any(queue.definition.address != address.name for queue in targets):
            self._memory.set_home(message.message_id, address.name)
        self.place(message, targets, transaction, identified)

    def _observe_routed(self, message: Message, targets: list[Queue], transaction: Transaction | None) -> None:
        transaction_id = transaction.id if transaction is not None else 0
        for queue in targets:
            for observe in self._observers.decision.routed:
                observe(queue, message.message_id, message.durable and queue.durable, transaction_id)

    def _show_and_observe(self, message: Message, targets: list[Queue], point: int) -> None:
        """Place a message, then call its observers: what they send must have a higher position."""
        observers, visibility = self._observers, self._visibility
        for queue in targets:
            visibility.add(point, queue, Reference(message, message.message_id))
        observers.call(observers.commit.routed, message, targets, None)
        if visibility.next_point <= self._store.reached:
            visibility.publish(self._store.reached, len(targets))

    def place_reply(self, message: Message, targets: list[Queue], point: int) -> None:
        """Place an answer of the broker itself, without a record, visible once a durability point is reached."""
        for queue in targets:
            if queue.definition.address != message.address:
                self._memory.set_home(message.message_id, message.address)
                break
        self._memory.hold(message.message_id, message.address, message.memory_size, len(targets))
        store = self._store
        for queue in targets:
            for observe in self._observers.decision.routed:
                observe(queue, message.message_id, False, 0)
            reference = Reference(message, message.message_id)
            if point > store.reached or queue.waiting_visible:
                self._visibility.add(point, queue, reference)
            else:
                queue.publish(reference)
