"""Packets by which one broker of ours keeps a copy of another broker's files.

Responsible for the layouts of synchronisation, disk work and answers. Does not depend on files and disks: operations
are numbers, names and bytes here. Artemis has separate packets for its replication (90 to 103, 120, 121). These carry
different data, with types that Artemis does not support.

All of it goes over the stream channel, behind a `ReplicaRegistration` (``_enclosed``). The frames sent per disk batch
or per chunk of a file are written in pieces around the data, which is not copied here.

A work frame::

     0  frame header, type -106
    13  crc u32                        of everything behind it
    17  lane u8 | three numbers of works u64: this one, and those that must be done before it in lanes 0 and 1
    42  operations, one behind the other:
        code u8 | size of the name u16 | name, UTF-8 | operands of the code:
        1 write        offset u64 | size u32 | data
        2 sync         nothing
        3 rename       size of the new name u16 | new name
        4 allocate     size u64
        5 truncate     size u64
        6 remove       nothing
        7 sync names   nothing, and no name

A chunk frame::

     0  frame header, type -105
    13  crc u32                        of everything behind it
    17  number of the chunk u64 | file u32, index in the list of files | offset u64
    37  data
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple
from zlib import crc32

from ...errors import LocalProtocolError, RemoteProtocolError
from ._framing import FRAME_HEADER, FRAME_HEADER_SIZE
from ._packet_table import (
    Kind,
    Packet,
    Record,
    counted_bytes,
    flag,
    i8,
    i32,
    i64,
    of_kind,
    record,
    sequence,
    simple_string,
    string,
)

Piece = bytes | bytearray

_CRC = Struct(">I")
_WORK = Struct(">BQQQ")
_CHUNK = Struct(">QIQ")
_NAME = Struct(">BH")
_WRITE = Struct(">QI")
_SIZE = Struct(">Q")
_SHORT = Struct(">H")
# Far above any real file, and below the numbers that a disk treats as negative.
_NUMBER_MAX = 1 << 60


class StreamType(IntEnum):
    """The packet types of this family."""

    ACCEPTED = -101
    REFUSED = -102
    INVENTORY = -103
    COPY_BEGIN = -104
    CHUNK = -105
    WORK = -106
    MARK = -107
    ANSWER = -108
    FAREWELL = -109


class StreamMark(IntEnum):
    """SYNC: make everything so far survive a power cut. HAND_OVER: that, and be in sync from here on."""

    SYNC = 1
    HAND_OVER = 2


class Farewell(IntEnum):
    """STOP_CALLED: an orderly stop has begun, FAIL_OVER ends it. BROKEN: this end cannot continue."""

    STOP_CALLED = 1
    FAIL_OVER = 2
    BROKEN = 3


class OperationCode(IntEnum):
    """An operation on a file."""

    WRITE = 1
    SYNC = 2
    RENAME = 3
    ALLOCATE = 4
    TRUNCATE = 5
    REMOVE = 6
    SYNC_NAMES = 7
    ZERO = 8


class ReplicaAccepted(Packet):
    """The primary accepts the backup, and waits for its inventory."""

    TYPE = StreamType.ACCEPTED
    format: int = i32()
    node_id: str = string()
    journal_identity: int = i64()
    activation_sequence: int = i64()
    allows_fail_back: bool = flag()


class ReplicaRefused(Packet):
    """The primary rejects the backup: a ``BackupRegistrationProblem``, and a reason."""

    TYPE = StreamType.REFUSED
    problem: int = i32()
    text: str = string()


class HeldFile(Record):
    """A backup's part of a file: its valid bytes, and their digest."""

    name: str = simple_string()
    size: int = i64()
    digest: bytes = counted_bytes()


held_files: Kind[tuple[HeldFile, ...]] = sequence(record(HeldFile), 16)


class ReplicaInventory(Packet):
    """The backup's earlier files. ``newest`` names the file with the end of its history, "" when it has none."""

    TYPE = StreamType.INVENTORY
    journal_identity: int = i64()
    newest: str = simple_string()
    files: tuple[HeldFile, ...] = of_kind(held_files)


class CopiedFile(Record):
    """A file of the copy: the number of bytes already present, and its length."""

    name: str = simple_string()
    kept: int = i64()
    size: int = i64()


