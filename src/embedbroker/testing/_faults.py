"""Faults: what goes wrong in a scenario, when, and how long. Every fault heals by itself; the plan knows when all have.

Faults act on hosts, links and the disk. They know nothing of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from random import Random

from attrs import define, field, frozen

from embedbroker.testing._clients import ClientHost
from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

__all__ = ["FaultKind", "FaultPlan", "draw_faults"]


class FaultKind(IntEnum):
    CRASH = 0
    CRASH_WHILE_WRITING = 1
    CRASH_WHILE_SWITCHING = 2
    CRASH_WHILE_COMPACTING = 3
    CRASH_TWICE = 4
    RESTART = 5
    CUT_ONE = 6
    CUT_ALL = 7
    HOLD_ONE_WAY = 8
    PARTITION = 9
    DELAY = 10
    SLOW_DISK = 11
    FULL_DISK = 12
    DISK_ERROR = 13
    CLIENT_CRASH = 14
    HALF_OPEN = 15


_WEIGHTS = {
    FaultKind.CRASH: 3,
    FaultKind.CRASH_WHILE_WRITING: 4,
    FaultKind.CRASH_WHILE_SWITCHING: 3,
    FaultKind.CRASH_WHILE_COMPACTING: 3,
    FaultKind.CRASH_TWICE: 2,
    FaultKind.RESTART: 2,
    FaultKind.CUT_ONE: 9,
    FaultKind.CUT_ALL: 3,
    FaultKind.HOLD_ONE_WAY: 2,
    FaultKind.PARTITION: 2,
    FaultKind.DELAY: 2,
    FaultKind.SLOW_DISK: 2,
    FaultKind.FULL_DISK: 1,
    FaultKind.DISK_ERROR: 1,
    FaultKind.CLIENT_CRASH: 3,
    FaultKind.HALF_OPEN: 4,
}

#: A crash that waits for its moment does not wait longer.
_PATIENCE_S = 1.0


def draw_faults(random: Random, count: int) -> list[FaultKind]:
    """A random selection."""
    kinds = list(_WEIGHTS)
    return random.choices(kinds, weights=[_WEIGHTS[kind] for kind in kinds], k=count)


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
                self._strike_network(kind)

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

    # The network

    def _strike_network(self, kind: FaultKind) -> None:
        scene, network, random = self.scene, self.network, self.scene.world.random
        duration = 0.01 + random.random() * random.choice((0.1, 1.0, 3.0))
        client = random.choice(self.clients).name
        match kind:
            case FaultKind.CUT_ONE:
                # Bytes pile up for a moment, so that the cut loses some of them in both directions.
                network.hold(client, self.broker.name)
                network.hold(self.broker.name, client)
                self._later(random.random() * random.choice((0.0, 0.005, 0.05)), lambda: self._cut(client))
            case FaultKind.CUT_ALL:
                for link in list(network.links):
                    scene.hit(Moment.CONNECTION_CUT)
                    link.cut("connection reset")
                self._outstanding -= 1
            case FaultKind.HALF_OPEN:
                for link in network.between(client, self.broker.name):
                    scene.hit(Moment.HALF_OPEN)
                    link.fall_silent(random.choice((link.near, link.far)), "connection reset")
                self._outstanding -= 1
            case FaultKind.HOLD_ONE_WAY:
                scene.hit(Moment.DIRECTION_HELD)
                pair = (client, self.broker.name) if scene.chance(0.5) else (self.broker.name, client)
                network.hold(*pair)
                self._later(duration, lambda: network.release(*pair))
            case FaultKind.PARTITION:
                scene.hit(Moment.DIRECTION_HELD)
                network.hold(client, self.broker.name)
                network.hold(self.broker.name, client)
                self._later(duration, network.heal)
            case _:
                scene.hit(Moment.NETWORK_DELAYED)
                network.latency_s, usual = 0.05 + random.random() * 0.2, network.latency_s
                self._later(duration, lambda: setattr(network, "latency_s", min(usual, 0.001)))

    def _cut(self, client: str) -> None:
        broker = self.broker.name
        for link in self.network.between(client, broker):
            self.scene.hit(Moment.CONNECTION_CUT)
            link.cut("connection reset")
        self.network.release(client, broker)
        self.network.release(broker, client)

    def _later(self, delay_s: float, what: Callable[[], None]) -> None:
        self.scene.world.after(delay_s, self, _Undo(what))
