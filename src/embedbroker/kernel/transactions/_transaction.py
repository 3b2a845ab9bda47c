"""Transaction: what it sent, what it acknowledged, and how it ends.

Responsible for the effects of a transaction and for its verbs: `Transaction.hold`, `prepare`, `commit`, `rollback` and
`fail`. A local transaction, an XA branch and a branch in a commit set are the same object. Does not depend on sessions
or branches; they decide when a verb is called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from enum import Enum
from itertools import repeat

from embedclient.errors import ErrorCode

from .._deferred import AT_ONCE_MAX, DeferredWork, drained
from .._ids import Ids
from .._observer import Leaving, Observers
from .._store import Store
from ..message._message import Message
from ..queueing._backlog import Reference
from ..queueing._deliveries import Bundle
from ..queueing._queue import Consumer, Queue
from ..settling._outcome import Outcome
from ..settling._removal import Removal
from ..settling._settlement import Settlement
from ..settling._unit_of_work import Taken
from ._duplicate_ids import DuplicateIds, IdClaimant, Identified
from ._visibility import Sending, VisibilityQueue, references_of

__all__ = ["Transaction", "TransactionState", "Transactions"]

_ACCEPTED = Outcome.ACCEPTED


class TransactionState(Enum):
    """Define the state of a transaction. ROLLBACK_ONLY can only be rolled back; ENDED was committed or rolled back."""

    ACTIVE = "active"
    ROLLBACK_ONLY = "rollback only"
    PREPARED = "prepared"
    ENDED = "ended"


class Transactions:
    """Begin transactions, and hold the parts that they need to end.

    ``connect`` completes it, because settlement moves dead letters in transactions.
    """

    __slots__ = ("deferred", "duplicates", "ids", "observers", "removal", "settlement", "store", "visibility")

    def __init__(
        self,
        store: Store,
        ids: Ids,
        duplicates: DuplicateIds,
        removal: Removal,
        visibility: VisibilityQueue,
        deferred: DeferredWork,
        observers: Observers,
    ) -> None:
        self.store = store
        self.ids = ids
        self.duplicates = duplicates
        self.removal = removal
        self.settlement: Settlement
        self.visibility = visibility
        self.deferred = deferred
        self.observers = observers

    def connect(self, settlement: Settlement) -> None:
        """Complete it. Must come before the first transaction."""
        self.settlement = settlement

    def begin(self) -> Transaction:
        """Open a transaction."""
        return Transaction(self.ids.take(), self)

    def begin_failed(self, reason: str) -> Transaction:
        """Open a transaction that can only be rolled back."""
        transaction = self.begin()
        transaction.fail(reason)
        return transaction

    def restore(self, transaction_id: int) -> Transaction:
        """Open a transaction again that a journal has."""
        return Transaction(transaction_id, self)

    def publish(
        self,
        committed: Sequence[Transaction],
        decided: Sequence[int] | None,
        point: int,
        sent: Iterator[Sending] | None,
        counts: dict[Queue, int],
        first_position: int,
    ) -> None:
        """Publish a commit whose record is appended: to observers, and to the visibility queue as one entry.

        Without ``decided``, observers of decisions are not called; without ``sent``, there is no visibility entry.
        """
        observers = self.observers
        if decided is not None:
            for observe in observers.decision.committed:
                observe(decided, self.ids.next_id - 1)
        if sent is not None:
            self.visibility.add_commit(point, sent, counts, first_position)
        if observers.follow_messages:
            for transaction in committed:
                observers.call_committed(transaction)


class Transaction:
    """Hold the undecided work of one session or branch. ``recorded`` is True once the journal has its id."""

    __slots__ = (
        "_parts",
        "acknowledged",
        "adopted",
        "counts",
        "failure",
        "failure_code",
        "holds_ids",
        "id",
        "identified",
        "is_committed",
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

    def __init__(self, transaction_id: int, parts: Transactions) -> None:
        self._parts = parts
        self.id = transaction_id
        self.state = TransactionState.ACTIVE
        self.sent: list[Sending] = []
        # How many positions it takes at its commit. After a restart they may be more than what it sent: places are
        # recorded, and those of messages that were not durable stay empty.
        self.places = 0
        # How many messages it sent to each queue.
        self.counts: dict[Queue, int] = {}
        # Deliveries with their outcomes. Their collections must not be changed.
        self.acknowledged: list[Taken] = []
        self.taken_count = 0
        # Of those, deliveries that came here from another broker in this transaction; see `Adoption`.
        self.adopted: list[tuple[Queue, Reference]] | None = None
        # The queues they come from, and those which some of them return to with the commit.
        self.taken_from: dict[Queue, None] = {}
        self.returning: dict[Queue, None] = {}
        # The duplicate ids of what it sent.
        self.identified: list[Identified] = []
        # True while no other transaction may bring one of those into force; and those that sent one of them, too.
        self.holds_ids = False
        # True once its commit is recorded. Its effects may take several steps.
        self.is_committed = False
        self.rivals: dict[IdClaimant, Identified] = {}
        self.recorded = False
        # Large acknowledgements in it that are still being recorded. 0 <= unsettled
        self.unsettled = 0
        self.failure: str | None = None
        self.failure_code: int = ErrorCode.TRANSACTION_ROLLED_BACK

    @property
    def is_active(self) -> bool:
        """Return True if it is neither failed nor decided."""
        return self.state is TransactionState.ACTIVE

    @property
    def is_ended(self) -> bool:
        """Return True if it was committed or rolled back."""
        return self.state is TransactionState.ENDED

    # -- gathering -----------------------------------------------------------------------------------------------

    def add(self, message: Message, targets: list[Queue], place: int | None = None) -> None:
        """Send a message to queues when this is committed; until then they do not count as unused.

        ``place`` is for messages that had theirs before a restart: it grows from one to the next in each queue.
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

    def add_run(self, messages: Sequence[Message], queue: Queue) -> None:
        """Send messages to one queue, as `add` does with each."""
        count, place = len(messages), self.places
        self.places = place + count
        self.sent += zip(messages, repeat([queue]), range(place, place + count), strict=False)
        self.counts[queue] = self.counts.get(queue, 0) + count
        queue.pledged += count

    def take(
        self, queue: Queue, references: Collection[Reference], outcome: Outcome, consumer: Consumer | None = None
    ) -> None:
        """Gather deliveries whose outcome takes effect with the commit."""
        self.acknowledged.append((queue, references, outcome, consumer))
        self.taken_count += len(references)
        self.taken_from[queue] = None
        if outcome is not _ACCEPTED and not outcome.leaves:
            self.returning[queue] = None

    def adopt(self, queue: Queue, reference: Reference) -> None:
        """Gather a delivery that it has acknowledged at another broker."""
        self.take(queue, (reference,), _ACCEPTED)
        if self.adopted is None:
            self.adopted = []
        self.adopted.append((queue, reference))

    def deliveries(self) -> Iterator[tuple[Queue, Reference]]:
        """Return the deliveries that it decides about, in order. For queries."""
        for queue, references, _outcome, _consumer in self.acknowledged:
            for reference in references:
                yield queue, reference

    def portions(self) -> Iterator[tuple[Queue, list[Reference]]]:
        """Return the deliveries in lists of a limited size. For queries: they may be settled meanwhile."""
        for queue, references, _outcome, _consumer in self.acknowledged:
            if isinstance(references, Bundle):
                for portion in references.portions():
                    yield queue, portion
            else:
                yield queue, list(references)

    def fail(self, reason: str, code: int = ErrorCode.TRANSACTION_ROLLED_BACK) -> None:
        """Allow only a rollback from now on. The first reason is kept, with the code that a commit returns."""
        if self.state is TransactionState.ACTIVE:
            self.state = TransactionState.ROLLBACK_ONLY
            self.failure = reason
            self.failure_code = code

    def when_settled(self, action: Callable[[], None]) -> None:
        """Call ``action`` behind what was acknowledged so far, of which some may wait to be recorded."""
        if self.unsettled:
            self._parts.deferred.add_action(action)
        else:
            action()

    # -- deciding ------------------------------------------------------------------------------------------------

    def hold(self) -> bool:
        """Make sure that it can commit from now on; return False if it can only be rolled back."""
        self._parts.duplicates.hold(self)
        return self.state is not TransactionState.ROLLBACK_ONLY

    def prepare(self) -> None:
        """Promise that it can be committed. It must be held; `record_prepared` makes the promise durable."""
        assert self.state is TransactionState.ACTIVE, self.state
        self.state = TransactionState.PREPARED

    def record_prepared(self, xid: bytes) -> bool:
        """Record that it is prepared, unless it was decided meanwhile; return True if it is recorded."""
        if self.state is not TransactionState.PREPARED:
            return False
        self.recorded = True
        self._parts.store.prepare(self.id, xid)
        return True

    def restore_prepared(self) -> None:
        """Take the place that it had before a restart, without writing it again."""
        self.state = TransactionState.PREPARED
        self.recorded = True
        self._parts.duplicates.hold(self)

    def commit(self) -> None:
        """Carry it out: its messages become visible together once that is durable."""
        assert self.state in (TransactionState.ACTIVE, TransactionState.PREPARED), self.state
        parts, sent, visibility = self._parts, self.sent, self._parts.visibility
        self.is_committed = True
        self._end()
        if self.identified:
            parts.deferred.carry_out(parts.duplicates.commit(self), len(self.identified))
        first = parts.ids.take(self.places) if sent else 0
        point = 0
        if self.recorded:
            positions = [(queue.id, first) for queue in self.counts if queue.durable and not queue.deleted]
            parts.store.commit(self.id, positions)
            point = parts.store.point()
        waits = len(sent) > AT_ONCE_MAX or point > parts.store.reached or bool(visibility.pending)
        # Observers may send, and what goes back may be moved: what comes of that has higher positions.
        waits = waits or bool(self.returning) or parts.observers.follow_messages
        decided = (self.id,) if sent or self.acknowledged else None
        parts.publish((self,), decided, point, drained(sent) if waits else None, self.counts, first)
        parts.deferred.carry_out(parts.settlement.carry_out(self.acknowledged), self.taken_count, held=self.returning)
        if waits:
            return
        for queue, reference in references_of(sent, first):
            if queue.deleted:
                parts.removal.drop(queue, reference.message)
            else:
                queue.publish(reference)

    def finish_commit(self) -> Iterator[None]:
        """Carry out what follows from a commit that others recorded and published, in portions."""
        parts = self._parts
        self._end()
        yield
        if self.identified:
            yield from parts.duplicates.commit(self)
        returning = list(self.returning)
        for queue in returning:
            queue.hold()
        yield from parts.settlement.carry_out(self.acknowledged)
        for queue in returning:
            queue.let_go()

    def rollback(self) -> None:
        """Undo it: it sent nothing, and what it acknowledged returns with its delivery counted."""
        assert self.state is not TransactionState.ENDED, self.id
        parts = self._parts
        if self.adopted is not None and self.state is not TransactionState.PREPARED:
            self._drop_adopted(self.adopted)
        self._end()
        if self.identified:
            parts.deferred.carry_out(parts.duplicates.let_go(self), len(self.identified))
        if self.recorded:
            parts.store.rollback(self.id)
        parts.deferred.carry_out(self._drop_sent(), len(self.sent))
        parts.deferred.carry_out(parts.settlement.take_back(self.acknowledged), self.taken_count, held=self.taken_from)

    def _drop_adopted(self, adopted: list[tuple[Queue, Reference]]) -> None:
        """Remove what came here in it: the other broker has it still, since this was not prepared."""
        gone = {id(reference) for _queue, reference in adopted}
        self.acknowledged = [taken for taken in self.acknowledged if id(next(iter(taken[1]), None)) not in gone]
        self.taken_count -= len(adopted)
        for queue, reference in adopted:
            self._parts.removal.leave(queue, (reference,), Leaving.ACKNOWLEDGED)

    def hand_over(self) -> None:
        """End it, because another broker has prepared it: what it sent is dropped, what it acknowledged leaves."""
        assert self.state is TransactionState.PREPARED, self.state
        parts = self._parts
        self._end()
        if self.identified:
            parts.deferred.carry_out(parts.duplicates.let_go(self), len(self.identified))
        if self.recorded:
            parts.store.rollback(self.id)
        for queue, reference in self.deliveries():
            parts.removal.leave(queue, (reference,), Leaving.ACKNOWLEDGED)
        parts.deferred.carry_out(self._drop_sent(), len(self.sent))

    def _drop_sent(self) -> Iterator[None]:
        for message, targets, _place in drained(self.sent):
            for queue in targets:
                self._parts.removal.drop(queue, message)
            yield

    def on_left(self) -> None:
        """Handle that what it acknowledged is in flight no more: it ends, or a session works in it no more."""
        for queue in self.taken_from:
            if queue.awaited is not None:
                queue.on_settled()

    def _end(self) -> None:
        self.state = TransactionState.ENDED
        self.on_left()
        for queue, count in self.counts.items():
            queue.pledged -= count
            assert queue.pledged >= 0, queue.name
