"""All bridges of a broker.

Responsible for making them when the broker becomes live, and for which of them have work in a step.
"""

from __future__ import annotations

from embedbroker.config import BrokerConfig
from embedbroker.kernel import Kernel
from embedclient.engine import ConnectionDialer
from embedclient.model import Entropy, Instant

from ._bridge import Bridge
from ._bridge_link import Target

__all__ = ["Bridges"]


class Bridges:
    """One instance per node. ``active`` are the bridges with work in this step."""

    def __init__(self, config: BrokerConfig, kernel: Kernel, dialer: ConnectionDialer, entropy: Entropy) -> None:
        self.active: dict[Bridge, None] = {}
        self.by_name: dict[str, Bridge] = {}
        self._config = config
        self._kernel = kernel
        self._dialer = dialer
        self._entropy = entropy

    def become_live(self, node_id: str) -> None:
        """Make the bridges, and start them."""
        config, node = self._config, bytes.fromhex(node_id.replace("-", ""))
        for configured in config.bridges:
            connectors = [config.connectors[name] for name in configured.static_connectors]
            user, password = configured.user, configured.password
            if user is None:
                user, password = config.cluster_user, config.cluster_password
            for each in configured.each():
                target = Target(connectors, user, password, self._entropy)
                self.by_name[each.name] = Bridge(each, self._kernel, node, target, self._dialer, self.active)
        self._kernel.bridges = self.by_name
        for bridge in self.by_name.values():
            bridge.start()

    def leave(self, now: Instant) -> None:
        """End all bridges: what is not confirmed returns to the queues."""
        for bridge in self.by_name.values():
            bridge.end(now)
        self.active.clear()

    def run(self, now: Instant) -> None:
        """Let the bridges work that have to, or that are due."""
        for bridge in self.by_name.values():
            due = bridge.next_deadline()
            if bridge in self.active or (due is not None and now.monotonic >= due):
                self.active.pop(bridge, None)
                bridge.run(now)

    def next_deadline(self, now: Instant) -> float | None:
        """Return when `run` is due, in monotonic seconds; the present moment if work was left."""
        if self.active:
            return now.monotonic
        dues = [due for bridge in self.by_name.values() if (due := bridge.next_deadline()) is not None]
        return min(dues, default=None)
