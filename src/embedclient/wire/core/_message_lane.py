"""The lanes that messages take: sends and deliveries without an object per packet.

Responsible for the fixed parts around a regular message, which depend on the version, and for the layouts of
acknowledgements and credits. Does not depend on sessions: the caller slices frames by offset and uses these layouts.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ._framing import FRAME_HEADER, FRAME_HEADER_SIZE
from ._message import from_1x, to_1x

__all__ = [
    "ACKNOWLEDGE_BODY",
    "ACKNOWLEDGE_RUN",
    "ANSWER_BODY",
    "ANSWER_RUN",
    "ANSWER_SIZE",
    "CREDIT_BODY",
    "RECEIVE_TRAILER",
    "RECEIVE_TRAILER_SIZE",
    "SEND_TRAILER",
    "SEND_TRAILER_130",
    "SEND_TRAILER_OLD",
    "encode_acknowledge",
    "encode_consumer_credit",
    "encode_null_response",
    "encode_receive",
    "encode_send",
    "message_raw",
    "send_trailer",
    "send_trailer_size",
]

# The layout behind the message in SESS_SEND: response wanted (0 or -1), correlation id, sender id.
SEND_TRAILER: Final = Struct(">bqi")
SEND_TRAILER_130: Final = Struct(">bq")
SEND_TRAILER_OLD: Final = Struct(">b")

# The layout behind the message in SESS_RECEIVE_MSG: consumer id, delivery count.
RECEIVE_TRAILER: Final = Struct(">qi")
RECEIVE_TRAILER_SIZE: Final = RECEIVE_TRAILER.size

# Body of SESS_ACKNOWLEDGE and SESS_INDIVIDUAL_ACKNOWLEDGE: consumer id, message id, response wanted.
ACKNOWLEDGE_BODY: Final = Struct(">qq?")
# The same as a whole frame: the common part of one consumer's, message id, response wanted.
ACKNOWLEDGE_RUN: Final = Struct(">21sq?")
# Body of NULL_RESPONSE with the correlation id of a send, and the size of that frame.
ANSWER_BODY: Final = Struct(">q")
ANSWER_SIZE: Final = FRAME_HEADER_SIZE + ANSWER_BODY.size
# The same as a whole frame: the header, which those of a session have in common, and the id.
ANSWER_RUN: Final = Struct(f">{FRAME_HEADER_SIZE}sq")
# Body of SESS_FLOWTOKEN: consumer id, credits in bytes.
CREDIT_BODY: Final = Struct(">qi")

_NULL_RESPONSE: Final = 21
_SESS_ACKNOWLEDGE: Final = 41
_SESS_FLOWTOKEN: Final = 70
_SESS_SEND: Final = 71
_SESS_RECEIVE_MSG: Final = 75
_SESS_INDIVIDUAL_ACKNOWLEDGE: Final = 81

# Whole frames.
_NULL_RESPONSE_FRAME: Final = Struct(">ibqq")
_ACKNOWLEDGE_FRAME: Final = Struct(">ibqqqb")
_CREDIT_FRAME: Final = Struct(">ibqqi")


def send_trailer(version: int) -> Struct:
    """Return the layout behind the message in SESS_SEND. Version 0 (none agreed yet) counts as 130."""
    if version >= 134:
        return SEND_TRAILER
    return SEND_TRAILER_OLD if 0 < version < 130 else SEND_TRAILER_130


def send_trailer_size(version: int) -> int:
    """Return the number of bytes behind the message in SESS_SEND."""
    return send_trailer(version).size


def message_raw(buffer: bytes | bytearray, start: int, end: int, version: int) -> bytearray:
    """Return the message of ``buffer[start:end]`` in the present framing. Raise RemoteProtocolError."""
    raw = buffer[start:end]
    if 0 < version < 129:
        return from_1x(raw)
    return raw if isinstance(raw, bytearray) else bytearray(raw)


def encode_send(
    raw: bytes | bytearray,
    channel_id: int,
    version: int,
    requires_response: bool,
    correlation_id: int = 0,
    sender_id: int = 0,
) -> tuple[bytes, bytes | bytearray, bytes]:
    """Return the three parts of a SESS_SEND frame; the second is ``raw`` itself where the version allows it."""
    trailer: bytes
    if version >= 134:
        trailer = SEND_TRAILER.pack(-requires_response, correlation_id, sender_id)
    elif version >= 130 or not version:
        trailer = SEND_TRAILER_130.pack(-requires_response, correlation_id)
    else:
        trailer = SEND_TRAILER_OLD.pack(-requires_response)
        if version < 129:
            raw = to_1x(raw)
    size = FRAME_HEADER_SIZE - 4 + len(raw) + len(trailer)
    return FRAME_HEADER.pack(size, _SESS_SEND, channel_id), raw, trailer


def encode_receive(
    raw: bytes | bytearray, channel_id: int, version: int, consumer_id: int, delivery_count: int
) -> tuple[bytes, bytes | bytearray, bytes]:
    """Return the three parts of a SESS_RECEIVE_MSG frame; the second is ``raw`` itself where the version allows it."""
    if 0 < version < 129:
        raw = to_1x(raw)
    size = FRAME_HEADER_SIZE - 4 + len(raw) + RECEIVE_TRAILER_SIZE
    return (
        FRAME_HEADER.pack(size, _SESS_RECEIVE_MSG, channel_id),
        raw,
        RECEIVE_TRAILER.pack(consumer_id, delivery_count),
    )


def encode_null_response(channel_id: int, version: int, correlation_id: int = -1) -> bytes:
    """Return a NULL_RESPONSE frame."""
    if 0 < version < 130:
        return FRAME_HEADER.pack(FRAME_HEADER_SIZE - 4, _NULL_RESPONSE, channel_id)
    return _NULL_RESPONSE_FRAME.pack(_NULL_RESPONSE_FRAME.size - 4, _NULL_RESPONSE, channel_id, correlation_id)


def encode_acknowledge(
    channel_id: int, consumer_id: int, message_id: int, requires_response: bool, individual: bool = False
) -> bytes:
    """Return a SESS_ACKNOWLEDGE or SESS_INDIVIDUAL_ACKNOWLEDGE frame."""
    packet_type = _SESS_INDIVIDUAL_ACKNOWLEDGE if individual else _SESS_ACKNOWLEDGE
    size = _ACKNOWLEDGE_FRAME.size - 4
    return _ACKNOWLEDGE_FRAME.pack(size, packet_type, channel_id, consumer_id, message_id, -requires_response)


def encode_consumer_credit(channel_id: int, consumer_id: int, credits: int) -> bytes:
    """Return a SESS_FLOWTOKEN frame."""
    return _CREDIT_FRAME.pack(_CREDIT_FRAME.size - 4, _SESS_FLOWTOKEN, channel_id, consumer_id, credits)
