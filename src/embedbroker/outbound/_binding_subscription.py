"""The second session of a cluster bridge: the notifications of the other broker (cluster-and-ha 7.4).

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

from ._bridge_link import BridgeLink

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
    """One for each connection: with it the queue ends, which is temporary. A failure ends the connection."""

    def __init__(self, link: BridgeLink, queue: NotificationQueue, owner: SubscriptionOwner) -> None:
        self._link = link
        self._queue = queue
        self._owner = owner
        self._session: Session | None = None

    def begin(self) -> None:
        """Open the session, and all that follows."""
        self._then(self._link.open_session(), self._create_queue)

    def _then(self, call: Call[T], proceed: Callable[[T], object]) -> None:
        """Go on when a call is done."""

        def done() -> None:
            if call.error is not None:
                self._link.fail(f"the queues of the other broker are unknown: {call.error}")
            elif self._link.failure is None:
                proceed(call.result)

        call.when_done(done)

    def _create_queue(self, session: Session) -> None:
        self._session = session
        queue = self._queue
        created = session.addressing.create_queue(
            queue.address, queue.name, RoutingType.MULTICAST, durable=False, temporary=True, filter=queue.filter
        )
        self._then(created, lambda _none: self._then(session.create_consumer(queue.name), self._consume))

    def _consume(self, consumer: Consumer) -> None:
        assert self._session is not None
        consumer.on_ready = _Reader(self._owner)
        self._session.start()
        producer = self._session.create_producer(self._queue.management_address)
        request = snapshot_request(self._queue.management_address, self._queue.name, self._queue.addresses)
        self._then(producer.send(request), lambda _none: producer.close())


class _Reader:
    """Give the owner of a subscription what has arrived."""

    def __init__(self, owner: SubscriptionOwner) -> None:
        self._owner = owner

    def __call__(self, consumer: Consumer) -> None:
        now = self._owner.now()
        while (delivery := consumer.next(now)) is not None:
            self._owner.on_notification(delivery.message)
