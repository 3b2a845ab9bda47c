"""The nodes of a scenario with a cluster, made from its plan, and what each must know of the others.

Responsible for the configuration, and for comparing bindings with the truth. It decides nothing.
"""

from __future__ import annotations

from attrs import define, evolve, field

from embedbroker.config import (
    AddressConfiguration,
    AddressSettings,
    BroadcastGroup,
    BrokerConfig,
    ClusterConnection,
    DiscoveryGroup,
    GroupingHandlerConfig,
    GroupingHandlerType,
    HAPolicy,
    MessageLoadBalancing,
    PrimaryOnly,
    QueueConfiguration,
    ReplicationBackup,
    ReplicationPrimary,
    ScaleDown,
    SharedStoreBackup,
    SharedStorePrimary,
)
from embedbroker.kernel import Kernel
from embedbroker.testing._datagrams import SimulatedMulticast
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._leases import SimulatedLockManager
from embedbroker.testing._locks import SimulatedLocks
from embedbroker.testing._messages import selector_of
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from tests.simulation.scenario.plan import QueuePlan

from .cluster_plan import AUTOMATIC, QUEUE, TOPIC, ClusterPlan, MakerPlan, NodePlan
from .site import Site, live_kernel

__all__ = ["ClusterTruth", "make_nodes"]

_PORT = 61616
#: Time for which a lock manager grants the right to be live, and between two tries of a pair without its backup.
_LEASE_S, _RETRY_MS = 2.0, 200
_GROUP, _GROUP_ADDRESS = "nodes", "231.7.7.7"


def make_nodes(plan: ClusterPlan, network: Network) -> dict[str, Site]:
    """Create all nodes that a plan names."""
    sites = {}
    multicast = SimulatedMulticast(network)
    multicast.loss_chance, multicast.duplication_chance = plan.datagram_loss, plan.datagram_duplication
    for node in plan.nodes:
        configs = [_config(plan, node, name) for name in node.hosts]
        hosts = _replicas(plan, configs, network) if node.replicates else _hosts(plan, configs, network)
        for host in hosts:
            host.speed.factor = node.disk_factor
            host.multicast = multicast
        sites[node.name] = Site(node.name, hosts)
    return sites


def _hosts(plan: ClusterPlan, configs: list[BrokerConfig], network: Network) -> list[NodeHost]:
    """Create one broker, or a pair on one disk. Each has a lock store, which keeps the node id."""
    disk, locks = SimulatedDisk(), SimulatedLocks()
    return [NodeHost(network, config, disk, plan.journal, locks) for config in configs]


def _replicas(plan: ClusterPlan, configs: list[BrokerConfig], network: Network) -> list[NodeHost]:
    """Create a pair with a disk for each member and a lock manager for both."""
    journal, manager = plan.journal, SimulatedLockManager(lambda: network.world.now, _LEASE_S)
    return [
        NodeHost(network, config, SimulatedDisk(), evolve(journal, identity=journal.identity + number), manager)
        for number, config in enumerate(configs)
    ]


def _policy(node: NodePlan, name: str, scale_down: ScaleDown | None) -> HAPolicy:
    if not node.is_pair:
        return PrimaryOnly(scale_down=scale_down)
    if node.replicates:
        if name == node.name:
            return ReplicationPrimary(group_name=node.name, retry_replication_wait_ms=_RETRY_MS)
        return ReplicationBackup(
            group_name=node.name, allow_failback=node.fails_back, retry_replication_wait_ms=_RETRY_MS
        )
    return SharedStorePrimary() if name == node.name else SharedStoreBackup(allow_failback=node.fails_back)


def _connections(plan: ClusterPlan, connection: ClusterConnection) -> list[ClusterConnection]:
    if not plan.splits_addresses:
        return [connection]
    return [
        evolve(connection, name="work", addresses=[QUEUE, *AUTOMATIC]),
        evolve(connection, name="topic", addresses=[TOPIC]),
    ]


def _config(plan: ClusterPlan, node: NodePlan, name: str) -> BrokerConfig:
    hosts = {each.name: each.hosts for each in plan.nodes}
    scale_down = ScaleDown(connectors=hosts[node.scales_down_to]) if node.scales_down_to else None
    finds = node.finds if not plan.datagram_period_ms else ()
    connection = ClusterConnection(
        connector=name,
        static_connectors=[each for found in finds for each in hosts[found]],
        discovery_group=_GROUP if plan.datagram_period_ms else None,
        allow_direct_connections_only=plan.direct_only,
        message_load_balancing=MessageLoadBalancing(plan.load_balancing),
        max_hops=plan.max_hops,
        use_duplicate_detection=plan.detects_duplicates,
        confirmation_window_size=plan.confirmation_window,
        retry_interval_ms=200,
        call_timeout_ms=2_000,
        check_period_ms=300,
        connection_ttl_ms=1_000,
        min_large_message_size=plan.min_large_size,
    )
    subscriptions = {queue.name: _queue(queue) for queue in node.subscriptions}
    return BrokerConfig(
        name=name,
        ha_policy=_policy(node, name, scale_down),
        addresses={
            QUEUE: AddressConfiguration(anycast={QUEUE: QueueConfiguration()}),
            TOPIC: AddressConfiguration(multicast=subscriptions),
        },
        address_settings={
            "#": AddressSettings(
                auto_create_addresses=False,
                auto_create_queues=False,
                # Rollbacks repeat deliveries, and nothing may be given up.
                max_delivery_attempts=-1,
                redistribution_delay_ms=plan.redistribution_delay_ms,
            ),
            **{address: AddressSettings(auto_create_addresses=True, auto_create_queues=True) for address in AUTOMATIC},
        },
        connectors={each: f"tcp://{each}:{_PORT}" for names in hosts.values() for each in names},
        broadcast_groups=_broadcasts(plan),
        discovery_groups=[DiscoveryGroup(_GROUP, _GROUP_ADDRESS, refresh_timeout_ms=plan.datagram_period_ms * 5)]
        if plan.datagram_period_ms
        else [],
        cluster_connections=_connections(plan, connection),
        grouping_handler=_handler(plan, node),
        cluster_user="cluster",
        cluster_password="of the cluster",
        connection_check_interval_ms=500,
        work_per_step_max=plan.work_per_step_max,
    )


