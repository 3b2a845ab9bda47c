"""The plan of a scenario with a cluster: nodes, their queues and subscriptions, users and faults, as plain values.

It holds values; it runs nothing.
"""

from __future__ import annotations

from attrs import frozen

from embedbroker.storage import JournalSettings
from embedclient.agent import LocatorSettings
from tests.simulation.scenario.plan import FaultStrike, QueuePlan

from .senders import SenderPlan

__all__ = ["AUTOMATIC", "QUEUE", "TOPIC", "ClusterPlan", "MakerPlan", "NodePlan", "TakerPlan"]

QUEUE, TOPIC = "orders", "news"
"""The addresses: each node has the anycast queue of the first, and its own subscriptions of the second."""

AUTOMATIC = "baskets.0", "baskets.1"
"""Addresses whose queues are created by senders and consumers, and deleted when they are empty and unused."""


@frozen
class NodePlan:
    """One node, or a pair on one disk.

    ``finds``: the nodes whose connectors it is configured with. ``scales_down_to``: the node to which it moves
    everything when it stops in order; empty for none. ``fails_back``: the primary of a pair replaces its backup when it
    returns. ``replicates``: each member of a pair has a disk, and one of them a copy of the other's data.
    """

    name: str
    finds: tuple[str, ...]
    subscriptions: tuple[QueuePlan, ...] = ()
    disk_factor: float = 1.0
    is_pair: bool = False
    scales_down_to: str = ""
    fails_back: bool = True
    replicates: bool = False

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of its hosts."""
        return (self.name, f"{self.name}-backup") if self.is_pair else (self.name,)


@frozen
class TakerPlan:
    """A consumer of one queue of a node, while others work. ``color`` is its filter.

    ``batch`` 0: it acknowledges one message after the other; otherwise the longest transaction. ``rollback_chance``:
    of each transaction. ``creates``: the queue may not be there, and the consumer creates it.
    """

    name: str
    node: str
    queue: str
    think_s: float
    leave_chance: float = 0.0
    color: str | None = None
    batch: int = 0
    rollback_chance: float = 0.0
    creates: bool = False


@frozen
class MakerPlan:
    """A user that creates a durable subscription of a node, again and again, and deletes it."""

    name: str
    node: str
    queue: str
    color: str | None
    pause_s: float
    leave_chance: float


@frozen
class ClusterPlan:
    """Everything that is decided before the first event. What is decided later is drawn from ``seed``.

    ``arbiter``: the node that decides where message groups go; empty for none. ``min_large_size``: bytes from which
    nodes forward a message in chunks. ``datagram_period_ms``: how often nodes announce themselves in a multicast group,
    by which alone they find each other; 0: they do not, and are configured with each other. ``splits_addresses``: one
    cluster connection forwards what goes to the topic, and another one the rest.
    """

    seed: int
    latency_s: float
    split_chance: float
    work_per_step_max: int
    journal: JournalSettings
    nodes: tuple[NodePlan, ...]
    direct_only: bool
    max_hops: int
    load_balancing: str
    detects_duplicates: bool
    confirmation_window: int
    client: LocatorSettings
    #: -1: a message stays in the queue that has got it.
    redistribution_delay_ms: int
    senders: tuple[SenderPlan, ...]
    takers: tuple[TakerPlan, ...]
    faults: tuple[FaultStrike, ...]
    arbiter: str = ""
    min_large_size: int = 100 * 1024
    makers: tuple[MakerPlan, ...] = ()
    datagram_period_ms: int = 0
    datagram_loss: float = 0.0
    datagram_duplication: float = 0.0
    splits_addresses: bool = False

    def distance(self, one: str, other: str) -> int | None:
        """Return the number of bridges between two nodes; None if no way is short enough."""
        names = {node.name: node.finds for node in self.nodes}
        reached, distance = {one}, 0
        while other not in reached and distance < self.max_hops:
            distance += 1
            found = {near for name in reached for near in (names if not self.direct_only else names[name])}
            if found <= reached:
                return None
            reached |= found
        return distance if other in reached else None

    def members_of(self, name: str) -> set[str]:
        """Return the members that a node must have: those it finds with theirs, and those that find it.

        A node gets the members of those that it connects to, and gives them only itself.
        """
        if not self.direct_only:
            return {node.name for node in self.nodes}
        finds = {node.name: node.finds for node in self.nodes}
        found: dict[str, None] = {}
        reached = [name]
        while reached:
            one = reached.pop()
            if one not in found:
                found[one] = None
                reached += finds[one]
        return {*found, *[node.name for node in self.nodes if set(node.finds) & set(found)]}
