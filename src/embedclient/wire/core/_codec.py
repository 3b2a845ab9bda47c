"""Whole frames to packets and back.

Responsible for finding the class of a packet type, loading rare families on first use, and for the direction and
version rules that hold for a type as a whole. Does not depend on bodies.
"""

from __future__ import annotations

from functools import lru_cache
from struct import error as StructError
from typing import Final

from ...errors import LocalProtocolError, RemoteProtocolError
from .._buffer import Reader
from ._framing import FRAME_HEADER, FRAME_HEADER_SIZE
from ._packet_table import Packet
from ._packet_type import FROM_CLIENT_ONLY, FROM_SERVER_ONLY

__all__ = ["decode_packet", "encode_packet"]

_XA: Final = frozenset((39, *range(51, 67)))
_CLUSTER: Final = frozenset((111, 115, 116, 125, 126, 127, -1, -2, -3, -6))
_FEDERATION: Final = frozenset((-16,))
_REPLICATION: Final = frozenset(range(-109, -99))

_TOPOLOGY: Final = -17  # CLUSTER_TOPOLOGY_V4, that of all brokers of today
# Frames of members: those of a large cluster, each shorter than this with names of usual length.
_TOPOLOGIES_MAX, _TOPOLOGY_BYTES_MAX = 1024, 1024


class _Classes(dict[int, type[Packet]]):
    def __missing__(self, packet_type: int) -> type[Packet]:
        return _load(packet_type)


_classes = _Classes()


def _load(packet_type: int) -> type[Packet]:
    """Return the class of a type that was not used before. Raise RemoteProtocolError for an unknown type."""
    family: tuple[type[Packet], ...]
    if packet_type in _XA:
        from ._xa_packets import PACKETS as family
    elif packet_type in _CLUSTER:
        from ._cluster_packets import PACKETS as family
    elif packet_type in _FEDERATION:
        from ._federation_packets import PACKETS as family
    elif packet_type in _REPLICATION:
        from ._replication_packets import PACKETS as family
    else:
        from . import _connection_packets, _queue_packets, _session_packets

        family = _connection_packets.PACKETS + _queue_packets.PACKETS + _session_packets.PACKETS
    for packet_class in family:
        _classes[packet_class.TYPE] = packet_class
    loaded = _classes.get(packet_type)
    if loaded is None:
        raise RemoteProtocolError(f"unknown packet type {packet_type}")
    return loaded


@lru_cache(_TOPOLOGIES_MAX)
def _topology_packet(body: bytes, packet_class: type[Packet], version: int) -> Packet:
    """Decode a member of a cluster once. All brokers announce it to each other, on as many connections."""
    return packet_class.read_body(Reader(body), version)


def decode_packet(buffer: bytes | bytearray, start: int, end: int, version: int, from_client: bool) -> Packet:
    """Decode the frame ``buffer[start:end]``, its length field included.

    ``version`` is the common version of both ends, 0 before that is known. ``from_client`` is True for a client's
    frame. Bytes behind the fields that this side supports are ignored. Raise RemoteProtocolError and nothing else.
    """
    body = start + FRAME_HEADER_SIZE
    if end < body:
        raise RemoteProtocolError(f"a frame of {end - start} bytes")
    packet_type = buffer[start + 4]
    if packet_type > 127:
        packet_type -= 256
    packet_class = _classes[packet_type]
    if packet_type in (FROM_SERVER_ONLY if from_client else FROM_CLIENT_ONLY):
        raise RemoteProtocolError(f"{packet_class.__name__} from a {'client' if from_client else 'server'}")
    fixed = packet_class._plans[version].fixed
    if fixed is None:
        if packet_type == _TOPOLOGY and end - body <= _TOPOLOGY_BYTES_MAX:
            return _topology_packet(bytes(buffer[body:end]), packet_class, version)
        return packet_class.read_body(Reader(buffer, body, end), version)
    if end - body < fixed.size:
        raise RemoteProtocolError(f"a body of {end - body} bytes is too short for {packet_class.__name__}")
    return tuple.__new__(packet_class, fixed.unpack_from(buffer, body))


def encode_packet(packet: Packet, channel_id: int, version: int) -> bytes:
    """Encode a whole frame in the form of ``version`` (0: nothing agreed yet).

    Raise LocalProtocolError when a value does not fit, or when peers of that version do not support the packet.
    """
    if 0 < version < packet._since:
        raise LocalProtocolError(f"{type(packet).__name__} does not exist in version {version}")
    fixed = packet._plans[version].fixed_write
    if fixed is not None:
        try:
            return FRAME_HEADER.pack(FRAME_HEADER_SIZE - 4 + fixed.size, packet.TYPE, channel_id) + fixed.pack(*packet)
        except StructError as error:
            raise LocalProtocolError(f"{packet!r} cannot be encoded: {error}") from error
    frame = bytearray(FRAME_HEADER_SIZE)
    packet.append_body(frame, version)
    FRAME_HEADER.pack_into(frame, 0, len(frame) - 4, packet.TYPE, channel_id)
    return bytes(frame)
