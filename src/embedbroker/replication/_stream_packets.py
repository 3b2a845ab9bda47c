"""Packets of the stream, with a checksum as works and parts of files have one.

Responsible for that checksum. One bit that changes on the way would make another mark, another answer or another file
of them. Files would count as a copy although they are not. Does not depend on the content of packets.

A frame of a packet::

     0  frame header
    13  crc u32      of the type and of everything behind it
    17  the packet's fields
"""

from __future__ import annotations

from struct import Struct
from zlib import crc32

from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import (
    FRAME_HEADER,
    FRAME_HEADER_SIZE,
    Packet,
    StreamType,
    decode_packet,
    encode_packet,
)

from ._events import STREAM_CHANNEL

__all__ = ["nonsense", "sealed", "sealed_answer", "unsealed", "unsealed_answer"]

_CRC = Struct(">I")
# A `StreamAnswer`, one for each batch of the journal: lane and number, without a packet object.
_ANSWER = Struct(">bq")
_ANSWER_LENGTH = FRAME_HEADER_SIZE - 4 + _CRC.size + _ANSWER.size


def nonsense(sender: str, error: RemoteProtocolError) -> str:
    """Return the text for the operator about a stream that is damaged."""
    return (
        f"{sender} sent what makes no sense: {error}. The backup joins again, and gets what it lacks; if that happens"
        " again, look for what changes bytes between the two (a proxy, a network card, memory), and install the same"
        " version on both"
    )


def sealed(packet: Packet) -> bytes:
    """Return the whole frame of a packet."""
    frame = encode_packet(packet, STREAM_CHANNEL, 0)
    length, packet_type, channel_id = FRAME_HEADER.unpack_from(frame)
    body = frame[FRAME_HEADER_SIZE:]
    head = FRAME_HEADER.pack(length + _CRC.size, packet_type, channel_id)
    return head + _CRC.pack(_sum(packet_type, body)) + body


def unsealed(buffer: bytes | bytearray, start: int, end: int, *, from_client: bool) -> Packet:
    """Return the packet of a whole frame.

    Raises:
        RemoteProtocolError: The bytes changed on the way, or make no sense.
    """
    length, packet_type, channel_id = FRAME_HEADER.unpack_from(buffer, start)
    begin = start + FRAME_HEADER_SIZE + _CRC.size
    body = bytes(buffer[begin:end])
    if begin > end or _CRC.unpack_from(buffer, begin - _CRC.size)[0] != _sum(packet_type, body):
        raise RemoteProtocolError("the checksum of a packet in a stream of disk work does not fit")
    frame = FRAME_HEADER.pack(length - _CRC.size, packet_type, channel_id) + body
    return decode_packet(frame, 0, len(frame), 0, from_client)


def sealed_answer(lane: int, number: int) -> bytes:
    """Return the whole frame of a `StreamAnswer`."""
    body = _ANSWER.pack(lane, number)
    head = FRAME_HEADER.pack(_ANSWER_LENGTH, StreamType.ANSWER, STREAM_CHANNEL)
    return head + _CRC.pack(_sum(StreamType.ANSWER, body)) + body


def unsealed_answer(buffer: bytes | bytearray, start: int, end: int) -> tuple[int, int]:
    """Return lane and number of a whole frame of a `StreamAnswer`.

    Raises:
        RemoteProtocolError: The bytes changed on the way.
    """
    begin = start + FRAME_HEADER_SIZE + _CRC.size
    body = bytes(buffer[begin:end])
    whole = len(body) == _ANSWER.size and begin < end
    if not whole or _CRC.unpack_from(buffer, begin - _CRC.size)[0] != _sum(StreamType.ANSWER, body):
        raise RemoteProtocolError("an answer in a stream of disk work is not as it was sent")
    lane, number = _ANSWER.unpack(body)
    return lane, number


def _sum(packet_type: int, body: bytes) -> int:
    return crc32(body, packet_type & 0xFF)
