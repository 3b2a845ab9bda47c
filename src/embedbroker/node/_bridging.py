"""The bridges of a node: those to the members of a cluster, and all others.

The others are loaded with the first one: at the start, or when management creates one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from embedbroker.config import BridgeConfig, BrokerConfig
from embedbroker.kernel import Kernel
from embedclient.model import Entropy, Instant

from ._assembly import Roles
from ._outgoing_connections import OutgoingConnections

if TYPE_CHECKING:
    from embedbroker.outbound import Bridges, MemberBridges

    from ._grouping import Grouping, GroupingPart

__all__ = ["Bridging"]


class Bridging:
    """One instance per node. ``on_loaded`` gets the bridges when a node that had none receives its first.

    ``of_members`` are the bridges to the members of a cluster, one object for each cluster connection.
    """

    def __init__(
        self,
        config: BrokerConfig,
        kernel: Kernel,
        roles: Roles,
        dials: OutgoingConnections,
        entropy: Entropy,
    ) -> None:
        self.bridges: Bridges | None = None
        self.of_members: list[MemberBridges] = []
        self.on_loaded: Callable[[Bridges], None] | None = None
        self._config = config
        self._kernel = kernel
        self._dials = dials
        self._entropy = entropy
        self._discovered = None if roles.discovery is None else roles.discovery.places
        self._node_id = ""
        self.grouping: Grouping | None = None
        self.grouping_part: GroupingPart | None = None
        if config.grouping_handler is not None:
            from ._grouping import Grouping, GroupingPart

            self.grouping = Grouping(config.grouping_handler, kernel)
            self.grouping_part = GroupingPart(self.grouping, kernel)
        kernel.bridges.connect(self)
        if roles.discovery is not None:
            kernel.broadcast_groups = roles.discovery.broadcast_groups
        if config.bridges:
            self._load()
        if roles.clusters:
            from embedbroker.outbound import MemberBridges, Ways

            ways = Ways(kernel)
            self.of_members += [
                MemberBridges(config, cluster.settings, kernel, cluster, ways, dials, entropy)
                for cluster in roles.clusters
            ]
            kernel.cluster_connections = {each.settings.name: each for each in self.of_members}

    def _load(self) -> Bridges:
        if self.bridges is None:
            from embedbroker.outbound import Bridges

            self.bridges = Bridges(self._config, self._kernel, self._dials, self._entropy, self._discovered)
            if self.on_loaded is not None:
                self.on_loaded(self.bridges)
        return self.bridges

    def become_live(self, node_id: str) -> None:
        """Start the bridges of the configuration, and those that management had added before a restart."""
        self._node_id = node_id
        if self.grouping is not None:
            self.grouping.become_live(node_id, Instant(self._kernel.monotonic, self._kernel.now_ms))
        if self.bridges is not None or self._kernel.bridges.added:
            self._load().become_live(node_id)
        if self.of_members:
            self._kernel.late_bindings.begin()
        for each in self.of_members:
            each.become_live(node_id)

    def add(self, config: BridgeConfig) -> None:
        """Make a bridge of a live broker, and start it."""
        bridges = self.bridges
        if bridges is None:
            bridges = self._load()
            bridges.begin(self._node_id)
        bridges.add(config)

    def remove(self, config: BridgeConfig) -> None:
        """End a bridge of a live broker."""
        assert self.bridges is not None
        clock = self._kernel.clock
        self.bridges.remove(config, Instant(clock.monotonic, clock.now_ms))

    def leave(self, now: Instant) -> None:
        """Return to their queues what bridges have not got confirmed."""
        if self.grouping is not None:
            self.grouping.leave()
        if self.bridges is not None:
            self.bridges.leave(now)
        for each in self.of_members:
            each.leave(now)
