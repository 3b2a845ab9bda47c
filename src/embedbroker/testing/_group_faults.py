"""Faults of brokers that share a store: crashes, freezes, stops, and what can be wrong with the store and the disk.

Responsible for when each strikes, for its end, and for starting again whoever is down. Every fault heals by itself.
Refuses to know messages, and what a broker should do about any of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define, field, frozen

from embedbroker.locks import Lock, LockFault, WriteRecord
from embedbroker.node import NodeState
from embedbroker.testing._clients import ClientHost
from embedbroker.testing._fault_kinds import FaultKind
from embedbroker.testing._network import Network
from embedbroker.testing._network_faults import NetworkFaults
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene
from embedbroker.testing._store_group import PRIMARY, StoreGroup

__all__ = ["GroupFaults"]

#: A crash that waits for its moment does not wait longer.
_PATIENCE_S = 1.0
#: And neither a freeze for a primary that wants to be live again, nor a crash for somebody who is about to be live.
_RETURNS_WITHIN_S = 5.0
#: After so long a store takes locks away from a frozen machine. A live broker is sure of its own for less.
LEASE_S = 5.0
_CLOCK_JUMP_MS_MAX = 120_000


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
class GroupFaults:
    """The faults of one scenario of a group."""

    scene: Scene
    network: Network
    group: StoreGroup
    clients: Sequence[ClientHost]
    on_client_crash: Callable[[ClientHost], None]
    struck: int = field(default=0, init=False)
    _outstanding: int = field(default=0, init=False)
    _waiting: tuple[int, Callable[[NodeHost], bool], Moment] | None = field(default=None, init=False)
    _numbers: int = field(default=0, init=False)
    _crash_again: bool = field(default=False, init=False)
    _freezes_returning: int | None = field(default=None, init=False)
    _crashes_claiming: int | None = field(default=None, init=False)
    _links: NetworkFaults = field(init=False)

    def __attrs_post_init__(self) -> None:
        names = self.group.names
        self._links = NetworkFaults(self.scene, self.network, names, self.clients, self._later, self._healed)

    def schedule(self, strikes: Iterable[tuple[FaultKind, float]]) -> None:
        """Sets each fault at its time, in seconds from now."""
        self.group.after_step.append(self._look_at_group)
        for host in self.group.hosts.values():
            self._watch(host)
        for kind, at_s in strikes:
            self._outstanding += 1
            self.scene.world.after(at_s, self, _Strike(kind))

    def _watch(self, host: NodeHost) -> None:
        host.on_stopped.append(lambda failure: self._on_stopped(host, failure))
        host.after_step.append(lambda: self._look_at_claim(host))

    @property
    def over(self) -> bool:
        """True if every fault has struck and healed, and everybody is what he should be."""
        return not self._outstanding and self.group.in_order

    def on_event(self, event: object) -> None:
        """A fault strikes, or heals."""
        self.group.disturbed()
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
                    self._crash_active()

    def _strike(self, kind: FaultKind) -> None:
        group, random = self.group, self.scene.world.random
        match kind:
            case FaultKind.CRASH:
                self._crash_active()
            case FaultKind.CRASH_TWICE:
                self._crash_again = True
                self._crash_active()
            case FaultKind.CRASH_WHILE_WRITING:
                self._crash_when(NodeHost.writing, Moment.CRASH_WITH_UNSYNCED_RECORDS)
            case FaultKind.CRASH_WHILE_SWITCHING:
                self._crash_when(NodeHost.switching_segments, Moment.CRASH_DURING_SEGMENT_SWITCH)
            case FaultKind.CRASH_WHILE_COMPACTING:
                self._crash_when(NodeHost.compacting, Moment.CRASH_DURING_COMPACTION)
            case FaultKind.CRASH_WAITER:
                self._crash(random.choice([host for host in group.hosts.values() if host is not group.active]))
                self._healed()
            case FaultKind.CRASH_WHILE_CLAIMING:
                self._numbers += 1
                number = self._crashes_claiming = self._numbers
                self._later(_RETURNS_WITHIN_S, lambda: self._give_up_claiming(number))
            case FaultKind.CRASH_ALL:
                for host in group.hosts.values():
                    self._crash(host)
                self._healed()
            case FaultKind.RESTART | FaultKind.FAIL_OVER:
                self._stop(fails_over=kind is FaultKind.FAIL_OVER)
            case FaultKind.FREEZE:
                self._freeze(self._somebody_to_freeze())
            case FaultKind.FREEZE_RETURNING:
                self._numbers += 1
                self._freezes_returning = self._numbers
                number = self._numbers
                self._later(_RETURNS_WITHIN_S, lambda: self._give_up_freezing(number))
            case FaultKind.LOSE_STORE | FaultKind.BREAK_STORE:
                self._strike_store(kind)
            case FaultKind.CLIENT_CRASH:
                self.scene.hit(Moment.CLIENT_CRASH)
                self.on_client_crash(random.choice(self.clients))
                self._healed()
            case FaultKind.SLOW_DISK | FaultKind.FULL_DISK | FaultKind.DISK_ERROR:
                self._strike_disk(kind)
            case FaultKind.FULL_HERE | FaultKind.CLOCK_JUMP:
                self._strike_host(kind, self._somebody())
            case _:
                self._links.strike(kind)

    def _somebody(self) -> NodeHost:
        """Rather who has the journal."""
        group = self.group
        if group.active is not None and self.scene.chance(0.6):
            return group.active
        return self.scene.world.random.choice(list(group.hosts.values()))

    # Crashes

    def _crash_when(self, condition: Callable[[NodeHost], bool], moment: Moment) -> None:
        if self._waiting is not None or self.group.node is None:
            self._crash_active()
            return
        self._numbers += 1
        self._waiting = (self._numbers, condition, moment)
        self.scene.world.after(_PATIENCE_S, self, _GiveUpWaiting(self._numbers))

    def _look_at_group(self) -> None:
        """After each step of who has the journal: has a crash waited for this?"""
        active = self.group.active
        if active is None or active.node is None:
            return
        if self._freezes_returning is not None:
            self._freeze_returning()
        if self._waiting is not None and self._waiting[1](active):
            self._waiting = None
            self._crash_active()
        elif self._crash_again and active.recovering and self.scene.chance(0.3):
            self._crash_again = False
            self._outstanding += 1
            self._crash_active()

    def _look_at_claim(self, host: NodeHost) -> None:
        """After each step of anybody: is a record on its way to the store, and a crash waits for that?"""
        if self._crashes_claiming is None or host.asked is None or host is self.group.active:
            return
        if any(isinstance(operation, WriteRecord) for operation in host.asked.operations):
            self._crashes_claiming = None
            self._crash(host)

    def _give_up_claiming(self, number: int) -> None:
        if self._crashes_claiming == number:
            self._crashes_claiming = None

    def _crash_active(self) -> None:
        """Whoever has the journal; one that is frozen is rather left alone, so that it wakes up."""
        active = self.group.active
        if active is not None and not (active.frozen and self.scene.chance(0.7)):
            self._crash(active)
        self._healed()

    def _crash(self, host: NodeHost) -> None:
        """Counts what the crash meets, crashes, and has the host started again."""
        scene = self.scene
        if host.node is None:
            return
        if host is self.group.active:
            self._count(host)
        if host.asked is not None:
            scene.hit(Moment.ANSWER_OF_STORE_LOST)
        host.crash()
        self.group.ended(host)
        self._start_later(host)

    def _count(self, host: NodeHost) -> None:
        scene = self.scene
        assert host.node is not None, "only a running broker crashes"
        for moment, meets in (
            (Moment.CRASH, True),
            (Moment.CRASH_WITH_UNSYNCED_RECORDS, host.writing()),
            (Moment.CRASH_DURING_RECOVERY, host.recovering),
            (Moment.CRASH_DURING_SEGMENT_SWITCH, host.switching_segments()),
            (Moment.CRASH_DURING_COMPACTION, host.compacting()),
            (Moment.CRASH_WITH_OPEN_TRANSACTIONS, scene.ledger.open_transactions),
            (Moment.CRASH_WITH_PREPARED_BRANCHES, host.node.kernel.branches.prepared()),
        ):
            if meets:
                scene.hit(moment)

    # Stops, and starts

    def _stop(self, *, fails_over: bool) -> None:
        """An orderly stop. If it has not ended in time, the power goes."""
        active = self.group.active
        if active is None or not active.ready or active.frozen:
            self._healed()
            return
        self.scene.hit(Moment.ORDERLY_RESTART)
        self.group.stop(fails_over=fails_over)
        self._later(0.2 + self.scene.world.random.random(), lambda: self._start(active))

    def _on_stopped(self, host: NodeHost, failure: str | None) -> None:
        """A life has ended by itself; somebody must start the host again, unless it does that itself."""
        if failure is not None:
            self.scene.world.note(host.name, "failed", failure)
            if "damaged" in failure or "is not that of" in failure:
                self.scene.fail(f"{host.name} refuses to be live: {failure}")
            if "live lock is" in failure or "made live on the same store" in failure:
                self.scene.hit(Moment.LOCK_LOST)
        self._start_later(host)

    def _start_later(self, host: NodeHost) -> None:
        random = self.scene.world.random
        self._outstanding += 1
        delay_s = 0.005 + random.random() * random.choice((0.3, 0.3, 1.0, 1.0, 4.0, 20.0))
        self._later(delay_s, lambda: self._start(host))

    def _start(self, host: NodeHost) -> None:
        """Starts a host that is down; a life that hangs in its end is ended first."""
        if host.frozen:
            return
        if host.node is not None and host.node.state is NodeState.STOPPING:
            host.crash()
            self.group.ended(host)
        if host.node is None:
            try:
                host.start()
            except LockFault:
                self._start_later(host)

    # Freezes

    def _somebody_to_freeze(self) -> NodeHost:
        """Who has the journal, or who goes before others, or anybody."""
        group = self.group
        first = [group.locks.holder(lock) for lock in (Lock.FAILBACK, Lock.BACKUP)]
        if self.scene.chance(0.35):
            for holder in first:
                for host in group.hosts.values():
                    if holder == group.holder(host) and host is not group.active:
                        return host
        return self._somebody()

    def _freeze_returning(self) -> None:
        """A primary waits to be live again: it gets no further."""
        primary = self.group.hosts[PRIMARY]
        if primary is not self.group.active and self.group.locks.holder(Lock.FAILBACK) == self.group.holder(primary):
            self._freezes_returning = None
            self._outstanding += 1
            self._freeze(primary, (40.0,))

    def _give_up_freezing(self, number: int) -> None:
        if self._freezes_returning == number:
            self._freezes_returning = None

    def _freeze(self, host: NodeHost, spans_s: Sequence[float] = ()) -> None:
        scene = self.scene
        if host.node is None or host.frozen:
            self._healed()
            return
        scene.hit(Moment.FROZEN_LIVE if host is self.group.active else Moment.FROZEN_WAITER)
        host.freeze()
        random, life = scene.world.random, host.life
        # Who waits has to be frozen for long to be in anybody's way.
        spans_s = spans_s or ((0.5, 3.0, 14.0, 14.0) if host is self.group.active else (1.0, 14.0, 40.0))
        duration_s = random.choice(spans_s) * (0.2 + random.random())
        if duration_s > LEASE_S and scene.chance(0.9):
            self._outstanding += 1
            self._later(LEASE_S, lambda: self._lapse(host, life))
        self._later(duration_s, lambda: self._thaw(host, life))

    def _lapse(self, host: NodeHost, life: int) -> None:
        """The store has not heard of its machine for too long."""
        if host.frozen and host.life == life:
            self.scene.world.note("fault", "locks lapse", host.name)
            self.group.locks.lapse(self.group.holder(host))

    def _thaw(self, host: NodeHost, life: int) -> None:
        if host.frozen and host.life == life:
            if host.superseded:
                self.scene.hit(Moment.WOKE_UP_REPLACED)
            host.thaw()

    # The store, the disk, and one host of several

    def _strike_store(self, kind: FaultKind) -> None:
        scene, locks, random = self.scene, self.group.locks, self.scene.world.random
        if kind is FaultKind.LOSE_STORE:
            scene.hit(Moment.STORE_LOST)
            locks.reachable = False
            self._later(random.random() * random.choice((0.1, 1.0, 3.0)), lambda: setattr(locks, "reachable", True))
        else:
            scene.hit(Moment.STORE_BROKE_IN_BATCH)
            locks.breaks_after = random.randrange(3)
            self._later(2.0, lambda: setattr(locks, "breaks_after", None))

    def _strike_disk(self, kind: FaultKind) -> None:
        scene, disk, random = self.scene, self.group.disk, self.scene.world.random
        duration = 0.05 + random.random()
        match kind:
            case FaultKind.SLOW_DISK:
                scene.hit(Moment.SLOW_DISK)
                self._set_speed(random.choice((10.0, 50.0, 200.0)))
                self._later(duration, lambda: self._set_speed(1.0))
            case FaultKind.FULL_DISK:
                scene.hit(Moment.DISK_FULL)
                disk.capacity_bytes = 0
                self._later(duration, disk.repair)
            case _:
                scene.hit(Moment.DISK_ERROR)
                disk.fail_at(disk.operations + random.randrange(4))
                self._later(duration, disk.repair)

    def _set_speed(self, factor: float) -> None:
        for host in self.group.hosts.values():
            host.speed.factor = factor

    def _strike_host(self, kind: FaultKind, host: NodeHost) -> None:
        scene, random = self.scene, self.scene.world.random
        if kind is FaultKind.CLOCK_JUMP:
            scene.hit(Moment.CLOCK_JUMPED)
            host.clock_offset_ms = random.randint(-_CLOCK_JUMP_MS_MAX, _CLOCK_JUMP_MS_MAX)
            self._healed()
        else:
            scene.hit(Moment.FULL_ON_ONE_SIDE)
            self._set_full(host, full=True)
            self._later(0.05 + 2 * random.random(), lambda: self._set_full(host, full=False))

    def _set_full(self, host: NodeHost, *, full: bool) -> None:
        host.full = full
        names = self.group.locks.full
        if full:
            names.add(self.group.holder(host))
        else:
            names.discard(self.group.holder(host))

    def _healed(self) -> None:
        self._outstanding -= 1

    def _later(self, delay_s: float, what: Callable[[], None]) -> None:
        self.scene.world.after(delay_s, self, _Undo(what))
