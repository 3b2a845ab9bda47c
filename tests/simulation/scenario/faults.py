"""Faults of one broker: what goes wrong in a scenario, and how it ends. Every fault heals by itself.

Faults act on hosts, links and the disk. They know nothing of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define, field

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

from .crashes import MOMENTS, Ambush, count_crash
from .disk_faults import DISK_FAULTS, strike_disk
from .fault_kinds import FaultKind
from .fault_schedule import FaultSchedule
from .network_faults import NetworkFaults

__all__ = ["FaultPlan"]


@define(eq=False)
class FaultPlan:
    """The faults of one scenario."""

    scene: Scene
    network: Network
    broker: NodeHost
    clients: Sequence[ClientHost]
    on_client_crash: Callable[[ClientHost], None]
    _schedule: FaultSchedule = field(init=False)
    _ambush: Ambush = field(init=False)
    _links: NetworkFaults = field(init=False)

    def __attrs_post_init__(self) -> None:
        scene, names = self.scene, (self.broker.name,)
        self._schedule = FaultSchedule(scene.world, self._strike)
        self._ambush = Ambush(scene, self._schedule, self._crash)
        self._links = NetworkFaults(scene, self._schedule, self.network, names, self.clients, self.on_client_crash)

    def schedule(self, strikes: Iterable[tuple[FaultKind, float]]) -> None:
        """Sets each fault at its time, in seconds from now."""
        self.broker.after_step.append(lambda: self._ambush.look(self.broker))
        self.broker.on_stopped.append(self._on_stopped)
        self._schedule.schedule(strikes)

    @property
    def struck(self) -> int:
        """How many have struck."""
        return self._schedule.struck

    @property
    def over(self) -> bool:
        """True if every fault has struck and healed, and the broker serves."""
        return self._schedule.over and self.broker.ready

    def _strike(self, kind: FaultKind) -> None:
        match kind:
            case FaultKind.CRASH:
                self._crash()
            case FaultKind.CRASH_TWICE:
                self._ambush.again = True
                self._crash()
            case FaultKind.RESTART:
                self._restart()
            case _ if kind in MOMENTS:
                self._ambush.lay(MOMENTS[kind], runs=self.broker.node is not None)
            case _ if kind in DISK_FAULTS:
                strike_disk(self.scene, self._schedule, kind, self.broker.disk, self._set_speed, self._repair)
            case _:
                self._links.strike(kind)

    # The broker

    def _crash(self) -> None:
        """Counts what the crash meets, crashes, and has the broker started again."""
        scene, broker = self.scene, self.broker
        if broker.node is not None:
            count_crash(scene, broker)
            scene.ledger.killed(scene.world.now)
            broker.crash()
        self._schedule.later(0.005 + scene.world.random.random() * 0.5, self._start)

    def _on_stopped(self, failure: str | None) -> None:
        """The broker has ended in order, or because its disk failed; it must come back in any case."""
        if failure is not None and "damaged" in failure:
            self.scene.fail(f"the broker refuses to start: {failure}")
        self.scene.ledger.killed(self.scene.world.now)
        self._schedule.expect()
        self._schedule.later(0.2 + self.scene.world.random.random(), self._start)

    def _restart(self) -> None:
        """An orderly stop. If it has not ended in time, the power goes."""
        if not self.broker.ready:
            self._schedule.healed()
            return
        self.scene.hit(Moment.ORDERLY_RESTART)
        self.broker.stop()
        self._schedule.later(0.2 + self.scene.world.random.random(), self._start)

    def _start(self) -> None:
        """Starts the broker if it is down; a life that has failed on its disk is ended first."""
        if self.broker.stopping:
            self.scene.ledger.killed(self.scene.world.now)
            self.broker.crash()
        if self.broker.node is None:
            self.broker.start()
            self.scene.ledger.restarted(self.scene.world.now)

    # The disk

    def _set_speed(self, factor: float) -> None:
        self.broker.speed.factor = factor

    def _repair(self) -> None:
        self.broker.disk.repair()
        self._start()
