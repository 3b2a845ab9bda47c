"""Commit sets: prepared XA branches that are committed together, and move one fencing token with them.

Responsible for all or nothing: one record states that every branch is committed, and the value of the token. A set that
is repeated, because its answer was lost, finds the token where it would have moved it. It changes nothing, and branches
of another attempt at the same work are rolled back. Does not depend on the work of a branch.

A set may have many branches, and a branch may be large. So it is deferred work:

1. Branches are looked up, some in each step.
2. In one step the set is decided: branches leave the table, the token moves.
3. The contents of the record are gathered, some branches in each step.
4. In one step positions are taken, the record is appended, and everything that was sent stands in the visibility queue.
   So nothing that is sent later can become visible before it.
5. What the branches acknowledged leaves its queues, some messages in each step. This is separate deferred work, behind
   the notification of followers of the set.

A crash before the record is durable leaves the branches prepared and the token unchanged; no answer has been sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from attrs import frozen

from embedclient.model import Xid

from .._deferred import DeferredWork
from .._facts import CommitSet, FencingToken
from .._refusal import Refused
from .._store import Store
from ..transactions._group_commit import GroupCommit
from ..transactions._transaction import Transaction, Transactions
from ._branch import Branch, BranchState
from ._branches import XaBranches, name_of
from ._fencing_token import FencingTokenMoved, FencingTokens

__all__ = ["COMMIT_SET_BRANCHES_MAX", "BranchMissing", "CommitSetDone", "CommitSets"]

COMMIT_SET_BRANCHES_MAX = 10_000
"""Branches in one set."""


@frozen
class BranchMissing:
    """State that a set names a branch that cannot be committed. ``is_known``: it is there, but not prepared."""

    xid: Xid
    is_known: bool
    text: str


@frozen
class CommitSetDone:
    """State that a set is recorded; or, replayed, that its remaining branches are rolled back.

    ``value`` is the token's value.
    """

    value: int
    replayed: bool = False


Done: TypeAlias = Callable[[CommitSetDone | FencingTokenMoved | BranchMissing | Refused], None]


class CommitSets:
    """Carry out the commit sets of one kernel; none of them is remembered."""

    __slots__ = ("_branches", "_deferred", "_fencing_tokens", "_store", "_transactions")

    def __init__(
        self,
        branches: XaBranches,
        fencing_tokens: FencingTokens,
        transactions: Transactions,
        store: Store,
        deferred: DeferredWork,
    ) -> None:
        self._branches = branches
        self._fencing_tokens = fencing_tokens
        self._transactions = transactions
        self._store = store
        self._deferred = deferred

    def commit(self, name: str, expected: int | None, value: int, xids: Sequence[Xid], done: Done) -> None:
        """Commit these branches, none of which is named twice, and move the token to ``value``.

        ``done`` is called once, behind all earlier work: when the record is appended, or with what is wrong. In the
        second case nothing was changed.
        """
        assert len(xids) <= COMMIT_SET_BRANCHES_MAX, len(xids)
        branches = self._branches

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

        self._deferred.add(decide())

    def _decide(
        self,
        name: str,
        expected: int | None,
        value: int,
        xids: Sequence[Xid],
        found: Sequence[Branch | None],
        done: Done,
    ) -> Iterator[None] | FencingTokenMoved | BranchMissing | Refused:
        """Return the work to do, or why nothing is done. From here on no other caller can decide the branches."""
        current = self._fencing_tokens.get(name)
        if current is not None and current >= value:
            return self._undo(xids, CommitSetDone(current, replayed=True), done)
        if current != expected:
            return FencingTokenMoved(current)
        prepared: list[Branch] = []
        for xid, branch in zip(xids, found, strict=True):
            # While the branch's record is still to come, records of its acknowledgements may be, too.
            if branch is None or branch.state is not BranchState.PREPARED or not branch.is_recorded:
                return self._missing(xid)
            prepared.append(branch)
        marker = self._fencing_tokens.move(name, expected, value)
        if not isinstance(marker, FencingToken):
            return marker
        return self._carry_out(marker, [self._branches.claim(branch) for branch in prepared], done)

    def _missing(self, xid: Xid) -> BranchMissing:
        branch = self._branches.find(xid)
        if branch is None:
            return BranchMissing(xid, False, self._branches.why_gone(xid))
        where = branch.state.value if branch.state is not BranchState.PREPARED else "being prepared"
        return BranchMissing(xid, True, f"{name_of(xid)} is {where}, not prepared")

    def _undo(self, xids: Sequence[Xid], result: CommitSetDone, done: Done) -> Iterator[None]:
        for xid in xids:
            self._branches.undo(xid, "the set it belongs to was committed before")
            yield
        done(result)

    def _carry_out(self, marker: FencingToken, transactions: list[Transaction], done: Done) -> Iterator[None]:
        commit = GroupCommit(self._transactions)
        for transaction in transactions:
            commit.add(transaction)
            yield
        first = commit.take_positions()
        self._store.note(CommitSet(marker, first, commit.transaction_ids, commit.places))
        commit.publish(first)
        done(CommitSetDone(marker.value))
        # Behind what observers receive of it: that contains deliveries that are freed here.
        self._deferred.add(commit.finish())
        yield
