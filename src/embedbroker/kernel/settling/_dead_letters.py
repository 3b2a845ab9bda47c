"""Dead letters: messages that were delivered too often, were rejected, or found no queue.

Responsible for the choice between the dead letter address and dropping. Does not depend on how a message is moved.
"""

from __future__ import annotations

from collections.abc import Callable

from embedbroker.config import AddressSettingsRepository

from .._observer import Leaving
from ..addressing._address import Address
from ..message._message import Message
from ..queueing._backlog import Reference
from ..queueing._queue import Queue
from ._move import MessageMover
from ._outcome import Outcome
from ._unit_of_work import UnitOfWork

__all__ = ["DeadLetters"]


class DeadLetters:
    """Move messages to the dead letter addresses of a broker."""

    __slots__ = ("_log", "_mover", "_settings")

    def __init__(self, mover: MessageMover, settings: AddressSettingsRepository, log: Callable[[str], None]) -> None:
        self._mover = mover
        self._settings = settings
        self._log = log

    def move(self, queue: Queue, reference: Reference, transaction: UnitOfWork | None = None) -> None:
        """Move a message to the dead letter address, or drop it if no such address is set.

        In a ``transaction`` that has taken it, it leaves with the commit.
        """
        queue.killed_count += 1
        settings = self._settings.of(queue.definition.address)
        target = settings.dead_letter_address
        if not target:
            text = f"queue {queue.name!r}: undeliverable messages are dropped, there is no dead letter address"
            self._mover.drop(queue, reference, Leaving.REJECTED, transaction, f"dead:{queue.name}", text)
            return
        if settings.auto_create_dead_letter_resources:
            prefix, suffix = settings.dead_letter_queue_prefix, settings.dead_letter_queue_suffix
            self._mover.provide(queue.definition.address, target, prefix, suffix)
        self._log(
            f"queue {queue.name!r}: message {reference.message.message_id} goes to {target!r} "
            f"after {reference.delivery_count} deliveries"
        )
        self._mover.move(queue, reference, target, Outcome.REJECTED, transaction)

    def take_unrouted(self, message: Message, address: Address, transaction: UnitOfWork | None) -> None:
        """Send a message to the dead letter address if its address has no queues and the settings require it."""
        settings = self._settings.of(address.name)
        is_bound = address.has_queues or address.others is not None
        if settings.send_to_dla_on_no_route and not is_bound and settings.dead_letter_address:
            self._mover.send_unrouted(message, settings.dead_letter_address, transaction)
