"""One broker's place in its cluster: its announcements, its connections to others, and its reaction to news.

Responsible for the announcements of an active broker and of a backup, for which places are dialled, and for noticing
that a member is gone (cluster-and-ha 4.6 to 4.8, 5). Does not decide which broker is active, and does not depend on
journals and votes. Components that do register for their packets at ``inbound_peers`` and at the links.

History of a member that was given up although it was running (`test_a_member_that_was_given_up_comes_back_by_itself`):

1. A and C are linked. The network between them fails for a moment; each removes the other, with its own wall time.
2. It heals. A links to C again and announces itself with the event id of its start, which is older than the removal.
3. C does not accept that, and answers with the removal itself, as a subscriber would have received it.
4. A receives its own removal although it is running, and announces itself again with an id above that of the removal.

In the same way an active broker answers news that another one is active with its node id: its pair was active before,
with a clock that is ahead, and others take the announcement of this one for older. Two brokers that both are active
answer each other, so that the number of such answers has a limit. Artemis only logs such news.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Protocol

from attrs import frozen

from embedbroker.config import DEFAULT_CLUSTER_PASSWORD, BrokerConfig, ClusterConnection, Role, is_at_host
from embedclient.engine import ConnectionDialer
from embedclient.engine.core import Peer
from embedclient.model import Instant, TransportConfiguration, can_be_dialled
from embedclient.wire.core import (
    ClusterConnect,
    NodeAnnounce,
    Packet,
    Record,
    ReplicaWaiting,
    ScaleDownAnnouncement,
    enclosed_in,
)

from ._announcement import announced_member, backup_announcement, change_in, live_announcement, packet_for
from ._control_link import ControlLink, LinkEnd, where
from ._inbound import InboundPeer, InboundPeers
from ._outbound import OutboundPeer
from ._peer import CONTROL_CHANNEL, PING_CHANNEL
from ._topology import REMOVALS_MAX, Member, MemberDown, MemberUp, NewsResult, Topology

__all__ = ["LinkObserver", "Membership"]

_LOGGED_MAX = 100
# How long, in seconds, a broker searches for a member that is gone at its place. Two brokers that lost each other find
# each other again, also when the configuration of neither names the other.
_DEPARTED_SOUGHT_S = 600.0
_DEPARTED_MAX = 100
# How often an active broker announces itself above news that another one is active with its node id. Once for each
# sender of such news would do.
_ANSWERS_TO_RIVALS_MAX = 10


class LinkObserver(Protocol):
    """Observe the links of a membership."""

    def on_link(self, link: ControlLink) -> None:
        """Observe a link over which this active broker has announced itself, or that is authorized."""


@frozen(eq=False)
class _RemovalBy:
    """A removal that a link has brought, and the member at the other end, if it is known."""

    event_id: int
    link: ControlLink
    sender: Member | None


class Membership:
    """The membership of a broker by one of its cluster connections. ``now`` must be set before any other call.

    It has the connections of the acceptors that belong to it: clients and other brokers receive its members there.
    Of several, the default one also has those of acceptors without a cluster connection, and the others follow its
    role.

    Args:
        config: The configuration.
        settings: The cluster connection.
        version: The newest protocol version of this broker.
        dialer: Opens connections to other brokers.
        log: Receives lines for the operator.
    """

    def __init__(
        self,
        config: BrokerConfig,
        settings: ClusterConnection,
        version: int,
        dialer: ConnectionDialer,
        log: Callable[[str], None],
        *,
        inform: Callable[[str], None] | None = None,
    ) -> None:
        self.now = Instant(0.0, 0)
        # A hosted backup that serves no client: the broker at its place is its host, a member like any other.
        self._is_at_host = is_at_host(settings)
        own = () if self._is_at_host else config.cluster_connections
        self.topology = Topology(own_connector(config, each) for each in own)
        self.connector = own_connector(config, settings)
        self.role = Role.STOPPED
        # Known from the moment this broker is active, or as a backup with the node id of its active broker.
        self.node_id = ""
        self.settings = settings
        self._followers: Sequence[Membership] = ()
        # That of the default cluster connection, if other brokers announce themselves to this one at its acceptor.
        self._default: Membership | None = None
        self._static = [config.connectors[name] for name in self.settings.static_connectors]
        # Where other brokers announce themselves by datagrams.
        self._found: list[TransportConfiguration] = []
        self._credentials = ClusterConnect(config.cluster_user, config.cluster_password)
        self._version, self._dialer = version, dialer
        self._log, self._inform = log, inform or log
        self.inbound_peers = InboundPeers(self.topology, self._credentials, version, self._on_announce, log)
        #: Handlers of the packets on the control channel of a link.
        self.handlers: dict[type[Record], Callable[[ControlLink, Record], None]] = {}
        self.observer: LinkObserver | None = None
        #: Called with the node id of a broker when it announces itself on its connection.
        self.direct_listeners: list[Callable[[str], None]] = []
        # Nodes whose messages have moved here; Artemis remembers as many.
        self._scaled_down: deque[str] = deque(maxlen=10)
        policy = getattr(config.own_policy, "scale_down", None)
        self._scale_down = policy if policy is not None and policy.enabled else None
        self.inbound_peers.handlers[ScaleDownAnnouncement] = self._on_scaled_down
        self._outbound_peers: list[OutboundPeer] = []
        # The places of active members that are gone, and until when this broker searches for them there.
        self._departed: list[tuple[TransportConfiguration, float]] = []
        self._announces_backup = self._is_found = self._is_retiring = False
        self._group_name: str | None = None
        self._repeats: list[float] = []
        self._answers_left = 0
        # Computed only when it may have changed: every step of the node reads it.
        self.deadline: float | None = None
        self.is_rearmed = True
        self._has_waited = False
        # The changes of the members that the last review has seen.
        self._reviewed = -1
        self._logged: dict[str, None] = {}
        # The event ids of news, by node id, for which their sender has got the removal already.
        self._returned: dict[str, int] = {}
        # By node id: the removal that a link has brought, which counts while it is the latest one.
        self._removals_by_links: dict[str, _RemovalBy] = {}
        if config.cluster_password == DEFAULT_CLUSTER_PASSWORD and settings is config.cluster_connection:
            self._report("the cluster password is the default, which is public: set cluster_user and cluster_password")

    def lead(self, followers: Sequence[Membership], acceptors: Collection[str | None]) -> None:
        """Have the memberships by other cluster connections follow this one, that of the default one, in its role.

        Those that ``acceptors`` does not name have no acceptor of their own, and share that of this one.
        """
        self._followers = followers
        for follower in followers:
            follower._default = None if follower.settings.name in acceptors else self

    @property
    def _sharers(self) -> list[Membership]:
        return [each for each in self._followers if each._default is self]

    # -- port of the protocols -----------------------------------------------------------------------------------

    def subscribe(self, peer: Peer) -> None:
        """Send the members to a client or a broker, now and when they change."""
        self.inbound_peers.subscribe(peer)

    def is_broker(self, peer: Peer) -> bool:
        """Return True if a peer is another broker of this cluster."""
        return self.inbound_peers.is_authorized(peer)

    def on_frame(
        self, peer: Peer, channel_id: int, packet_type: int, buffer: bytes | bytearray, start: int, end: int
    ) -> None:
        """Handle a frame that only brokers send."""
        self.inbound_peers.on_frame(peer, channel_id, packet_type, buffer, start, end)

    def forget(self, peer: Peer) -> None:
        """Handle the end of an accepted connection, and perhaps of the active broker that announced itself on it."""
        node_id = self.inbound_peers.forget(peer)
        if node_id is not None:
            for membership in (self, *self._sharers):
                membership._on_announced_end(node_id)

    def _on_announced_end(self, node_id: str) -> None:
        """Handle the end of the connection on which an active broker has announced itself."""
        member = self.topology.members.get(node_id)
        if member is not None and not self.sees(member):
            self._remove(member)
            self._review()

    def places(self) -> list[tuple[str, str | None, str | None]]:
        """Return node id, place of the active broker and place of the backup of each member; None for no place."""
        return [
            (member.node_id, _place(member.live), _place(member.backup)) for member in self.topology.members.values()
        ]

    def announces(self, node_id: str) -> bool:
        """Return True if its subscribers have the place of the active broker of a node."""
        member = self.topology.members.get(node_id)
        return member is not None and member.live is not None

    def refuses_login(self, user: str | None, password: str | None) -> bool:
        """Return True if a login uses the cluster user without the cluster password."""
        return user == self._credentials.cluster_user and not self.inbound_peers.is_password(password or "")

    # -- roles ---------------------------------------------------------------------------------------------------

    def become_backup(self, node_id: str, group_name: str | None = None, *, announce: bool = True) -> None:
        """Search for the active broker, and announce this backup to it; ``announce`` False: only search.

        A replicating backup has no node id until it is in sync; it calls this again, and announces itself then.
        """
        assert node_id or not announce, "a backup announces itself under the node id of its live broker"
        if self.role is Role.LIVE:
            self.topology.become_backup(self.node_id)
        self.role = Role.BACKUP
        self.node_id = node_id
        self._group_name = group_name
        self._announces_backup = announce
        self._is_retiring = False
        self._repeats.clear()
        if announce:
            self.topology.put_backup(node_id, self.connector, group_name, self.now.wall_ms)
        self._review()
        for link in self.links:
            self._announce(link)
        for follower in self._followers:
            follower.become_backup(node_id, group_name, announce=announce)

    def become_live(
        self, node_id: str, group_name: str | None = None, scale_down_group_name: str | None = None
    ) -> None:
        """Announce to all members that this broker is active, now and some times more."""
        self.role = Role.LIVE
        self.node_id = node_id
        self._is_retiring = False
        self._group_name = group_name
        self.topology.become_live(
            Member(node_id, self.now.wall_ms, self.connector, None, group_name, scale_down_group_name)
        )
        interval = self.settings.notification_interval_ms / 1000
        attempts = range(1, self.settings.notification_attempts + 1)
        self._answers_left = _ANSWERS_TO_RIVALS_MAX
        self._repeats = [self.now.monotonic + interval * attempt for attempt in attempts]
        self._review()
        for link in self.links:
            self._announce(link)
            if self.observer is not None:
                self.observer.on_link(link)
        for follower in self._followers:
            follower.become_live(node_id, group_name, scale_down_group_name)

    @property
    def has_backup(self) -> bool:
        """Return True if a backup of this broker has announced itself, here or at another member, and would serve."""
        member = self.topology.members.get(self.node_id)
        return member is not None and member.backup is not None and not self.lacks_backup

    @property
    def lacks_backup(self) -> bool:
        """Return True if the backup that has announced itself here is lost, or scales down when it takes over."""
        return self.inbound_peers.lacks_backup(self.node_id)

    # -- scale-down ----------------------------------------------------------------------------------------------

    def scale_down_targets(self, group_name: str | None) -> list[TransportConfiguration]:
        """Return the active brokers that may get the messages of this one, in the order of their node ids."""
        members = sorted(self.topology.members.values(), key=lambda member: member.node_id)
        return [
            member.live
            for member in members
            if member.live is not None
            and member.node_id != self.node_id
            and group_name in (None, member.scale_down_group_name)
        ]

    def searches_at(self, connector: TransportConfiguration) -> bool:
        """Return True if the configuration or discovery leads this membership to a place."""
        return any(connector.leads_where(each) for each in (*self._static, *self._found))

    def announce_scale_down(self, target_node_id: str) -> bool:
        """Notify the target that it has everything of this broker, so that it answers for its node id.

        Return False without a link to it.
        """
        member = self.topology.members.get(target_node_id)
        link = self.link_to(member.live) if member is not None and member.live is not None else None
        if link is not None:
            link.send(ScaleDownAnnouncement(target_node_id, self.node_id), CONTROL_CHANNEL)
        return link is not None

    def _on_scaled_down(self, _inbound: InboundPeer, announcement: Record) -> None:
        assert isinstance(announcement, ScaleDownAnnouncement)
        if announcement.target_node_id == self.node_id:
            self._scaled_down.append(announcement.scaled_down_node_id)

    def acts_for(self, node_id: str | None) -> bool:
        """Return True if the sessions of a node may go on here: it is this one, or has moved its messages here.

        A broker that never scales down does not decide that, and accepts them all, as in Artemis.
        """
        return self._scale_down is None or node_id in (None, self.node_id, *self._scaled_down)

    # -- what others know ----------------------------------------------------------------------------------------

    def be_found(self, found: bool) -> None:
        """Set whether others find this broker although it is not active.

        Then it accepts no news that a broker is active here. A broker that has not noticed the end of the last start
        may have sent such news.
        """
        self._is_found = found
        if found and not self._is_at_host:
            self._deny(self.connector)
        self._review()
        for follower in self._followers:
            follower.be_found(found)

    def _is_here(self, member: Member) -> bool:
        return member.live is not None and member.live.leads_where(self.connector) and not self._is_at_host

    def retire(self) -> None:
        """Announce this broker no more, because its clients and the bridges of others are disconnected for good.

        An Artemis that gets an announcement while it ends its bridge keeps a bridge that never connects again.
        """
        self._is_retiring = True
        self.rearm()
        self._repeats.clear()
        for follower in self._followers:
            follower.retire()

    def leave(self, reason: str) -> None:
        """End all dialled connections. The owner of an accepted connection ends it."""
        self.role = Role.STOPPED
        self.rearm()
        self._repeats.clear()
        self._departed.clear()
        for outbound in self._outbound_peers:
            outbound.give_up(reason)
        self._outbound_peers.clear()
        for follower in self._followers:
            follower.leave(reason)

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due, in monotonic seconds; None if it never is."""
        if self.is_rearmed:
            dues = [due for outbound in self._outbound_peers if (due := outbound.next_deadline()) is not None]
            self.deadline = min([*dues, *self._repeats[:1]], default=None)
            self.is_rearmed = False
        return self.deadline

    def rearm(self) -> None:
        self.is_rearmed = True

    def on_time(self) -> None:
        """Dial, ping and repeat announcements that are due."""
        self.rearm()
        if self._departed and self._departed[0][1] <= self.now.monotonic:
            del self._departed[0]
            self._review()
        while self._repeats and self._repeats[0] <= self.now.monotonic:
            del self._repeats[0]
            self.topology.repeat(self.node_id, self.now.wall_ms)
        for outbound in list(self._outbound_peers):
            due = outbound.next_deadline()
            # One of those before may have brought news that makes this one useless.
            if outbound in self._outbound_peers and due is not None and due <= self.now.monotonic:
                outbound.on_time(self.now)

    # -- places --------------------------------------------------------------------------------------------------

    def search_at(self, places: list[TransportConfiguration]) -> None:
        """Search for others at places that discovery has found, beside the static connectors."""
        self._found = places
        self._review()

    def _wanted(self) -> list[TransportConfiguration]:
        """Return the places at which this broker searches for others.

        A backup searches at all configured places, since its active broker may be at any of them. An active broker
        dials the other members, places without a known member, and the places of members that are gone.
        """
        if self.role not in (Role.LIVE, Role.BACKUP):
            return []
        topology = self.topology
        configured = [*self._static, *self._found]
        wanted = [one for one in configured if self.role is Role.BACKUP or topology.member_at(one) is None]
        for member in topology.members.values():
            if member.live is not None and (member.node_id != self.node_id or self.role is Role.BACKUP):
                wanted.append(member.live)
        wanted += [place for place, _until in self._departed]
        allowed = {one.destination for one in configured} if self.settings.allow_direct_connections_only else None
        places: dict[Hashable, TransportConfiguration] = {}
        for one in wanted:
            if not can_be_dialled(one):
                self._report(f"cannot connect to {where(one)}: its connector names no way that is known here")
                continue
            destination = one.destination
            is_own = destination == self.connector.destination and not self._is_at_host
            if not is_own and (allowed is None or destination in allowed):
                places.setdefault(destination, one)
        return list(places.values())

    def _review(self) -> None:
        """Dial new places and give up old ones, because the members or the role changed."""
        self.rearm()
        self._reviewed = self.topology.changes
        wanted = self._wanted()
        destinations = {place.destination for place in wanted}
        for outbound in [each for each in self._outbound_peers if each.connector.destination not in destinations]:
            self._outbound_peers.remove(outbound)
            outbound.give_up("no member is expected there any more")
        known = {outbound.connector.destination for outbound in self._outbound_peers}
        for place in wanted:
            if place.destination not in known:
                outbound = OutboundPeer(
                    place,
                    self.settings,
                    self._credentials,
                    self._version,
                    self._dialer,
                    self,
                    self._log,
                    self.now,
                )
                self._outbound_peers.append(outbound)

    @property
    def is_informed(self) -> bool:
        """Return True if every place has sent its members, or has no broker."""
        return bool(self._outbound_peers) and all(outbound.is_settled for outbound in self._outbound_peers)

    @property
    def waiting(self) -> list[ControlLink]:
        """Return the links to brokers that are not active, and have sent that."""
        return [link for link in self.links if link.waits]

    def _note_waiting(self, link: ControlLink) -> None:
        """Note that no broker is active there, whatever news late brokers still send, and that no members will come."""
        link.waits = self._has_waited = True
        self._settle(link)
        self._deny(link.connector)

    def _deny(self, connector: TransportConfiguration) -> None:
        """Remove the members that are announced as active at a place. Such a broker may be active elsewhere, in older
        news that the wrong news has replaced: so all links are subscribed again."""
        members = self.topology.members.values()
        denied = [one for one in members if one.live is not None and one.live.leads_where(connector)]
        for member in denied:
            self.topology.drop(member.node_id, self.now.wall_ms)
        for link in self.links if denied else ():
            link.subscribe()

    def _is_waited_at(self, member: Member) -> bool:
        # Of few brokers any link has ever waited, and each packet about a member comes here.
        if not self._has_waited:
            return False
        return any(member.live is not None and link.connector.leads_where(member.live) for link in self.waiting)

    def _settle(self, link: ControlLink) -> None:
        for outbound in self._outbound_peers:
            if outbound.link is link:
                outbound.is_settled = True

    def link_to(self, connector: TransportConfiguration) -> ControlLink | None:
        """Return the link to the active broker at a place, if that one has accepted this broker for its cluster."""
        for outbound in self._outbound_peers:
            link = outbound.authorized_link
            if link is not None and link.connector.leads_where(connector) and not link.waits:
                return link
        return None

    def sees(self, member: Member) -> bool:
        """Return True if there is a connection with a member's active broker. Without one, only the news of others
        names it."""
        return member.live is not None and (
            self.link_to(member.live) is not None or self.inbound_peers.has_live(member.node_id)
        )

    @property
    def links(self) -> list[ControlLink]:
        """Return the links to brokers that have accepted this one for their cluster."""
        return [link for outbound in self._outbound_peers if (link := outbound.authorized_link) is not None]

    def on_authorized(self, link: ControlLink) -> None:
        self._announce(link)
        link.subscribe()
        if self.observer is not None:
            self.observer.on_link(link)

    def on_end(self, link: ControlLink, end: LinkEnd, reason: str) -> None:
        if end is LinkEnd.REFUSED:
            self._report(f"{reason}: cluster_user and cluster_password must be the same on all brokers of a cluster")
        elif link.was_authorized:
            if end is LinkEnd.DISCONNECTED:
                self._inform(f"the connection to {link.name} is over: it stops")
            else:
                self._log(f"lost the connection to {link.name}: {reason}")
            self._remove_at(link.connector)

    def _remove_at(self, connector: TransportConfiguration) -> None:
        """Handle the end of a member's active broker."""
        for member in list(self.topology.members.values()):
            if member.live is not None and member.live.leads_where(connector):
                self._remove(member)
        self._review()

    def _remove(self, member: Member) -> None:
        if member.node_id != self.node_id and self.role is not Role.STOPPED:
            self.topology.drop(member.node_id, self.now.wall_ms)
            self._seek(member)
            if self._default is not None and self._default.inbound_peers.has_live(member.node_id):
                self._on_announced(self._default.topology.members.get(member.node_id))

    def _seek(self, member: Member) -> None:
        """Search at the place of a lost active broker, which may come back."""
        if member.live is not None:
            until = self.now.monotonic + _DEPARTED_SOUGHT_S
            self._departed = [each for each in self._departed if not each[0].leads_where(member.live)]
            self._departed = [*self._departed[1 - _DEPARTED_MAX :], (member.live, until)]

    # -- announcements and news ----------------------------------------------------------------------------------

    def _announce(self, link: ControlLink) -> None:
        if self._is_retiring:
            return
        if self.role is Role.LIVE:
            link.send(live_announcement(self.topology.members[self.node_id]), CONTROL_CHANNEL)
        elif self._announces_backup:
            group = None if self._scale_down is None else self._scale_down.group_name or ""
            announcement = backup_announcement(self.node_id, self.connector, self._group_name, group, self.now.wall_ms)
            link.send(announcement, CONTROL_CHANNEL)

    def _on_announce(self, inbound: InboundPeer, packet: NodeAnnounce) -> None:
        """Handle the announcement of another broker."""
        if packet.connector is None:
            return
        if packet.backup:
            verdict = self.topology.put_backup(
                packet.node_id, packet.connector, packet.backup_group_name, self.now.wall_ms
            )
        else:
            verdict = self._on_member_up(announced_member(packet))
            if verdict is NewsResult.RIVAL:
                self._answer_rival(packet.current_event_id)
            self._on_direct(packet.node_id)
            for sharer in self._sharers:
                sharer._on_announced(announced_member(packet))
        if verdict is NewsResult.REMOVED:
            self._send_removal(inbound, packet.node_id)
        self._review()

    def _on_announced(self, member: Member | None) -> None:
        """Search for an active broker that has announced itself at the acceptor of the default cluster connection.

        Its news of this cluster connection come over the link to it.
        """
        known = self.topology.members.get(member.node_id) if member is not None else None
        if member is None or (known is not None and known.live is not None):
            return
        if self.settings.allow_direct_connections_only:
            return
        if self._on_member_up(member) is NewsResult.REMOVED:
            self.topology.revive(member)
        self._review()

    def _send_removal(self, inbound: InboundPeer, node_id: str) -> None:
        removed = self.topology.removal_of(node_id)
        if removed is not None:
            # A broker announces itself before it subscribes, and its version comes with the subscription.
            version = inbound.peer.version or self._version
            inbound.peer.send(packet_for(MemberDown(node_id, removed), version, self._version), PING_CHANNEL)

    def _return_removal(self, link: ControlLink, member: Member) -> None:
        """Send a removal to a member whose news of another one are older.

        If it has a connection to that one, it sends newer news. Without this, a broker behind it would stay unknown
        after the clock of the one that removed it was ahead, and that one has started anew.
        """
        if self._returned.get(member.node_id) == member.event_id:
            return
        if len(self._returned) >= REMOVALS_MAX:
            self._returned.clear()
        self._returned[member.node_id] = member.event_id
        sender = self.topology.member_at(link.connector)
        for inbound in [] if sender is None else self.inbound_peers.of_live(sender.node_id):
            self._send_removal(inbound, member.node_id)

    def on_packet(self, link: ControlLink, packet: Packet) -> None:
        """Handle a packet of a link to another broker."""
        match change_in(packet):
            case MemberUp(member, last):
                is_there = member.live is not None and member.live.leads_where(link.connector)
                link.waits &= not is_there
                verdict = self._on_member_up(member)
                if last:
                    self._settle(link)
                is_of_others = self.role is not Role.LIVE or member.node_id != self.node_id
                # A broker that was replaced without noticing it announces itself, with news older than its removal.
                is_replaced = verdict is NewsResult.REMOVED and is_there and not is_of_others
                if verdict is NewsResult.RIVAL or is_replaced:
                    self._answer_rival(member.event_id, link)
                if is_there and not link.is_met:
                    link.is_met = True
                    self._on_direct(member.node_id)
                if verdict is NewsResult.REMOVED and is_of_others:
                    if is_there or self._is_corrected(link, member.node_id):
                        # It is there and announces itself. A backup, to which no broker connects, has no other way to
                        # find out.
                        self.topology.revive(member)
                    elif not self.sees(member):
                        self._return_removal(link, member)
            case MemberDown(node_id, event_id):
                self._on_member_down(link, node_id, event_id)
            case None:
                enclosed = enclosed_in(packet)
                if isinstance(enclosed, ReplicaWaiting):
                    self._note_waiting(link)
                handler = self.handlers.get(type(enclosed))
                if handler is not None:
                    handler(link, enclosed)
        # A cluster of n members sends n * n times what is known already to each of them. What was received makes no
        # link due earlier, so the deadline stands.
        if self.topology.changes != self._reviewed:
            self._review()

    def _on_direct(self, node_id: str) -> None:
        for listener in self.direct_listeners:
            listener(node_id)

    def _on_member_up(self, member: Member) -> NewsResult:
        if (self._is_found and self._is_here(member)) or self._is_waited_at(member):
            return NewsResult.OLD
        verdict = self.topology.update(member)
        if verdict is NewsResult.RIVAL:
            assert member.live is not None
            self._report(
                f"another broker, {where(member.live)}, announces that it is live with node id {member.node_id}, which "
                "is ours: its data directory is a copy of this one, or both took over; stop one of the two"
            )
        elif verdict is NewsResult.FULL:
            self._report(f"there are {len(self.topology.members)} members, more are not listened to")
        return verdict

    def _on_member_down(self, link: ControlLink, node_id: str, event_id: int) -> None:
        if node_id == self.node_id and not self._is_found:
            self._contradict(event_id, link)
            return
        member = self.topology.members.get(node_id)
        if member is not None and member.live is not None and self.link_to(member.live) is not None:
            # The link to it works at this moment, so the news is wrong.
            if event_id >= member.event_id:
                self.topology.repeat(node_id, max(self.now.wall_ms, event_id + 1))
            return
        if self.topology.remove(node_id, event_id) and member is not None:
            self._seek(member)
        if self.topology.removal_of(node_id) == event_id:
            if len(self._removals_by_links) >= REMOVALS_MAX:
                self._removals_by_links.clear()
            self._removals_by_links[node_id] = _RemovalBy(event_id, link, self.topology.member_at(link.connector))

    def _is_corrected(self, link: ControlLink, node_id: str) -> bool:
        """Return True if the removal of a member came over an earlier connection with the broker of this link.

        That broker has started anew since, or its backup has taken over, and its members have again the one that it
        removed. The removal is forgotten there, and where it does not connect to this broker, it cannot get it back.
        """
        removal = self._removals_by_links.get(node_id)
        if removal is None or removal.link is link or removal.event_id != self.topology.removal_of(node_id):
            return False
        if removal.link.connector.leads_where(link.connector):
            return True
        sender = self.topology.member_at(link.connector)
        return sender is not None and removal.sender is not None and removal.sender.node_id == sender.node_id

    def _answer_rival(self, event_id: int, link: ControlLink | None = None) -> None:
        """Contradict news that another broker is active with this node id, unless that has been done too often."""
        if event_id >= self.topology.members[self.node_id].event_id:
            if not self._answers_left:
                return
            self._answers_left -= 1
        self._contradict(event_id, link)

    def _contradict(self, event_id: int, link: ControlLink | None) -> None:
        """Announce this active broker above wrong news about its node id, to all and to the sender of the news."""
        if self.role is not Role.LIVE or self._is_retiring:
            return
        if event_id >= self.topology.members[self.node_id].event_id:
            self.topology.repeat(self.node_id, max(self.now.wall_ms, event_id + 1))
        if link is not None:
            # Also if the news are older: a broker that does not dial this one gets no repetitions.
            self._announce(link)

    def _report(self, text: str) -> None:
        """Log a text for the operator once per broker start."""
        if text not in self._logged and len(self._logged) < _LOGGED_MAX:
            self._logged[text] = None
            self._log(text)


def _place(connector: TransportConfiguration | None) -> str | None:
    if connector is None:
        return None
    return f"{connector.parameters.get('host', 'localhost')}:{connector.parameters.get('port', 61616)}"


def own_connector(config: BrokerConfig, settings: ClusterConnection | None) -> TransportConfiguration:
    """Return how others reach this broker: the configured connector, or the address of its acceptor.

    It is announced, so that it has no password of a private key.
    """
    if settings is not None and settings.connector is not None:
        return config.connectors[settings.connector].announced
    acceptor = config.acceptor_of(settings)
    parameters = {"host": acceptor.host, "port": str(acceptor.port)}
    if acceptor.tls is not None:
        parameters["sslEnabled"] = "true"
    return TransportConfiguration(config.name, parameters=parameters)