def _broadcasts(plan: ClusterPlan) -> list[BroadcastGroup]:
    if not plan.datagram_period_ms:
        return []
    return [BroadcastGroup(_GROUP, _GROUP_ADDRESS, broadcast_period_ms=plan.datagram_period_ms)]


def _handler(plan: ClusterPlan, node: NodePlan) -> GroupingHandlerConfig | None:
    if not plan.arbiter:
        return None
    kind = GroupingHandlerType.LOCAL if node.name == plan.arbiter else GroupingHandlerType.REMOTE
    # Its notifications must go over one of the cluster connections.
    return GroupingHandlerConfig("groups", kind, address=QUEUE if plan.splits_addresses else "")


def _queue(queue: QueuePlan) -> QueueConfiguration:
    return QueueConfiguration(filter=selector_of(queue.color) if queue.color is not None else None)


@define(eq=False)
class ClusterTruth:
    """What each node must know of the queues of the others."""

    plan: ClusterPlan
    sites: dict[str, Site]
    #: The node ids, which stay the same in all lives.
    node_ids: dict[str, str] = field(factory=dict, init=False)

    def note_node_ids(self) -> None:
        """Note the node ids, when all nodes run."""
        for name, site in self.sites.items():
            assert site.live is not None and site.live.node is not None
            self.node_ids[name] = site.live.node.node_id

    @property
    def is_formed(self) -> bool:
        """True if each node has all others, their queues, and the consumers of these."""
        return not self.complaint()

    def complaint(self) -> str:
        """Return what a node lacks, or has and is not true; empty if all is right."""
        for name, site in self.sites.items():
            host = site.live
            kernel = live_kernel(host)
            if host is None or host.node is None or kernel is None:
                return f"{name} is down"
            assert host.node.cluster is not None
            node_ids = {self.node_ids[other] for other in self.plan.members_of(name)}
            members = set(host.node.cluster.topology.members)
            if members != node_ids:
                return f"{name} has {len(members)} members, {len(members - node_ids)} of them are not there"
            if complaint := self._of_bindings(name, kernel):
                return complaint
        return ""

    def has_subscriptions(self, name: str) -> bool:
        """Return True if a node has all subscriptions of the others that it must reach, connected or not.

        A longer way than that of the plan leads back: another node announces what this one has announced before.
        """
        kernel = live_kernel(self.sites[name].live)
        if kernel is None:
            return False
        wanted = {
            (f"{queue.name}{self.node_ids[node.name]}", distance)
            for node in self.plan.nodes
            if (distance := self.plan.distance(name, node.name)) and node.name != name
            for queue in node.subscriptions
        }
        found = kernel.address_manager.remote_bindings_of(TOPIC)
        return wanted <= {(binding.cluster_name, binding.distance) for binding in found}

    def has_binding(self, name: str, maker: MakerPlan) -> bool:
        """Return True if a node has the subscription of a maker now, which is there or one bridge away.

        While there is no connection, the binding may be that of an earlier queue of the name, which is another one.
        """
        kernel, home = live_kernel(self.sites[name].live), live_kernel(self.sites[maker.node].live)
        queue = home.address_manager.queues.get(maker.queue) if home is not None else None
        if kernel is None or queue is None:
            return False
        wanted = f"{maker.queue}{self.node_ids[maker.node]}", queue.id, 1
        found = kernel.address_manager.remote_bindings_of(TOPIC)
        return name == maker.node or any(
            (binding.cluster_name, binding.remote_queue_id, binding.distance) == wanted for binding in found
        )

    def _of_bindings(self, name: str, kernel: Kernel) -> str:
        for address in (QUEUE, TOPIC, *AUTOMATIC):
            wanted = self._wanted(name, address)
            if wanted is None:
                return f"not all nodes that {name} must know run"
            found = {
                binding.cluster_name: (binding.consumer_count, binding.is_connected, binding.distance)
                for binding in kernel.address_manager.remote_bindings_of(address)
            }
            if found != wanted:
                return f"{name} has bindings {found} of {address}, and there are {wanted}"
        return ""

    def _wanted(self, name: str, address: str) -> dict[str, tuple[int, bool, int]] | None:
        wanted: dict[str, tuple[int, bool, int]] = {}
        for other, site in self.sites.items():
            distance = self.plan.distance(name, other)
            if other == name or distance is None:
                continue
            kernel = live_kernel(site.live)
            if kernel is None or site.live is None or site.live.node is None:
                return None
            for queue in kernel.address_manager.queues.values():
                if queue.definition.address == address:
                    wanted[f"{queue.name}{site.live.node.node_id}"] = len(queue.consumers), True, distance
        return wanted
