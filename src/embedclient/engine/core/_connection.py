"""The state of one CORE connection, the same for both roles: handshake, versions, pings, time to live, end.

Responsible for cutting reads into frames, for the common version of both ends, and for the packets of the connection
itself. Methods that send return bytes; the owner writes them. Does not depend on sockets, clocks, sessions, or on the
owner's use of a packet.

The owner keeps the loop over frames, so that a message costs no call here:

    buffer, headers = state.receive(data, now)
    for length, packet_type, channel_id in headers:
        ...  # state.read(buffer, start, end) for frames of the reserved channels
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

from ...model import Instant, TransportConfiguration
from ...wire.core import (
    HANDSHAKE,
    ClusterTopologyV4,
    Disconnect,
    DisconnectReason,
    DisconnectV2,
    DisconnectV3,
    FrameSplitter,
    Packet,
    Ping,
    SubscribeTopologyV2,
    decode_packet,
    encode_packet,
)

__all__ = ["CHANNEL_PING", "CHANNEL_SESSION", "CHANNEL_USER_FIRST", "AnyDisconnect", "ConnectionState", "Role"]

# Reserved channels, and the first channel for sessions (core-protocol 1.4).
CHANNEL_PING: Final = 0
CHANNEL_SESSION: Final = 1
CHANNEL_USER_FIRST: Final = 10

AnyDisconnect: TypeAlias = Disconnect | DisconnectV2 | DisconnectV3

# A client of that time sends another word of the same length.
_HANDSHAKES: Final = (HANDSHAKE, b"HORNETQ")
_VERSION_WITH_SCALE_DOWN: Final = 125
_VERSION_WITH_REASON: Final = 131


class Role(Enum):
    """The end of the connection that this is. A broker that dials another broker is the initiator."""

    INITIATOR = "initiator"
    ACCEPTOR = "acceptor"


class ConnectionState:
    """One connection, seen from one end.

    Args:
        role: initiators send the handshake and the pings, acceptors answer them.
        own_version: newest version of the protocol that this end speaks.
        ttl_ms: silence in milliseconds after which the peer counts as gone; -1 for no limit. Initiators announce it
            with each ping. For acceptors it holds until the first ping brings the peer's.
        ping_period_ms: milliseconds between two pings of an initiator; -1 for none after the first one.
        frame_size_bytes_max: longest frame that is accepted, with its length field.
        assumed_version: `version` until the peer's is known.
    """

    __slots__ = (
        "_assumed_version",
        "_awaits_handshake",
        "_handshake",
        "_last_check",
        "_ping",
        "_ping_period",
        "_received_since_check",
        "_splitter",
        "last_received",
        "next_ping",
        "own_version",
        "peer_version",
        "role",
        "time_to_live",
        "version",
    )

    def __init__(
        self,
        role: Role,
        own_version: int,
        *,
        ttl_ms: int,
        ping_period_ms: int = -1,
        frame_size_bytes_max: int = 100 * 1024 * 1024,
        assumed_version: int = 0,
    ) -> None:
        self.role = role
        self.own_version = own_version
        #: Newest version that the peer has named, 0 before that.
        self.peer_version = 0
        #: Version that both ends speak.
        self.version = assumed_version
        self._assumed_version = assumed_version
        #: Seconds of silence after which the peer counts as gone; None for no limit.
        self.time_to_live = ttl_ms / 1000 if ttl_ms >= 0 else None
        #: When bytes came last, or when the connection began.
        self.last_received = 0.0
        #: When the next ping is due; None for acceptors and without pings.
        self.next_ping: float | None = None
        self._ping = Ping(ttl_ms)
        self._ping_period = ping_period_ms / 1000 if ping_period_ms >= 0 else None
        self._splitter = FrameSplitter(frame_size_bytes_max)
        self._awaits_handshake = role is Role.ACCEPTOR
        self._handshake = b""
        self._received_since_check = True
        self._last_check = 0.0

    # --- opening and versions ---

    def open(self, now: Instant, *, handshake: bool = True) -> bytes:
        """Begin the connection. Return the first bytes; an acceptor's are empty.

        A connection inside one process needs no ``handshake``.
        """
        self.last_received = self._last_check = now.monotonic
        if self.role is Role.ACCEPTOR:
            return b""
        return (HANDSHAKE if handshake else b"") + self.ping(now)

    def learn_version(self, peer_version: int) -> None:
        """Record the newest version of the peer; 0 if it is not known any more."""
        self.peer_version = peer_version
        self.version = min(peer_version, self.own_version) if peer_version else self._assumed_version

    # --- receiving ---

    def receive(self, data: bytes | bytearray, now: Instant) -> tuple[bytes | bytearray, list[tuple[int, int, int]]]:
        """Process one read of any size. Return a buffer and the headers of its frames, as `FrameSplitter.feed` does.

        Raises:
            RemoteProtocolError: the length of a frame is out of bounds.
        """
        self.last_received = now.monotonic
        self._received_since_check = True
        if self._awaits_handshake:
            data = self._without_handshake(data)
        return self._splitter.feed(data)

    def _without_handshake(self, data: bytes | bytearray) -> bytes:
        """Return what follows the handshake; empty while that is not whole. Clients may leave it out."""
        head = self._handshake + data
        self._handshake = b""
        for word in _HANDSHAKES:
            if word.startswith(head[: len(word)]):
                if len(head) < len(word):
                    self._handshake = head
                    return b""
                head = head[len(word) :]
                break
        self._awaits_handshake = False
        return head

    def read(self, buffer: bytes | bytearray, start: int, end: int) -> Packet:
        """Decode one frame. Record its facts about the connection: versions and the peer's time to live.

        Raises:
            RemoteProtocolError: the frame cannot be decoded, or its sender's role must not send it.
        """
        accepts = self.role is Role.ACCEPTOR
        packet = decode_packet(buffer, start, end, self.version, from_client=accepts)
        if accepts:
            if isinstance(packet, Ping):
                ttl_ms = packet.connection_ttl
                self.time_to_live = ttl_ms / 1000 if ttl_ms >= 0 else None
            elif isinstance(packet, SubscribeTopologyV2) and not self.peer_version:
                self.learn_version(max(packet.client_version, 0))
        elif isinstance(packet, ClusterTopologyV4) and packet.server_version != self.peer_version:
            self.learn_version(packet.server_version)
        return packet

    @property
    def pending_size(self) -> int:
        """Return the number of bytes held of an incomplete frame or handshake."""
        return self._splitter.pending_size + len(self._handshake)

    def drop_pending(self) -> None:
        """Forget the incomplete frame, because the connection is gone."""
        self._splitter = FrameSplitter()
        self._handshake = b""

    # --- sending ---

    def send(self, packet: Packet, channel_id: int) -> bytes:
        """Return the frame of a packet in the version that both ends speak."""
        return encode_packet(packet, channel_id, self.version)

    def answer(self, ping: Ping) -> bytes:
        """Return an acceptor's answer to a ping: the same packet."""
        assert self.role is Role.ACCEPTOR
        return self.send(ping, CHANNEL_PING)

    def disconnect(
        self, node_id: str, target_node_id: str | None = None, connector: TransportConfiguration | None = None
    ) -> bytes:
        """Return an acceptor's DISCONNECT, with the reason that Artemis gives at every orderly stop.

        Args:
            node_id: node of the acceptor.
            target_node_id: node that gets its messages, if it scales down.
            connector: place of that node, where the peer cannot know it.
        """
        assert self.role is Role.ACCEPTOR
        packet: AnyDisconnect
        if self.version >= _VERSION_WITH_REASON:
            packet = DisconnectV3(node_id, DisconnectReason.SCALE_DOWN, target_node_id, connector)
        elif self.version >= _VERSION_WITH_SCALE_DOWN:
            packet = DisconnectV2(node_id, target_node_id)
        else:
            packet = Disconnect(node_id)
        return self.send(packet, CHANNEL_PING)

    # --- time ---

    def ping(self, now: Instant) -> bytes:
        """Return a ping, and make the next one due a period later."""
        assert self.role is Role.INITIATOR
        if self._ping_period is not None:
            self.next_ping = now.monotonic + self._ping_period
        return self.send(self._ping, CHANNEL_PING)

    def is_ping_due(self, now: Instant) -> bool:
        """Return True if an initiator must ping now."""
        return self.next_ping is not None and now.monotonic >= self.next_ping

    def silent_at(self) -> float | None:
        """Return when the peer counts as gone if nothing comes; None for never.

        An initiator that sends no pings gives the peer nothing to answer, so that silence means nothing.
        """
        if self.time_to_live is None or (self.role is Role.INITIATOR and self.next_ping is None):
            return None
        return self.last_received + self.time_to_live

    def is_silent(self, now: Instant) -> bool:
        """Return True if nothing came for the time to live."""
        silent_at = self.silent_at()
        return silent_at is not None and now.monotonic >= silent_at

    def check_silence(self, now: Instant) -> bool:
        """Return True if nothing came since the check before; at most one check per time to live counts.

        Clients of Artemis check in this way, with each ping (core-protocol 7.9).
        """
        if self.time_to_live is None or now.monotonic < self._last_check + self.time_to_live:
            return False
        if not self._received_since_check:
            return True
        self._received_since_check = False
        self._last_check = now.monotonic
        return False

    def close(self) -> None:
        """Stop sending pings."""
        self.next_ping = None
