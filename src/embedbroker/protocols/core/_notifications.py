"""Notifications as messages of CORE, from the moment in which a queue is bound to their address.

Responsible for loading what makes them with the first such queue, and for the form of the message. Does not depend on
events and their properties.
"""

from __future__ import annotations

from embedbroker.kernel import CommitObserver, Kernel, Queue
from embedclient.model import Properties
from embedclient.wire.core import CoreMessage, MessageType

__all__ = ["NotificationWatch", "compose_notification"]

# Artemis' notifications have a body of four zero bytes.
_BODY = bytes(4)


class NotificationWatch(CommitObserver):
    """Begin notifications when a queue is bound to their address: before that, no event costs anything."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._address = kernel.config.management_notification_address
        self._begun = False
        self.node_id = ""
        kernel.observers.subscribe(self)

    def begin(self, node_id: str) -> None:
        """Begin with the service of clients; queues that a restart restored were not observed."""
        self.node_id = node_id
        if self._kernel.router.reaches_queues(self._address):
            self._load()

    def queue_added(self, queue: Queue) -> None:
        """Begin with the first queue. Its own binding is the first event, as the new observer is behind this one."""
        if queue.definition.address == self._address:
            self._load()

    def _load(self) -> None:
        if not self._begun:
            from embedbroker.management import Notifications

            self._begun = True
            self._kernel.observers.subscribe(Notifications(self._kernel, self))

    def publish(self, properties: Properties, now_ms: int, *, waits: bool = False) -> None:
        """Send a durable message with these properties to the notification address."""
        message = compose_notification(self._address, properties, now_ms, is_durable=True)
        if waits:
            self._kernel.router.announce(message)
        else:
            self._kernel.router.send(message, None, None)


def compose_notification(address: str, properties: Properties, timestamp_ms: int, *, is_durable: bool) -> CoreMessage:
    """Return a message of the form of notifications, without id; with a timestamp of 0 it states no time."""
    message = CoreMessage.build(
        type=MessageType.DEFAULT,
        address=address,
        durable=is_durable,
        priority=0,
        timestamp=timestamp_ms,
        properties=properties,
        body=_BODY,
    )
    # The filters of all subscribers read them.
    message.keep_properties(properties)
    return message
