"""A run of sends of one bridge: messages of one kind to one address, for the same queues, next to each other in a read.

Responsible for taking such messages out of the bytes of a read without a call of the kernel for each. Does not depend
on sessions, nor on what becomes of the messages.
"""

from __future__ import annotations

from struct import Struct

from attrs import Factory, define

from embedbroker.kernel import BRIDGE_ID_PREFIX
from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import FRAME_HEADER, CoreMessage, PacketType

from ._message_traits import MessageTraits

__all__ = ["BridgeRun", "may_begin", "read_run"]

# As many messages as a step takes at once without a pause.
_RUN_MAX = 64
_SEND = int(PacketType.SESS_SEND)


@define
class BridgeRun:
    """Messages without the properties of the bridge, their ids, and what the answers repeat.

    Attributes:
        end: End of the last frame.
    """

    end: int
    messages: list[CoreMessage] = Factory(list)
    duplicate_ids: list[bytes] = Factory(list)
    correlation_ids: list[int] = Factory(list)
    route: bytes = b""


def may_begin(buffer: bytes | bytearray, end: int) -> bool:
    """Return True if another send may follow the frame that ends there."""
    return len(buffer) - end > FRAME_HEADER.size and buffer[end + 4] == _SEND


def read_run(
    buffer: bytes | bytearray,
    start: int,
    arrival: MessageTraits,
    known: tuple[bytes, str],
    trailer: Struct,
) -> BridgeRun:
    """Return the sends that begin there, as far as they are alike and request an answer.

    Args:
        buffer: Bytes of a read.
        start: Where the first frame begins, which is whole.
        arrival: Traits of its message, which has the id of a bridge, and chosen queues.
        known: Its address; see `CoreMessage.parse`.
        trailer: What follows the messages.
    """
    run = BridgeRun(start)
    messages, duplicate_ids, correlation_ids = run.messages, run.duplicate_ids, run.correlation_ids
    header, header_size = FRAME_HEADER.unpack_from, FRAME_HEADER.size
    read_trailer, trailer_size = trailer.unpack_from, trailer.size
    buffer_size, reader = len(buffer), arrival.bridged_reader
    if reader is not None and reader.known is not known:
        reader = None
    assert arrival.duplicate_id_at is not None and arrival.route_to_at is not None
    # Counted from the end of the message.
    id_from, id_to = arrival.duplicate_id_at.start - arrival.size, arrival.duplicate_id_at.stop - arrival.size
    route_from, route_to = arrival.route_to_at.start - arrival.size, arrival.route_to_at.stop - arrival.size
    _length, _type, channel_id = header(buffer, start)
    is_durable: bool | None = None
    begin = start
    while begin + header_size <= buffer_size and len(messages) < _RUN_MAX:
        length, packet_type, channel = header(buffer, begin)
        end = begin + 4 + length
        trailer_at = end - trailer_size
        if packet_type != _SEND or channel != channel_id or end > buffer_size or trailer_at < begin + header_size:
            break
        message = reader.read(buffer, begin + header_size, trailer_at) if reader is not None else None
        if message is None:
            message = _read_one(bytearray(buffer[begin + header_size : trailer_at]), arrival, known)
            if message is None:
                break
            reader = reader or arrival.expect_bridged(known, message, buffer, trailer_at)
        route = buffer[trailer_at + route_from : trailer_at + route_to]
        wants_reply, correlation_id, _sender_id = read_trailer(buffer, trailer_at)
        if is_durable is None:
            run.route, is_durable = bytes(route), message.durable
        if route != run.route or message.durable is not is_durable or not wants_reply:
            break
        duplicate_ids.append(BRIDGE_ID_PREFIX + buffer[trailer_at + id_from : trailer_at + id_to])
        messages.append(message)
        correlation_ids.append(correlation_id)
        run.end = begin = end
    return run


def _read_one(raw: bytearray, arrival: MessageTraits, known: tuple[bytes, str]) -> CoreMessage | None:
    """Return a message without the properties of the bridge; None if it is malformed or of another kind."""
    try:
        message = CoreMessage.parse(raw, known)
    except RemoteProtocolError:
        return None
    if message.address is not known[1] or not arrival.covers(raw, message.properties_at):
        return None
    message.cut_properties(arrival.bridge_entries)
    return message
