"""The connections that this broker accepted, as far as they concern the cluster: subscribers, and other brokers.

Responsible for sending the topology to subscribers in their version, and for the control channel. The control channel
ignores its frames until the cluster user and password were right (cluster-and-ha 4.6, 5). Does not depend on what
follows from an announcement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hmac import compare_digest
from typing import Protocol

from attrs import define

from embedclient.engine.core import ChannelReceiver, Peer
from embedclient.wire.core import (
    ClusterConnect,
    ClusterConnectReply,
    NodeAnnounce,
    Packet,
    Record,
    decode_packet,
    enclosed_in,
    encode_packet,
)

from ._announcement import packet_for
from ._peer import CONTROL_CHANNEL, PING_CHANNEL, STREAM_CHANNEL
from ._topology import REMOVALS_MAX, Change, Listener, Member, MemberDown, Topology

__all__ = ["Handler", "InboundObserver", "InboundPeer", "InboundPeers"]

Handler = Callable[["InboundPeer", Record], None]


@define(eq=False)
class InboundPeer:
    """The cluster's state of one accepted connection."""

    peer: Peer
    authorized: bool = False
    listener: Listener | None = None
    #: The node id for which the peer announced itself as active.
    live_for: str | None = None
    #: The node id for which the peer announced itself as backup.
    backup_for: str | None = None
    #: Takes the frames of the stream channel.
    receiver: ChannelReceiver | None = None

    @property
    def name(self) -> str:
        """Return where the peer is, for the operator."""
        return self.peer.name

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> None:
        """Send whole frames of the stream channel; on a connection that is gone they go nowhere."""
        self.peer.write_pieces(pieces)

    def fail(self, reason: str) -> None:
        """End the connection because of what the peer did."""
        self.peer.fail(reason)


class InboundObserver(Protocol):
    """Observe accepted connections."""

    def on_inbound(self, inbound: InboundPeer) -> None:
        """Observe a peer that is another broker of this cluster."""


