"""A block of messages as a broker or a browser hands it over, and where the parts of each message stand in it.

Responsible for the layout of a block and for one walk over its messages. Refuses to decode what a part means.

Hot: `Block.places` runs once per message, so it is one loop over plain numbers without an object per message.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import CoreMessage

__all__ = ["Block", "Place", "pack_block"]

# The number of rows, and the position up to which the block is complete.
_BLOCK_HEAD: Final = Struct("<Iq")
# Behind the size: position, message id, wall time of the broker, delivery count, encoding, and three bytes of zero.
_ROW: Final = Struct("<IqqqIB3x")
_SIZE_BYTES: Final = 4
_BODY_END: Final = Struct(">i")
# In front of the address: whether there is one, and its length.
_ADDRESS: Final = Struct(">8xBi")
# Type, durable, expiration, timestamp, priority.
_FIXED: Final = Struct(">bBqqb")
_CORE: Final = int(CoreMessage.encoding)


class Place(NamedTuple):
    """Where one message stands in its block, with its numbers. Offsets count from the beginning of the block."""

    position: int
    message_id: int
    deliveries: int
    start: int
    body_end: int
    address_end: int
    type: int
    durable: int
    expiration: int
    timestamp: int
    priority: int
    properties: int
    end: int


class Block:
    """Rows as `cursor.read` answers them; `complete_until` is the position up to which nothing is missing."""

    def __init__(self, data: bytes) -> None:
        """Raises RemoteProtocolError."""
        try:
            self.count, self.complete_until = _BLOCK_HEAD.unpack_from(data)
        except StructError as error:
            raise RemoteProtocolError(f"a block of {len(data)} bytes has no head") from error
        self.data = data

    def places(self) -> list[Place]:
        """Each message of the block. Raises RemoteProtocolError."""
        data, at = self.data, _BLOCK_HEAD.size
        found: list[Place] = []
        row, body, address, fixed = _ROW.unpack_from, _BODY_END.unpack_from, _ADDRESS.unpack_from, _FIXED.unpack_from
        try:
            for _ in range(self.count):
                size, position, message_id, _wall, deliveries, encoding = row(data, at)
                start = at + _ROW.size
                at += size + _SIZE_BYTES
                if encoding != _CORE:
                    raise RemoteProtocolError(f"message {message_id} has encoding {encoding}, which nobody reads here")
                body_end = start + body(data, start)[0] - 9
                has_address, length = address(data, body_end)
                address_end = body_end + 13 + length if has_address else body_end + 9
                numbers = address_end + 17 if data[address_end] else address_end + 1
                # Not Place(...): the class would cost as much again as the rest of the row.
                found.append(
                    tuple.__new__(
                        Place,
                        (
                            *(position, message_id, deliveries, start, body_end, address_end),
                            *fixed(data, numbers),
                            numbers + _FIXED.size,
                            at,
                        ),
                    )
                )
        except (StructError, IndexError) as error:
            raise RemoteProtocolError(f"a malformed block: {error}") from error
        if at != len(data):
            raise RemoteProtocolError(f"a block of {len(data)} bytes says that it has {at}")
        return found

    def message(self, place: Place) -> CoreMessage:
        """The message that stands there."""
        return CoreMessage.parse(bytearray(self.data[place.start : place.end]))


def pack_block(messages: Iterable[tuple[int, int, CoreMessage]], complete_until: int = 0) -> Block:
    """A block of messages that came one by one: position, delivery count, message. Position 0 stands for none."""
    parts: list[bytes | bytearray] = [b""]
    count = 0
    for position, deliveries, message in messages:
        raw = message.raw
        size = _ROW.size - _SIZE_BYTES + len(raw)
        parts += (_ROW.pack(size, position, message.message_id, 0, deliveries, _CORE), raw)
        count += 1
    parts[0] = _BLOCK_HEAD.pack(count, complete_until)
    return Block(b"".join(parts))
