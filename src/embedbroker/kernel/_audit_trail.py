"""What an audit wants to know of a broker: who hears of it, and how deliveries get there.

Responsible for the port that storage's audit log implements, and for telling it of each delivery in the place of a
consumer's port. Refuses to know what is made of it. A kernel whose ``audit`` is None pays a look at that per message.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from .queueing._backlog import Reference
from .queueing._consumer import Consumer, ConsumerPort
from .queueing._queue import Queue

if TYPE_CHECKING:
    from ._events import Events

__all__ = ["AuditTrail", "Leaving", "ObservedDelivery"]


class Leaving(IntEnum):
    """Why a message left its queue for good. Stored numbers: never reuse one."""

    ACKNOWLEDGED = 0
    REJECTED = 1
    EXPIRED = 2
    REMOVED = 3
    """Purged: nobody was given it, or nobody was left."""
    READ = 4
    """Whoever reads the queue through a cursor is done with it."""


class AuditTrail(Protocol):
    """Hears of everything at the moment at which it is decided, so before a peer can know."""

    def sent(self, queue: Queue, message_id: int, durable: bool, transaction_id: int) -> None:
        """A message has its place in a queue, or will have it with the commit; ``durable``: a crash leaves it there."""

    def delivered(self, consumer: Consumer, reference: Reference) -> None:
        """A consumer is given a message."""

    def left(self, queue: Queue, message_id: int, leaving: int, transaction_id: int) -> None:
        """A queue is done with a message, or will be with the commit."""

    def returned(self, queue: Queue, message_id: int, counted: bool) -> None:
        """A delivery is back in its queue; ``counted``: the next one is a redelivery."""

    def committed(self, transaction_ids: Sequence[int], number: int) -> None:
        """Transactions are committed; ``number`` is the last id that was given by then."""

    def queue_removed(self, queue: Queue) -> None:
        """A queue is gone with what was in it."""


class ObservedDelivery:
    """Of a consumer while there is an audit trail. Browsers have none: looking is no delivery."""

    __slots__ = ("_events", "_port")

    def __init__(self, port: ConsumerPort, events: Events) -> None:
        self._port = port
        self._events = events

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        """Tell of the delivery, then deliver."""
        audit = self._events.audit
        if audit is not None:
            audit.delivered(consumer, reference)
        return self._port.deliver(consumer, reference)

    def deliver_behind(self, point: int, consumer: Consumer, reference: Reference) -> int:
        """The same for a delivery that waits: nobody is given what is not told."""
        audit = self._events.audit
        if audit is not None:
            audit.delivered(consumer, reference)
        return self._port.deliver_behind(point, consumer, reference)

    def deliver_marker(self, consumer: Consumer, sequence: int) -> None:
        """Markers are no messages."""
        self._port.deliver_marker(consumer, sequence)

    def closed_by_broker(self, consumer: Consumer) -> None:
        """Nothing to tell."""
        self._port.closed_by_broker(consumer)
