"""Batches: the unit of one write and one sync in a segment, and the walk of a reader over them.

Responsible for the batch header, its checksums and the walk that ends where the valid batches end. Does not judge the
meaning of an end (torn tail, corruption, old data): that requires the other segments, which ``_recovery`` has.

A batch starts at a multiple of 512 bytes and fills whole sectors. So a torn write of the next batch cannot touch one
that is synced. Little-endian, 64 bytes, then the records, then zeros up to the next sector::

     0  magic "EBJB" | format version u8 | flags u8 | header size u16
     8  journal identity u64
    16  segment generation u64
    24  batch number u64
    32  wall time i64                  Unix ms, when the batch was put together
    40  payload size u32 | two reserved u32, zero
    52  crc of the previous batch's body u32, 0 without a batch to follow
    56  crc of the body u32            records and padding
    60  crc of the header u32          bytes 0 to 59

Every byte of a batch is under one of the two checksums. The generation distinguishes it from remains of an earlier
life of the file, the identity from bytes that only look like a batch. The number and the previous crc tie it to its
place.
"""

from __future__ import annotations

from enum import IntFlag
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from attrs import define

from .._disk import SECTOR_BYTES

__all__ = [
    "BATCH_HEADER_BYTES",
    "FORMAT_VERSION",
    "BatchFlags",
    "BatchWalk",
    "encode_batch",
    "find_header",
    "stored_size",
]

FORMAT_VERSION = 1
MAGIC = b"EBJB"
HEADER = Struct("<4sBBHQQQqIIIIII")
CHECKED = HEADER.size - 4
BATCH_HEADER_BYTES = HEADER.size
ZEROS = bytes(SECTOR_BYTES)
_unpack = HEADER.unpack_from


class BatchFlags(IntFlag):
    """The flags of a batch.

    SEAL: nothing was outstanding when this batch was written. COMPACTED: written by compaction.
    """

    SEAL = 1
    COMPACTED = 2


def stored_size(payload_size: int) -> int:
    """Return the bytes that a batch with a payload of this size takes in its segment."""
    return (BATCH_HEADER_BYTES + payload_size + SECTOR_BYTES - 1) // SECTOR_BYTES * SECTOR_BYTES


def encode_batch(
    parts: list[bytes | bytearray],
    payload_size: int,
    *,
    identity: int,
    generation: int,
    number: int,
    wall_ms: int,
    previous_crc: int = 0,
    flags: int = 0,
) -> tuple[bytes, bytes, int]:
    """Return header, body and the body's crc.

    ``parts`` gets the padding appended: the one join copies every byte once.
    """
    parts.append(ZEROS[: stored_size(payload_size) - BATCH_HEADER_BYTES - payload_size])
    body = b"".join(parts)
    crc = crc32(body)
    head = HEADER.pack(
        MAGIC,
        FORMAT_VERSION,
        flags,
        BATCH_HEADER_BYTES,
        identity,
        generation,
        number,
        wall_ms,
        payload_size,
        0,
        0,
        previous_crc,
        crc,
        0,
    )[:CHECKED]
    return head + crc32(head).to_bytes(4, "little"), body, crc


class BatchExtent(NamedTuple):
    """One valid batch: the place of its records in the data that was walked, and its place in the file.

    Recovery makes one for each batch, and a batch may hold a single message.
    """

    number: int
    start: int
    end: int
    offset: int
    flags: int
    wall_ms: int


@define(eq=False)
class BatchWalk:
    """The walk over the batches of one segment, fed with consecutive stretches of the file.

    ``offset`` is where the next batch must start. ``number`` is the last valid batch's, None before the first. After
    ``feed`` either ``wanted`` is the number of bytes from ``offset`` that are needed to go on, or ``ended`` is true.
    ``damage`` then describes the fault of a batch that can be recognised there, or contains None.
    """

    identity: int
    generation: int
    offset: int
    number: int | None = None
    expected: int | None = None  # number the next batch must have, None: any
    crc: int | None = None  # of the last batch's body, None: unknown
    flags: int = 0
    wanted: int = 0
    ended: bool = False
    damage: str | None = None
    foreign: str | None = None  # a whole batch that this program cannot read: never to be cut

    def feed(self, data: bytes, base: int, at_end: bool) -> list[BatchExtent]:
        """Walk over the whole batches in ``data``, read at ``base``; ``at_end``: the file ends with it."""
        found: list[BatchExtent] = []
        position = self.offset - base
        available = len(data)
        view = memoryview(data)
        self.wanted = 0
        while not self.ended:
            if position + BATCH_HEADER_BYTES > available:
                self._need(BATCH_HEADER_BYTES, at_end)
                break
            header = _unpack(data, position)
            if not self._is_next(header, view[position : position + CHECKED]):
                self.ended = True
                break
            payload_size, body_crc = header[8], header[12]
            end = position + stored_size(payload_size)
            if end > available:
                if at_end:
                    self.damage = f"batch {header[6]} ends behind the end of the file"
                self._need(end - position, at_end)
                break
            start = position + BATCH_HEADER_BYTES
            if crc32(view[start:end]) != body_crc:
                self.damage = f"the checksum of batch {header[6]} does not fit its records"
                self.ended = True
                break
            found.append(BatchExtent(header[6], start, start + payload_size, base + position, header[2], header[7]))
            self.number, self.crc, self.flags = header[6], body_crc, header[2]
            self.expected = header[6] + 1
            position = end
            self.offset = base + end
        return found

    def _need(self, count: int, at_end: bool) -> None:
        if at_end:
            self.ended = True
        else:
            self.wanted = count

    def _is_next(self, header: tuple[object, ...], checked: memoryview) -> bool:
        """Return True if this is the whole header of the next batch; record the damage if it once was one."""
        magic, version, _flags, _size, identity, generation, number, *_rest, previous_crc, _body_crc, crc = header
        ours = generation == self.generation and (self.expected is None or number == self.expected)
        if crc32(checked) == crc and magic == MAGIC:
            if identity != self.identity or not ours:
                return False  # whole, but of another life of this file
            if version != FORMAT_VERSION:
                self.foreign = f"batch {number} has format version {version}; this program reads {FORMAT_VERSION}"
                return False
            if self.crc is not None and previous_crc not in (0, self.crc):
                self.damage = f"batch {number} does not follow the batch before it"
                return False
            return True
        # Two fields are enough to distinguish a damaged header from remains of an earlier life. No other batch ever has
        # this generation at this place or this number.
        if generation == self.generation or (self.expected is not None and number == self.expected):
            self.damage = f"the header of batch {self.expected or '?'} is damaged"
        return False


def find_header(data: bytes, base: int, *, identity: int, generation: int, above: int) -> tuple[int, int] | None:
    """Find a whole batch header of this life with a number greater than ``above``: (number, offset in the file).

    Such a header proves that all batches up to its predecessor were synced. ``base`` is a multiple of the sector size.
    """
    key = identity.to_bytes(8, "little") + generation.to_bytes(8, "little")
    position = data.find(key)
    while position >= 0:
        start = position - 8
        if start >= 0 and start % SECTOR_BYTES == 0 and start + BATCH_HEADER_BYTES <= len(data):
            header = _unpack(data, start)
            if header[0] == MAGIC and header[13] == crc32(memoryview(data)[start : start + CHECKED]):
                number: int = header[6]
                if number > above:
                    return number, base + start
        position = data.find(key, position + 1)
    return None
