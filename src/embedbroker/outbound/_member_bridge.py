"""The bridge of a cluster connection to one member, with what that member has announced of its queues.

Responsible for the store-and-forward queue, the bridge that empties it, the subscription to the member's notifications,
and for routing to the member's queues. It is Artemis' message flow record (cluster-and-ha 7.2 to 7.7). Does not depend
on the other members.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from attrs import evolve, frozen

from embedbroker.cluster import (
    BindingAdded,
    BindingChange,
    BindingConnected,
    BindingDisconnected,
    BindingRemoved,
    BindingUpdated,
    ConsumerClosed,
    ConsumerCreated,
    Member,
    RemoteBindings,
    SessionCreated,
    notification_filter,
    notification_queue_name,
    session_filter,
)
from embedbroker.config import BridgeConfig, BrokerConfig, ClusterConnection
from embedbroker.kernel import GroupNotice, Kernel, Queue, QueueRequest, Refused, RemoteBinding
from embedclient.agent import CoreMessage, Session
from embedclient.engine import ConnectionDialer
from embedclient.model import (
    Entropy,
    Instant,
    RoutingType,
    TransportConfiguration,
    can_be_dialled,
    make_uuid,
    uuid_text,
)

from ._agent_link import Departure
from ._binding_subscription import BindingSubscription, NotificationQueue
from ._bridge import Bridge
from ._bridge_link import BridgeLink
from ._bridged_message import NodeForwarding
from ._session_news import SessionNews
from ._target import MemberTarget
from ._ways import Ways

__all__ = ["STORE_AND_FORWARD_PREFIX", "BridgeParts", "MemberBridge", "MemberBridgeOwner"]

STORE_AND_FORWARD_PREFIX = "$.artemis.internal.sf."
"""Beginning of the names of store-and-forward queues, as in Artemis."""
# How long a member that started anew may take for news of the queues behind it, as messages on their way wait for them.
_DOUBTS_S = 5.0


@frozen
class BridgeParts:
    """What all bridges of one cluster connection have in common.

    Attributes:
        config: Configuration of the broker.
        settings: The cluster connection.
        kernel: Kernel of the broker.
        own_node_id: Node id of this broker.
        dialer: Opens connections.
        entropy: Source of names and ids.
        ways: Ways to the queues of other brokers.
        session_news: The interest in sessions at the members.
        active: Receives a bridge that has work in this step.
    """

    config: BrokerConfig
    settings: ClusterConnection
    kernel: Kernel
    own_node_id: str
    dialer: ConnectionDialer
    entropy: Entropy
    ways: Ways
    session_news: SessionNews
    active: dict[object, None]

    @property
    def now(self) -> Instant:
        """Return the time of the step."""
        return Instant(self.kernel.monotonic, self.kernel.now_ms)

    @property
    def node(self) -> bytes:
        """Return the 16 bytes of the node id of this broker."""
        return bytes.fromhex(self.own_node_id.replace("-", ""))


class MemberBridgeOwner(Protocol):
    """The owner of a bridge to a member."""

    def on_departed(self, bridge: MemberBridge, departure: Departure, now: Instant) -> None:
        """Handle that the member has ended the connection because it stops."""

    def on_given_up(self, bridge: MemberBridge, attempts: int, reason: str, now: Instant) -> None:
        """Handle that the member was not reached with all attempts."""

    def on_queue_deleted(self, bridge: MemberBridge, now: Instant) -> None:
        """Handle that the store-and-forward queue was deleted, by management for example."""


class MemberBridge:
    """One bridge to a member: it exists from the member's announcement until its departure."""

    def __init__(self, member: Member, queue: Queue, parts: BridgeParts, owner: MemberBridgeOwner) -> None:
        settings, config = parts.settings, parts.config
        self.node_id = member.node_id
        self.queue = queue
        #: The member as it was announced last, also after it is gone.
        self.member = member
        # What was followed last.
        self._announced: Member | None = None
        #: Event id of the member, as long as it was not announced as gone since the last connection.
        self.known_event_id = member.event_id
        self.bindings = RemoteBindings(
            member.node_id,
            parts.own_node_id,
            settings.max_hops,
            queue,
            settings.message_load_balancing,
            parts.kernel.log,
        )
        self._parts = parts
        self._owner = owner
        self._link: BridgeLink | None = None
        # That of the connection, while there is one without news of sessions.
        self._session: Session | None = None
        # Where the member was when it was connected last.
        self._place: TransportConfiguration | None = None
        self._was_gone = False
        # When the snapshot of this connection must be complete, in monotonic seconds, and then when its doubts end.
        self._snapshot_due: float | None = None
        self._doubts_due: float | None = None
        target = MemberTarget(
            member.node_id,
            self._places,
            config.cluster_user,
            config.cluster_password,
            parts.entropy,
            settings.call_timeout_ms,
        )
        forwarding = NodeForwarding(queue.name, parts.node, detects_duplicates=settings.use_duplicate_detection)
        self.bridge = Bridge(
            bridge_settings(settings, queue.name, member.node_id),
            parts.kernel,
            forwarding,
            target,
            parts.dialer,
            self,
            parts.active,
        )

    def follow(self, member: Member) -> None:
        """Use news of the member: its next connection goes to the place of now."""
        if member is self._announced:
            return  # the news are of another member
        self._announced = member
        if member.live is not None and self._place is not None and not member.live.leads_where(self._place):
            # The other broker of the pair has taken over.
            self.bridge.hurry()
        self.member = evolve(member, live=member.live or self.member.live, backup=member.backup or self.member.backup)
        if not self._was_gone:
            self.known_event_id = member.event_id

    def note_gone(self) -> None:
        """Note that the member is announced as gone. The bridge finds out by itself, and tries again."""
        self._was_gone = True

    @property
    def announced_queues(self) -> dict[int, RemoteBinding]:
        """Return the queues that the member has announced, by their ids there."""
        return {each.remote_queue_id: each for each in self.bindings.by_cluster_name.values()}

    def is_replaced_by(self, members: Iterable[Member]) -> bool:
        """Return True if another member is where this one was, and nothing waits for this one."""
        place = self.member.live
        if place is None or self.bridge.is_connected or self.queue.message_count or self.queue.pledged:
            return False
        return any(member.live is not None and member.live.leads_where(place) for member in members)

    @property
    def has_link(self) -> bool:
        """Return True if there is a connection to the member."""
        return self._link is not None

    @property
    def place(self) -> str | None:
        """Return where the member is to which there is a connection; None without one."""
        return self._link.place if self._link is not None else None

    def _places(self) -> Sequence[TransportConfiguration]:
        places = (self.member.live, self.member.backup)
        return [each for each in places if each is not None and can_be_dialled(each)]

    def end(self, now: Instant) -> None:
        """End the bridge, and routing to the member. The queue stays with its messages."""
        self.bridge.end(now)
        own = [each for each in self.bindings.by_cluster_name.values() if each.distance == 1]
        self._apply(self.bindings.clear())
        self._parts.kernel.forwarding.on_left(own)

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `run` is due, in monotonic seconds."""
        earliest = self.bridge.next_deadline()
        # After each step of a bridge, and most wait for none of the two.
        for due in (self._snapshot_due, self._doubts_due):
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    def run(self, now: Instant) -> None:
        """Do what is due."""
        if self._snapshot_due is not None and now.monotonic >= self._snapshot_due and self._link is not None:
            self._snapshot_due = None
            self._link.fail(f"no snapshot of its queues came within {self._parts.settings.call_timeout_ms} ms")
        if self._doubts_due is not None and now.monotonic >= self._doubts_due:
            self._doubts_due = None
            self._apply(self.bindings.end_doubts())
        self.bridge.run(now)

    def now(self) -> Instant:
        """Return the time of the step."""
        return self._parts.now

    # -- the bridge ----------------------------------------------------------------------------------------------

    def on_started(self) -> None:
        """Do nothing: the bridges of a cluster connection are not reported one by one."""

    def on_stopped(self, state: str) -> None:
        """Do nothing, as for the start."""

    def on_connected(self, link: BridgeLink, session: Session) -> None:
        """Begin anew with the queues of the member."""
        self._link = link
        self._place = link.agent.connector
        self._was_gone = False
        self.known_event_id = self.member.event_id
        self._snapshot_due = self._parts.kernel.monotonic + self._parts.settings.call_timeout_ms / 1000
        self._apply(self.bindings.begin())
        with_sessions = self._parts.session_news.is_wanted
        self._session = None if with_sessions else session
        BindingSubscription(link, self._notification_queue(with_sessions=with_sessions), self).begin(session)

    def collect_sessions(self) -> None:
        """Collect news of the sessions of clients at the member, too, until the end of this connection."""
        link, session, self._session = self._link, self._session, None
        if link is not None and session is not None:
            BindingSubscription(link, self._session_queue(), self).collect(session)

    def on_disconnected(self, link: BridgeLink, now: Instant) -> None:
        """Route nothing to the member while there is no connection, and nothing any more if it has left."""
        self._link = self._session = self._snapshot_due = self._doubts_due = None
        self._apply(self.bindings.disconnect())
        if link.departure is not None:
            self._owner.on_departed(self, link.departure, now)
        elif self.queue.deleted:
            self._owner.on_queue_deleted(self, now)

    def on_given_up(self, attempts: int, reason: str, now: Instant) -> None:
        """Pass it on."""
        self._owner.on_given_up(self, attempts, reason, now)

    def _notification_queue(self, *, with_sessions: bool) -> NotificationQueue:
        config, max_hops = self._parts.config, self._parts.settings.max_hops
        notifications = config.management_notification_address
        filter = notification_filter(
            self._addresses, max_hops, self._excluded, notifications, with_sessions=with_sessions
        )
        return self._queue_with(filter)

    def _session_queue(self) -> NotificationQueue:
        return self._queue_with(session_filter(self._addresses, self._parts.settings.max_hops, self._excluded))

    def _queue_with(self, filter: str) -> NotificationQueue:
        config = self._parts.config
        return NotificationQueue(
            name=notification_queue_name(uuid_text(make_uuid(self._parts.entropy, self._parts.now)), config.name),
            filter=filter,
            address=config.management_notification_address,
            management_address=config.management_address,
            addresses=self._addresses,
        )

    @property
    def _addresses(self) -> str:
        return ",".join(self._parts.settings.addresses)

    @property
    def _excluded(self) -> tuple[str, str]:
        return STORE_AND_FORWARD_PREFIX, self._parts.config.management_address

    # -- the queues of the member --------------------------------------------------------------------------------

    def on_notification(self, message: CoreMessage) -> None:
        """Apply one message of the notification queue."""
        self._apply(self.bindings.on_message(message))
        if self.bindings.is_complete and self._snapshot_due is not None:
            self._snapshot_due = None
            if self.bindings.has_doubts:
                self._doubts_due = self._parts.kernel.monotonic + _DOUBTS_S

    def _apply(self, changes: Iterable[BindingChange]) -> None:
        """Let routing follow, and the brokers behind this one."""
        ways, observers = self._parts.ways, self._parts.kernel.observers
        events = observers.commit
        for change in changes:
            match change:
                case BindingAdded(binding):
                    ways.add(binding)
                case BindingRemoved(binding):
                    ways.remove(binding)
                    if binding.distance > 1:
                        # The broker behind may have stopped; the neighbour of that one finds out what is deleted.
                        self._parts.kernel.forwarding.on_left((binding,))
                case BindingConnected(binding) | BindingDisconnected(binding):
                    ways.review(binding)
                case SessionCreated(connection, peer, client_id, protocol, distance):
                    observers.call(events.remote_session_added, connection, peer, client_id, protocol, distance)
                case GroupNotice():
                    self._parts.kernel.cluster_groups.receive(change)
                case _ if not change.binding.id:
                    pass  # another way to the queue is in use
                case BindingUpdated(binding):
                    observers.call(events.remote_binding_updated, binding)
                case ConsumerCreated(binding, address, filter):
                    observers.call(events.remote_consumer_added, binding, address, filter, binding.consumer_count)
                case ConsumerClosed(binding, filter):
                    observers.call(events.remote_consumer_removed, binding, filter, binding.consumer_count)


def store_and_forward_queue(kernel: Kernel, settings: ClusterConnection, node_id: str) -> Queue | Refused:
    """Return the queue of what goes to a member. One of an earlier start is used again, with its messages."""
    name = f"{STORE_AND_FORWARD_PREFIX}{settings.name}.{node_id}"
    addresses = kernel.address_manager
    existing = addresses.find_queue(name)
    if existing is not None:
        return existing
    address = addresses.ensure_address(name, RoutingType.MULTICAST, allowed=True, limited=False)
    if isinstance(address, Refused):
        return address
    request = QueueRequest(
        name,
        name,
        routing_type=RoutingType.MULTICAST,
        max_consumers=-1,
        purge_on_no_consumers=False,
        exclusive=False,
        auto_delete=False,
        enabled=True,
        internal=True,
    )
    return addresses.create_queue(request, limited=False)


def bridge_settings(settings: ClusterConnection, queue_name: str, node_id: str) -> BridgeConfig:
    """Return the settings of the bridge to a member. No connector of the configuration leads there for certain."""
    return BridgeConfig(
        name=queue_name,
        queue=queue_name,
        static_connectors=(node_id,),
        client_id=settings.client_id,
        use_duplicate_detection=settings.use_duplicate_detection,
        confirmation_window_size=settings.confirmation_window_size,
        producer_window_size=settings.producer_window_size,
        min_large_message_size=settings.min_large_message_size,
        check_period_ms=settings.check_period_ms,
        connection_ttl_ms=settings.connection_ttl_ms,
        retry_interval_ms=settings.retry_interval_ms,
        retry_interval_multiplier=settings.retry_interval_multiplier,
        max_retry_interval_ms=settings.max_retry_interval_ms,
        initial_connect_attempts=settings.initial_connect_attempts,
        reconnect_attempts=settings.reconnect_attempts,
    )
