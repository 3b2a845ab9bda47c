"""Makes the brokers of a cluster on the bench of a test: their names, their settings, and which connects to which.

Responsible for the vocabulary of ``broker_cluster``. Does not depend on what a test does with the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from embedbroker.config import (
    Colocated,
    MessageLoadBalancing,
    ReplicationBackup,
    ReplicationPrimary,
    SharedStoreBackup,
    SharedStorePrimary,
)

from ._arguments import check_broker
from ._bench import Bench, Ground, Surface
from ._broker import ManagedBroker
from ._cluster import BrokerCluster
from ._pair import PAIR_KINDS, BrokerPair, cluster_settings

__all__ = ["NODES_MAX", "TOPOLOGIES", "make_cluster"]

#: The topologies that have a name.
TOPOLOGIES = ("symmetric", "chain", "ring")
#: More than any test needs: each node of a symmetric cluster connects to all others.
NODES_MAX = 64
_GROUP_PORTS = (20_000, 60_000)
# Settings of a cluster connection that a test cannot choose, and what it has in their place.
_OF_THE_FIXTURE = {
    "connector": "each node has a connector that holds its URL",
    "static_connectors": "topology= gives the nodes to which each connects",
    "discovery_group": "discovery=True gives each node one",
}
# The silence after which a node is lost, and the pause between pings: a partition is noticed within a wait.
_TTL_MS, _CHECK_PERIOD_MS = 4_000, 1_500
# The pause between two requests for a backup.
_REQUEST_INTERVAL_MS = 500


def make_cluster(
    bench: Bench,
    count: object,
    *,
    pairs: bool | str,
    colocated: bool | str,
    topology: str | Mapping[int, Sequence[int]],
    brokers: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    connections: Sequence[Mapping[str, Any]],
    discovery: bool = False,
) -> BrokerCluster:
    """Return a cluster, not started. The arguments are those of the fixture ``broker_cluster``."""
    size = _size(count)
    kind, hosts = _kind(pairs, "pairs"), _kind(colocated, "colocated")
    if kind is not None and hosts is not None:
        raise ValueError("nodes are pairs or colocated: remove pairs= or colocated=")
    if hosts is not None and size < 2:
        raise ValueError("colocated= needs two nodes or more: each hosts the backup of another one")
    targets = _targets(topology, size)
    each = [brokers] * size if isinstance(brokers, Mapping) else list(brokers)
    if len(each) != size:
        raise ValueError(f"brokers= gives settings for {len(each)} nodes of {size}")
    if not connections:
        raise ValueError("connections= has settings for each cluster connection, one or more")
    if discovery and topology != "symmetric":
        raise ValueError("discovery=True needs topology='symmetric': brokers that find each other are all connected")
    # Tests at the same time, and clusters of one test, do not meet.
    port = bench.random.randrange(*_GROUP_PORTS) if discovery else None
    settings = [_connection(one, size, is_symmetric=topology == "symmetric") for one in connections]
    return _Builder(bench, kind, hosts, targets, [dict(one) for one in each], settings, port).make()


def _connection(connection: Mapping[str, Any], size: int, *, is_symmetric: bool) -> dict[str, Any]:
    """Return the settings of one cluster connection of each node."""
    for name in connection:
        if name in _OF_THE_FIXTURE:
            raise TypeError(f"a cluster of a test takes no {name}: {_OF_THE_FIXTURE[name]}")
    settings: dict[str, Any] = {"connection_ttl_ms": _TTL_MS, "check_period_ms": _CHECK_PERIOD_MS}
    if not is_symmetric:
        settings |= {"allow_direct_connections_only": True, "max_hops": size - 1}
    settings |= connection
    how = settings.get("message_load_balancing")
    if isinstance(how, str):
        if how not in MessageLoadBalancing.__members__:
            known = ", ".join(MessageLoadBalancing.__members__)
            raise ValueError(f"message_load_balancing= is one of {known}, not {how!r}")
        settings["message_load_balancing"] = MessageLoadBalancing(how)
    return settings


def _size(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"a cluster has a number of nodes, an int, not {count!r}")
    if not 1 <= count <= NODES_MAX:
        raise ValueError(f"a cluster of a test has 1 to {NODES_MAX} nodes, not {count}")
    return count


def _kind(wanted: bool | str, argument: str) -> str | None:
    """Return the kind of the pairs, None for nodes without a backup."""
    if isinstance(wanted, bool):
        return next(iter(PAIR_KINDS)) if wanted else None
    if wanted not in PAIR_KINDS:
        kinds = ", ".join(map(repr, PAIR_KINDS))
        raise ValueError(f"{argument}= is False, True, or one of {kinds}, not {wanted!r}")
    return wanted


def _targets(topology: str | Mapping[int, Sequence[int]], size: int) -> list[tuple[int, ...]]:
    """Return the nodes to which each connects."""
    nodes = range(size)
    if topology == "symmetric":
        return [tuple(other for other in nodes if other != node) for node in nodes]
    if topology == "chain":
        return [(node + 1,) if node + 1 < size else () for node in nodes]
    if topology == "ring":
        return [((node + 1) % size,) if size > 1 else () for node in nodes]
    if not isinstance(topology, Mapping):
        named = ", ".join(map(repr, TOPOLOGIES))
        raise ValueError(f"topology= is one of {named}, or maps nodes to those they connect to, not {topology!r}")
    for node, others in topology.items():
        if not {node, *others} <= set(nodes) or node in others:
            raise ValueError(f"topology= connects node {node!r} to {others!r}, but nodes are 0 to {size - 1}")
    return [tuple(topology.get(node, ())) for node in nodes]


class _Builder:
    def __init__(
        self,
        bench: Bench,
        kind: str | None,
        hosts: str | None,
        targets: list[tuple[int, ...]],
        brokers: list[dict[str, Any]],
        connections: list[dict[str, Any]],
        group_port: int | None,
    ) -> None:
        self._bench = bench
        self._kind = kind
        #: The kind of backups that nodes host for each other.
        self._hosts = hosts
        self._targets = targets
        self._brokers = brokers
        self._connections = connections
        self._group_port = group_port
        taken = {broker.name for broker in bench.brokers}
        prefixes = ["node-", *(f"cluster-{number}-node-" for number in range(2, len(taken) + 3))]
        self._prefix = next(prefix for prefix in prefixes if not any(name.startswith(prefix) for name in taken))
        self._made: list[tuple[ManagedBroker, ...]] = []

    def make(self) -> BrokerCluster:
        nodes = [self._make_node(index) for index in range(len(self._targets))]
        # Without that setting each connects to every member that it learns of.
        direct = all(each.get("allow_direct_connections_only", False) for each in self._connections)
        targets = self._targets if direct else _targets("symmetric", len(nodes))
        return BrokerCluster(nodes, targets, self._bench, self._bench.between)

    def _make_node(self, index: int) -> ManagedBroker | BrokerPair:
        name = f"{self._prefix}{index}"
        check_broker(name, self._brokers[index])
        if self._hosts is not None:
            return self._make_host(name, index, self._hosts)
        if self._kind is None:
            place = self._bench.placing(name, name, name, lambda: self._settings(name, index), replicates=False)
            node = self._bench.add(ManagedBroker(name, self._bench, place))
            self._made.append((node,))
            return node
        names = (name, f"{name}-backup")
        pair = self._bench.make_pair(self._kind, f"the pair {name}", names, lambda own: self._settings(own, index))
        self._made.append(pair.brokers)
        return pair

    def _make_host(self, name: str, index: int, kind: str) -> ManagedBroker:
        """Return a node that requests a backup, and hosts one of another node."""
        what = PAIR_KINDS[kind]
        assert isinstance(what.primary, SharedStorePrimary | ReplicationPrimary)
        assert isinstance(what.backup, SharedStoreBackup | ReplicationBackup)
        policy = self._brokers[index].pop("ha_policy", None) or Colocated(
            what.primary,
            what.backup,
            request_backup=True,
            backup_request_retry_interval_ms=_REQUEST_INTERVAL_MS,
            # With room for one each, two may host each other, and leave a third one alone.
            max_backups=min(2, len(self._targets) - 1),
        )

        def settings() -> dict[str, Any]:
            own = self._settings(name, index)
            return {**own, "ha_policy": evolve(policy, excludes=[each for each in own["connectors"] if each != name])}

        inner = self._bench.placing(name, name, name, settings, replicates=not what.shares_disk)

        async def place() -> Ground:
            await self._bench.place_backups(name, policy)
            return await inner()

        node = self._bench.add(ManagedBroker(name, self._bench, place))
        node.is_colocated = True
        self._made.append((node,))
        return node

    def _settings(self, name: str, index: int) -> dict[str, Any]:
        """Return the settings of one broker: it connects to its own pair, and to all brokers of each target."""
        urls = {broker.name: broker.url for members in self._made for broker in members}
        others = [broker.name for node in (index, *self._targets[index]) for broker in self._made[node]]
        virtual = self._bench.surface is Surface.VIRTUAL
        settings = cluster_settings(
            name, urls, others, virtual=virtual, connections=self._connections, group_port=self._group_port
        )
        return {**settings, **self._brokers[index]}
