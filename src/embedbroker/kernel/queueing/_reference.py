"""A message in a queue, as an object and as plain values.

Does not depend on queues, chunks and protocols.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import TypeAlias

from ..message._message import Message

__all__ = ["PackedReference", "Reference", "Restore", "pack", "packed_position", "position_of", "unpack"]


class Reference:
    """Hold one message in one queue. Identity matters: it is in exactly one place (backlog, delivery, transaction)."""

    __slots__ = ("delivery_count", "message", "position")

    def __init__(self, message: Message, position: int, delivery_count: int = 0) -> None:
        self.message = message
        self.position = position
        self.delivery_count = delivery_count


PackedReference: TypeAlias = tuple[int, int, int, int, bytes | bytearray, int, bool]
"""(position, delivery count, expiration, encoding, stored bytes, message id, durable)"""

Restore: TypeAlias = Callable[[int, bytes | bytearray], Message]
"""Build a message from its encoding tag and its stored bytes; see `Message.stored_bytes`."""

position_of = attrgetter("position")
packed_position = itemgetter(0)


def pack(reference: Reference) -> PackedReference:
    """Return the plain values of a reference and its message."""
    message = reference.message
    return (
        reference.position,
        reference.delivery_count,
        message.expiration,
        message.encoding,
        message.stored_bytes(),
        message.message_id,
        message.durable,
    )


def unpack(packed: PackedReference, restore: Restore) -> Reference:
    """Return a new reference with these values."""
    position, delivery_count, _expiration, encoding, stored, _message_id, _durable = packed
    return Reference(restore(encoding, stored), position, delivery_count)
