"""What is fuzzed: one family per group of decoders, each with a corpus from captured traffic and one function to call.

Responsible for the promise under test: any bytes give a value or RemoteProtocolError, and a value that was read can be
written and read again. Does not depend on how inputs are made or how many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from zlib import crc32

from attrs import frozen

from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import (
    FRAME_HEADER_SIZE,
    ROUTING_TYPE_KEY,
    CoreMessage,
    FrameSplitter,
    OperationCode,
    Packet,
    PacketType,
    SessionReceiveLarge,
    SessionReceiveMessage,
    SessionSend,
    SessionSendLarge,
    StreamOperation,
    StreamWork,
    decode_discovery_datagram,
    decode_map,
    decode_object,
    decode_packet,
    decode_stream,
    decode_text,
    decode_work,
    encode_discovery_datagram,
    encode_packet,
    encode_work,
    frame_spans,
    from_1x,
    to_1x,
)
from tests.vectors.captures import CapturedFrame, captured_datagrams, representative_frames

from .rare_packets import rare_frames

HEADER = 13
_INPUT_SIZE_MAX = 2048


@frozen
class Family:
    """``check`` returns whether an input was accepted, and raises what is a bug; it shares indices with ``corpus``."""

    name: str
    corpus: tuple[bytes, ...]
    check: Callable[[int, bytes], bool]


def _check_packet(inputs: list[tuple[int, int, bool]], index: int, body: bytes) -> bool:
    """Decode a body under the type, version and direction of its origin; what comes out must survive a round trip."""
    packet_type, version, from_client = inputs[index]
    frame = (9 + len(body)).to_bytes(4, "big") + packet_type.to_bytes(1, "big", signed=True) + bytes(8) + body
    try:
        packet = decode_packet(frame, 0, len(frame), version, from_client)
        _touch(packet)
    except RemoteProtocolError:
        return False
    again = encode_packet(packet, 0, version)
    assert encode_packet(decode_packet(again, 0, len(again), version, from_client), 0, version) == again
    return True


def _touch(packet: Packet) -> None:
    if isinstance(packet, SessionSend | SessionReceiveMessage | SessionSendLarge | SessionReceiveLarge):
        _read_message(packet.message)


def _read_message(message: CoreMessage) -> None:
    routing_type = message.property_byte(ROUTING_TYPE_KEY)
    duplicate_id = message.duplicate_id
    properties = message.properties
    # The fast scan sees the first of two entries of one name, the mapping the last; only absence must agree.
    if "_AMQ_ROUTING_TYPE" not in properties:
        assert routing_type is None
    assert duplicate_id is None or "_AMQ_DUPL_ID" in properties
    message.property("JMSType")
    _ = message.user_id, message.body, message.header, message.encoded_size


def _check_message(index: int, data: bytes) -> bool:
    try:
        message = CoreMessage.parse(bytearray(data))
        _read_message(message)
    except RemoteProtocolError:
        return False
    message.assign_id(1 << 40)
    assert from_1x(to_1x(message.raw)) == message.raw
    copy = message.copy_for("DLQ", changes={"_AMQ_ORIG_ADDRESS": message.address}, removals=("JMSType",), expiration=0)
    assert copy.property("_AMQ_ORIG_ADDRESS") == message.address
    return True


def _check_old_message(index: int, data: bytes) -> bool:
    try:
        _read_message(CoreMessage.parse(from_1x(data)))
    except RemoteProtocolError:
        return False
    return True


def _check_bodies(index: int, data: bytes) -> bool:
    accepted = False
    for decode in (decode_text, decode_map, decode_stream, decode_object):
        try:
            decode(data)
        except RemoteProtocolError:
            continue
        accepted = True
    return accepted


def _check_work(index: int, body: bytes) -> bool:
    """A body behind its checksum: what is read can be written, and is read again."""
    frame = bytearray(FRAME_HEADER_SIZE) + crc32(body).to_bytes(4, "big") + body
    try:
        work = decode_work(frame, 0, len(frame))
    except RemoteProtocolError:
        return False
    again = b"".join(encode_work(work, 2))
    assert again[FRAME_HEADER_SIZE + 4 :] == body
    return decode_work(again, 0, len(again)) == work


def _works() -> tuple[bytes, ...]:
    """Bodies of works, with operations of all kinds among them."""
    every = [
        StreamOperation(OperationCode.WRITE, "a", 512, (b"data", b"and more")),
        StreamOperation(OperationCode.SYNC, "a"),
        StreamOperation(OperationCode.RENAME, "a", other="b"),
        StreamOperation(OperationCode.ALLOCATE, "b", 4096),
        StreamOperation(OperationCode.TRUNCATE, "b", 1),
        StreamOperation(OperationCode.REMOVE, "b"),
        StreamOperation(OperationCode.SYNC_NAMES, ""),
        StreamOperation(OperationCode.ZERO, "b", 512, size=4096),
    ]
    works = [StreamWork(0, number, (1, number), every[number:]) for number in range(len(every))]
    return tuple([b"".join(encode_work(work, 2))[FRAME_HEADER_SIZE + 4 :] for work in works])


def _check_datagram(index: int, data: bytes) -> bool:
    try:
        datagram = decode_discovery_datagram(data)
    except RemoteProtocolError:
        return False
    again = encode_discovery_datagram(datagram)
    assert decode_discovery_datagram(again) == datagram
    return True


def _check_stream(index: int, data: bytes) -> bool:
    """Feed a stream whole and in pieces: the same frames, or both broken."""
    whole = _cut(data, len(data) or 1)
    pieces = _cut(data, 1 + index % 13)
    if whole is None or pieces is None:
        assert whole is None and pieces is None
        return False
    assert whole == pieces
    return True


def _cut(data: bytes, piece: int) -> list[bytes] | None:
    splitter = FrameSplitter(frame_size_bytes_max=1 << 20)
    frames = []
    for position in range(0, len(data), piece):
        try:
            buffer, headers = splitter.feed(data[position : position + piece])
        except RemoteProtocolError:
            return None
        frames += [bytes(buffer[start:end]) for start, end in frame_spans(headers)]
    return frames


_XA = {39, *range(51, 67)}
_MESSAGES = {
    *(PacketType.SESS_SEND, PacketType.SESS_RECEIVE_MSG, PacketType.SESS_SEND_LARGE, PacketType.SESS_RECEIVE_LARGE_MSG),
    *(PacketType.SESS_SEND_CONTINUATION, PacketType.SESS_RECEIVE_CONTINUATION),
}
_QUEUES = {
    *(34, 35, 36, 45, 46, 49, 50, 104, 105, 106),
    *(-7, -8, -10, -11, -12, -13, -14, -15, -22),
}
_CLUSTER = {111, 115, 116, 125, 126, 127, -1, -2, -3, -6, -16}
_REPLICATION = set(range(-109, -99))
_CONNECTION = {10, 11, 20, 21, 22, 30, 31, 32, 33, 110, 112, 113, 114, 122, 124, -4, -5, -17, -18, -19}


def _family_of(packet_type: int) -> str:
    for name, types in (
        ("xa", _XA),
        ("message packets", _MESSAGES),
        ("queues", _QUEUES),
        ("cluster", _CLUSTER),
        ("connection", _CONNECTION),
        ("replication", _REPLICATION),
    ):
        if packet_type in types:
            return name
    return "session"


def _packet_families(frames: list[CapturedFrame]) -> Iterator[Family]:
    groups: dict[str, list[CapturedFrame]] = {}
    for frame in frames:
        groups.setdefault(_family_of(frame.type), []).append(frame)
    for name, members in sorted(groups.items()):
        inputs = [(frame.type, frame.version, frame.from_client) for frame in members]
        bodies = tuple(frame.data[HEADER:] for frame in members)
        yield Family(name, bodies, partial(_check_packet, inputs))


def families() -> list[Family]:
    """Return everything there is to fuzz."""
    frames = [frame for frame in representative_frames() if len(frame.data) <= _INPUT_SIZE_MAX]
    frames += rare_frames()
    messages = [_message_of(frame) for frame in frames if frame.type in (71, 75) and frame.version >= 129]
    old = [_body_of(frame) for frame in frames if frame.type in (71, 75) and 0 < frame.version < 129]
    bodies = [bytes(CoreMessage.parse(bytearray(raw)).body) for raw in messages]
    bodies += [bytes.fromhex("0100000001000000026100060000000502ff0a010000000300610062006307000000000000000a")]
    streams = [frame.data + other.data for frame, other in zip(frames, reversed(frames), strict=True)]
    return [
        *_packet_families(frames),
        Family("messages", tuple(messages), _check_message),
        Family("1.x messages", tuple(old), _check_old_message),
        Family("bodies", tuple(body for body in bodies if body), _check_bodies),
        Family("disk work", _works(), _check_work),
        Family("framing", tuple(stream[:600] for stream in streams), _check_stream),
        Family("discovery", captured_datagrams(), _check_datagram),
    ]


def _message_of(frame: CapturedFrame) -> bytes:
    packet = decode_packet(frame.data, 0, len(frame.data), frame.version, frame.from_client)
    assert isinstance(packet, SessionSend | SessionReceiveMessage)
    return bytes(packet.message.raw)


def _body_of(frame: CapturedFrame) -> bytes:
    return frame.data[HEADER : -1 if frame.from_client else -12]
