"""A block of messages from a broker or a browser, and the place of each part of each message in it.

Responsible for the layout of a block and for one walk over its messages. Does not decode the parts.

Hot: each fact about the messages of a block is a column of numbers; there is no object per message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

import numpy as np

from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import CoreMessage

from ._vectors import Array, fields_at

__all__ = ["Block", "FramePosition", "FramePositions", "pack_block"]

# The number of rows, and the position up to which the block is complete.
_BLOCK_HEAD: Final = Struct("<Iq")
# Behind the size: position, message id, wall time of the broker, delivery count, encoding, and three bytes of zero.
_ROW: Final = Struct("<IqqqIB3x")
_SIZE: Final = Struct("<I")
_SIZE_BYTES: Final = _SIZE.size
# The same for numpy.
_ROW_FIELDS: Final = np.dtype(
    [("size", "<u4"), ("position", "<i8"), ("message_id", "<i8"), ("wall", "<i8"), ("deliveries", "<u4"),
     ("encoding", "u1"), ("zero", "V3")]
)  # fmt: skip
_SIZE_FIELD: Final = np.dtype("<u4")
_BODY_END: Final = np.dtype(">i4")
# The message id of the sender's broker; whether there is an address, and its length.
_ADDRESS: Final = np.dtype([("id", ">i8"), ("is_there", "u1"), ("length", ">i4")])
_FIXED: Final = np.dtype(
    [("type", "i1"), ("durable", "u1"), ("expiration", ">i8"), ("timestamp", ">i8"), ("priority", "i1")]
)
_FIXED_NAMES: Final = ("type", "durable", "expiration", "timestamp", "priority")
_FLAG: Final = np.dtype("u1")
_UUID_BYTES: Final = 16
_CORE: Final = int(CoreMessage.encoding)


class FramePosition(NamedTuple):
    """Hold the place of one message in its block, with its numbers. Offsets count from the beginning of the block."""

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


class FramePositions:
    """Hold the places of all messages of a block: a column of 64-bit numbers for each field of `FramePosition`."""

    def __init__(self, columns: dict[str, Array]) -> None:
        """Take columns by the names of `FramePosition`, of one length."""
        self.position = columns["position"]
        self.message_id = columns["message_id"]
        self.deliveries = columns["deliveries"]
        self.start = columns["start"]
        self.body_end = columns["body_end"]
        self.address_end = columns["address_end"]
        self.type = columns["type"]
        self.durable = columns["durable"]
        self.expiration = columns["expiration"]
        self.timestamp = columns["timestamp"]
        self.priority = columns["priority"]
        self.properties = columns["properties"]
        self.end = columns["end"]

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, row: int) -> FramePosition:
        return FramePosition(*(int(getattr(self, name)[row]) for name in FramePosition._fields))

    def __iter__(self) -> Iterator[FramePosition]:
        return map(self.__getitem__, range(len(self)))


class Block:
    """Hold rows in the form of `cursor.read`; `complete_until` is the position up to which nothing is missing."""

    def __init__(self, data: bytes) -> None:
        """Check the head of the block. Raises RemoteProtocolError."""
        try:
            self.count, self.complete_until = _BLOCK_HEAD.unpack_from(data)
        except StructError as error:
            raise RemoteProtocolError(f"a block of {len(data)} bytes has no head") from error
        self.data = data

    @cached_property
    def buffer(self) -> Array:
        """Return the same bytes for numpy."""
        return np.frombuffer(self.data, dtype=np.uint8)

    def places(self) -> FramePositions:
        """Return the place of each message of the block. Raises RemoteProtocolError."""
        try:
            rows = self._rows()
            return self._places(rows)
        except (StructError, IndexError) as error:
            raise RemoteProtocolError(f"a malformed block: {error}") from error

    def _rows(self) -> Array:
        """Return the start of each row.

        Most often all rows are equally long; otherwise each contains the offset of the next.
        """
        data, buffer, head = self.data, self.buffer, _BLOCK_HEAD.size
        if self.count > len(data):
            raise RemoteProtocolError(
                f"a block of {len(data)} bytes cannot hold the {self.count} messages that its head announces"
            )
        if self.count:
            step, rest = divmod(len(data) - head, self.count)
            rows = np.arange(self.count, dtype=np.int64) * step + head
            if not rest and step > _SIZE_BYTES and (fields_at(buffer, rows, _SIZE_FIELD) == step - _SIZE_BYTES).all():
                return rows
        found, at, size = [], head, _SIZE.unpack_from
        for _ in range(self.count):
            found.append(at)
            at += size(data, at)[0] + _SIZE_BYTES
        if at != len(data):
            raise RemoteProtocolError(f"the messages of a block of {len(data)} bytes announce a size of {at}")
        return np.array(found, dtype=np.int64)

    def _places(self, rows: Array) -> FramePositions:
        buffer = self.buffer
        heads = fields_at(buffer, rows, _ROW_FIELDS)
        encoding = heads["encoding"]
        if (encoding != _CORE).any():
            wrong = int((encoding != _CORE).argmax())
            which = f"message {heads['message_id'][wrong]} has encoding {encoding[wrong]}"
            raise RemoteProtocolError(f"{which}, which cannot be read here; expected {_CORE}")
        start, end = rows + _ROW.size, rows + heads["size"].astype(np.int64) + _SIZE_BYTES
        body_end = start + fields_at(buffer, start, _BODY_END) - 9
        address = fields_at(buffer, body_end, _ADDRESS)
        address_end = body_end + np.where(address["is_there"] != 0, address["length"].astype(np.int64) + 13, 9)
        has_id = fields_at(buffer, address_end, _FLAG) != 0
        numbers = address_end + np.where(has_id, 1 + _UUID_BYTES, 1)
        fixed = fields_at(buffer, numbers, _FIXED)
        properties = numbers + _FIXED.itemsize
        is_good = (start + 4 <= body_end) & (body_end + 9 <= address_end) & (properties < end)
        if not is_good.all():
            which = heads["message_id"][(~is_good).argmax()]
            raise RemoteProtocolError(f"a malformed block: the parts of message {which} are not within it")
        columns = {name: heads[name].astype(np.int64) for name in ("position", "message_id", "deliveries")}
        columns |= {name: fixed[name].astype(np.int64) for name in _FIXED_NAMES}
        columns |= {"start": start, "body_end": body_end, "address_end": address_end}
        return FramePositions({**columns, "properties": properties, "end": end})

    def message(self, place: FramePosition) -> CoreMessage:
        """Return the message at this place."""
        return CoreMessage.parse(bytearray(self.data[place.start : place.end]))


def pack_block(messages: Iterable[tuple[int, int, CoreMessage]], complete_until: int = 0) -> Block:
    """Return a block of messages that came one by one: position, delivery count, message.

    Position 0 stands for none.
    """
    parts: list[bytes | bytearray] = [b""]
    count = 0
    for position, deliveries, message in messages:
        raw = message.raw
        size = _ROW.size - _SIZE_BYTES + len(raw)
        parts += (_ROW.pack(size, position, message.message_id, 0, deliveries, _CORE), raw)
        count += 1
    parts[0] = _BLOCK_HEAD.pack(count, complete_until)
    return Block(b"".join(parts))
