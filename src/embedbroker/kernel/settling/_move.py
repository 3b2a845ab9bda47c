"""Moves: one copy goes to another address and the original leaves its queue, as one transaction.

Responsible for the copy and the origin that it states (broker-semantics 4.3 to 4.5), and for logging once what is
dropped instead. Does not depend on the reason of a move; dead letters and expiry give it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from embedbroker.config import AddressSettingsRepository
from embedclient.errors import RemoteProtocolError
from embedclient.model import ORIGINAL_ADDRESS, Origin

from .._clock import Clock
from .._ids import Ids
from .._log_once import LogOnce
from .._observer import Leaving
from .._refusal import Refused
from ..addressing._address import Address
from ..addressing._addresses import AddressManager
from ..addressing._routing_context import Route, RoutingContext
from ..addressing._views import QueueRequest
from ..message._message import Message
from ..queueing._backlog import Reference
from ..queueing._queue import Queue
from ..selector._selector import Selector
from ._diversion import Diversion
from ._expiry_settings import with_expiry_settings
from ._outcome import Outcome
from ._removal import LEAVING_OF, Removal
from ._unit_of_work import UnitOfWork

__all__ = ["MOVE_COST", "CopySender", "MessageMover"]

MOVE_COST = 32
"""Share of a step's work that moving one message takes: it is copied, recorded and counted in a transaction."""


def _admit(_copy: Message, _address: Address) -> bool:
    """Admit each copy: the duplicate id of a message that is moved is not checked."""
    return True


class CopySender(Protocol):
    """Send copies to queues, and begin the transactions of moves."""

    def begin(self) -> UnitOfWork:
        """Open a transaction."""

    def send_copy(self, copy: Message, address: Address, targets: list[Queue], transaction: UnitOfWork | None) -> None:
        """Store a copy that is routed. Its duplicate id is not checked, but comes into force."""


