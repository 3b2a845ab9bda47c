"""The connections that this broker accepted, as far as they concern the cluster: subscribers, and other brokers.

Responsible for telling subscribers of the topology in their version, and for the control channel, which is deaf until
the cluster user and password were right (cluster-and-ha 4.6, 5). Refuses to know what follows from an announcement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hmac import compare_digest

from attrs import define

from embedclient.wire.core import (
    ClusterConnect,
    ClusterConnectReply,
    NodeAnnounce,
    Packet,
    Record,
    decode_packet,
    enclosed_in,
)

from ._announcement import packet_for
from ._peer import CONTROL_CHANNEL, PING_CHANNEL, STREAM_CHANNEL, FrameReceiver, Peer
from ._topology import Change, Listener, Topology

__all__ = ["Guest", "Guests", "Handler"]

Handler = Callable[["Guest", Record], None]


@define(eq=False)
class Guest:
    """What the cluster knows of one accepted connection."""

    peer: Peer
    authorized: bool = False
    listener: Listener | None = None
    #: The node id that the peer says it is live for.
    live_for: str | None = None
    #: Who takes the frames of the stream channel, and who is told when the connection is gone.
    on_frame: FrameReceiver | None = None
    on_gone: Callable[[], None] | None = None

    @property
    def name(self) -> str:
        """Where the peer is, for the operator."""
        return self.peer.name

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> None:
        """Send whole frames of the stream channel; on a connection that is gone they go nowhere."""
        self.peer.write_pieces(pieces)

    def fail(self, reason: str) -> None:
        """End the connection because of what the peer did."""
        self.peer.fail(reason)


class Guests:
    """Guests by connection."""

    def __init__(
        self,
        topology: Topology,
        credentials: ClusterConnect,
        version: int,
        on_announce: Callable[[Guest, NodeAnnounce], None],
        log: Callable[[str], None],
    ) -> None:
        #: Who answers the packets of the control channel that are not answered here, and what is enclosed in them.
        self.handlers: dict[type[Record], Handler] = {}
        #: Told of each peer that is another broker of this cluster.
        self.on_authorized: Callable[[Guest], None] | None = None
        self._topology = topology
        self._credentials = credentials
        self._version = version
        self._on_announce = on_announce
        self._log = log
        self._guests: dict[Peer, Guest] = {}

    def subscribe(self, peer: Peer) -> None:
        """Tell a peer of every member now, and of every change while its connection lasts."""
        guest = self._guest(peer)
        if guest.listener is not None:
            self._topology.forget(guest.listener)

        def tell(change: Change) -> None:
            peer.send(packet_for(change, peer.version, self._version), PING_CHANNEL)

        guest.listener = tell
        self._topology.listen(tell)

    def on_frame(
        self, peer: Peer, channel_id: int, packet_type: int, buffer: bytes | bytearray, start: int, end: int
    ) -> None:
        """One frame of the stream channel or of the control channel.

        Raises:
            RemoteProtocolError: it cannot be read.
        """
        guest = self._guest(peer)
        if channel_id == STREAM_CHANNEL:
            if not guest.authorized:
                peer.fail("a stream of records from a peer that did not give the cluster user and password")
            elif guest.on_frame is not None:
                guest.on_frame(packet_type, buffer, start, end)
        elif channel_id == CONTROL_CHANNEL:
            self._on_packet(guest, decode_packet(buffer, start, end, peer.version or self._version, True))

    def _on_packet(self, guest: Guest, packet: Packet) -> None:
        if isinstance(packet, ClusterConnect):
            guest.authorized = self._is_right(packet)
            if not guest.authorized:
                self._log(
                    f"{guest.peer.name}: refused, cluster user {packet.cluster_user!r} or the password is wrong; "
                    "cluster_user and cluster_password must be the same on all brokers of a cluster"
                )
            guest.peer.send(ClusterConnectReply(guest.authorized), CONTROL_CHANNEL)
            if guest.authorized and self.on_authorized is not None:
                self.on_authorized(guest)
        elif not guest.authorized:
            return
        elif isinstance(packet, NodeAnnounce):
            if not packet.backup:
                guest.live_for = packet.node_id
            self._on_announce(guest, packet)
        else:
            said = enclosed_in(packet)
            handler = self.handlers.get(type(said))
            if handler is not None:
                handler(guest, said)

    def _is_right(self, packet: ClusterConnect) -> bool:
        ours = self._credentials
        return packet.cluster_user == ours.cluster_user and self.is_password(packet.cluster_password)

    def is_password(self, password: str) -> bool:
        """Whether this is the cluster password; how long the answer takes does not tell how much of it is right."""
        return compare_digest(password.encode("utf-8", "surrogatepass"), self._password)

    @property
    def _password(self) -> bytes:
        return self._credentials.cluster_password.encode("utf-8", "surrogatepass")

    def forget(self, peer: Peer) -> str | None:
        """The connection is gone. Returns the node id of a live broker that has no other one here."""
        guest = self._guests.pop(peer, None)
        if guest is None:
            return None
        if guest.listener is not None:
            self._topology.forget(guest.listener)
        if guest.on_gone is not None:
            guest.on_gone()
        node_id = guest.live_for
        if node_id is None or any(other.live_for == node_id for other in self._guests.values()):
            return None
        return node_id

    def is_authorized(self, peer: Peer) -> bool:
        """Whether a peer has given the cluster user and password."""
        return peer in self._guests and self._guests[peer].authorized

    def has_live(self, node_id: str) -> bool:
        """Whether the live broker of a node has announced itself on one of the connections."""
        return any(guest.live_for == node_id for guest in self._guests.values())

    def _guest(self, peer: Peer) -> Guest:
        guest = self._guests.get(peer)
        if guest is None:
            guest = self._guests[peer] = Guest(peer)
        return guest
