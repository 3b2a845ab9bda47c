"""A consumer: it takes messages from one queue, and holds what it has taken but not settled.

Responsible for credit, readiness and the unsettled deliveries in order. Does not depend on wire protocols: it hands
messages to a port and is charged what the port returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from embedclient.model import Message

from ..selector._selector import Selector
from ._backlog import Bookmark, Reference
from ._backpressure import Backpressure
from ._credit import Credit
from ._deliveries import Deliveries

if TYPE_CHECKING:
    from ._queue import Queue

__all__ = ["Consumer", "ConsumerPort"]


class ConsumerPort(Protocol):
    """Receive deliveries for a protocol."""

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        """Send one message to the peer and return what it costs in credit (bytes, or 1 where messages are counted)."""

    def deliver_behind(self, point: int, consumer: Consumer, reference: Reference) -> int:
        """Deliver like `deliver` and charge the cost now; the peer gets it, in order, once that point is durable."""

    def deliver_marker(self, consumer: Consumer, sequence: int) -> None:
        """Notify the peer that nothing more can be delivered now (forced delivery, drained credit)."""

    def closed_by_broker(self, consumer: Consumer) -> None:
        """Handle the deletion of the queue under the consumer."""


class Remaining:
    """Filter for a consumer with undeliverable messages: match what the consumer wants, without those."""

    __slots__ = ("declined", "wanted")

    def __init__(self, wanted: Selector | None) -> None:
        self.wanted = wanted
        # Ids of messages that are still in the queue, or delivered to other consumers of it.
        self.declined: set[int] = set()

    def matches(self, message: Message) -> bool:
        """Return True if the consumer may get this message."""
        return message.message_id not in self.declined and (self.wanted is None or self.wanted.matches(message))


class Consumer:
    """Hold one consumer or browser of one queue.

    It is ready while it is started, has credit and its peer keeps up.
    """

    __slots__ = (
        "backpressure",
        "browse",
        "closed",
        "credit",
        "cursor",
        "in_ready",
        "key",
        "marker",
        "number",
        "port",
        "pre_acknowledge",
        "priority",
        "queue",
        "selector",
        "session",
        "started",
        "unsettled",
    )

    def __init__(
        self,
        key: int,
        queue: Queue,
        port: ConsumerPort,
        selector: Selector | None,
        backpressure: Backpressure,
        credit: Credit,
        *,
        browse: bool,
        priority: int,
    ) -> None:
        self.key = key
        self.queue = queue
        self.port = port
        self.selector: Selector | Remaining | None = selector
        self.backpressure = backpressure
        self.browse = browse
        self.priority = priority
        self.credit = credit
        self.started = browse
        self.closed = False
        self.in_ready = False
        self.pre_acknowledge = False
        self.cursor = Bookmark()
        self.unsettled = Deliveries()
        # Sequence of a forced delivery that is still to be answered.
        self.marker: int | None = None
        # For an audit trail: its number there, 0 for none yet, and the name of its session.
        self.number = 0
        self.session = ""

    @property
    def ready(self) -> bool:
        """Return True if the next message can be handed over now."""
        return self.started and not self.backpressure.is_shut and not self.closed and self.credit.can_take(0)

    def add_credit(self, amount: int) -> None:
        """Add what the peer granted to the credit."""
        self.credit.grant(amount)
        if self.credit.can_take(0):
            self.queue.consumer_ready(self)

    def decline(self, message_id: int) -> None:
        """Exclude this message from all later deliveries to the consumer."""
        if not isinstance(self.selector, Remaining):
            self.selector = Remaining(self.selector)
        self.selector.declined.add(message_id)

    @property
    def declined(self) -> set[int]:
        """Return the ids of messages that are undeliverable to it and have not left the queue."""
        return self.selector.declined if isinstance(self.selector, Remaining) else set()
