"""What happens in a broker, for those who follow it: mirrors, notifications, plugins.

Responsible for telling it in the order in which it happened, a bounded part of it per step. Refuses to know who they
are. While nobody follows, what happens costs one look at an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from embedclient.model import Message

from ._deferred import AT_ONCE_MAX, DeferredWork, drained
from .settling._outcome import Outcome

if TYPE_CHECKING:
    from ._audit_trail import AuditTrail
    from .addressing._address import Address
    from .queueing._backlog import Reference
    from .queueing._queue import Queue
    from .transactions._transaction import Transaction

__all__ = ["Events"]

Subscribers: TypeAlias = list[Callable[..., None]]
Event: TypeAlias = tuple[Subscribers, tuple[object, ...]]


class Events:
    """Subscribers are appended to these lists. They may send messages, and change nothing else.

    ``routed(message, queues, transaction)``: a message got a place in queues. Without a transaction that is told when
    its record is appended, before it is durable and before anybody sees it: what a subscriber sends stands in the same
    batch of records, or a later one. In a transaction it is told behind the record of the commit; a rollback tells
    nothing of it.

    ``settled(queue, reference, outcome, transaction)``: a queue is done with a delivery. That, too, is told when its
    record is appended; in a transaction behind the commit, and behind what the transaction routed. What goes back
    (released, modified, rolled back) is told when it does, and without a transaction; if that was one delivery too
    many, the same message is rejected next. A message may also leave its queue without a delivery: expired, or accepted
    when a queue without consumers is purged.

    ``queue_added``, ``queue_removed``, ``address_added`` (also when it changed) and ``address_removed`` are told one
    thing: the queue or the address. What is in a queue that is removed goes untold, and so does what a restart brings.

    Nothing waits for the disk: a crash may undo the last things that were told.
    """

    __slots__ = (
        "_deferred",
        "_late",
        "address_added",
        "address_removed",
        "audit",
        "queue_added",
        "queue_removed",
        "routed",
        "settled",
    )

    def __init__(self, deferred: DeferredWork) -> None:
        self._deferred = deferred
        # How many tellings stand among the chores. While there are any, what happens next is told behind them.
        self._late = 0
        #: The audit trail that records what becomes of each message, or None.
        self.audit: AuditTrail | None = None
        self.routed: list[Callable[[Message, list[Queue], Transaction | None], None]] = []
        self.settled: list[Callable[[Queue, Reference, Outcome, Transaction | None], None]] = []
        self.queue_added: list[Callable[[Queue], None]] = []
        self.queue_removed: list[Callable[[Queue], None]] = []
        self.address_added: list[Callable[[Address], None]] = []
        self.address_removed: list[Callable[[Address], None]] = []

    @property
    def has_followers(self) -> bool:
        """Whether anybody hears of messages."""
        return bool(self.routed or self.settled)

    def tell(self, subscribers: Subscribers, *facts: object) -> None:
        """One thing happened."""
        if subscribers:
            self._tell_all(iter([(subscribers, facts)]), 1)

    def tell_committed(self, transaction: Transaction) -> None:
        """Everything that a transaction sent has a place, and what it was given and does not give back has left."""

        def events() -> Iterator[Event]:
            for message, queues, _place in drained(sent):
                yield self.routed, (message, queues, transaction)
            for queue, references, outcome, _consumer in drained(acknowledged):
                if outcome.leaves:
                    for reference in references:
                        yield self.settled, (queue, reference, outcome, transaction)

        if self.has_followers:
            # What it holds is let go by those who carry the commit out.
            sent, acknowledged = transaction.sent.copy(), transaction.acknowledged.copy()
            self._tell_all(events(), len(sent) + transaction.taken_count)

    def _tell_all(self, events: Iterator[Event], count: int) -> None:
        """At once if they are few, over the next steps otherwise."""
        if count <= AT_ONCE_MAX and not self._late:
            for subscribers, facts in events:
                for subscriber in subscribers:
                    subscriber(*facts)
            return

        def late() -> Iterator[None]:
            for subscribers, facts in events:
                for subscriber in subscribers:
                    subscriber(*facts)
                yield
            self._late -= 1

        self._late += 1
        self._deferred.add(late())
