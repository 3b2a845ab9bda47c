"""A transaction: what it sent and what it acknowledged, until it is decided.

Responsible for the list of effects and for the records' transaction id. Refuses to carry them out; the kernel does.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from itertools import repeat
from typing import TYPE_CHECKING

from embedclient.errors import ErrorCode
from embedclient.model import Message

from ._backlog import Reference
from ._consumer import Consumer
from ._outcome import Outcome
from ._queue import Queue

if TYPE_CHECKING:
    from ._duplicate_ids import Identified

__all__ = ["Transaction", "TransactionState"]


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
        "id",
        "identified",
        "outcomes",
        "recorded",
        "sent",
        "state",
        "unsettled",
    )

    def __init__(self, transaction_id: int) -> None:
        self.id = transaction_id
        self.state = TransactionState.ACTIVE
        self.sent: list[tuple[Message, list[Queue]]] = []
        # How many messages it sent to each queue.
        self.counts: dict[Queue, int] = {}
        # The deliveries it decides about, and what is to become of those that it does not accept.
        self.acknowledged: list[tuple[Queue, Reference]] = []
        self.outcomes: dict[Reference, tuple[Outcome, Consumer | None]] = {}
        # The duplicate ids of what it sent.
        self.identified: list[Identified] = []
        self.recorded = False
        # Large acknowledgements in it that are still being recorded.
        self.unsettled = 0
        self.failure: str | None = None
        self.failure_code: int = ErrorCode.TRANSACTION_ROLLED_BACK

    def add(self, message: Message, targets: list[Queue]) -> None:
        """Send a message to queues when this is committed."""
        self.sent.append((message, targets))
        counts = self.counts
        for queue in targets:
            counts[queue] = counts.get(queue, 0) + 1

    def take(
        self, queue: Queue, references: Collection[Reference], outcome: Outcome, consumer: Consumer | None = None
    ) -> None:
        """Decide about deliveries when this is committed."""
        self.acknowledged.extend(zip(repeat(queue), references))
        if outcome is not Outcome.ACCEPTED:
            self.outcomes.update(zip(references, repeat((outcome, consumer))))

    def fail(self, reason: str, code: int = ErrorCode.TRANSACTION_ROLLED_BACK) -> None:
        """Only a rollback is possible from now on; the first reason is kept, and the code that a commit answers."""
        if self.state is TransactionState.ACTIVE:
            self.state = TransactionState.ROLLBACK_ONLY
            self.failure = reason
            self.failure_code = code
