"""A connection that this broker opened to another one, for the control channel and whatever joins it there.

Responsible for the opening (handshake, ping, cluster user and password), for pings and failure detection, for cutting
reads into frames. Refuses to know why the broker talks to this peer, when to try again, and any socket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from embedbroker.config import ClusterConnection
from embedclient.errors import RemoteProtocolError
from embedclient.model import IN_VM_CONNECTOR_FACTORY, TCP_CONNECTOR_FACTORY, Instant, TransportConfiguration
from embedclient.wire.core import (
    HANDSHAKE,
    ClusterConnect,
    ClusterConnectReply,
    ClusterTopologyV4,
    Disconnect,
    DisconnectV2,
    DisconnectV3,
    FrameSplitter,
    Packet,
    Ping,
    SubscribeTopologyV2,
    decode_packet,
    encode_packet,
)

from ._peer import CONTROL_CHANNEL, PING_CHANNEL, STREAM_CHANNEL, FrameReceiver, Pipe

__all__ = ["ControlLink", "LinkEnd", "LinkState", "can_be_dialled", "where"]


# What a broker writes for the largest message that a client may send is a little longer than what that client sent.
_FRAME_BYTES_MAX = 104 * 1024 * 1024


class LinkState(Enum):
    """Where a link is in its life."""

    #: The peer has not said yet whether it takes the cluster user and password.
    OPENING = "opening"
    AUTHORIZED = "authorized"
    CLOSED = "closed"


class LinkEnd(Enum):
    """Why a link is over."""

    #: The connection broke, was silent for too long, or the peer did not keep to the protocol.
    LOST = "lost"
    #: The peer stops in an orderly way.
    DISCONNECTED = "disconnected"
    #: The peer does not take the cluster user and password.
    REFUSED = "refused"


class ControlLink:
    """From the moment it is dialled to its end, which ``on_end`` is told once."""

    def __init__(
        self,
        pipe: Pipe,
        connector: TransportConfiguration,
        settings: ClusterConnection,
        credentials: ClusterConnect,
        version: int,
        now: Instant,
    ) -> None:
        self.connector = connector
        self.state = LinkState.OPENING
        # What the peer speaks, as its topology packets say it.
        self.peer_version = 0
        #: Whoever is there is not live, and says so.
        self.waits = False
        self.on_authorized: Callable[[], None] | None = None
        self.on_packet: Callable[[Packet], None] | None = None
        self.on_end: Callable[[LinkEnd, str], None] | None = None
        #: Who takes the frames of the stream channel, and who is told when the link is over, whoever ended it.
        self.on_frame: FrameReceiver | None = None
        self.on_gone: Callable[[], None] | None = None
        self.was_authorized = False
        self._pipe = pipe
        self._settings = settings
        self._version = version
        self._splitter = FrameSplitter(_FRAME_BYTES_MAX)
        self._answer_due: float | None = now.monotonic + settings.call_timeout_ms / 1000
        self._last_heard = now.monotonic
        self._next_ping: float | None = None
        if connector.factory != IN_VM_CONNECTOR_FACTORY:
            pipe.write(HANDSHAKE)
        self._ping(now)
        self.send(credentials, CONTROL_CHANNEL)

    @property
    def version(self) -> int:
        """What both ends speak; our own as long as the peer has not said."""
        return min(self._version, self.peer_version or self._version)

    @property
    def name(self) -> str:
        """Where the peer is, for the operator."""
        return where(self.connector)

    # -- out -----------------------------------------------------------------------------------------------------

    def send(self, packet: Packet, channel_id: int) -> None:
        """Send a packet; on a link that is over it goes nowhere."""
        if self.state is not LinkState.CLOSED:
            self._pipe.write(encode_packet(packet, channel_id, self.version))

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> None:
        """Send whole frames of the stream channel; on a link that is over they go nowhere."""
        if self.state is not LinkState.CLOSED:
            self._pipe.write_pieces(pieces)

    def subscribe(self) -> None:
        """Ask for the peer's topology, from now on."""
        self.send(SubscribeTopologyV2(True, self._version), PING_CHANNEL)

    def close(self, reason: str) -> None:
        """End it on this side; nobody is told."""
        if self.state is not LinkState.CLOSED:
            self._pipe.close(reason)
            self._retire()

    def fail(self, reason: str) -> None:
        """End it because of what the peer did."""
        self._end(LinkEnd.LOST, reason)

    def _retire(self) -> None:
        self.state = LinkState.CLOSED
        if self.on_gone is not None:
            self.on_gone()

    def _end(self, end: LinkEnd, reason: str) -> None:
        if self.state is not LinkState.CLOSED:
            self.close(reason)
            if self.on_end is not None:
                self.on_end(end, reason)

    # -- in ------------------------------------------------------------------------------------------------------

    def lost(self, reason: str) -> None:
        """The socket is gone."""
        if self.state is not LinkState.CLOSED:
            self._retire()
            if self.on_end is not None:
                self.on_end(LinkEnd.LOST, reason)

    def receive(self, data: bytes, now: Instant) -> None:
        """Handle what one read brought. Bad bytes end this link and nothing else."""
        self._last_heard = now.monotonic
        try:
            buffer, headers = self._splitter.feed(data)
            start = 0
            for length, packet_type, channel_id in headers:
                end = start + 4 + length
                if channel_id == STREAM_CHANNEL:
                    if self.on_frame is not None:
                        self.on_frame(packet_type, buffer, start, end)
                elif channel_id in (PING_CHANNEL, CONTROL_CHANNEL):
                    self._take(channel_id, decode_packet(buffer, start, end, self.version, from_client=False))
                start = end
                if self.state is LinkState.CLOSED:
                    return
        except RemoteProtocolError as error:
            self.fail(f"{self.name} sent what the protocol does not allow: {error}")

    def _take(self, channel_id: int, packet: Packet) -> None:
        match packet:
            case Ping():
                return
            case Disconnect() | DisconnectV2() | DisconnectV3():
                self._end(LinkEnd.DISCONNECTED, f"{self.name} stops")
                return
            case ClusterConnectReply() if channel_id == CONTROL_CHANNEL:
                self._on_reply(packet)
                return
            case ClusterTopologyV4():
                self.peer_version = packet.server_version
        if self.on_packet is not None:
            self.on_packet(packet)

    def _on_reply(self, reply: ClusterConnectReply) -> None:
        if self.state is not LinkState.OPENING:
            raise RemoteProtocolError("an answer to CLUSTER_CONNECT that was not asked for")
        if not reply.authorized:
            self._end(LinkEnd.REFUSED, f"{self.name} refuses the cluster user and password")
            return
        self.state = LinkState.AUTHORIZED
        self.was_authorized = True
        self._answer_due = None
        if self.on_authorized is not None:
            self.on_authorized()

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When `on_time` is due."""
        dues = (self._answer_due, self._next_ping, self._silent_due())
        return min((due for due in dues if due is not None), default=None)

    def _silent_due(self) -> float | None:
        ttl = self._settings.connection_ttl_ms
        # Without pings of ours a peer has nothing to answer.
        return self._last_heard + ttl / 1000 if ttl >= 0 and self._next_ping is not None else None

    def on_time(self, now: Instant) -> None:
        """Ping when due; give up a peer that does not answer."""
        silent = self._silent_due()
        if self._answer_due is not None and now.monotonic >= self._answer_due:
            self.fail(f"{self.name} did not answer within {self._settings.call_timeout_ms} ms")
        elif silent is not None and now.monotonic >= silent:
            self.fail(f"nothing was received from {self.name} for {self._settings.connection_ttl_ms} ms")
        elif self._next_ping is not None and now.monotonic >= self._next_ping:
            self._ping(now)

    def _ping(self, now: Instant) -> None:
        settings = self._settings
        self.send(Ping(settings.connection_ttl_ms), PING_CHANNEL)
        period = settings.ping_period_ms
        self._next_ping = now.monotonic + period / 1000 if period >= 0 else None


def where(connector: TransportConfiguration) -> str:
    """A connector for the operator."""
    if connector.factory == IN_VM_CONNECTOR_FACTORY:
        return f"{connector.name} (vm://{connector.parameters.get('serverId')})"
    return f"{connector.name} ({connector.host}:{connector.port_text})"


def can_be_dialled(connector: TransportConfiguration) -> bool:
    """Whether a connector, which a peer may have told of, names a place and a way to it that are known here."""
    if connector.factory == IN_VM_CONNECTOR_FACTORY:
        return "serverId" in connector.parameters
    if connector.factory != TCP_CONNECTOR_FACTORY or str(connector.parameters.get("sslEnabled")).lower() == "true":
        return False
    return connector.port_text.isascii() and connector.port_text.isdecimal() and 0 < int(connector.port_text) < 65_536
