"""Deliveries that are on disk before they go out, so that no crash makes them unheard of.

Responsible for the record of each delivery, in the place of a consumer's port: where nobody asks for it, nothing of
this is on the way of a message. Refuses to know how a peer is reached; its port holds deliveries back.
"""

from __future__ import annotations

from .._store import Store
from ..queueing._backlog import Reference
from ..queueing._consumer import Consumer, ConsumerPort

__all__ = ["PersistedDeliveryCount"]


class PersistedDeliveryCount:
    """Of a consumer of a durable queue. A message that is not durable waits for nothing but those before it."""

    __slots__ = ("_port", "_store")

    def __init__(self, port: ConsumerPort, store: Store) -> None:
        self._port = port
        self._store = store

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        """Write that the message is delivered, and deliver it behind that."""
        message, store = reference.message, self._store
        if not message.durable:
            return self._port.deliver_behind(0, consumer, reference)
        store.update_delivery_count(message.message_id, consumer.queue.id, reference.delivery_count)
        return self._port.deliver_behind(store.point(), consumer, reference)

    def deliver_behind(self, point: int, consumer: Consumer, reference: Reference) -> int:
        """Whoever wants a point for itself gets that."""
        return self._port.deliver_behind(point, consumer, reference)

    def deliver_marker(self, consumer: Consumer, sequence: int) -> None:
        """Markers are no messages."""
        self._port.deliver_marker(consumer, sequence)

    def closed_by_broker(self, consumer: Consumer) -> None:
        """Nothing to count."""
        self._port.closed_by_broker(consumer)
