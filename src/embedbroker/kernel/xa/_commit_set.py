"""Commit sets: prepared XA branches that are committed together, and with them one marker moves.

Responsible for all or nothing: one record says that every branch is committed and what the marker is. A set that comes
again, because its answer was lost, finds the marker where it would have moved it: it changes nothing, and branches of
another attempt at the same work are rolled back. Refuses to know what a branch did.

A set may have many branches, and a branch may be large. So it is a chore:

1. Branches are looked up, some in each step.
2. In one step the set is decided: branches leave the table, the marker moves.
3. What the record has to say of each branch is gathered, some branches in each step.
4. In one step positions are taken, the record is appended, and everything that was sent stands in the visibility queue.
So
   nothing that is sent later can be seen before it.
5. What the branches acknowledged leaves its queues, some messages in each step: a chore of its own, behind those in
   which followers are told of the set.

A crash before the record is durable leaves the branches prepared and the marker where it was; nobody was told anything.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from embedclient.model import Xid

from .._deferred import drained
from .._refusal import Refused
from ..queueing._queue import Queue
from ..transactions._transaction import Sending, Transaction
from ._branch import Branch, BranchState
from ._branches import name_of
from ._fencing_token import FencingToken, FencingTokenMoved

if TYPE_CHECKING:
    from .._kernel import Kernel

__all__ = ["COMMIT_SET_BRANCHES_MAX", "BranchMissing", "CommitSet", "CommitSetDone", "CommitSets"]

COMMIT_SET_BRANCHES_MAX = 10_000
"""Branches in one set."""


@frozen
class CommitSet:
    """One set as it is recorded.

    ``places`` has for each branch its transaction id, the number of durable queues that it sent to, and for each of
    those the queue id and by how much the branch's own positions begin above ``first_position``.
    """

    marker: FencingToken
    first_position: int
    transaction_ids: Sequence[int]
    places: Sequence[int]


@frozen
class BranchMissing:
    """A set names a branch that cannot be committed. ``is_known``: it is there, but not prepared."""

    xid: Xid
    is_known: bool
    text: str


@frozen
class CommitSetDone:
    """A set is recorded; or, replayed, what is left of it is rolled back. ``value`` is what the marker is."""

    value: int
    replayed: bool = False


Done: TypeAlias = Callable[[CommitSetDone | FencingTokenMoved | BranchMissing | Refused], None]


class CommitSets:
    """The commit sets of one kernel; it remembers none of them."""

    __slots__ = ("_kernel",)

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def commit(self, name: str, expected: int | None, value: int, xids: Sequence[Xid], done: Done) -> None:
        """Commit these branches, none of which is named twice, and move the marker to ``value``.

        ``done`` is called once, behind everything that came before: when the record is appended, or with what is wrong.
        In that case nothing was changed.
        """
        assert len(xids) <= COMMIT_SET_BRANCHES_MAX, len(xids)
        branches = self._kernel.branches

        def decide() -> Iterator[None]:
            found: list[Branch | None] = []
            for xid in xids:
                found.append(branches.find(xid))
                yield
            work = self._decide(name, expected, value, xids, found, done)
            if isinstance(work, Iterator):
                yield from work
            else:
                done(work)

        self._kernel.deferred.add(decide())

    def _decide(
        self,
        name: str,
        expected: int | None,
        value: int,
        xids: Sequence[Xid],
        found: Sequence[Branch | None],
        done: Done,
    ) -> Iterator[None] | FencingTokenMoved | BranchMissing | Refused:
        """What there is to do, or why nothing is done. From here on nobody else can decide the branches."""
        kernel = self._kernel
        current = kernel.fencing_tokens.get(name)
        if current is not None and current >= value:
            return self._undo(xids, CommitSetDone(current, replayed=True), done)
        if current != expected:
            return FencingTokenMoved(current)
        prepared: list[Branch] = []
        for xid, branch in zip(xids, found, strict=True):
            # Behind a record that is still to come, those of its acknowledgements may be, too.
            if branch is None or branch.state is not BranchState.PREPARED or not branch.is_recorded:
                return self._missing(xid)
            prepared.append(branch)
        marker = kernel.fencing_tokens.move(name, expected, value)
        if not isinstance(marker, FencingToken):
            return marker
        return self._carry_out(marker, [kernel.branches.claim(branch) for branch in prepared], done)

    def _missing(self, xid: Xid) -> BranchMissing:
        branch = self._kernel.branches.find(xid)
        if branch is None:
            return BranchMissing(xid, False, self._kernel.branches.why_gone(xid))
        where = branch.state.value if branch.state is not BranchState.PREPARED else "being prepared"
        return BranchMissing(xid, True, f"{name_of(xid)} is {where}, not prepared")

    def _undo(self, xids: Sequence[Xid], result: CommitSetDone, done: Done) -> Iterator[None]:
        for xid in xids:
            self._kernel.branches.undo(xid, "the set it belongs to was committed before")
            yield
        done(result)

    def _carry_out(self, marker: FencingToken, transactions: list[Transaction], done: Done) -> Iterator[None]:
        kernel = self._kernel
        counts: dict[Queue, int] = {}
        places = array("q")
        begins: list[int] = []
        size = 0
        for transaction in transactions:
            assert not transaction.unsettled, transaction.id
            self._place(transaction, size, counts, places)
            begins.append(size)
            size += transaction.places
            yield
        first = kernel.ids.take(size) if size else 0
        transaction_ids = [transaction.id for transaction in transactions]
        kernel.store.note(CommitSet(marker, first, transaction_ids, places))
        for observe in kernel.observers.decision.committed:
            observe(transaction_ids, kernel.ids.next_id - 1)
        if size:
            kernel.visibility.add_commit(kernel.store.point(), _sent_by(transactions, begins), counts, first)
        if kernel.observers.follow_messages:
            for transaction in transactions:
                kernel.observers.call_committed(transaction)
        done(CommitSetDone(marker.value))
        # Behind what followers are told of it: they hear of deliveries that are let go here.
        kernel.deferred.add(self._finish(transactions))
        yield

    def _place(self, transaction: Transaction, begin: int, counts: dict[Queue, int], places: array[int]) -> None:
        """Note where its messages will stand, behind those of the branches before it."""
        at = len(places)
        places.extend((transaction.id, 0))
        for queue, count in transaction.counts.items():
            counts[queue] = counts.get(queue, 0) + count
            if queue.durable and not queue.deleted:
                places.extend((queue.id, begin))
                places[at + 1] += 1

    def _finish(self, transactions: Sequence[Transaction]) -> Iterator[None]:
        """What follows from their commit, apart from what they sent."""
        for transaction in transactions:
            transaction.end()
            yield
            if transaction.identified:
                yield from self._kernel.duplicates.commit(transaction)
            returning = list(transaction.returning)
            for queue in returning:
                queue.hold()
            yield from self._kernel.settlement.committed(transaction)
            for queue in returning:
                queue.let_go()


def _sent_by(transactions: Sequence[Transaction], begins: Sequence[int]) -> Iterator[Sending]:
    for transaction, begin in zip(transactions, begins, strict=True):
        for message, targets, place in drained(transaction.sent):
            yield message, targets, begin + place
