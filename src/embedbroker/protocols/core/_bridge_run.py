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
        sizes: Sizes of the frames.
        end: End of the last frame.
    """

    end: int
    messages: list[CoreMessage] = Factory(list)
    duplicate_ids: list[bytes] = Factory(list)
    correlation_ids: list[int] = Factory(list)
    sizes: list[int] = Factory(list)
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
    header, header_size = FRAME_HEADER.unpack_from, FRAME_HEADER.size
    view, buffer_size = memoryview(buffer), len(buffer)
    id_at, route_at, entries = arrival.duplicate_id_at, arrival.route_to_at, arrival.bridge_entries
    assert id_at is not None and route_at is not None
    _length, _type, channel_id = header(buffer, start)
    is_durable: bool | None = None
    while run.end + header_size <= buffer_size and len(run.messages) < _RUN_MAX:
        begin = run.end
        length, packet_type, channel = header(buffer, begin)
        end = begin + 4 + length
        trailer_at = end - trailer.size
        if packet_type != _SEND or channel != channel_id or end > buffer_size or trailer_at < begin + header_size:
            break
        raw = bytearray(view[begin + header_size : trailer_at])
        try:
            message = CoreMessage.parse(raw, known)
        except RemoteProtocolError:
            break
        at = message.properties_at
        if message.address is not known[1] or not arrival.covers(raw, at):
            break
        route = raw[at + route_at.start : at + route_at.stop]
        wants_reply, correlation_id, _sender_id = trailer.unpack_from(buffer, trailer_at)
        if is_durable is None:
            run.route, is_durable = bytes(route), message.durable
        if route != run.route or message.durable is not is_durable or not wants_reply:
            break
        run.duplicate_ids.append(BRIDGE_ID_PREFIX + raw[at + id_at.start : at + id_at.stop])
        message.cut_properties(entries)
        run.messages.append(message)
        run.correlation_ids.append(correlation_id)
        run.sizes.append(end - begin)
        run.end = end
    return run
