"""Copies of moved messages: they are placed like messages that are sent, in the transaction of the move."""

from __future__ import annotations

from ..addressing._address import Address
from ..message._message import Message
from ..queueing._queue import Queue
from ..settling._unit_of_work import UnitOfWork
from ._duplicate_ids import DuplicateIds
from ._placement import Placement
from ._transaction import Transaction, Transactions

__all__ = ["CopyPlacement"]


class CopyPlacement:
    """Place copies; the `CopySender` of `MessageMover`."""

    __slots__ = ("_duplicates", "_placement", "_transactions")

    def __init__(self, transactions: Transactions, placement: Placement, duplicates: DuplicateIds) -> None:
        self._transactions = transactions
        self._placement = placement
        self._duplicates = duplicates

    def begin(self) -> Transaction:
        """Open a transaction for a move."""
        return self._transactions.begin()

    def send_copy(self, copy: Message, address: Address, targets: list[Queue], transaction: UnitOfWork | None) -> None:
        """Place a copy that is routed. Its duplicate id is not checked, but comes into force.

        That of a copy for another broker does so there.
        """
        assert transaction is None or isinstance(transaction, Transaction)
        if targets[0].definition.internal:
            self._placement.place(copy, targets, transaction)
            return
        self._placement.place_at(copy, address, targets, transaction)
        duplicate_id = copy.duplicate_id
        if duplicate_id is not None:
            self._duplicates.accept(self._duplicates.identify(address, duplicate_id), transaction)
