"""The bridges that the configuration of a broker defines.

Responsible for making them when the broker becomes live, or when management creates one, for what the operator and
observers learn of them, and for which of them have work in a step.
"""

from __future__ import annotations

from collections.abc import Callable

from embedbroker.config import BridgeConfig, BrokerConfig
from embedbroker.kernel import Kernel, Service
from embedclient.agent import Session
from embedclient.engine import ConnectionDialer
from embedclient.model import Entropy, Instant, TransportConfiguration

from ._bridge import Bridge
from ._bridge_link import BridgeLink
from ._bridged_message import AddressForwarding
from ._target import ConfiguredTarget

__all__ = ["Bridges"]


class Bridges:
    """One instance per node. ``active`` are the bridges with work in this step.

    Args:
        config: The configuration, with bridges.
        kernel: Has the queues.
        dialer: Opens the connections.
        entropy: Source of random bits.
        discovered: Returns the places of brokers that announce themselves to a discovery group; None: without
            discovery.
    """

    def __init__(
        self,
        config: BrokerConfig,
        kernel: Kernel,
        dialer: ConnectionDialer,
        entropy: Entropy,
        discovered: Callable[[str], list[TransportConfiguration]] | None = None,
    ) -> None:
        self.active: dict[object, None] = {}
        self.by_name: dict[str, Bridge] = {}
        self._config = config
        self._kernel = kernel
        self._dialer = dialer
        self._entropy = entropy
        self._discovered = discovered
        self._node = b""

    def begin(self, node_id: str) -> None:
        """Serve as a live broker, with no bridge yet."""
        self._node = bytes.fromhex(node_id.replace("-", ""))
        self._kernel.bridges.running = self.by_name

    def become_live(self, node_id: str) -> None:
        """Make the bridges, and start them."""
        self.begin(node_id)
        made = [bridge for configured in self._kernel.bridges.all for bridge in self._make(configured)]
        for bridge in made:
            bridge.start()

    def _make(self, configured: BridgeConfig) -> list[Bridge]:
        config, connectors = self._config, self._kernel.bridges.connectors
        user, password = configured.user, configured.password
        if user is None:
            user, password = config.cluster_user, config.cluster_password
        made = []
        for each in configured.each():
            places = [connectors[name] for name in configured.static_connectors]
            find = self._search_of(each, places)
            bridge = Bridge(
                each,
                self._kernel,
                AddressForwarding(each, self._node),
                ConfiguredTarget(find, user, password, self._entropy, each.reconnect_attempts_same_node, each.ha),
                self._dialer,
                _Reports(each, self._kernel),
                self.active,
            )
            self.by_name[each.name] = bridge
            made.append(bridge)
        return made

    def add(self, config: BridgeConfig) -> None:
        """Make a bridge of a live broker, and start it."""
        for bridge in self._make(config):
            bridge.start()

    def remove(self, config: BridgeConfig, now: Instant) -> None:
        """End a bridge of a live broker: what is not confirmed returns to its queue."""
        for each in config.each():
            bridge = self.by_name.pop(each.name, None)
            if bridge is None:
                # It does not run, for example without its connector.
                continue
            bridge.destroy(now)
            # It has output, the end of its connection: `run` must be called, and drops it.
            self.active[bridge] = None

    def _search_of(
        self, bridge: BridgeConfig, places: list[TransportConfiguration]
    ) -> Callable[[], list[TransportConfiguration]]:
        """Return how all places of a bridge are found."""
        group, discovered = bridge.discovery_group, self._discovered
        if group is None or discovered is None:
            return lambda: places
        return lambda: [*places, *discovered(group)]

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
        for removed in self.active.keys() - self.by_name.values():
            del self.active[removed]

    def next_deadline(self, now: Instant) -> float | None:
        """Return when `run` is due, in monotonic seconds; the present moment if work was left."""
        if self.active:
            return now.monotonic
        dues = [due for bridge in self.by_name.values() if (due := bridge.next_deadline()) is not None]
        return min(dues, default=None)


class _Reports:
    """Pass the states of a bridge on to observers and the log."""

    def __init__(self, config: BridgeConfig, kernel: Kernel) -> None:
        self._config = config
        self._kernel = kernel

    def on_started(self) -> None:
        observers = self._kernel.observers
        observers.call(observers.commit.service_started, Service.BRIDGE, self._config.name)
        self._kernel.inform(f"bridge {self._config.name!r} is started")

    def on_stopped(self, state: str) -> None:
        observers = self._kernel.observers
        observers.call(observers.commit.service_stopped, Service.BRIDGE, self._config.name)
        self._kernel.inform(f"bridge {self._config.name!r} is {state.lower()}")

    def on_connected(self, link: BridgeLink, session: Session) -> None:
        """Do nothing: the bridge needs the connection alone."""

    def on_disconnected(self, link: BridgeLink, now: Instant) -> None:
        """Do nothing: the bridge tries again."""

    def on_given_up(self, attempts: int, reason: str, now: Instant) -> None:
        self._kernel.log(
            f"bridge {self._config.name!r} gives up after {attempts} attempts: {reason}; its messages stay in queue "
            f"{self._config.queue!r}; start the bridge again by management"
        )
