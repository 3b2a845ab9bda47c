"""A pair of brokers in the simulated world: the second one starts from what the first one had synced.

Real nodes with real journals; which of them is live is decided from here. Clients know both, as the user named them.
"""

from __future__ import annotations

from random import Random

from embedbroker.config import BrokerConfig
from embedbroker.storage import JournalSettings
from embedbroker.testing._clients import ClientHost, connector_to
from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._world import World
from embedclient.agent import Agent, AgentState, LocatorSettings, RoundRobinPolicy

FAILING_OVER = LocatorSettings(ha=True, reconnect_attempts=-1, retry_interval_ms=10)


class PairClient(ClientHost):
    """A client process that has the names of both brokers."""

    def __init__(self, network: Network, name: str, settings: LocatorSettings = FAILING_OVER) -> None:
        super().__init__(network, name, "a", settings)
        # Whether what comes is lost on its last step.
        self.deaf = False

    def on_bytes(self, connection: int, data: bytes) -> None:
        if not self.deaf:
            super().on_bytes(connection, data)

    def agent(self) -> Agent:
        if self._agent is None or self._agent.state is AgentState.CLOSED:
            connectors = [connector_to("a"), connector_to("b")]
            entropy = self.world.entropy()
            self._agent = Agent(self.settings, connectors, RoundRobinPolicy(entropy), entropy)
            self._agent.on_notification = self._notify
        return self._agent

    def flush(self) -> None:
        """Hands out what requests made from outside have given to do."""
        self._settle()


class SimulatedPair:
    """Brokers `a` and `b`; `a` is live."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.random = Random(seed)
        settings = JournalSettings(identity=seed + 1, segment_size_bytes=64 * 1024)
        self.live, self.other = (
            NodeHost(self.network, BrokerConfig(name=name), SimulatedDisk(), settings) for name in "ab"
        )
        # So slow that a crash often finds something under way.
        self.live.speed.sync_s = self.other.speed.sync_s = 0.002
        self.live.start()

    def fail_over(self) -> None:
        """The live one crashes, and the other one starts from what is on the disk."""
        self.live.crash()
        self.live, self.other = self.other, self.live
        self.live.disk = self.other.disk.copy()
        self.live.start()

    def cut_some(self) -> None:
        """The network ends some of the connections."""
        for link in list(self.network.links):
            if self.random.random() < 0.5:
                link.cut("connection reset")

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds, events_max=1_000_000)

    def run_out(self, *clients: ClientHost) -> None:
        """Until the clients' scripts have ended."""
        for _ in range(600):
            if all(client.idle for client in clients):
                return
            self.run(0.5)
        raise AssertionError("a script does not end")