copied_files: Kind[tuple[CopiedFile, ...]] = sequence(record(CopiedFile), 20)


class CopyBegin(Packet):
    """The files of the copy. Their chunks follow, beside the work that continues. ``afresh``: put all others aside."""

    TYPE = StreamType.COPY_BEGIN
    afresh: bool = flag()
    files: tuple[CopiedFile, ...] = of_kind(copied_files)


class CopyMark(Packet):
    """A place in the stream: a ``StreamMark`` with the number of its answer."""

    TYPE = StreamType.MARK
    mark: int = i8()
    number: int = i64()


class StreamAnswer(Packet):
    """The backup has done everything in a lane up to a number."""

    TYPE = StreamType.ANSWER
    lane: int = i8()
    number: int = i64()


class StreamFarewell(Packet):
    """A ``Farewell``; ``text`` is the reason of a broken stream."""

    TYPE = StreamType.FAREWELL
    kind: int = i8()
    text: str = string()


PACKETS: tuple[type[Packet], ...] = (
    ReplicaAccepted,
    ReplicaRefused,
    ReplicaInventory,
    CopyBegin,
    CopyMark,
    StreamAnswer,
    StreamFarewell,
)


class StreamOperation(NamedTuple):
    """One operation: ``number`` is an offset or a size, ``other`` a new name, ``size`` a number of zero bytes."""

    code: int
    file: str
    number: int = 0
    data: Sequence[Piece] = ()
    other: str = ""
    size: int = 0


class StreamWork(NamedTuple):
    """One piece of disk work. ``after`` are the numbers of works that must be done before it, by lane."""

    lane: int
    number: int
    after: tuple[int, int]
    operations: Sequence[StreamOperation]


class StreamChunk(NamedTuple):
    """A part of a file in its state when the copy began."""

    number: int
    file: int
    offset: int
    data: Piece


def encode_work(work: StreamWork, channel_id: int) -> list[Piece]:
    """Return a whole frame in pieces. The data of writes is among them, uncopied.

    Raise LocalProtocolError when a value does not fit.
    """
    try:
        pieces: list[Piece] = [b"", _WORK.pack(work.lane, work.number, *work.after)]
        for operation in work.operations:
            _append_operation(pieces, operation)
    except StructError as error:
        raise LocalProtocolError(f"work {work.number} of lane {work.lane} cannot be encoded: {error}") from error
    return _framed(pieces, StreamType.WORK, channel_id)


def encode_chunk(chunk: StreamChunk, channel_id: int) -> list[Piece]:
    """Return a whole frame in pieces.

    Raise LocalProtocolError when a value does not fit.
    """
    try:
        head = _CHUNK.pack(chunk.number, chunk.file, chunk.offset)
    except StructError as error:
        raise LocalProtocolError(f"chunk {chunk.number} cannot be encoded: {error}") from error
    return _framed([b"", head, chunk.data], StreamType.CHUNK, channel_id)


def _append_operation(pieces: list[Piece], operation: StreamOperation) -> None:
    code, file, number, data, other, size = operation
    name = file.encode()
    head = _NAME.pack(code, len(name)) + name
    if code == OperationCode.WRITE:
        pieces.append(head + _WRITE.pack(number, sum(map(len, data))))
        pieces.extend(data)
    elif code == OperationCode.ZERO:
        pieces.append(head + _WRITE.pack(number, size))
    elif code == OperationCode.RENAME:
        new = other.encode()
        pieces.append(head + _SHORT.pack(len(new)) + new)
    elif code in (OperationCode.ALLOCATE, OperationCode.TRUNCATE):
        pieces.append(head + _SIZE.pack(number))
    else:
        pieces.append(head)


def _framed(pieces: list[Piece], packet_type: int, channel_id: int) -> list[Piece]:
    """Put the frame header and the checksum in front. The first piece is their place."""
    crc = size = 0
    for piece in pieces:
        crc = crc32(piece, crc)
        size += len(piece)
    length = FRAME_HEADER_SIZE - 4 + _CRC.size + size
    pieces[0] = FRAME_HEADER.pack(length, packet_type, channel_id) + _CRC.pack(crc)
    return pieces


