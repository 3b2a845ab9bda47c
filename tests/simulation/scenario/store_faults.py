"""Faults of brokers that share a store: what can be wrong with the store, the disk, and the brokers that wait for it.

Responsible for when each strikes and for its end. Every fault heals by itself. Does not depend on messages, or on
what a broker should do about any of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from embedbroker.locks import Lock, WriteRecord
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

from .crashes import Trap
from .disk_faults import DISK_FAULTS, strike_disk
from .fault_kinds import FaultKind
from .fault_schedule import FaultSchedule
from .group import Group
from .member_faults import MemberFaults
from .store_policy import StorePolicy

__all__ = ["StoreFaults"]

#: After so long a store takes locks away from a frozen machine. A live broker is sure of its lock for less.
LEASE_S = 5.0
#: How often it does. A waiting broker must be in the way of others for long sometimes.
_LAPSES, _LAPSES_OF_WAITER = 0.9, 0.4
_LOST_LOCK = ("live lock is", "made live on the same store")


@define(eq=False)
class StoreFaults:
    """Those of one scenario."""

    group: Group
    policy: StorePolicy
    schedule: FaultSchedule
    scene: Scene = field(init=False)
    members: MemberFaults = field(init=False)
    traps: Mapping[FaultKind, Trap] = field(init=False)
    patience_s: float = field(default=5.0, init=False)
    _returning: Trap = field(factory=Trap, init=False)
    _claiming: Trap = field(factory=Trap, init=False)

    def __attrs_post_init__(self) -> None:
        self.scene = self.policy.scene
        self.traps = {FaultKind.CRASH_WHILE_CLAIMING: self._claiming, FaultKind.FREEZE_RETURNING: self._returning}
        parts = self.scene, self.schedule, self.group
        self.members = MemberFaults(*parts, _LOST_LOCK, self._in_the_way, on_freeze=self._let_lapse)

    def strike(self, kind: FaultKind) -> bool:
        """Strike with one fault; return False if it is not one of these."""
        match kind:
            case FaultKind.LOSE_STORE:
                self._lose_store()
            case FaultKind.BREAK_STORE:
                self._break_store()
            case _ if kind in DISK_FAULTS:
                disk = self.policy.disk
                strike_disk(self.scene, self.schedule, kind, disk, self._set_speed, disk.repair)
            case _:
                return False
        return True

    # Moments

    def look_at(self, host: NodeHost) -> None:
        """After each step of any broker: crash it if a record is on its way to the store and a crash waits for that."""
        if not self._claiming.is_set or host.requested is None or host is self.group.members.active:
            return
        if any(isinstance(operation, WriteRecord) for operation in host.requested.operations):
            self._claiming.spring()
            self.members.crash(host)

    def look(self) -> None:
        """A primary waits to be live again: it gets no further."""
        members, policy = self.group.members, self.policy
        primary = members.primary
        if not self._returning.is_set or members.active is None or members.active.node is None:
            return
        if primary is not members.active and policy.locks.holder(Lock.FAILBACK) == policy.holder(primary):
            self._returning.spring()
            self.schedule.expect()
            self.members.freeze(primary, (40.0,))

    # Freezes

    def _in_the_way(self) -> NodeHost | None:
        """A host that goes before others."""
        policy, members = self.policy, self.group.members
        for holder in [policy.locks.holder(lock) for lock in (Lock.FAILBACK, Lock.BACKUP)]:
            for host in members.hosts.values():
                if holder == policy.holder(host) and host is not members.active:
                    return host
        return None

    def _let_lapse(self, host: NodeHost, duration_s: float) -> None:
        """The store has received nothing from its machine for too long."""
        life = host.life
        chance = _LAPSES if host is self.group.members.active else _LAPSES_OF_WAITER
        if duration_s > LEASE_S and self.scene.chance(chance):
            self.schedule.expect()
            self.schedule.later(LEASE_S, lambda: self._lapse(host, life))

    def _lapse(self, host: NodeHost, life: int) -> None:
        if host.frozen and host.life == life:
            self.scene.world.note("fault", "locks lapse", host.name)
            self.policy.locks.lapse(self.policy.holder(host))

    # The store and the disk

    def _lose_store(self) -> None:
        random, locks = self.scene.world.random, self.policy.locks
        self.scene.hit(Moment.STORE_LOST)
        locks.reachable = False
        duration_s = random.random() * random.choice((0.1, 1.0, 3.0))
        self.schedule.later(duration_s, lambda: setattr(locks, "reachable", True))

    def _break_store(self) -> None:
        locks = self.policy.locks
        self.scene.hit(Moment.STORE_BROKE_IN_BATCH)
        locks.breaks_after = self.scene.world.random.randrange(3)
        self.schedule.later(2.0, lambda: setattr(locks, "breaks_after", None))

    def _set_speed(self, factor: float) -> None:
        for host in self.group.members.hosts.values():
            host.speed.factor = factor
