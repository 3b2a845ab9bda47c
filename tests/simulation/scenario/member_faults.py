"""Faults of the brokers of a group: crashes, orderly stops, freezes, and clocks and disks of one of them.

Responsible for which broker each strikes, for its end, and for starting again a broker that is down. Does not depend on
what gives a broker the right to be live, on messages, or on what a broker should do about faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from attrs import define, field

from embedbroker.locks import LockFault
from embedbroker.node import NodeState
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

from .crashes import MOMENTS, Ambush, count_crash
from .fault_kinds import FaultKind
from .fault_schedule import FaultSchedule
from .members import Members

__all__ = ["Group", "MemberFaults"]

_CLOCK_JUMP_MS_MAX = 120_000
#: A broker that refuses to be live for such a reason has a wrong journal, or lost a part of it.
_RUINED = ("damaged", "is not that of", "there is no journal", "was on disk")


class Group(Protocol):
    """Brokers of which one at a time is live."""

    @property
    def members(self) -> Members: ...

    @property
    def in_order(self) -> bool: ...

    def disturbed(self) -> None:
        """Something happened to it from outside: it has its time again."""

    def stop(self, *, fails_over: bool) -> None:
        """An orderly stop of the live broker."""

    def set_full(self, host: NodeHost, full: bool) -> None:
        """Whether there is room for a host."""


@define(eq=False)
class MemberFaults:
    """``prefers`` may return the host to freeze; ``on_freeze`` receives the frozen host and the duration in seconds.

    ``on_crash`` is called before the broker that has the journal crashes.
    """

    scene: Scene
    schedule: FaultSchedule
    group: Group
    #: The failure texts of a life that ends because it lost its right to be live.
    lost_right: Sequence[str]
    prefers: Callable[[], NodeHost | None]
    on_freeze: Callable[[NodeHost, float], None] | None = None
    on_crash: Callable[[NodeHost], None] | None = None
    _ambush: Ambush = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._ambush = Ambush(self.scene, self.schedule, self.crash_active)

    @property
    def members(self) -> Members:
        return self.group.members

    def watch(self) -> None:
        """Follow which hosts stop, and wait for moments."""
        self.members.after_step.append(self._look)
        for host in self.members.everybody:
            self._watch(host)

    def _watch(self, host: NodeHost) -> None:
        host.on_stopped.append(lambda failure: self._on_stopped(host, failure))

    def strike(self, kind: FaultKind) -> bool:
        """Strike with one fault; return False if it is not one of these."""
        members, random = self.members, self.scene.world.random
        match kind:
            case FaultKind.CRASH:
                self.crash_active()
            case FaultKind.CRASH_TWICE:
                self._ambush.again = True
                self.crash_active()
            case FaultKind.CRASH_WAITER:
                self.crash(random.choice([host for host in members.hosts.values() if host is not members.active]))
                self.schedule.healed()
            case FaultKind.CRASH_ALL:
                if sum(host.node is not None for host in members.hosts.values()) > 1:
                    self.scene.hit(Moment.ALL_CRASHED)
                for host in members.hosts.values():
                    self.crash(host)
                self.schedule.healed()
            case FaultKind.RESTART | FaultKind.FAIL_OVER:
                self._stop(fails_over=kind is FaultKind.FAIL_OVER)
            case FaultKind.FREEZE:
                self.freeze(self._somebody_to_freeze())
            case FaultKind.CLOCK_JUMP:
                self._set_clock(self.somebody())
            case FaultKind.FULL_HERE:
                self._fill(self.somebody())
            case _ if kind in MOMENTS:
                self.crash_when(MOMENTS[kind])
            case _:
                return False
        return True

    def somebody(self) -> NodeHost:
        """Return a host, preferably the one that has the journal."""
        members = self.members
        if members.active is not None and self.scene.chance(0.6):
            return members.active
        return self.scene.world.random.choice(list(members.hosts.values()))

    # Crashes

    def crash_when(self, condition: Callable[[NodeHost], bool]) -> None:
        """The live broker crashes when a condition holds for it."""
        self._ambush.lay(condition, runs=self.members.node is not None)

    def _look(self) -> None:
        active = self.members.active
        if active is not None and active.node is not None:
            self._ambush.look(active)

    def crash_active(self) -> None:
        """Crash the broker that has the journal; mostly leave a frozen one alone, so that it wakes up."""
        active = self.members.active
        if active is not None and not (active.frozen and self.scene.chance(0.7)):
            self.crash(active)
        self.schedule.healed()

    def crash(self, host: NodeHost) -> None:
        """Counts what the crash meets, crashes, and has the host started again."""
        if host.node is None:
            return
        if host is self.members.active:
            count_crash(self.scene, host)
            if self.on_crash is not None:
                self.on_crash(host)
        if host.requested is not None:
            self.scene.hit(Moment.ANSWER_OF_STORE_LOST)
        self.end(host)
        self._start_later(host)

    def end(self, host: NodeHost) -> None:
        """A life is over at once."""
        host.crash()
        self.members.ended(host)

    # Stops, and starts

    def stop(self, host: NodeHost, *, fails_over: bool) -> None:
        """An orderly stop of any host. If it has not ended in time, the power goes."""
        if not host.ready or host.frozen:
            self.schedule.healed()
            return
        host.stop(fails_over=fails_over)
        self.schedule.later(0.2 + 2 * self.scene.world.random.random(), lambda: self._start(host))

    def _stop(self, *, fails_over: bool) -> None:
        """An orderly stop. If it has not ended in time, the power goes."""
        active = self.members.active
        if active is None or not active.ready or active.frozen:
            self.schedule.healed()
            return
        self.scene.hit(Moment.ORDERLY_RESTART)
        self.group.stop(fails_over=fails_over)
        self.schedule.later(0.2 + self.scene.world.random.random(), lambda: self._start(active))

    def _on_stopped(self, host: NodeHost, failure: str | None) -> None:
        """A life has ended by itself; start the host again, unless it does that itself."""
        if failure is not None:
            self.scene.world.note(host.name, "failed", failure)
            if any(text in failure for text in _RUINED):
                self.scene.fail(f"{host.name} refuses to be live: {failure}")
            if any(text in failure for text in self.lost_right):
                self.scene.hit(Moment.LOCK_LOST)
        self._start_later(host)

    def _start_later(self, host: NodeHost) -> None:
        random = self.scene.world.random
        self.schedule.expect()
        delay_s = 0.005 + random.random() * random.choice((0.3, 0.3, 1.0, 1.0, 4.0, 20.0))
        self.schedule.later(delay_s, lambda: self._start(host))

    def _start(self, host: NodeHost) -> None:
        """Starts a host that is down; a life that hangs in its end is ended first."""
        if host.frozen:
            return
        if host.node is not None and host.node.state is NodeState.STOPPING:
            self.end(host)
        if host.node is None:
            try:
                host.start()
            except LockFault:
                self._start_later(host)

    # Freezes

    def _somebody_to_freeze(self) -> NodeHost:
        """The host that has the journal, or one that another host has to wait for, or any host."""
        preferred = self.prefers() if self.scene.chance(0.35) else None
        return preferred if preferred is not None else self.somebody()

    def freeze(self, host: NodeHost, spans_s: Iterable[float] = ()) -> None:
        """A host stands still for a while."""
        scene = self.scene
        if host.node is None or host.frozen:
            self.schedule.healed()
            return
        is_active = host is self.members.active
        scene.hit(Moment.FROZEN_LIVE if is_active else Moment.FROZEN_WAITER)
        host.freeze()
        random, life = scene.world.random, host.life
        # A waiting host has to be frozen for long to be in the way of others.
        spans = tuple(spans_s) or ((0.5, 3.0, 14.0, 14.0) if is_active else (1.0, 14.0, 40.0))
        duration_s = random.choice(spans) * (0.2 + random.random())
        if self.on_freeze is not None:
            self.on_freeze(host, duration_s)
        self.schedule.later(duration_s, lambda: self._thaw(host, life))

    def _thaw(self, host: NodeHost, life: int) -> None:
        if host.frozen and host.life == life:
            if host.superseded:
                self.scene.hit(Moment.WOKE_UP_REPLACED)
            host.thaw()

    # Clocks and disks

    def _set_clock(self, host: NodeHost) -> None:
        self.scene.hit(Moment.CLOCK_JUMPED)
        host.clock_offset_ms = self.scene.world.random.randint(-_CLOCK_JUMP_MS_MAX, _CLOCK_JUMP_MS_MAX)
        self.schedule.healed()

    def _fill(self, host: NodeHost) -> None:
        self.scene.hit(Moment.FULL_ON_ONE_SIDE)
        self.group.set_full(host, True)
        self.schedule.later(0.05 + 2 * self.scene.world.random.random(), lambda: self.group.set_full(host, False))