def _checked(buffer: Piece, start: int, end: int, size_min: int) -> int:
    """Return where the body behind the checksum starts. Raise an error unless it is whole."""
    body = start + FRAME_HEADER_SIZE + _CRC.size
    if end - body < size_min:
        raise RemoteProtocolError(f"a frame of {end - start} bytes in a stream of disk work")
    with memoryview(buffer) as view:
        crc = crc32(view[body:end])
    if crc != _CRC.unpack_from(buffer, start + FRAME_HEADER_SIZE)[0]:
        raise RemoteProtocolError("the checksum of a frame in a stream of disk work does not fit")
    return body


def decode_chunk(buffer: Piece, start: int, end: int) -> StreamChunk:
    """Read a whole chunk frame. Its data is copied out of the buffer. Raise RemoteProtocolError."""
    body = _checked(buffer, start, end, _CHUNK.size)
    number, file, offset = _CHUNK.unpack_from(buffer, body)
    _check_number(offset)
    with memoryview(buffer) as view:
        return StreamChunk(number, file, offset, bytes(view[body + _CHUNK.size : end]))


def decode_work(buffer: Piece, start: int, end: int) -> StreamWork:
    """Read a whole work frame. Its data is copied out of the buffer. Raise RemoteProtocolError."""
    body = _checked(buffer, start, end, _WORK.size)
    lane, number, after_first, after_second = _WORK.unpack_from(buffer, body)
    operations = []
    position = body + _WORK.size
    with memoryview(buffer) as view, view[:end] as frame:
        try:
            while position < end:
                operation, position = _read_operation(frame, position)
                operations.append(operation)
        except StructError:
            raise RemoteProtocolError("an operation in a stream of disk work is cut short") from None
        except UnicodeDecodeError:
            raise RemoteProtocolError("a file name in a stream of disk work is no text") from None
    return StreamWork(lane, number, (after_first, after_second), operations)


def _read_operation(frame: memoryview, position: int) -> tuple[StreamOperation, int]:
    code, size = _NAME.unpack_from(frame, position)
    name, position = _take(frame, position + _NAME.size, size)
    file = name.decode()
    if code == OperationCode.WRITE:
        offset, size = _WRITE.unpack_from(frame, position)
        _check_number(offset)
        data, position = _take(frame, position + _WRITE.size, size)
        return StreamOperation(code, file, offset, (data,)), position
    if code == OperationCode.ZERO:
        offset, size = _WRITE.unpack_from(frame, position)
        _check_number(offset)
        return StreamOperation(code, file, offset, size=size), position + _WRITE.size
    if code == OperationCode.RENAME:
        (size,) = _SHORT.unpack_from(frame, position)
        name, position = _take(frame, position + _SHORT.size, size)
        return StreamOperation(code, file, other=name.decode()), position
    if code in (OperationCode.ALLOCATE, OperationCode.TRUNCATE):
        (number,) = _SIZE.unpack_from(frame, position)
        _check_number(number)
        return StreamOperation(code, file, number), position + _SIZE.size
    if code not in (OperationCode.SYNC, OperationCode.REMOVE, OperationCode.SYNC_NAMES):
        raise RemoteProtocolError(f"unknown operation {code} in a stream of disk work")
    return StreamOperation(code, file), position


def _take(frame: memoryview, position: int, size: int) -> tuple[bytes, int]:
    end = position + size
    if end > len(frame):
        raise RemoteProtocolError("an operation in a stream of disk work is cut short")
    return bytes(frame[position:end]), end


def _check_number(number: int) -> None:
    if number > _NUMBER_MAX:
        raise RemoteProtocolError(f"no file has an offset or a size of {number} bytes")


__all__: Final = [
    "CopiedFile",
    "CopyBegin",
    "CopyMark",
    "Farewell",
    "HeldFile",
    "OperationCode",
    "ReplicaAccepted",
    "ReplicaInventory",
    "ReplicaRefused",
    "StreamAnswer",
    "StreamChunk",
    "StreamFarewell",
    "StreamMark",
    "StreamOperation",
    "StreamType",
    "StreamWork",
    "decode_chunk",
    "decode_work",
    "encode_chunk",
    "encode_work",
]
