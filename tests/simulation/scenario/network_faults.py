"""What goes wrong with clients, and between them and brokers: connections break, wait, are slow, or fall half silent.

It depends on the names of clients and brokers, and on nothing that they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._network import Network
from embedbroker.testing._scene import Moment, Scene

from .fault_kinds import FaultKind
from .fault_schedule import FaultSchedule

__all__ = ["NetworkFaults"]


@define(eq=False)
class NetworkFaults:
    """Faults of ``clients``, and of their connections to ``brokers``."""

    scene: Scene
    schedule: FaultSchedule
    network: Network
    brokers: Sequence[str]
    clients: Sequence[ClientHost]
    on_client_crash: Callable[[ClientHost], None]

    def strike(self, kind: FaultKind) -> None:
        """One fault."""
        if kind is FaultKind.CLIENT_CRASH:
            self.scene.hit(Moment.CLIENT_CRASH)
            self.on_client_crash(self.scene.world.random.choice(self.clients))
            self.schedule.healed()
        else:
            self._strike_links(kind)

    def _strike_links(self, kind: FaultKind) -> None:
        scene, network, random = self.scene, self.network, self.scene.world.random
        duration = 0.01 + random.random() * random.choice((0.1, 1.0, 3.0))
        client = random.choice(self.clients).name
        match kind:
            case FaultKind.CUT_ONE:
                # Bytes pile up for a moment, so that the cut loses some of them in both directions.
                self._hold(client)
                self.schedule.later(random.random() * random.choice((0.0, 0.005, 0.05)), lambda: self._cut(client))
            case FaultKind.CUT_ALL:
                for link in list(network.links):
                    scene.hit(Moment.CONNECTION_CUT)
                    link.cut("connection reset")
                self.schedule.healed()
            case FaultKind.HALF_OPEN:
                for broker in self.brokers:
                    for link in network.between(client, broker):
                        scene.hit(Moment.HALF_OPEN)
                        link.fall_silent(random.choice((link.near, link.far)), "connection reset")
                self.schedule.healed()
            case FaultKind.HOLD_ONE_WAY:
                scene.hit(Moment.DIRECTION_HELD)
                outwards = scene.chance(0.5)
                pairs = [(client, each) if outwards else (each, client) for each in self.brokers]
                for pair in pairs:
                    network.hold(*pair)
                self.schedule.later(duration, lambda: self._release(pairs))
            case FaultKind.PARTITION:
                scene.hit(Moment.DIRECTION_HELD)
                self._hold(client)
                self.schedule.later(duration, network.heal)
            case _:
                scene.hit(Moment.NETWORK_DELAYED)
                network.latency_s, usual = 0.05 + random.random() * 0.2, network.latency_s
                self.schedule.later(duration, lambda: setattr(network, "latency_s", min(usual, 0.001)))

    def _hold(self, client: str) -> None:
        for broker in self.brokers:
            self.network.hold(client, broker)
            self.network.hold(broker, client)

    def _release(self, pairs: Sequence[tuple[str, str]]) -> None:
        for pair in pairs:
            self.network.release(*pair)

    def _cut(self, client: str) -> None:
        for broker in self.brokers:
            for link in self.network.between(client, broker):
                self.scene.hit(Moment.CONNECTION_CUT)
                link.cut("connection reset")
            self._release([(client, broker), (broker, client)])