class InboundPeers:
    """Hold an InboundPeer for each accepted connection.

    Args:
        topology: The members that subscribers receive.
        credentials: Cluster user and password, which other brokers must send.
        version: The newest protocol version of this broker.
        on_announce: Receives the announcements of authorized peers.
        log: Receives lines for the operator.
    """

    def __init__(
        self,
        topology: Topology,
        credentials: ClusterConnect,
        version: int,
        on_announce: Callable[[InboundPeer, NodeAnnounce], None],
        log: Callable[[str], None],
    ) -> None:
        #: Handlers of the packets of the control channel that are not answered here, and of what is enclosed in them.
        self.handlers: dict[type[Record], Handler] = {}
        self.observer: InboundObserver | None = None
        self._topology = topology
        self._credentials = credentials
        self._version = version
        self._on_announce = on_announce
        self._log = log
        self._inbound_peers: dict[Peer, InboundPeer] = {}
        # The nodes whose backup will not serve for them: its connection is over, or it scales down.
        self._without_backup: dict[str, None] = {}
        # By node id: the member as it was sent last, and its frames by version and whether it was the last one.
        self._frames: dict[str, tuple[Member, dict[tuple[int, bool], bytes]]] = {}
        # The removal that was sent last.
        self._down: tuple[MemberDown | None, dict[tuple[int, bool], bytes]] = (None, {})

    def subscribe(self, peer: Peer) -> None:
        """Send every member to a peer now, and every change while its connection lasts."""
        inbound = self._inbound_peer(peer)
        if inbound.listener is not None:
            self._topology.forget(inbound.listener)

        def send_change(change: Change) -> None:
            peer.write_pieces((self._frame(change, peer.version),))

        inbound.listener = send_change
        version = peer.version
        # All members at once: there are as many subscribers as members.
        peer.write_pieces([self._frame(change, version) for change in self._topology.announcements()])
        self._topology.follow(send_change)

    def _frame(self, change: Change, version: int) -> bytes:
        """Return the frame of a change, encoded once for all subscribers: there are as many of them as members."""
        if isinstance(change, MemberDown):
            self._frames.pop(change.node_id, None)
            if self._down[0] is not change:
                self._down = (change, {})
            frames, key = self._down[1], (version, False)
        else:
            member = change.member
            known = self._frames.get(member.node_id)
            if known is None or known[0] is not member:
                known = self._frames[member.node_id] = (member, {})
            frames, key = known[1], (version, change.last)
        frame = frames.get(key)
        if frame is None:
            frame = frames[key] = encode_packet(packet_for(change, version, self._version), PING_CHANNEL, version)
        return frame

    def on_frame(
        self, peer: Peer, channel_id: int, packet_type: int, buffer: bytes | bytearray, start: int, end: int
    ) -> None:
        """Handle one frame of the stream channel or of the control channel.

        Raises:
            RemoteProtocolError: The frame cannot be read.
        """
        inbound = self._inbound_peer(peer)
        if channel_id == STREAM_CHANNEL:
            if not inbound.authorized:
                peer.fail("a stream of records from a peer that did not give the cluster user and password")
            elif inbound.receiver is not None:
                inbound.receiver.on_frame(packet_type, buffer, start, end)
        elif channel_id == CONTROL_CHANNEL:
            self._on_packet(inbound, decode_packet(buffer, start, end, peer.version or self._version, True))

    def _on_packet(self, inbound: InboundPeer, packet: Packet) -> None:
        if isinstance(packet, ClusterConnect):
            inbound.authorized = self._is_right(packet)
            if not inbound.authorized:
                self._log(
                    f"{inbound.peer.name}: refused, cluster user {packet.cluster_user!r} or the password is wrong; "
                    "cluster_user and cluster_password must be the same on all brokers of a cluster"
                )
            inbound.peer.send(ClusterConnectReply(inbound.authorized), CONTROL_CHANNEL)
            if inbound.authorized and self.observer is not None:
                self.observer.on_inbound(inbound)
        elif not inbound.authorized:
            return
        elif isinstance(packet, NodeAnnounce):
            if packet.backup:
                inbound.backup_for = packet.node_id
                self._note_backup(packet.node_id, serves=packet.scale_down_group_name is None)
            else:
                inbound.live_for = packet.node_id
            self._on_announce(inbound, packet)
        else:
            enclosed = enclosed_in(packet)
            handler = self.handlers.get(type(enclosed))
            if handler is not None:
                handler(inbound, enclosed)

    def _is_right(self, packet: ClusterConnect) -> bool:
        ours = self._credentials
        return packet.cluster_user == ours.cluster_user and self.is_password(packet.cluster_password)

    def is_password(self, password: str) -> bool:
        """Return True if this is the cluster password. The duration of the comparison does not depend on how much of it
        is right."""
        return compare_digest(password.encode("utf-8", "surrogatepass"), self._password)

    @property
    def _password(self) -> bytes:
        return self._credentials.cluster_password.encode("utf-8", "surrogatepass")

    def forget(self, peer: Peer) -> str | None:
        """Forget a connection. Return the node id of an active broker that has no other connection here."""
        inbound = self._inbound_peers.pop(peer, None)
        if inbound is None:
            return None
        if inbound.listener is not None:
            self._topology.forget(inbound.listener)
        if inbound.receiver is not None:
            inbound.receiver.on_gone()
        backup_for = inbound.backup_for
        if backup_for is not None and all(other.backup_for != backup_for for other in self._inbound_peers.values()):
            self._note_backup(backup_for, serves=False)
        node_id = inbound.live_for
        if node_id is None or any(other.live_for == node_id for other in self._inbound_peers.values()):
            return None
        return node_id

    def is_authorized(self, peer: Peer) -> bool:
        """Return True if a peer has given the cluster user and password."""
        return peer in self._inbound_peers and self._inbound_peers[peer].authorized

    def has_live(self, node_id: str) -> bool:
        """Return True if the active broker of a node has announced itself on one of the connections."""
        return bool(self.of_live(node_id))

    def lacks_backup(self, node_id: str) -> bool:
        """Return True if a backup of a node has connected here, and is gone or scales down when it takes over."""
        return node_id in self._without_backup

    def _note_backup(self, node_id: str, *, serves: bool) -> None:
        if serves:
            self._without_backup.pop(node_id, None)
            return
        self._without_backup[node_id] = None
        if len(self._without_backup) > REMOVALS_MAX:
            del self._without_backup[next(iter(self._without_backup))]

    def of_live(self, node_id: str) -> list[InboundPeer]:
        """Return the connections on which the active broker of a node has announced itself."""
        return [inbound for inbound in self._inbound_peers.values() if inbound.live_for == node_id]

    def _inbound_peer(self, peer: Peer) -> InboundPeer:
        inbound = self._inbound_peers.get(peer)
        if inbound is None:
            inbound = self._inbound_peers[peer] = InboundPeer(peer)
        return inbound
