"""Faults: what goes wrong in a scenario, when, and how long. Every fault heals by itself; the plan knows when all have.

Faults act on hosts, links and the disk. They know nothing of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define, field, frozen

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._fault_kinds import FaultKind
from embedbroker.testing._network import Network
from embedbroker.testing._network_faults import NetworkFaults
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

__all__ = ["FaultPlan"]


#: A crash that waits for its moment does not wait longer.
_PATIENCE_S = 1.0


@frozen(eq=False)
class _Strike:
    kind: FaultKind


@frozen(eq=False)
class _Undo:
    what: Callable[[], None]


@frozen(eq=False)
class _GiveUpWaiting:
    number: int


@define(eq=False)
class FaultPlan:
    """The faults of one scenario."""

    scene: Scene
    network: Network
    broker: NodeHost
    clients: Sequence[ClientHost]
    on_client_crash: Callable[[ClientHost], None]
    struck: int = field(default=0, init=False)
    _outstanding: int = field(default=0, init=False)
    _waiting: tuple[int, Callable[[], bool], Moment] | None = field(default=None, init=False)
    _numbers: int = field(default=0, init=False)
    _crash_again: bool = field(default=False, init=False)
    _links: NetworkFaults = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._links = NetworkFaults(
            self.scene, self.network, (self.broker.name,), self.clients, self._later, self._healed
        )

    def schedule(self, strikes: Iterable[tuple[FaultKind, float]]) -> None:
        """Sets each fault at its time, in seconds from now."""
        self.broker.after_step.append(self._look_at_broker)
        self.broker.on_stopped.append(self._on_stopped)
        for kind, at_s in strikes:
            self._outstanding += 1
            self.scene.world.after(at_s, self, _Strike(kind))

    @property
    def over(self) -> bool:
        """True if every fault has struck and healed, and the broker serves."""
        return not self._outstanding and self.broker.ready

    def on_event(self, event: object) -> None:
        """A fault strikes, or heals."""
        match event:
            case _Strike(kind):
                self.struck += 1
                self.scene.world.note("fault", kind.name)
                self._strike(kind)
            case _Undo(what):
                what()
                self._outstanding -= 1
            case _GiveUpWaiting(number):
                if self._waiting is not None and self._waiting[0] == number:
                    self._waiting = None
                    self._crash()

    def _strike(self, kind: FaultKind) -> None:
        match kind:
            case FaultKind.CRASH:
                self._crash()
            case FaultKind.CRASH_TWICE:
                self._crash_again = True
                self._crash()
            case FaultKind.CRASH_WHILE_WRITING:
                self._crash_when(self.broker.writing, Moment.CRASH_WITH_UNSYNCED_RECORDS)
            case FaultKind.CRASH_WHILE_SWITCHING:
                self._crash_when(self.broker.switching_segments, Moment.CRASH_DURING_SEGMENT_SWITCH)
            case FaultKind.CRASH_WHILE_COMPACTING:
                self._crash_when(self.broker.compacting, Moment.CRASH_DURING_COMPACTION)
            case FaultKind.RESTART:
                self._restart()
            case FaultKind.CLIENT_CRASH:
                self.scene.hit(Moment.CLIENT_CRASH)
                self.on_client_crash(self.scene.world.random.choice(self.clients))
                self._outstanding -= 1
            case FaultKind.SLOW_DISK | FaultKind.FULL_DISK | FaultKind.DISK_ERROR:
                self._strike_disk(kind)
            case _:
                self._links.strike(kind)

    # The broker

    def _crash_when(self, condition: Callable[[], bool], moment: Moment) -> None:
        if self._waiting is not None or self.broker.node is None:
            self._crash()
            return
        self._numbers += 1
        self._waiting = (self._numbers, condition, moment)
        self.scene.world.after(_PATIENCE_S, self, _GiveUpWaiting(self._numbers))

    def _look_at_broker(self) -> None:
        """After each step of the broker: has a crash waited for this?"""
        if self._waiting is not None and self._waiting[1]():
            self._waiting = None
            self._crash()
        elif self._crash_again and self.broker.recovering and self.scene.chance(0.3):
            self._crash_again = False
            self._outstanding += 1
            self._crash()

    def _crash(self) -> None:
        """Counts what the crash meets, crashes, and has the broker started again."""
        scene, broker = self.scene, self.broker
        if broker.node is not None:
            scene.hit(Moment.CRASH)
            if broker.writing():
                scene.hit(Moment.CRASH_WITH_UNSYNCED_RECORDS)
            if broker.recovering:
                scene.hit(Moment.CRASH_DURING_RECOVERY)
            if broker.switching_segments():
                scene.hit(Moment.CRASH_DURING_SEGMENT_SWITCH)
            if broker.compacting():
                scene.hit(Moment.CRASH_DURING_COMPACTION)
            kill = scene.ledger.killed(scene.world.now)
            if kill.open_transactions:
                scene.hit(Moment.CRASH_WITH_OPEN_TRANSACTIONS)
            if broker.node.kernel.branches.prepared():
                scene.hit(Moment.CRASH_WITH_PREPARED_BRANCHES)
            broker.crash()
        self._later(0.005 + scene.world.random.random() * 0.5, self._start)

    def _on_stopped(self, failure: str | None) -> None:
        """The broker has ended in order, or because its disk failed; it must come back in any case."""
        if failure is not None and "damaged" in failure:
            self.scene.fail(f"the broker refuses to start: {failure}")
        self.scene.ledger.killed(self.scene.world.now)
        self._outstanding += 1
        self._later(0.2 + self.scene.world.random.random(), self._start)

    def _restart(self) -> None:
        """An orderly stop. If it has not ended in time, the power goes."""
        if not self.broker.ready:
            self._outstanding -= 1
            return
        self.scene.hit(Moment.ORDERLY_RESTART)
        self.broker.stop()
        self._later(0.2 + self.scene.world.random.random(), self._start)

    def _start(self) -> None:
        """Starts the broker if it is down; a life that has failed on its disk is ended first."""
        if self.broker.stopping:
            self.scene.ledger.killed(self.scene.world.now)
            self.broker.crash()
        if self.broker.node is None:
            self.broker.start()
            self.scene.ledger.restarted(self.scene.world.now)

    # The disk

    def _strike_disk(self, kind: FaultKind) -> None:
        scene, disk = self.scene, self.broker.disk
        duration = 0.05 + scene.world.random.random()
        match kind:
            case FaultKind.SLOW_DISK:
                scene.hit(Moment.SLOW_DISK)
                self.broker.speed.factor = scene.world.random.choice((10.0, 50.0, 200.0))
                self._later(duration, self._speed_up)
            case FaultKind.FULL_DISK:
                scene.hit(Moment.DISK_FULL)
                disk.capacity_bytes = 0
                self._later(duration, self._repair)
            case _:
                scene.hit(Moment.DISK_ERROR)
                disk.fail_at(disk.operations + scene.world.random.randrange(4))
                self._later(duration, self._repair)

    def _speed_up(self) -> None:
        self.broker.speed.factor = 1.0

    def _repair(self) -> None:
        self.broker.disk.repair()
        self._start()

    def _healed(self) -> None:
        self._outstanding -= 1

    def _later(self, delay_s: float, what: Callable[[], None]) -> None:
        self.scene.world.after(delay_s, self, _Undo(what))
