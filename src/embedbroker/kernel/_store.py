"""Where durable facts go: the port that the journal implements, and the store that keeps nothing.

The kernel says what happened; it never sees files, offsets or bytes of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from attrs import define

from embedclient.model import Message

from ._definitions import AddressDefinition, CursorDefinition, CursorRemoved, QueueDefinition
from ._facts import CommitSet, DuplicateId, FencingToken, FencingTokenRemoved, HeuristicOutcome

__all__ = ["Fact", "MemoryStore", "Store"]

Fact: TypeAlias = FencingToken | FencingTokenRemoved | CommitSet | CursorDefinition | CursorRemoved
"""What `Store.note` takes."""


class Store(Protocol):
    """Durable facts in the order they happened. ``reached`` is the durability point that is already safe."""

    reached: int

    def point(self) -> int:
        """Return the durability point that covers everything appended so far."""

    def add_message(self, message: Message, transaction_id: int, references: Sequence[tuple[int, int]]) -> None:
        """A message went to queues: (queue id, position).

        In a transaction that is how far the position will be above the one that the commit names for the queue.
        """

    def add_message_once(self, message: Message, references: Sequence[tuple[int, int]], entry: DuplicateId) -> None:
        """`add_message` and `add_duplicate_id` without a transaction: both become durable, or none."""

    def add_duplicate_id(self, entry: DuplicateId, transaction_id: int) -> None:
        """An id came with a message: it is in force, or will be with the commit."""

    def forget_duplicate_id(self, number: int) -> None:
        """An id is not in force any more, because newer ones took its place."""

    def acknowledge(self, message_id: int, queue_id: int, transaction_id: int) -> None:
        """One queue is done with one message."""

    def update_delivery_count(self, message_id: int, queue_id: int, count: int) -> None:
        """A message was delivered so often: it came back to its queue, or is about to go out."""

    def prepare(self, transaction_id: int, xid: bytes) -> None:
        """A transaction branch is prepared."""

    def commit(self, transaction_id: int, positions: Sequence[tuple[int, int]]) -> None:
        """A transaction is committed: (queue id, first position) for every queue it sent to."""

    def rollback(self, transaction_id: int) -> None:
        """A transaction is undone."""

    def add_outcome(self, outcome: HeuristicOutcome) -> None:
        """A prepared branch is decided without its transaction manager, which is still to be told."""

    def remove_outcome(self, transaction_id: int) -> None:
        """That transaction manager knows."""

    def add_address(self, definition: AddressDefinition) -> None:
        """An address exists, or changed."""

    def remove_address(self, address_id: int) -> None:
        """An address is gone."""

    def add_queue(self, definition: QueueDefinition) -> None:
        """A durable queue exists, or changed."""

    def remove_queue(self, queue_id: int) -> None:
        """A durable queue is gone, with everything in it."""

    def note(self, fact: Fact) -> None:
        """Something rare happened, whose record says all of it."""

    def reserve_ids(self, limit: int) -> None:
        """Ids and positions below ``limit`` may have been used."""


@define(eq=False)
class MemoryStore:
    """The store of a broker without a directory: everything is as durable as it will ever be, at once."""

    reached: int = 0

    def point(self) -> int:
        return 0

    def add_message(self, message: Message, transaction_id: int, references: Sequence[tuple[int, int]]) -> None:
        pass

    def add_message_once(self, message: Message, references: Sequence[tuple[int, int]], entry: DuplicateId) -> None:
        pass

    def add_duplicate_id(self, entry: DuplicateId, transaction_id: int) -> None:
        pass

    def forget_duplicate_id(self, number: int) -> None:
        pass

    def acknowledge(self, message_id: int, queue_id: int, transaction_id: int) -> None:
        pass

    def update_delivery_count(self, message_id: int, queue_id: int, count: int) -> None:
        pass

    def prepare(self, transaction_id: int, xid: bytes) -> None:
        pass

    def commit(self, transaction_id: int, positions: Sequence[tuple[int, int]]) -> None:
        pass

    def rollback(self, transaction_id: int) -> None:
        pass

    def add_outcome(self, outcome: HeuristicOutcome) -> None:
        pass

    def remove_outcome(self, transaction_id: int) -> None:
        pass

    def add_address(self, definition: AddressDefinition) -> None:
        pass

    def remove_address(self, address_id: int) -> None:
        pass

    def add_queue(self, definition: QueueDefinition) -> None:
        pass

    def remove_queue(self, queue_id: int) -> None:
        pass

    def note(self, fact: Fact) -> None:
        pass

    def reserve_ids(self, limit: int) -> None:
        pass
