"""Group commit: several prepared transactions that are committed with one record and one visibility entry.

Responsible for the positions of what they sent, in one range, and for the work that follows the record. Does not depend
on the record itself; the caller appends it between `GroupCommit.take_positions` and `GroupCommit.publish`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from .._deferred import drained
from ..queueing._queue import Queue
from ._transaction import Transaction, Transactions
from ._visibility import Sending

__all__ = ["GroupCommit"]


class GroupCommit:
    """Carry out one commit. ``places`` is what its record has of each transaction; see `CommitSet`."""

    __slots__ = ("_begins", "_counts", "_parts", "_size", "_transactions", "places", "transaction_ids")

    def __init__(self, parts: Transactions) -> None:
        self._parts = parts
        self._transactions: list[Transaction] = []
        self._begins: list[int] = []
        self._counts: dict[Queue, int] = {}
        self._size = 0
        self.places = array("q")
        self.transaction_ids: list[int] = []

    def add(self, transaction: Transaction) -> None:
        """Add a transaction: its messages stand behind those of the ones before it."""
        assert not transaction.unsettled, transaction.id
        at, counts, places = len(self.places), self._counts, self.places
        places.extend((transaction.id, 0))
        for queue, count in transaction.counts.items():
            counts[queue] = counts.get(queue, 0) + count
            if queue.durable and not queue.deleted:
                places.extend((queue.id, self._size))
                places[at + 1] += 1
        self._transactions.append(transaction)
        self.transaction_ids.append(transaction.id)
        self._begins.append(self._size)
        self._size += transaction.places

    def take_positions(self) -> int:
        """Take the range of positions; return the first one. The record must be appended in the same step."""
        return self._parts.ids.take(self._size) if self._size else 0

    def publish(self, first_position: int) -> None:
        """Publish the commit once its record is appended."""
        parts = self._parts
        for transaction in self._transactions:
            transaction.is_committed = True
        sent = self._all_sent() if self._size else None
        parts.publish(self._transactions, self.transaction_ids, parts.store.point(), sent, self._counts, first_position)

    def finish(self) -> Iterator[None]:
        """Carry out what follows from the commit, apart from what was sent, in portions."""
        for transaction in self._transactions:
            yield from transaction.finish_commit()

    def _all_sent(self) -> Iterator[Sending]:
        for transaction, begin in zip(self._transactions, self._begins, strict=True):
            for message, targets, place in drained(transaction.sent):
                yield message, targets, begin + place
