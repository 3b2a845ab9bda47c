"""Expiry: messages whose expiration has passed.

Responsible for the choice between the expiry address and dropping. Does not depend on how expired messages are found:
queues, scans and clients find them.
"""

from __future__ import annotations

from embedbroker.config import AddressSettingsRepository

from .._clock import Clock
from .._observer import Leaving
from ..addressing._addresses import split_fqqn
from ..queueing._backlog import Reference
from ..queueing._queue import Queue
from ._move import MessageMover
from ._outcome import Outcome
from ._removal import Removal
from ._unit_of_work import UnitOfWork

__all__ = ["Expiry"]


class Expiry:
    """Move messages to the expiry addresses of a broker."""

    __slots__ = ("_clock", "_mover", "_removal", "_settings")

    def __init__(
        self, mover: MessageMover, removal: Removal, settings: AddressSettingsRepository, clock: Clock
    ) -> None:
        self._mover = mover
        self._removal = removal
        self._settings = settings
        self._clock = clock

    def applies_to(self, queue: Queue) -> bool:
        """Return True if messages expire in this queue: not on an expiry address."""
        address = queue.definition.address
        return self._settings.of(address).expiry_address != address

    def move(self, queue: Queue, reference: Reference, transaction: UnitOfWork | None = None) -> None:
        """Move an expired message to the expiry address, or drop it if no such address is set.

        In a ``transaction`` that has taken it, it leaves with the commit.
        """
        message = reference.message
        if queue.deleted:
            self._removal.drop(queue, message)
            return
        queue.expired_count += 1
        settings = self._settings.of(message.address)
        target = settings.expiry_address
        if not target:
            text = f"queue {queue.name!r}: expired messages are dropped, there is no expiry address"
            self._mover.drop(queue, reference, Leaving.EXPIRED, transaction, f"expiry:{queue.name}", text)
            return
        if settings.auto_create_expiry_resources:
            name = split_fqqn(message.address)[0]
            self._mover.provide(name, target, settings.expiry_queue_prefix, settings.expiry_queue_suffix)
        self._mover.move(queue, reference, target, Outcome.EXPIRED, transaction, self._clock.now_ms)
