"""A transaction: what it sent and what it acknowledged, until it is decided.

Responsible for the list of effects and for the records' transaction id. Refuses to carry them out; the kernel does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from embedclient.errors import ErrorCode
from embedclient.model import Message

from ..queueing._backlog import Reference
from ..queueing._consumer import Consumer
from ..queueing._queue import Queue
from ..settling._outcome import Outcome

if TYPE_CHECKING:
    from ._duplicate_ids import Identified

__all__ = ["Sending", "Taken", "Transaction", "TransactionState"]

Sending: TypeAlias = tuple[Message, list[Queue], int]
"""A message, the queues it goes to, and its place: how far its position is above that of the transaction's first."""

Taken: TypeAlias = tuple[Queue, Collection[Reference], Outcome, Consumer | None]
"""Deliveries of one queue, and the consumer for which they are undeliverable if that is their outcome."""

_ACCEPTED = Outcome.ACCEPTED


class TransactionState(Enum):
    """Where a transaction stands. A rollback-only one can only be rolled back; an ended one was committed or that."""

    ACTIVE = "active"
    ROLLBACK_ONLY = "rollback only"
    PREPARED = "prepared"
    ENDED = "ended"


class Transaction:
    """Undecided work of one session. ``recorded`` says whether the journal knows its id."""

    __slots__ = (
        "acknowledged",
        "counts",
        "failure",
        "failure_code",
        "holds_ids",
        "id",
        "identified",
        "places",
        "recorded",
        "returning",
        "rivals",
        "sent",
        "state",
        "taken_count",
        "taken_from",
        "unsettled",
    )

    def __init__(self, transaction_id: int) -> None:
        self.id = transaction_id
        self.state = TransactionState.ACTIVE
        self.sent: list[Sending] = []
        # How many positions it takes at its commit. After a restart they may be more than what it sent: places are
        # recorded, and those of messages that were not durable stay empty.
        self.places = 0
        # How many messages it sent to each queue.
        self.counts: dict[Queue, int] = {}
        # The deliveries it decides about, and what is to become of them; nobody changes their collections.
        self.acknowledged: list[Taken] = []
        self.taken_count = 0
        # The queues they come from, and those which some of them go back to with the commit.
        self.taken_from: dict[Queue, None] = {}
        self.returning: dict[Queue, None] = {}
        # The duplicate ids of what it sent.
        self.identified: list[Identified] = []
        # Whether nobody else may bring one of those into force, and who has sent one of them, too.
        self.holds_ids = False
        self.rivals: dict[Transaction, Identified] = {}
        self.recorded = False
        # Large acknowledgements in it that are still being recorded.
        self.unsettled = 0
        self.failure: str | None = None
        self.failure_code: int = ErrorCode.TRANSACTION_ROLLED_BACK

    def add(self, message: Message, targets: list[Queue], place: int | None = None) -> None:
        """Send a message to queues when this is committed; until then they are not taken for unused.

        ``place`` is for those that had theirs before a restart: it grows from one to the next in each queue.
        """
        if place is None:
            place = self.places
        if place >= self.places:
            self.places = place + 1
        self.sent.append((message, targets, place))
        counts = self.counts
        for queue in targets:
            counts[queue] = counts.get(queue, 0) + 1
            queue.pledged += 1

    def end(self) -> None:
        """It is decided: what it sent is on its way, or was never sent."""
        self.state = TransactionState.ENDED
        for queue, count in self.counts.items():
            queue.pledged -= count

    def take(
        self, queue: Queue, references: Collection[Reference], outcome: Outcome, consumer: Consumer | None = None
    ) -> None:
        """Decide about deliveries when this is committed."""
        self.acknowledged.append((queue, references, outcome, consumer))
        self.taken_count += len(references)
        self.taken_from[queue] = None
        if outcome is not _ACCEPTED and not outcome.leaves:
            self.returning[queue] = None

    def deliveries(self) -> Iterator[tuple[Queue, Reference]]:
        """Those that it decides about, in order. For queries."""
        for queue, references, _outcome, _consumer in self.acknowledged:
            for reference in references:
                yield queue, reference

    def fail(self, reason: str, code: int = ErrorCode.TRANSACTION_ROLLED_BACK) -> None:
        """Only a rollback is possible from now on; the first reason is kept, and the code that a commit answers."""
        if self.state is TransactionState.ACTIVE:
            self.state = TransactionState.ROLLBACK_ONLY
            self.failure = reason
            self.failure_code = code
