"""A consumer: who takes messages from one queue, and what it has taken but not settled.

Responsible for credit, readiness and the unsettled deliveries in order. Refuses to know wire protocols: it hands
messages to a port and is charged what the port says.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

from embedclient.model import Message

from ._backlog import Cursor, Reference
from ._selector import Selector
from ._valve import Valve

if TYPE_CHECKING:
    from ._queue import Queue

__all__ = ["UNLIMITED_CREDIT", "Consumer", "ConsumerPort"]

UNLIMITED_CREDIT = 1 << 62


class ConsumerPort(Protocol):
    """Where a protocol takes deliveries."""

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        """Send one message to the peer and return what it costs in credit (bytes, or 1 where messages are counted)."""

    def deliver_marker(self, consumer: Consumer, sequence: int) -> None:
        """Tell the peer that nothing more can be delivered now (forced delivery)."""

    def closed_by_broker(self, consumer: Consumer) -> None:
        """The queue was deleted under the consumer."""


class Remaining:
    """The filter of a consumer for which messages turned out to be undeliverable: what it wants, without those."""

    __slots__ = ("declined", "wanted")

    def __init__(self, wanted: Selector | None) -> None:
        self.wanted = wanted
        # Ids of messages that are still in the queue, or delivered to others from it.
        self.declined: set[int] = set()

    def matches(self, message: Message) -> bool:
        """Whether the consumer may get this message."""
        return message.message_id not in self.declined and (self.wanted is None or self.wanted.matches(message))


class Consumer:
    """One consumer or browser of one queue.

    It is ready while it is started, has credit and its peer keeps up. Credit may go below zero: the last message is
    allowed to be larger than what was left, as in Artemis.
    """

    __slots__ = (
        "browse",
        "closed",
        "credit",
        "cursor",
        "in_ready",
        "key",
        "marker",
        "port",
        "pre_acknowledge",
        "priority",
        "queue",
        "selector",
        "started",
        "unsettled",
        "valve",
    )

    def __init__(
        self,
        key: int,
        queue: Queue,
        port: ConsumerPort,
        selector: Selector | None,
        valve: Valve,
        *,
        browse: bool,
        priority: int,
    ) -> None:
        self.key = key
        self.queue = queue
        self.port = port
        self.selector: Selector | Remaining | None = selector
        self.valve = valve
        self.browse = browse
        self.priority = priority
        self.credit = 0
        self.started = browse
        self.closed = False
        self.in_ready = False
        self.pre_acknowledge = False
        self.cursor = Cursor()
        self.unsettled: OrderedDict[int, Reference] = OrderedDict()
        # Sequence of a forced delivery that is still to be answered.
        self.marker: int | None = None

    @property
    def ready(self) -> bool:
        """Whether the next message can be handed over now."""
        return self.credit > 0 and self.started and not self.valve.is_shut and not self.closed

    def add_credit(self, amount: int) -> None:
        """Apply one flow token: -1 switches flow control off, 0 takes all credit away."""
        if amount == -1:
            self.credit = UNLIMITED_CREDIT
        elif amount == 0:
            self.credit = 0
        elif self.credit < UNLIMITED_CREDIT:
            self.credit += amount
        if self.credit > 0:
            self.queue.consumer_ready(self)

    def decline(self, message_id: int) -> None:
        """Never take this message again."""
        if not isinstance(self.selector, Remaining):
            self.selector = Remaining(self.selector)
        self.selector.declined.add(message_id)

    @property
    def declined(self) -> set[int]:
        """Ids of messages that are undeliverable to it and have not left the queue."""
        return self.selector.declined if isinstance(self.selector, Remaining) else set()
