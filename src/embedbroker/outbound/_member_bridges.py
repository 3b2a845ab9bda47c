"""The bridges of a cluster connection: one to each member of the cluster (cluster-and-ha 7.2, 7.7).

Responsible for which members have a bridge, and for which bridges have work in a step. Does not depend on how a bridge
learns of queues, and on how it sends.
"""

from __future__ import annotations

from embedbroker.cluster import Change, Member, Membership, where
from embedbroker.config import BrokerConfig, ClusterConnection
from embedbroker.kernel import Divert, Kernel, Queue, Refused, Service
from embedclient.engine import ConnectionDialer
from embedclient.model import Entropy, Instant, TransportConfiguration, can_be_dialled

from ._agent_link import Departure
from ._member_bridge import BridgeParts, MemberBridge, store_and_forward_queue
from ._rerouting import Rerouting
from ._session_news import SessionNews
from ._ways import Ways

__all__ = ["MemberBridges"]

_ENDED_MAX = 1_000
_ABSENT = object()
# How long the queues of a member that has scaled down may take to be announced by the broker that has them now, in
# seconds, and how often they are looked for.
_REROUTING_WAIT_S = 10.0
# The duplicate ids of the member move first: they arrive at its place sooner than this, and what it had is not doubled.
_REROUTING_DELAY_S = 1.0
_REROUTING_PAUSE_S = 0.1
_LEAVING_S = 10.0


