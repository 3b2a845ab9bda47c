"""The subscription of a cluster bridge to the notifications of the other broker (cluster-and-ha 7.4).

Responsible for the notification queue, its consumer, and the request of the snapshot. Does not depend on the meaning of
notifications.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from attrs import frozen

from embedbroker.cluster import snapshot_request
from embedclient.agent import Call, Consumer, CoreMessage, Session
from embedclient.model import Instant, RoutingType

from ._bridge_link import NOTIFICATIONS_BYTES, BridgeLink

__all__ = ["BindingSubscription", "NotificationQueue", "SubscriptionOwner"]

T = TypeVar("T")


@frozen
class NotificationQueue:
    """Define the queue of notifications at the other broker.

    Attributes:
        name: Name of the queue.
        filter: Its filter.
        address: Address of notifications there.
        management_address: Address of management there.
        addresses: Prefixes of the addresses of interest, with commas.
    """

    name: str
    filter: str
    address: str
    management_address: str
    addresses: str


class SubscriptionOwner(Protocol):
    """The owner of a subscription."""

    def now(self) -> Instant:
        """Return the time of the step."""

    def on_notification(self, message: CoreMessage) -> None:
        """Handle one message of the notification queue."""


class BindingSubscription:
    """One for each connection: with it the queue ends, which is temporary. A failure ends the connection.

    It shares the session of the bridge: each session costs two exchanges of packets with each member, for its beginning
    and its end.
    """

    def __init__(self, link: BridgeLink, queue: NotificationQueue, owner: SubscriptionOwner) -> None:
        self._link = link
        self._queue = queue
        self._owner = owner

    def _then(self, call: Call[T], proceed: Callable[[T], object]) -> None:
        """Go on when a call is done."""

        def done() -> None:
            if call.error is not None:
                self._link.fail(f"the queues of the other broker are unknown: {call.error}")
            elif self._link.failure is None:
                proceed(call.result)

        call.when_done(done)

    def begin(self, session: Session) -> None:
        """Send all requests together: each exchange of packets takes time at both ends."""
        queue = self._queue
        self.collect(session)
        session.start()
        request = snapshot_request(queue.management_address, queue.name, queue.addresses)
        self._then(self._link.send_request(request), lambda _none: None)

    def collect(self, session: Session) -> None:
        """Make the queue and its consumer, without a snapshot."""
        queue = self._queue
        session.addressing.post_temporary_queue(queue.address, queue.name, RoutingType.MULTICAST, filter=queue.filter)
        consumer, opened = session.open_consumer(queue.name, NOTIFICATIONS_BYTES)
        consumer.on_ready = _Reader(self._owner)
        self._then(opened, lambda _answer: None)


class _Reader:
    """Give the owner of a subscription what has arrived."""

    def __init__(self, owner: SubscriptionOwner) -> None:
        self._owner = owner

    def __call__(self, consumer: Consumer) -> None:
        now = self._owner.now()
        while (delivery := consumer.next(now)) is not None:
            self._owner.on_notification(delivery.message)
