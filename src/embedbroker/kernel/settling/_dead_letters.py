"""Where messages go that nobody could take: dead letter address, expiry address, or nowhere.

Responsible for the copies and their properties (broker-semantics 4.3 to 4.5) and for saying once what is dropped.
Refuses to know when a message is dead or expired; the kernel and its queues find that out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedclient.errors import RemoteProtocolError
from embedclient.model import Message, PropertyType, PropertyValue, TypedValue

from ..addressing._address import Address
from ..queueing._backlog import Reference
from ..queueing._queue import Queue
from ..transactions._transaction import Transaction
from ._expiry_settings import with_expiry_settings
from ._outcome import Outcome
from ._removal import LEAVING_OF

if TYPE_CHECKING:
    from .._kernel import Kernel

__all__ = ["MOVE_COST", "DeadLetterRouting"]

MOVE_COST = 32
"""What moving one message takes of the work of a step: it is copied, recorded and counted in a transaction."""

_ROUTING_TYPE = "_AMQ_ROUTING_TYPE"
_ORIGINAL_ROUTING_TYPE = "_AMQ_ORIG_ROUTING_TYPE"
# Names of queues come from clients: what was said once is forgotten when it is too much.
_SAID_MAX = 1000

Changes = dict[str, PropertyValue | TypedValue]


class DeadLetterRouting:
    """Moves what leaves its queue without having been consumed."""

    __slots__ = ("_kernel", "_said")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._said: set[str] = set()

    def expires_in(self, queue: Queue) -> bool:
        """Whether messages expire in this queue: not on an expiry address."""
        address = queue.definition.address
        return self._kernel.settings.of(address).expiry_address != address

    def move_expired(self, queue: Queue, reference: Reference, transaction: Transaction | None = None) -> None:
        """Move an expired message that is in no list any more to the expiry address, or drop it.

        In a ``transaction`` that has taken it, it goes with the commit.
        """
        kernel, message = self._kernel, reference.message
        if queue.deleted:
            kernel.removal.drop(queue, message)
            return
        target = kernel.settings.of(message.address).expiry_address
        if not target:
            self._say_once(
                f"expiry:{queue.name}",
                f"queue {queue.name!r}: expired messages are dropped, there is no expiry address",
            )
            self._drop(queue, reference, Outcome.EXPIRED, transaction)
            return
        expiry: Changes = {"_AMQ_ACTUAL_EXPIRY": TypedValue(kernel.now_ms, PropertyType.LONG)}
        self._move(queue, reference, target, expiry, Outcome.EXPIRED, transaction)

    def move_dead(self, queue: Queue, reference: Reference, transaction: Transaction | None = None) -> None:
        """Move a message that came back too often, or was rejected, to the dead letter address, or drop it.

        In a ``transaction`` that has taken it, it goes with the commit.
        """
        kernel, message = self._kernel, reference.message
        target = kernel.settings.of(queue.definition.address).dead_letter_address
        if not target:
            self._say_once(
                f"dead:{queue.name}",
                f"queue {queue.name!r}: undeliverable messages are dropped, there is no dead letter address",
            )
            self._drop(queue, reference, Outcome.REJECTED, transaction)
            return
        kernel.log(
            f"queue {queue.name!r}: message {message.message_id} goes to {target!r} "
            f"after {reference.delivery_count} deliveries"
        )
        self._move(queue, reference, target, {}, Outcome.REJECTED, transaction)

    def _drop(self, queue: Queue, reference: Reference, outcome: Outcome, transaction: Transaction | None) -> None:
        self._kernel.removal.leave(queue, (reference,), LEAVING_OF[outcome], transaction)

    def _move(
        self,
        queue: Queue,
        reference: Reference,
        target: str,
        extra: Changes,
        outcome: Outcome,
        transaction: Transaction | None,
    ) -> None:
        """Copy to another address and be done with the original, as one transaction: a given one, or its own."""
        kernel, message = self._kernel, reference.message
        try:
            copy = _copy_of(message, target, queue.name, extra)
        except RemoteProtocolError as error:
            kernel.log(f"queue {queue.name!r}: message {message.message_id} is dropped, it cannot be copied: {error}")
            self._drop(queue, reference, outcome, transaction)
            return
        address = kernel.address_manager.addresses.get(target)
        copy.assign_id(kernel.ids.take())
        copy = with_expiry_settings(copy, kernel.settings.of(target), kernel.now_ms)
        targets = address.route(copy, None) if address is not None else []
        if not targets:
            self._say_once(f"move:{target}", f"messages for {target!r} are dropped: no queue is bound there")
            self._drop(queue, reference, outcome, transaction)
            return
        alone = transaction is None
        if transaction is None:
            queue.delivering_count += 1
            transaction = kernel.begin()
            transaction.take(queue, (reference,), outcome)
        kernel.placement.place(copy, targets, transaction)
        self._record_duplicate_id(copy, address, transaction)
        kernel.removal.leave(queue, (reference,), LEAVING_OF[outcome], transaction)
        if alone:
            kernel.commit(transaction)

    def unrouted(self, message: Message, address: Address, transaction: Transaction | None) -> None:
        """A message met an address without queues: to the dead letter address where the settings say so."""
        kernel = self._kernel
        settings = kernel.settings.of(address.name)
        if not settings.send_to_dla_on_no_route or address.has_queues or not settings.dead_letter_address:
            return
        changes: Changes = {
            "_AMQ_ORIG_ADDRESS": message.address,
            "_AMQ_ORIG_QUEUE": None,
            "_AMQ_ORIG_MESSAGE_ID": TypedValue(message.message_id, PropertyType.LONG),
        }
        name = settings.dead_letter_address
        copy = message.copy_for(name, changes=changes, removals=(_ROUTING_TYPE,), expiration=0)
        copy.assign_id(message.message_id)
        copy = with_expiry_settings(copy, kernel.settings.of(name), kernel.now_ms)
        target = kernel.address_manager.addresses.get(name)
        if target is not None and (queues := target.route(copy, None)):
            kernel.placement.place(copy, queues, transaction)
            self._record_duplicate_id(copy, target, transaction)

    def _record_duplicate_id(self, copy: Message, address: Address | None, transaction: Transaction | None) -> None:
        """What leaves a queue is not checked for duplicates, but a later send to where it goes is."""
        duplicate_id = copy.duplicate_id
        if duplicate_id is not None and address is not None:
            duplicates = self._kernel.duplicates
            duplicates.accept(duplicates.identify(address, duplicate_id), transaction)

    def _say_once(self, key: str, text: str) -> None:
        if key not in self._said:
            if len(self._said) >= _SAID_MAX:
                self._said.clear()
            self._said.add(key)
            self._kernel.log(text)


def _copy_of(message: Message, target: str, queue_name: str, extra: Changes) -> Message:
    """The copy that goes to a dead letter or expiry address, without an id. Raises RemoteProtocolError."""
    changes: Changes = {
        "_AMQ_ORIG_ADDRESS": message.address,
        "_AMQ_ORIG_QUEUE": queue_name,
        "_AMQ_ORIG_MESSAGE_ID": TypedValue(message.message_id, PropertyType.LONG),
        **extra,
    }
    original_type = message.property(_ROUTING_TYPE)
    if _is_byte(original_type):
        changes[_ORIGINAL_ROUTING_TYPE] = TypedValue(original_type, PropertyType.BYTE)
    earlier_type = message.property(_ORIGINAL_ROUTING_TYPE)
    if _is_byte(earlier_type):
        # Second hop (a dead letter expires): the type of the first send is put back, as Artemis does.
        changes[_ROUTING_TYPE] = TypedValue(earlier_type, PropertyType.BYTE)
    removals = () if _ROUTING_TYPE in changes else (_ROUTING_TYPE,)
    return message.copy_for(target, changes=changes, removals=removals, expiration=0)


def _is_byte(value: PropertyValue) -> bool:
    """Peers may have put anything under a reserved name."""
    return isinstance(value, int) and not isinstance(value, bool) and -128 <= value <= 127
