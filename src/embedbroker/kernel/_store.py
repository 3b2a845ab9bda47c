"""Where durable facts go: the port that the journal implements, and the store that keeps nothing.

The kernel reports what happened; it never handles files, offsets or bytes of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from attrs import define, field

from ._definitions import (
    AddressDefinition,
    CursorDefinition,
    CursorRemoved,
    DivertDefinition,
    DivertRemoved,
    GroupDecision,
    GroupDecisionRemoved,
    QueueDefinition,
    SettingsDefinition,
    SettingsRemoved,
)
from ._facts import CommitSet, DuplicateId, FencingToken, FencingTokenRemoved, HeuristicOutcome
from .message._body_store import BodyStore, MemoryBodies
from .message._message import Message

__all__ = ["Fact", "MemoryStore", "Store"]

Fact: TypeAlias = (
    FencingToken
    | FencingTokenRemoved
    | CommitSet
    | CursorDefinition
    | CursorRemoved
    | DivertDefinition
    | DivertRemoved
    | GroupDecision
    | GroupDecisionRemoved
    | SettingsDefinition
    | SettingsRemoved
)
"""The facts that `Store.note` accepts."""


class Store(Protocol):
    """Record durable facts in the order they happened. ``reached`` is the durability point that is already safe."""

    reached: int

    @property
    def bodies(self) -> BodyStore:
        """Return where the bodies of large messages are."""

    def point(self) -> int:
        """Return the durability point that covers everything appended so far."""

    def add_message(self, message: Message, transaction_id: int, references: Sequence[tuple[int, int]]) -> None:
        """Record the stored bytes of a message that went to queues: (queue id, position).

        In a transaction, the position is relative: its distance above the position that the commit names for the queue.
        """

    def add_run(
        self,
        messages: Sequence[Message],
        transaction_id: int,
        queue_id: int,
        first_position: int,
        replaced: Sequence[int] = (),
        origin_id: int = 0,
    ) -> None:
        """Like `add_message` for each of these messages of one queue, whose positions count from the first.

        Each may take the place of another message, without a transaction: that one leaves its queue, or neither
        happens. ``replaced`` has the ids of those, and ``origin_id`` is that of their queue.
        """

    def add_message_once(self, message: Message, references: Sequence[tuple[int, int]], entry: DuplicateId) -> None:
        """Like `add_message` and `add_duplicate_id` without a transaction: both become durable, or neither."""

    def add_run_once(self, messages: Sequence[Message], queue_id: int, entries: Sequence[DuplicateId]) -> None:
        """Like `add_message_once` for each of these messages of one queue. Their positions are their ids."""

    def add_duplicate_id(self, entry: DuplicateId, transaction_id: int) -> None:
        """Record an id that came with a message: it is in force, or will be with the commit."""

    def forget_duplicate_ids(self, numbers: Sequence[int]) -> None:
        """Record that ids are no longer in force, because newer ones took their places."""

    def clear_duplicate_ids(self, address_id: int, numbers: Sequence[int]) -> None:
        """Record that the ids with these numbers are no longer in force: all that an address has."""

    def acknowledge(self, message_id: int, queue_id: int, transaction_id: int) -> None:
        """Record that one queue has finished with one message."""

    def acknowledge_run(self, message_ids: Sequence[int], queue_id: int, transaction_id: int) -> None:
        """Like `acknowledge` for each of these messages of one queue."""

    def update_delivery_count(self, message_id: int, queue_id: int, count: int, due_ms: int = 0) -> None:
        """Record the number of deliveries of a message that came back to its queue, or is about to go out.

        It must not be delivered before the wall time ``due_ms``, 0 for none.
        """

    def prepare(self, transaction_id: int, xid: bytes) -> None:
        """Record that a transaction branch is prepared."""

    def commit(self, transaction_id: int, positions: Sequence[tuple[int, int]]) -> None:
        """Record that a transaction is committed: (queue id, first position) for every queue it sent to."""

    def rollback(self, transaction_id: int) -> None:
        """Record that a transaction is undone."""

    def add_outcome(self, outcome: HeuristicOutcome) -> None:
        """Record that a prepared branch is decided without its transaction manager.

        The transaction manager must still learn the decision.
        """

    def remove_outcome(self, transaction_id: int) -> None:
        """Record that the transaction manager has received the decision."""

    def add_address(self, definition: AddressDefinition) -> None:
        """Record that an address exists, or changed."""

    def remove_address(self, address_id: int) -> None:
        """Record that an address is removed."""

    def add_queue(self, definition: QueueDefinition) -> None:
        """Record that a durable queue exists, or changed."""

    def remove_queue(self, queue_id: int) -> None:
        """Record that a durable queue is removed, with everything in it."""

    def note(self, fact: Fact) -> None:
        """Record a rare event that one record describes completely."""

    def reserve_ids(self, limit: int) -> None:
        """Record that ids and positions below ``limit`` may have been used."""


@define(eq=False)
class MemoryStore:
    """Keep nothing, for a broker without a directory: everything counts as durable at once."""

    reached: int = 0
    bodies: MemoryBodies = field(factory=MemoryBodies)

    def point(self) -> int:
        return 0

    def add_message(self, message: Message, transaction_id: int, references: Sequence[tuple[int, int]]) -> None:
        pass

    def add_run(
        self,
        messages: Sequence[Message],
        transaction_id: int,
        queue_id: int,
        first_position: int,
        replaced: Sequence[int] = (),
        origin_id: int = 0,
    ) -> None:
        pass

    def add_message_once(self, message: Message, references: Sequence[tuple[int, int]], entry: DuplicateId) -> None:
        pass

    def add_run_once(self, messages: Sequence[Message], queue_id: int, entries: Sequence[DuplicateId]) -> None:
        pass

    def add_duplicate_id(self, entry: DuplicateId, transaction_id: int) -> None:
        pass

    def forget_duplicate_ids(self, numbers: Sequence[int]) -> None:
        pass

    def clear_duplicate_ids(self, address_id: int, numbers: Sequence[int]) -> None:
        pass

    def acknowledge(self, message_id: int, queue_id: int, transaction_id: int) -> None:
        pass

    def acknowledge_run(self, message_ids: Sequence[int], queue_id: int, transaction_id: int) -> None:
        pass

    def update_delivery_count(self, message_id: int, queue_id: int, count: int, due_ms: int = 0) -> None:
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
