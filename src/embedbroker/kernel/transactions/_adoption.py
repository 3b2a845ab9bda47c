"""Messages that a prepared branch of another broker has acknowledged, and that move here with the branch.

Responsible for such a message until its branch ends: it is in its queue, and in delivery. With the commit it leaves,
and a rollback returns it. A branch that ends before it is prepared was not moved completely: the other broker still has
the message, and it is dropped here. Does not depend on the queues that the other broker chose.
"""

from __future__ import annotations

from embedclient.errors import ErrorCode

from .._ids import Ids
from .._memory import MemoryAccount
from .._observer import Leaving, Observers
from .._refusal import Refused
from .._store import Store
from ..addressing._addresses import AddressManager
from ..message._message import Message
from ..queueing._backlog import Reference
from ..queueing._queue import Queue
from ..settling._removal import Removal
from ._transaction import Transaction

__all__ = ["Adoption"]


class Adoption:
    """Place messages in delivery, as acknowledged by a transaction."""

    __slots__ = ("_addresses", "_ids", "_memory", "_observers", "_removal", "_store")

    def __init__(
        self,
        addresses: AddressManager,
        store: Store,
        ids: Ids,
        memory: MemoryAccount,
        observers: Observers,
        removal: Removal,
    ) -> None:
        self._addresses = addresses
        self._store = store
        self._ids = ids
        self._memory = memory
        self._observers = observers
        self._removal = removal

    def adopt(self, message: Message, queue_ids: frozenset[int], transaction: Transaction) -> Refused | None:
        """Place a message in queues of its address, where a transaction acknowledges it.

        Args:
            message: Message without id.
            queue_ids: Ids of the queues.
            transaction: Transaction of the branch.

        Returns:
            Why that is not possible; None if it is done.
        """
        address = self._addresses.addresses.get(message.address)
        queues = address.chosen(queue_ids)[0] if address is not None else []
        if not queues:
            text = f"a message that a branch has acknowledged is for queues of {message.address!r} that do not exist"
            transaction.fail(text)
            return Refused(ErrorCode.QUEUE_DOES_NOT_EXIST, text)
        message.assign_id(self._ids.take())
        message_id = message.message_id
        self._memory.hold(message_id, message.address, message.memory_size, len(queues))
        if message.body_number:
            self._memory.hold_body(message_id, message.body_number, len(queues))
        references = [(queue.id, message_id) for queue in queues if queue.durable]
        if message.durable and references:
            self._store.add_message(message, 0, references)
        for queue in queues:
            for observe in self._observers.decision.routed:
                observe(queue, message_id, message.durable and queue.durable, 0)
            self._take(queue, Reference(message, message_id, 1), transaction)
        return None

    def _take(self, queue: Queue, reference: Reference, transaction: Transaction) -> None:
        queue.added_count += 1
        queue.delivering_count += 1
        transaction.adopt(queue, reference)
        self._removal.leave(queue, (reference,), Leaving.ACKNOWLEDGED, transaction)
