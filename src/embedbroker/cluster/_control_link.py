"""A connection that this broker opened to another one, for the control channel and whatever joins it there.

Responsible for cluster user and password, for the due time of the answer, and for handing frames to their channel.
`ConnectionState` of the engine holds versions, pings and the time to live. Does not depend on the purpose of the
connection, on when to try again, or on any socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from embedbroker.config import ClusterConnection
from embedclient.engine import Pipe
from embedclient.engine.core import AnyDisconnect, ChannelReceiver, ConnectionState, Role
from embedclient.errors import RemoteProtocolError
from embedclient.model import IN_VM_CONNECTOR_FACTORY, Instant, TransportConfiguration
from embedclient.wire.core import (
    ClusterConnect,
    ClusterConnectReply,
    Packet,
    Ping,
    SubscribeTopologyV2,
)

from ._peer import CONTROL_CHANNEL, PING_CHANNEL, STREAM_CHANNEL

__all__ = ["ControlLink", "LinkEnd", "LinkOwner", "LinkState", "where"]


# What a broker writes for the largest message that a client may send is a little longer than what that client sent.
_FRAME_BYTES_MAX = 104 * 1024 * 1024


class LinkState(Enum):
    """The state of a link."""

    #: The peer has not accepted or refused the cluster user and password yet.
    OPENING = "opening"
    AUTHORIZED = "authorized"
    CLOSED = "closed"


class LinkEnd(Enum):
    """Why a link is over."""

    #: The connection broke, was silent for too long, or the peer did not keep to the protocol.
    LOST = "lost"
    #: The peer stops in an orderly way.
    DISCONNECTED = "disconnected"
    #: The peer does not accept the cluster user and password.
    REFUSED = "refused"


class LinkOwner(Protocol):
    """The user of a `ControlLink`."""

    def on_authorized(self, link: ControlLink) -> None:
        """Use the link, which the peer has accepted as one of its cluster."""

    def on_packet(self, link: ControlLink, packet: Packet) -> None:
        """Handle a packet of an authorized link."""

    def on_end(self, link: ControlLink, end: LinkEnd, reason: str) -> None:
        """Handle the end of the link, once."""


class ControlLink:
    """A link from the moment it is dialled to its end.

    Args:
        owner: Receives the packets of the link, and its end.
        pipe: The output of the connection.
        connector: The place of the peer.
        settings: The cluster connection, with call time-out, TTL and ping period in milliseconds.
        credentials: Cluster user and password, which the peer must accept.
        version: The newest protocol version of this broker.
        now: The time at which the connection was opened.
    """

    def __init__(
        self,
        owner: LinkOwner,
        pipe: Pipe,
        connector: TransportConfiguration,
        settings: ClusterConnection,
        credentials: ClusterConnect,
        version: int,
        now: Instant,
    ) -> None:
        self.connector = connector
        self.state = LinkState.OPENING
        #: The broker there is not active, and has sent that.
        self.waits = False
        #: Whether the broker at this place has announced itself here.
        self.is_met = False
        self._owner = owner
        #: Takes the frames of the stream channel.
        self.receiver: ChannelReceiver | None = None
        self.was_authorized = False
        self._pipe = pipe
        self._settings = settings
        self._version = version
        self._connection = ConnectionState(
            Role.INITIATOR,
            version,
            ttl_ms=settings.connection_ttl_ms,
            ping_period_ms=settings.ping_period_ms,
            frame_size_bytes_max=_FRAME_BYTES_MAX,
            assumed_version=version,
        )
        self._answer_due: float | None = now.monotonic + settings.call_timeout_ms / 1000
        pipe.write(self._connection.open(now, handshake=connector.factory != IN_VM_CONNECTOR_FACTORY))
        self.send(credentials, CONTROL_CHANNEL)

    @property
    def version(self) -> int:
        """Return the version that both ends use; this broker's until the peer's is known."""
        return self._connection.version

    @property
    def peer_version(self) -> int:
        """Return the newest version of the peer, from its topology packets; 0 before them."""
        return self._connection.peer_version

    @property
    def name(self) -> str:
        """Return where the peer is, for the operator."""
        return where(self.connector)

    # -- out -----------------------------------------------------------------------------------------------------

    def send(self, packet: Packet, channel_id: int) -> None:
        """Send a packet; on a link that is over it goes nowhere."""
        if self.state is not LinkState.CLOSED:
            self._pipe.write(self._connection.send(packet, channel_id))

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> None:
        """Send whole frames of the stream channel; on a link that is over they go nowhere."""
        if self.state is not LinkState.CLOSED:
            self._pipe.write_pieces(pieces)

    def subscribe(self) -> None:
        """Subscribe to the peer's topology, from now on."""
        self.send(SubscribeTopologyV2(True, self._version), PING_CHANNEL)

    def close(self, reason: str) -> None:
        """End the link on this side, without a callback."""
        if self.state is not LinkState.CLOSED:
            self._pipe.close(reason)
            self._retire()

    def fail(self, reason: str) -> None:
        """End the link because of what the peer did."""
        self._end(LinkEnd.LOST, reason)

    def _retire(self) -> None:
        self.state = LinkState.CLOSED
        if self.receiver is not None:
            self.receiver.on_gone()

    def _end(self, end: LinkEnd, reason: str) -> None:
        if self.state is not LinkState.CLOSED:
            self.close(reason)
            self._owner.on_end(self, end, reason)

    # -- in ------------------------------------------------------------------------------------------------------

    def lost(self, reason: str) -> None:
        """Handle the end of the socket."""
        if self.state is not LinkState.CLOSED:
            self._retire()
            self._owner.on_end(self, LinkEnd.LOST, reason)

    def receive(self, data: bytes, now: Instant) -> None:
        """Handle the bytes of one read. Bad bytes end this link and nothing else."""
        try:
            buffer, headers = self._connection.receive(data, now)
            start = 0
            for length, packet_type, channel_id in headers:
                end = start + 4 + length
                if channel_id == STREAM_CHANNEL:
                    if self.receiver is not None:
                        self.receiver.on_frame(packet_type, buffer, start, end)
                elif channel_id in (PING_CHANNEL, CONTROL_CHANNEL):
                    self._take(channel_id, self._connection.read(buffer, start, end))
                start = end
                if self.state is LinkState.CLOSED:
                    return
        except RemoteProtocolError as error:
            self.fail(f"{self.name} sent what the protocol does not allow: {error}")

    def _take(self, channel_id: int, packet: Packet) -> None:
        match packet:
            case Ping():
                return
            case _ if isinstance(packet, AnyDisconnect):
                self._end(LinkEnd.DISCONNECTED, f"{self.name} stops")
                return
            case ClusterConnectReply() if channel_id == CONTROL_CHANNEL:
                self._on_reply(packet)
                return
        if self.was_authorized:
            self._owner.on_packet(self, packet)

    def _on_reply(self, reply: ClusterConnectReply) -> None:
        if self.state is not LinkState.OPENING:
            raise RemoteProtocolError("an answer to CLUSTER_CONNECT that was not asked for")
        if not reply.authorized:
            self._end(LinkEnd.REFUSED, f"{self.name} refuses the cluster user and password")
            return
        self.state = LinkState.AUTHORIZED
        self.was_authorized = True
        self._answer_due = None
        self._owner.on_authorized(self)

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due, in monotonic seconds; None if it never is."""
        dues = (self._answer_due, self._connection.next_ping, self._connection.silent_at())
        return min((due for due in dues if due is not None), default=None)

    def on_time(self, now: Instant) -> None:
        """Ping when due; give up a peer that does not answer."""
        if self._answer_due is not None and now.monotonic >= self._answer_due:
            self.fail(f"{self.name} did not answer within {self._settings.call_timeout_ms} ms")
        elif self._connection.is_silent(now):
            self.fail(f"nothing was received from {self.name} for {self._settings.connection_ttl_ms} ms")
        elif self._connection.is_ping_due(now):
            self._pipe.write(self._connection.ping(now))


def where(connector: TransportConfiguration) -> str:
    """Return a connector as text for the operator."""
    if connector.factory == IN_VM_CONNECTOR_FACTORY:
        return f"{connector.name} (vm://{connector.parameters.get('serverId')})"
    return f"{connector.name} ({connector.host}:{connector.port_text})"
