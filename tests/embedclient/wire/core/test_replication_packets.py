"""The packets of replication against worked bytes, cut short, and with any bit wrong."""

from __future__ import annotations

from zlib import crc32

import pytest

from embedclient.errors import LocalProtocolError, RemoteProtocolError
from embedclient.wire.core import (
    CopiedFile,
    CopyBegin,
    CopyMark,
    Farewell,
    HeldFile,
    OperationCode,
    Packet,
    ReplicaAccepted,
    ReplicaInventory,
    ReplicaRefused,
    StreamAnswer,
    StreamChunk,
    StreamFarewell,
    StreamMark,
    StreamOperation,
    StreamWork,
    decode_chunk,
    decode_packet,
    decode_work,
    encode_chunk,
    encode_packet,
    encode_work,
)

# Frames worked out by hand from the layouts.
WORKED: list[tuple[Packet, str]] = [
    (
        ReplicaAccepted(1, "n1", 2, 3, True),
        "00000026 9B 0000000000000002 00000001 00000002 006E 0031 0000000000000002 0000000000000003 FF",
    ),
    (ReplicaRefused(2, "no"), "00000015 9A 0000000000000002 00000002 00000002 006E 006F"),
    (
        ReplicaInventory(5, "s", (HeldFile("s", 9, b"\1\2"),)),
        "0000002F 99 0000000000000002 0000000000000005 00000002 7300"
        "00000001 00000002 7300 0000000000000009 00000002 0102",
    ),
    (
        CopyBegin(True, (CopiedFile("s", 1, 9),)),
        "00000024 98 0000000000000002 FF 00000001 00000002 7300 0000000000000001 0000000000000009",
    ),
    (CopyMark(StreamMark.HAND_OVER, 7), "00000012 95 0000000000000002 02 0000000000000007"),
    (StreamAnswer(1, 300), "00000012 94 0000000000000002 01 000000000000012C"),
    (StreamFarewell(Farewell.BROKEN, "x"), "00000010 93 0000000000000002 03 00000001 0078"),
]
WORK = StreamWork(
    1,
    3,
    (2, 1),
    [
        StreamOperation(OperationCode.WRITE, "a", 512, (b"xyz",)),
        StreamOperation(OperationCode.RENAME, "a", other="b"),
        StreamOperation(OperationCode.ALLOCATE, "b", 4096),
        StreamOperation(OperationCode.SYNC_NAMES, ""),
        StreamOperation(OperationCode.ZERO, "b", 512, size=4096),
    ],
)
WORK_BYTES = bytes.fromhex(
    "0000005F 96 0000000000000002 85821A9A 01 0000000000000003 0000000000000002 0000000000000001"
    "01 0001 61 0000000000000200 00000003 78797A 03 0001 61 0001 62 04 0001 62 0000000000001000 07 0000"
    "08 0001 62 0000000000000200 00001000"
)
CHUNK = StreamChunk(4, 1, 8, b"data")
CHUNK_BYTES = bytes.fromhex("00000025 97 0000000000000002 B19853D4 0000000000000004 00000001 0000000000000008 64617461")


@pytest.mark.parametrize(("packet", "worked"), WORKED, ids=lambda value: type(value).__name__)
def test_packets_have_the_bytes_that_were_worked_out(packet: Packet, worked: str) -> None:
    data = bytes.fromhex(worked)
    assert encode_packet(packet, 2, 0) == data
    assert decode_packet(b"before" + data, 6, 6 + len(data), 0, False) == packet


@pytest.mark.parametrize(("packet", "worked"), WORKED, ids=lambda value: type(value).__name__)
def test_packets_that_are_cut_short_are_refused(packet: Packet, worked: str) -> None:
    data = bytes.fromhex(worked)
    for end in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            decode_packet(data, 0, end, 0, False)


def test_work_has_the_bytes_that_were_worked_out() -> None:
    assert b"".join(encode_work(WORK, 2)) == WORK_BYTES
    assert decode_work(b"before" + WORK_BYTES, 6, 6 + len(WORK_BYTES)) == WORK


def test_a_chunk_has_the_bytes_that_were_worked_out() -> None:
    assert b"".join(encode_chunk(CHUNK, 2)) == CHUNK_BYTES
    assert decode_chunk(bytearray(b"before" + CHUNK_BYTES), 6, 6 + len(CHUNK_BYTES)) == CHUNK


def test_the_data_of_a_write_is_not_copied_on_its_way_out() -> None:
    data = bytes(100_000)
    assert any(
        piece is data for piece in encode_work(StreamWork(0, 1, (0, 0), [StreamOperation(1, "a", 0, (data,))]), 2)
    )
    assert any(piece is data for piece in encode_chunk(StreamChunk(1, 0, 0, data), 2))


@pytest.mark.parametrize("place", range(13, len(WORK_BYTES)))
def test_no_wrong_bit_in_work_goes_unseen(place: int) -> None:
    for bit in range(8):
        wrong = bytearray(WORK_BYTES)
        wrong[place] ^= 1 << bit
        with pytest.raises(RemoteProtocolError):
            decode_work(wrong, 0, len(wrong))


@pytest.mark.parametrize("place", range(13, len(CHUNK_BYTES)))
def test_no_wrong_bit_in_a_chunk_goes_unseen(place: int) -> None:
    for bit in range(8):
        wrong = bytearray(CHUNK_BYTES)
        wrong[place] ^= 1 << bit
        with pytest.raises(RemoteProtocolError):
            decode_chunk(wrong, 0, len(wrong))


def test_every_prefix_of_work_and_of_a_chunk_is_refused() -> None:
    for end in range(len(WORK_BYTES)):
        with pytest.raises(RemoteProtocolError):
            decode_work(WORK_BYTES, 0, end)
    for end in range(len(CHUNK_BYTES)):
        with pytest.raises(RemoteProtocolError):
            decode_chunk(CHUNK_BYTES, 0, end)


@pytest.mark.parametrize(
    "operation",
    [
        StreamOperation(9, "a"),
        StreamOperation(OperationCode.WRITE, "a", 1 << 61, (b"x",)),
        StreamOperation(OperationCode.TRUNCATE, "a", 1 << 61),
    ],
)
def test_operations_that_no_disk_knows_are_refused(operation: StreamOperation) -> None:
    data = b"".join(encode_work(StreamWork(0, 1, (0, 0), [operation]), 2))
    with pytest.raises(RemoteProtocolError):
        decode_work(data, 0, len(data))


def test_a_name_that_is_no_text_is_refused() -> None:
    good = b"".join(encode_work(StreamWork(0, 1, (0, 0), [StreamOperation(OperationCode.SYNC, "ab")]), 2))
    body = good[17:].replace(b"ab", b"\xff\xff")
    data = good[:13] + crc32(body).to_bytes(4, "big") + body
    with pytest.raises(RemoteProtocolError, match="no text"):
        decode_work(data, 0, len(data))


def test_numbers_that_do_not_fit_are_a_mistake_of_this_side() -> None:
    with pytest.raises(LocalProtocolError):
        encode_work(StreamWork(0, -1, (0, 0), []), 2)
    with pytest.raises(LocalProtocolError):
        encode_chunk(StreamChunk(1, 0, -1, b""), 2)
