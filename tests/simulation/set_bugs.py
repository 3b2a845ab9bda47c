"""Bugs of a broker with commit sets and markers, put in one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from embedbroker.kernel import CommitSet, Fact, FencingToken, Transaction
from embedbroker.kernel.xa._commit_set import CommitSets
from embedbroker.kernel.xa._fencing_token import FencingTokens
from embedbroker.storage import Journal
from embedbroker.storage.journal._segments import Segment
from embedbroker.storage.recovery._replay import Replay

from .fault_points import fault_point, replace
from .hunting import Bug

__all__ = ["SET_BUGS"]


def commit_half_of_a_set(patch: pytest.MonkeyPatch) -> None:
    """The last branch is rolled back, in memory and on the disk."""
    carry_out = fault_point("carry out a set")

    def halved(self: CommitSets, marker: FencingToken, transactions: list[Transaction], done: Any) -> Any:
        if len(transactions) > 1:
            transactions.pop().rollback()
        return carry_out(self, marker, transactions, done)

    replace(patch, "carry out a set", halved)


def record_a_marker_without_its_set(patch: pytest.MonkeyPatch) -> None:
    note = Journal.note

    def careless(self: Journal, fact: Fact) -> None:
        note(self, fact.marker if isinstance(fact, CommitSet) else fact)

    patch.setattr(Journal, "note", careless)


def record_a_set_without_its_marker(patch: pytest.MonkeyPatch) -> None:
    carry_out = fault_point("replay a set")

    def forgetful(self: Replay, data: bytes, position: int, end: int, segment: Segment) -> Any:
        fencing_tokens = dict(self.fencing_tokens)
        size = yield from carry_out(self, data, position, end, segment)
        self.fencing_tokens = fencing_tokens
        return size

    replace(patch, "replay a set", forgetful)


def forget_markers_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    def restore(_self: FencingTokens, _fencing_tokens: Iterable[FencingToken]) -> None:
        return None

    patch.setattr(FencingTokens, "restore", restore)


def commit_a_set_that_comes_again(patch: pytest.MonkeyPatch) -> None:
    """A marker counts as one less than it is, so that the same number is the next one once more."""
    decide = fault_point("decide on a set")

    def lenient(self: CommitSets, name: str, expected: int | None, value: int, *rest: Any) -> Any:
        if self._fencing_tokens.get(name) == value:
            self._fencing_tokens.move(name, value, value - 1)
            expected = value - 1
        return decide(self, name, expected, value, *rest)

    replace(patch, "decide on a set", lenient)


def leave_what_a_replayed_set_prepared(patch: pytest.MonkeyPatch) -> None:
    def idle(_self: CommitSets, _xids: Any, result: Any, done: Any) -> Iterator[None]:
        done(result)
        yield

    replace(patch, "undo a set", idle)


SET_BUGS: list[Bug] = [
    commit_half_of_a_set,
    record_a_marker_without_its_set,
    record_a_set_without_its_marker,
    forget_markers_in_a_restart,
    commit_a_set_that_comes_again,
    leave_what_a_replayed_set_prepared,
]
