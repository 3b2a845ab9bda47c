"""Facts: the data of records that are neither messages nor definitions. `Store` takes them, a restart restores them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from attrs import frozen

from embedclient.model import XaCode, Xid

__all__ = ["CommitSet", "DuplicateId", "FencingToken", "FencingTokenRemoved", "HeuristicOutcome"]


class DuplicateId(NamedTuple):
    """Record a duplicate id. Its ``number`` is unique; 0 means that it is not recorded."""

    number: int
    address_id: int
    value: bytes


@frozen
class HeuristicOutcome:
    """Record the decision of an operator on a prepared branch. Its transaction manager has not received it yet."""

    transaction_id: int
    xid: Xid
    committed: bool

    @property
    def code(self) -> XaCode:
        """Return the code that a transaction manager receives for the branch."""
        return XaCode.XA_HEURCOM if self.committed else XaCode.XA_HEURRB


@frozen
class FencingToken:
    """Record one fencing token. Its ``id`` is never reused, even if its name is."""

    id: int
    name: str
    value: int


@frozen
class FencingTokenRemoved:
    """Record the end of a fencing token."""

    id: int


@frozen
class CommitSet:
    """Record one commit set.

    ``places`` holds for each branch its transaction id and the number of durable queues that it sent to. For each of
    those it holds the queue id and the distance of the branch's first position above ``first_position``.
    """

    marker: FencingToken
    first_position: int
    transaction_ids: Sequence[int]
    places: Sequence[int]