class MemberBridges:
    """One instance per cluster connection. ``active`` is what has work in this step.

    Args:
        config: Configuration of the broker.
        settings: The cluster connection.
        kernel: Kernel of the broker.
        membership: The members of the cluster.
        ways: Ways to the queues of other brokers, over all cluster connections.
        dialer: Opens connections.
        entropy: Source of names and ids.
    """

    def __init__(
        self,
        config: BrokerConfig,
        settings: ClusterConnection,
        kernel: Kernel,
        membership: Membership,
        ways: Ways,
        dialer: ConnectionDialer,
        entropy: Entropy,
    ) -> None:
        self.active: dict[object, None] = {}
        self.by_node_id: dict[str, MemberBridge] = {}
        self.settings = settings
        self.is_started = False
        self._config = config
        self._kernel = kernel
        self._membership = membership
        self._ways = ways
        self._dialer = dialer
        self._entropy = entropy
        self._static = [config.connectors[name] for name in settings.static_connectors]
        # Event ids of members whose bridge has ended: only what they announce later counts.
        self._ended: dict[str, int] = {}
        self._given_up: dict[str, None] = {}
        self._reroutings: list[Rerouting] = []
        # Members that scale down, which may announce themselves until they are through, and until when, in monotonic
        # seconds, their announcements are ignored.
        self._leaving: dict[str, float] = {}
        self._parts: BridgeParts | None = None
        self._session_news = SessionNews(kernel, config.management_notification_address, settings.max_hops)
        # The bridges by what stands for them in ``active``.
        self._by_bridge: dict[object, MemberBridge] = {}
        # When each bridge is due: it changes its deadline only when it works. The first of them may be later than
        # ``_due``: of many bridges, each step runs few, and looks at no others.
        self._dues: dict[str, float] = {}
        self._due: float | None = None
        kernel.observers.decision.queue_removed.append(self._on_queue_removed)
        kernel.observers.commit.queue_added.append(self._on_queue)
        kernel.observers.commit.queue_updated.append(self._on_queue)
        kernel.observers.commit.divert_added.append(self._on_divert)

    def become_live(self, node_id: str) -> None:
        """Bridge to each member that is announced, from now on."""
        self._parts = BridgeParts(
            self._config,
            self.settings,
            self._kernel,
            node_id,
            self._dialer,
            self._entropy,
            self._ways,
            self._session_news,
            self.active,
        )
        self.start()

    def leave(self, now: Instant) -> None:
        """End all bridges, because the broker is not live any more."""
        self._end_all(now)
        self._parts = None

    # -- for management ------------------------------------------------------------------------------------------

    @property
    def connected_nodes(self) -> dict[str, str]:
        """Return the places of the members to which there is a connection, by node id."""
        places = {node_id: bridge.place for node_id, bridge in self.by_node_id.items()}
        return {node_id: place for node_id, place in places.items() if place is not None}

    def is_connected_to(self, node_id: str) -> bool:
        """Return True if there is a connection to a member."""
        bridge = self.by_node_id.get(node_id)
        return bridge is not None and bridge.has_link

    @property
    def nodes_down(self) -> list[str]:
        """Return the node ids of members that were given up, and were not announced since."""
        return list(self._given_up)

    def describe_topology(self) -> str:
        """Return all members of the cluster as text."""
        members = self._membership.topology.members.values()
        lines = [
            f"{member.node_id}: live {_place(member.live)}, backup {_place(member.backup)}, event {member.event_id}"
            for member in members
        ]
        return "\n".join([*lines, f"nodes={sum(_count(member) for member in members)} members={len(lines)}"])

    def counts(self, node_id: str | None = None) -> tuple[int, int] | None:
        """Return how many messages wait for confirmation, and how many are confirmed.

        Args:
            node_id: Count what goes to this member; the result is None without a bridge to it. None counts everything.
        """
        if node_id is not None:
            found = self.by_node_id.get(node_id)
            return (found.bridge.pending_count, found.bridge.acknowledged_count) if found is not None else None
        bridges = [each.bridge for each in self.by_node_id.values()]
        return sum(each.pending_count for each in bridges), sum(each.acknowledged_count for each in bridges)

    def start(self) -> None:
        """Bridge to the members, unless it does so already."""
        if self.is_started or self._parts is None or self.settings.max_hops == 0:
            return
        self.is_started = True
        self._membership.topology.listen(self._on_change)
        self._membership.direct_listeners.append(self._on_direct)
        observers = self._kernel.observers
        observers.call(observers.commit.service_started, Service.CLUSTER_CONNECTION, self.settings.name)

    def stop(self) -> None:
        """End all bridges: what is not confirmed returns to the queues, and nothing is routed to other members."""
        if self._parts is not None and self.is_started:
            self._end_all(self._parts.now)

    def _end_all(self, now: Instant) -> None:
        if not self.is_started:
            return
        self.is_started = False
        self._membership.topology.forget(self._on_change)
        self._membership.direct_listeners.remove(self._on_direct)
        bridges = list(self.by_node_id.values())
        # Cleared first: a bridge that ends may report that its member has departed.
        self.by_node_id.clear()
        self._by_bridge.clear()
        for bridge in bridges:
            bridge.end(now)
        self._ended.clear()
        self._given_up.clear()
        for rerouting in self._reroutings:
            self._log_left(rerouting.queue)
        self._reroutings.clear()
        self._leaving.clear()
        self.active.clear()
        self._dues.clear()
        self._due = None
        observers = self._kernel.observers
        observers.call(observers.commit.service_stopped, Service.CLUSTER_CONNECTION, self.settings.name)

    # -- members -------------------------------------------------------------------------------------------------

    def _on_change(self, _change: Change) -> None:
        self.active[self] = None

    def _on_direct(self, node_id: str) -> None:
        """Try again to reach a member that was given up: it is there, whatever the age of its news."""
        if self._given_up.pop(node_id, _ABSENT) is None:
            self._ended.pop(node_id, None)
            self.active[self] = None

    def _review(self) -> None:
        """Make missing bridges, and let the others follow the news."""
        members = self._membership.topology.members
        for bridge in list(self.by_node_id.values()):
            if bridge.node_id not in members:
                bridge.note_gone()
                if bridge.is_replaced_by(members.values()):
                    self._forget(bridge)
        for member in list(members.values()):
            known = self.by_node_id.get(member.node_id)
            if known is not None:
                known.follow(member)
            elif self._wants(member):
                self._begin(member)

    def _wants(self, member: Member) -> bool:
        if member.live is None or member.node_id == self._membership.node_id or not can_be_dialled(member.live):
            return False
        if member.node_id in self._leaving or member.event_id <= self._ended.get(member.node_id, -1):
            return False
        if not self.settings.allow_direct_connections_only:
            return True
        return any(member.live.leads_where(each) for each in self._static)

    def _begin(self, member: Member) -> None:
        assert self._parts is not None
        queue = store_and_forward_queue(self._kernel, self.settings, member.node_id)
        if isinstance(queue, Refused):
            self._kernel.log(
                f"cluster connection {self.settings.name!r}: no way to node {member.node_id}: {queue.text}"
            )
            self._note_end(member.node_id, member.event_id)
            return
        self._ended.pop(member.node_id, None)
        self._given_up.pop(member.node_id, None)
        bridge = self.by_node_id[member.node_id] = MemberBridge(member, queue, self._parts, self)
        self._by_bridge[bridge.bridge] = bridge
        bridge.bridge.start()

    def on_departed(self, bridge: MemberBridge, departure: Departure, now: Instant) -> None:
        """Forget a member that has stopped: the queues that it announced are gone, until it is announced anew.

        What waits for it follows its queues if they have moved to another broker.
        """
        if self.by_node_id.get(bridge.node_id) is not bridge:
            return
        target = departure.scale_down_target
        queues = bridge.announced_queues
        self._end(bridge, bridge.known_event_id, now)
        if target is None or self._parts is None:
            return
        self._leaving[bridge.node_id] = now.monotonic + _LEAVING_S
        other = self.by_node_id.get(target)
        if target == self._parts.own_node_id or other is not None:
            since, until = now.monotonic + _REROUTING_DELAY_S, now.monotonic + _REROUTING_WAIT_S
            node = self._parts.node
            self._reroutings.append(
                Rerouting(self._kernel, node, bridge.queue, queues, other, since, until, self.has_bridge_of)
            )
        else:
            self._log_left(bridge.queue)

    def on_given_up(self, bridge: MemberBridge, attempts: int, reason: str, now: Instant) -> None:
        """Count a member as permanently down, until it is announced anew."""
        self._log(
            f"node {bridge.node_id} is permanently down: {attempts} attempts failed, the last one because: {reason}; "
            "nothing is routed to it until it announces itself again, and its messages stay in queue "
            f"{bridge.queue.name!r}"
        )
        self._given_up[bridge.node_id] = None
        self._end(bridge, bridge.member.event_id, now)

    def on_queue_deleted(self, bridge: MemberBridge, now: Instant) -> None:
        """Begin anew with another queue: nothing must be routed to one that is gone."""
        if self.by_node_id.get(bridge.node_id) is bridge:
            self._end(bridge, bridge.member.event_id - 1, now)

    def _on_queue_removed(self, queue: Queue) -> None:
        """End the bridge of a deleted queue at once: without a connection it would get messages that are lost."""
        if not queue.definition.internal or self._parts is None:
            return
        for bridge in list(self.by_node_id.values()):
            if bridge.queue is queue:
                self.on_queue_deleted(bridge, self._parts.now)

    def _on_queue(self, queue: Queue) -> None:
        if self.is_started and self._session_news.concerns(queue):
            self._collect_sessions()

    def _on_divert(self, _divert: Divert) -> None:
        if self.is_started:
            self._collect_sessions()

    def _collect_sessions(self) -> None:
        """Collect news of sessions from the first queue on that takes them."""
        if self._session_news.is_wanted:
            for bridge in self.by_node_id.values():
                bridge.collect_sessions()

    def has_bridge_of(self, queue: Queue) -> bool:
        """Return True if a bridge sends what is in this queue."""
        return any(bridge.queue is queue for bridge in self.by_node_id.values())

    def _forget(self, bridge: MemberBridge) -> None:
        """End the bridge to a member that does not come back, with its empty queue.

        A broker that keeps nothing on disk has another node id after each start.
        """
        assert self._parts is not None
        self._end(bridge, bridge.member.event_id, self._parts.now)
        self._kernel.teardown.delete_queue(bridge.queue)

    def _end(self, bridge: MemberBridge, event_id: int, now: Instant) -> None:
        del self.by_node_id[bridge.node_id], self._by_bridge[bridge.bridge]
        self._dues.pop(bridge.node_id, None)
        bridge.end(now)
        self._note_end(bridge.node_id, event_id)
        # It may have been announced anew before its old connection ended.
        self.active[self] = None

    def _log_left(self, queue: Queue) -> None:
        if queue.message_count:
            self._log(
                f"{queue.message_count} messages of a member that has scaled down stay in queue {queue.name!r}; "
                "move them to their queues if the member does not return"
            )

    def _log(self, text: str) -> None:
        self._kernel.log(f"cluster connection {self.settings.name!r}: {text}")

    def _note_end(self, node_id: str, event_id: int) -> None:
        self._ended.pop(node_id, None)
        self._ended[node_id] = event_id
        if len(self._ended) > _ENDED_MAX:
            forgotten = next(iter(self._ended))
            del self._ended[forgotten]
            self._given_up.pop(forgotten, None)

    # -- time ----------------------------------------------------------------------------------------------------

    def run(self, now: Instant) -> None:
        """Let the bridges work that have to, or that are due."""
        is_due = bool(self._leaving) or (self._due is not None and now.monotonic >= self._due)
        if not (is_due or self.active):
            return
        if is_due:
            for node_id in [each for each, until in self._leaving.items() if now.monotonic >= until]:
                del self._leaving[node_id]
                self.active[self] = None
        if self.active.pop(self, _ABSENT) is None:
            self._review()
        if self._reroutings:
            self._reroutings = [each for each in self._reroutings if not each.is_over]
            for rerouting in self._reroutings:
                if rerouting.is_due(now.monotonic):
                    rerouting.begin()
        working = [bridge for each in self.active if (bridge := self._by_bridge.get(each)) is not None]
        self.active.clear()
        if is_due:
            due = (self.by_node_id[node_id] for node_id, at in self._dues.items() if now.monotonic >= at)
            working = list(dict.fromkeys((*working, *due)))
        for bridge in working:
            # One of those before may have ended it.
            if bridge.bridge in self._by_bridge:
                bridge.run(now)
                self._note_due(bridge)
        if is_due or self._reroutings or self._leaving:
            self._find_due(now)

    def _note_due(self, bridge: MemberBridge) -> None:
        due = bridge.next_deadline()
        if bridge.bridge not in self._by_bridge:
            return
        if due is None:
            self._dues.pop(bridge.node_id, None)
            return
        self._dues[bridge.node_id] = due
        if self._due is None or due < self._due:
            self._due = due

    def _find_due(self, now: Instant) -> None:
        dues = [*self._dues.values(), *self._leaving.values()]
        self._due = min([*dues, *(now.monotonic + _REROUTING_PAUSE_S for _ in self._reroutings[:1])], default=None)

    def next_deadline(self, now: Instant) -> float | None:
        """Return when `run` is due, in monotonic seconds; the present moment if work was left."""
        return now.monotonic if self.active else self._due


def _place(connector: TransportConfiguration | None) -> str:
    return where(connector) if connector is not None else "-"


def _count(member: Member) -> int:
    return (member.live is not None) + (member.backup is not None)
