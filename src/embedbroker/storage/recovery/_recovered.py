"""The state that the journal hands to the kernel at the start: definitions, live messages, prepared transactions.

Responsible for handing it over in bounded portions. Does not interpret message bytes: they are restored by encoding
tag.

While a journal is replayed, messages are kept as exact tuples of numbers and bytes in one dictionary. The collector
stops tracking such tuples, so a full collection does not walk a million recovered messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from attrs import Factory, define

from embedbroker.kernel import (
    AddressDefinition,
    CursorDefinition,
    DivertDefinition,
    DuplicateId,
    FencingToken,
    GroupDecision,
    HeuristicOutcome,
    QueueDefinition,
    SettingsDefinition,
)

from ..journal._record_codec import DURABLE, GROUPED

__all__ = ["JournaledMessage", "RecoveredMessage", "RecoveredState", "RecoveredTransaction", "StoredMessage", "restore"]

# encoding, priority, flags, expiration, timestamp, wall ms, raw, then queue id and position of each reference
StoredMessage = tuple[int, int, int, int, int, int, bytes, *tuple[int, ...]]
REFERENCES = 7
_ONE_REFERENCE = REFERENCES + 2
_NO_COUNTS: dict[int, int] = {}


class JournaledMessage(Protocol):
    """The part of a stored message that a message record stores, and all of a recovered message."""

    def stored_bytes(self) -> bytes | bytearray: ...

    @property
    def encoding(self) -> int: ...

    @property
    def message_id(self) -> int: ...

    @property
    def durable(self) -> bool: ...

    @property
    def priority(self) -> int: ...

    @property
    def expiration(self) -> int: ...

    @property
    def timestamp(self) -> int: ...

    @property
    def deliver_at(self) -> int: ...

    @property
    def is_directed(self) -> bool:
        """Return True if it has a ``deliver_at`` or a group."""

    @property
    def is_grouped(self) -> bool: ...


class RecoveredMessage(NamedTuple):
    """One live message. ``references`` holds (queue id, position, delivery count) for each queue that has it."""

    message_id: int
    encoding: int
    priority: int
    durable: bool
    expiration: int
    timestamp: int
    wall_ms: int
    raw: bytes
    references: tuple[tuple[int, int, int], ...]
    deliver_at: int = 0
    is_grouped: bool = False

    @property
    def is_directed(self) -> bool:
        return self.is_grouped or self.deliver_at != 0

    def stored_bytes(self) -> bytes:
        """Return the bytes from which the encoding restores the message."""
        return self.raw


@define(eq=False)
class RecoveredTransaction:
    """A transaction that was prepared and neither committed nor rolled back.

    The messages of ``acknowledgements`` (message id, queue id) are among the live messages, or gone with their queue.
    The address of ``duplicate_ids`` may be gone, too.
    """

    transaction_id: int
    xid: bytes
    acknowledgements: Sequence[tuple[int, int]]
    duplicate_ids: Sequence[DuplicateId]
    _adds: dict[int, StoredMessage]
    _counts: dict[int, dict[int, int]]
    _queue_ids: frozenset[int]
    _deliver_at: dict[int, int] = Factory(dict)
    _left: Iterator[int] = Factory(lambda self: iter(list(self._adds)), takes_self=True)

    def take_adds(self, limit: int) -> list[RecoveredMessage]:
        """Take up to ``limit`` of the messages it sent, in order; an empty list means that all are taken.

        Their positions are ordinals, as they were before the commit. A message whose queues are all gone has no
        references.
        """
        return [
            restore(message_id, self._adds.pop(message_id), self._counts, self._queue_ids, self._deliver_at)
            for message_id in islice(self._left, limit)
        ]


@define(eq=False)
class RecoveredState:
    """Everything durable. It can be taken once; ``take_messages`` and ``take_duplicate_ids`` empty it in portions."""

    addresses: tuple[AddressDefinition, ...]
    queues: tuple[QueueDefinition, ...]
    transactions: tuple[RecoveredTransaction, ...]
    outcomes: tuple[HeuristicOutcome, ...]
    cursors: tuple[CursorDefinition, ...]
    # Ids and positions from this limit on were never used.
    id_limit: int
    # For the log: what was cut, kept as a copy, left out.
    notes: tuple[str, ...]
    _messages: dict[int, StoredMessage] = Factory(dict)
    _counts: dict[int, dict[int, int]] = Factory(dict)
    # By address: its ids in the order in which they came into force.
    _duplicate_ids: dict[int, dict[int, bytes]] = Factory(dict)
    _left: list[int] = Factory(list)
    _queue_ids: frozenset[int] = frozenset()
    _entries: Iterator[DuplicateId] = Factory(lambda: iter(()))
    # The identity of the journal, in whatever directory: the same in every life.
    identity: int = 0
    # Number of the last batch that was read, 0 for an empty journal.
    last_batch: int = 0
    fencing_tokens: tuple[FencingToken, ...] = ()
    # By message: the wall time before which it must not be delivered, where it has one.
    _deliver_at: dict[int, int] = Factory(dict)
    # By message and queue: when a delayed redelivery is due.
    delayed: dict[tuple[int, int], int] = Factory(dict)
    # Sizes of the files of large bodies, by their numbers.
    bodies: dict[int, int] = Factory(dict)
    diverts: tuple[DivertDefinition, ...] = ()
    settings: tuple[SettingsDefinition, ...] = ()
    groups: tuple[GroupDecision, ...] = ()
    # Queues that may hold messages of groups.
    grouped: frozenset[int] = frozenset()

    def __attrs_post_init__(self) -> None:
        self._queue_ids = frozenset([queue.id for queue in self.queues])
        self._left = list(self._messages)
        self._left.reverse()
        self._entries = (
            DuplicateId(number, address_id, value)
            for address_id, values in self._duplicate_ids.items()
            for number, value in values.items()
        )

    @property
    def messages_left(self) -> int:
        """The maximum number of messages that ``take_messages`` may still return."""
        return len(self._left)

    def take_messages(self, limit: int) -> list[RecoveredMessage]:
        """Take up to ``limit`` messages, in the order they were added; an empty list means that all are taken.

        References to queues that do not exist any more are left out, and with the last of them the message.
        """
        taken: list[RecoveredMessage] = []
        queue_ids, counts, messages = self._queue_ids, self._counts, self._messages
        deliver_at, grouped = self._deliver_at, self.grouped
        left = self._left
        while left and len(taken) < limit:
            message_id = left.pop()
            stored = messages.pop(message_id)
            if len(stored) == _ONE_REFERENCE and not counts and not deliver_at and not grouped:
                # Nearly all messages take this branch: its time is time to recover.
                encoding, priority, flags, expiration, timestamp, wall_ms, raw, *reference = stored
                queue_id, position = reference
                if queue_id in queue_ids:
                    taken.append(RecoveredMessage(
                        message_id, encoding, priority, flags & DURABLE != 0, expiration, timestamp, wall_ms, raw,
                        ((queue_id, position, 0),),
                    ))  # fmt: skip
                continue
            message = restore(message_id, stored, counts, queue_ids, deliver_at)
            if message.references:
                taken.append(message)
        return taken

    def take_duplicate_ids(self, limit: int) -> list[DuplicateId]:
        """Take up to ``limit`` ids, the oldest of each address first; an empty list means that all are taken."""
        return list(islice(self._entries, limit))


def restore(
    message_id: int,
    stored: StoredMessage,
    counts: dict[int, dict[int, int]],
    queue_ids: frozenset[int],
    deliver_at: dict[int, int],
) -> RecoveredMessage:
    """Turn the compact tuple of replay into the value the kernel takes, with references to these queues only."""
    encoding, priority, flags, expiration, timestamp, wall_ms, raw, *tail = stored
    references = [
        (queue_id, position, counts.get(queue_id, _NO_COUNTS).get(message_id, 0))
        for queue_id, position in zip(tail[::2], tail[1::2], strict=True)
        if queue_id in queue_ids
    ]
    durable = bool(flags & DURABLE)
    return RecoveredMessage(
        message_id,
        encoding,
        priority,
        durable,
        expiration,
        timestamp,
        wall_ms,
        raw,
        tuple(references),
        deliver_at.get(message_id, 0),
        bool(flags & GROUPED),
    )
