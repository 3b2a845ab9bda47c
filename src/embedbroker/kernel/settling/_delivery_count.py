"""Deliveries that are on disk before they are sent, so that a crash never hides them.

Responsible for the record of each delivery, in the place of a consumer's port. Without this setting, none of this is on
the path of a message. Does not depend on the transport to a peer; its port holds deliveries back.
"""

from __future__ import annotations

from .._store import Store
from ..queueing._backlog import Reference
from ..queueing._queue import Consumer, ConsumerPort

__all__ = ["PersistedDeliveryCount"]


class PersistedDeliveryCount:
    """Record the deliveries to a consumer of a durable queue.

    A message that is not durable waits only for those before it.
    """

    __slots__ = ("_port", "_store")

    def __init__(self, port: ConsumerPort, store: Store) -> None:
        self._port = port
        self._store = store

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        """Record that the message is delivered, and deliver it behind that record."""
        message, store = reference.message, self._store
        if not message.durable:
            return self._port.deliver_behind(0, consumer, reference)
        store.update_delivery_count(message.message_id, consumer.queue.id, reference.delivery_count)
        return self._port.deliver_behind(store.point(), consumer, reference)

    def deliver_behind(self, point: int, consumer: Consumer, reference: Reference) -> int:
        """Deliver behind the point that the caller names."""
        return self._port.deliver_behind(point, consumer, reference)

    def deliver_marker(self, consumer: Consumer, sequence: int) -> None:
        """Send a marker without a record: it is not a message."""
        self._port.deliver_marker(consumer, sequence)

    def closed_by_broker(self, consumer: Consumer) -> None:
        """Report the closing without a record: there is no delivery to count."""
        self._port.closed_by_broker(consumer)