class MessageMover:
    """Move messages that are no longer in any list of their queue."""

    __slots__ = ("_addresses", "_clock", "_diversion", "_ids", "_log", "_log_once", "_removal", "_sender", "_settings")

    def __init__(
        self,
        addresses: AddressManager,
        settings: AddressSettingsRepository,
        ids: Ids,
        clock: Clock,
        removal: Removal,
        sender: CopySender,
        diversion: Diversion,
        log: Callable[[str], None],
    ) -> None:
        self._addresses = addresses
        self._settings = settings
        self._ids = ids
        self._clock = clock
        self._removal = removal
        self._sender = sender
        self._diversion = diversion
        self._log = log
        self._log_once = LogOnce(log)

    def move(
        self,
        queue: Queue,
        reference: Reference,
        target: str,
        outcome: Outcome,
        transaction: UnitOfWork | None,
        expired_at_ms: int | None = None,
        destination: Queue | None = None,
    ) -> None:
        """Move a message to another address, or drop it if it cannot get there.

        It is one transaction: a given one that has taken the delivery, or one created for the move. With a
        ``destination``, a queue of the address, the message goes there alone.
        """
        message, why = reference.message, LEAVING_OF[outcome]
        try:
            copy = message.annotate(Origin(message.address, queue.name, message.message_id, expired_at_ms), target)
            copy = _in_its_group(copy)
        except RemoteProtocolError as error:
            self._log(f"queue {queue.name!r}: message {message.message_id} is dropped, it cannot be copied: {error}")
            self._removal.leave(queue, (reference,), why, transaction)
            return
        address = self._addresses.resolution.find(target)
        copy.assign_id(self._ids.take())
        copy = with_expiry_settings(copy, self._settings.of(target), self._clock.now_ms)
        if destination is not None and address is not None:
            routed = [Route(copy, address, [destination], True)]
        else:
            routed = self._route(copy, address) if address is not None else []
        if not routed:
            text = f"messages for {target!r} are dropped: no queue is bound there"
            self.drop(queue, reference, why, transaction, f"move:{target}", text)
            return
        alone = transaction is None
        if transaction is None:
            queue.delivering_count += 1
            transaction = self._sender.begin()
            transaction.take(queue, (reference,), outcome)
        for each in routed:
            self._sender.send_copy(each.message, each.address, each.queues, transaction)
        self._removal.leave(queue, (reference,), why, transaction)
        if alone:
            transaction.commit()

    def copy(self, message: Message, destination: Queue) -> None:
        """Send a copy of a message to one queue alone. It has a new id, and neither origin nor expiration.

        Raises:
            RemoteProtocolError: The message cannot be copied.
        """
        self._send_to(message.copy_to(destination.definition.address), destination, None)

    def change_priority(self, queue: Queue, reference: Reference, priority: int) -> None:
        """Replace a message by a copy with another priority, as one transaction. It goes behind others of that."""
        message = reference.message
        copy = message.copy_to(message.address, priority, message.expiration)
        queue.delivering_count += 1
        transaction = self._sender.begin()
        transaction.take(queue, (reference,), Outcome.ACCEPTED)
        self._send_to(copy, queue, transaction)
        self._removal.leave(queue, (reference,), LEAVING_OF[Outcome.ACCEPTED], transaction)
        transaction.commit()

    def _send_to(self, copy: Message, queue: Queue, transaction: UnitOfWork | None) -> None:
        copy = _in_its_group(copy)
        copy.assign_id(self._ids.take())
        address = self._addresses.addresses[queue.definition.address]
        self._sender.send_copy(copy, address, [queue], transaction)

    def provide(self, origin: str, target: str, prefix: str | None, suffix: str | None) -> None:
        """Create the queue of one address on the dead letter or expiry address, unless it exists (4.4).

        A queue that exists counts as used: it is not swept.
        """
        if origin == target:
            return
        name = f"{prefix or ''}{origin}{suffix or ''}"
        quoted = origin.replace("'", "''")
        request = QueueRequest(
            target, name, filter=f"{ORIGINAL_ADDRESS} = '{quoted}'", auto_created=True, ignore_if_exists=True
        )
        routing_type = self._addresses.routing_type(request)
        created: Address | Queue | Refused = self._addresses.ensure_address(target, routing_type, allowed=True)
        if not isinstance(created, Refused):
            created = self._addresses.create_queue(request)
        if isinstance(created, Refused):
            self._log_once(f"provide:{name}", f"queue {name!r} is not created on {target!r}: {created.text}")

    def drop(
        self, queue: Queue, reference: Reference, why: Leaving, transaction: UnitOfWork | None, key: str, text: str
    ) -> None:
        """Drop a message without a destination, and log ``text`` once for ``key``."""
        self._log_once(key, text)
        self._removal.leave(queue, (reference,), why, transaction)

    def send_unrouted(self, message: Message, target: str, transaction: UnitOfWork | None) -> None:
        """Send a copy of a message that no queue of its address took, under the id of the message."""
        copy = message.annotate(Origin(message.address, None, message.message_id), target)
        copy.assign_id(message.message_id)
        copy = with_expiry_settings(copy, self._settings.of(target), self._clock.now_ms)
        address = self._addresses.resolution.find(target)
        for each in self._route(copy, address) if address is not None else ():
            self._sender.send_copy(each.message, each.address, each.queues, transaction)

    def _route(self, copy: Message, address: Address) -> list[Route]:
        """Return where a copy goes, and what diverts and other brokers get of it, as far as queues take them."""
        others = address.others
        if others is None or (others.rotation is None and not others.has_diverts):
            targets = address.route_all(copy, None) or self._disabled_queues(copy, address)
            return [Route(copy, address, targets, True)] if targets else []
        routed = self._diversion.route(copy, address, RoutingContext(None, None, _admit, creates=False))
        if isinstance(routed, Refused):
            # It was logged. A message that must leave its queue cannot be refused.
            routed = [Route(copy, address, address.route_all(copy, None), True)]
        taken = [each for each in routed if each.queues]
        if taken:
            return taken
        queues = self._disabled_queues(copy, address)
        return [Route(copy, address, queues, True)] if queues else []

    def _disabled_queues(self, copy: Message, address: Address) -> list[Queue]:
        """Return disabled queues for a copy that no other queue takes: it has left its own queue, and must not be lost.

        They are all multicast queues, and the first anycast one.
        """
        found: list[Queue] = []
        for queue in address.queues:
            definition = queue.definition
            selector = None if definition.enabled else self._addresses.selector(definition.filter)
            if definition.enabled or (isinstance(selector, Selector) and not selector.matches(copy)):
                continue
            if definition.routing_type and any(each.definition.routing_type for each in found):
                continue
            found.append(queue)
        return found


def _in_its_group(copy: Message) -> Message:
    """Mark a copy that has a group: one of a message that was restored does not have the mark."""
    try:
        has_group = copy.group_id is not None
    except RemoteProtocolError:
        has_group = False
    return copy.directed(copy.deliver_at) if has_group else copy
