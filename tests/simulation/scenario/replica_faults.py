"""Faults of brokers that replicate: what can be wrong with copies, between members, and with the lock manager.

Responsible for when each strikes and for its end. Every fault heals by itself. Does not depend on messages, or on
what a broker should do about any of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field

from embedbroker.locks import SwapSequence
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment

from .copy_faults import CopyFaults
from .copy_view import stream_of
from .crashes import Trap
from .fault_kinds import FaultKind
from .member_faults import MemberFaults
from .replica_policy import ReplicaPolicy

__all__ = ["ReplicaFaults"]

_LOST_LEASE = ("has not answered in time", "the lease is lost", "may not go on without one")


@define(eq=False)
class ReplicaFaults(CopyFaults):
    """The faults of one scenario of a group."""

    policy: ReplicaPolicy
    patience_s: float = field(default=5.0, init=False)
    _claiming: Trap = field(factory=Trap, init=False)
    _copying: Trap = field(factory=Trap, init=False)

    def __attrs_post_init__(self) -> None:
        self.scene, self.network = self.policy.scene, self.policy.network
        self.traps = {FaultKind.CRASH_WHILE_CLAIMING: self._claiming, FaultKind.CRASH_WHILE_COPYING: self._copying}
        parts = self.scene, self.schedule, self.group
        self.members = MemberFaults(*parts, _LOST_LEASE, self._copied_to, on_crash=self._count)

    def strike(self, kind: FaultKind) -> bool:
        """Strike with one fault; return False if it is not one of these."""
        match kind:
            case FaultKind.LOSE_STORE | FaultKind.BREAK_STORE | FaultKind.CUT_OFF_STORE:
                self._strike_manager(kind)
            case FaultKind.PART_MEMBERS | FaultKind.HOLD_MEMBERS_ONE_WAY:
                self._part(both_ways=kind is FaultKind.PART_MEMBERS)
            case _:
                return CopyFaults.strike(self, kind)
        return True

    # Moments

    def look_at(self, host: NodeHost) -> None:
        """After each step of any broker: crash it if it claims a number and a crash waits for that."""
        if not self._claiming.is_set or host.requested is None:
            return
        claims = any(isinstance(operation, SwapSequence) for operation in host.requested.operations)
        if claims and self.scene.chance(0.5):
            self._claiming.spring()
            self.scene.hit(Moment.CRASH_WHILE_CLAIMING)
            self.members.crash(host)

    def look(self) -> None:
        """After each step of the live broker: crash if a backup gets its copy and a crash waits for that."""
        if not self._copying.is_set or self.group.members.active is None:
            return
        stream = stream_of(self.group.members.active)
        if stream is not None and stream.is_copying and self.scene.chance(0.1):
            self._copying.spring()
            backup = self.group.members.hosts.get(stream.to)
            who = self.scene.world.random.choice(("live", "live", "backup", "both"))
            if who == "backup":
                self._count_copy(self.group.members.active)
            if who != "live" and backup is not None:
                self.members.crash(backup)
            if who != "backup":
                self.members.crash(self.group.members.active)

    def _count(self, host: NodeHost) -> None:
        """Count what the crash of the live broker means for copies."""
        stream = stream_of(host)
        if stream is not None and stream.is_in_sync:
            self.scene.hit(Moment.CRASH_IN_SYNC)
        self._count_copy(host)

    def _count_copy(self, host: NodeHost) -> None:
        stream = stream_of(host)
        if stream is None or not stream.is_copying:
            return
        if stream.fails_back:
            self.scene.hit(Moment.CRASH_DURING_FAILBACK)
        self.scene.hit(Moment.CRASH_DURING_CATCH_UP if stream.catches_up else Moment.CRASH_DURING_INITIAL_COPY)

    # The lock manager

    def _strike_manager(self, kind: FaultKind) -> None:
        scene, manager, random = self.scene, self.policy.manager, self.scene.world.random
        duration_s = random.random() * random.choice((0.1, 1.0, 3.0, 8.0))
        match kind:
            case FaultKind.LOSE_STORE:
                scene.hit(Moment.STORE_LOST)
                manager.reachable = False
                self.schedule.later(duration_s, lambda: setattr(manager, "reachable", True))
            case FaultKind.CUT_OFF_STORE:
                scene.hit(Moment.CUT_OFF_STORE)
                holder = self.policy.holder(self.members.somebody())
                manager.cut_off[holder] = None
                self.schedule.later(duration_s, lambda: manager.cut_off.pop(holder, None))
            case _:
                scene.hit(Moment.STORE_BROKE_IN_BATCH)
                manager.breaks_after = random.randrange(3)
                self.schedule.later(2.0, lambda: setattr(manager, "breaks_after", None))

    # Between members

    def _two(self) -> tuple[str, str]:
        """Rather the live broker and its backup."""
        members, backup = self.group.members, self._copied_to()
        if members.active is not None and backup is not None and self.scene.chance(0.8):
            return members.active.name, backup.name
        one, other = self.scene.world.random.sample(list(members.names), 2)
        return one, other

    def _duration_s(self) -> float:
        random = self.scene.world.random
        return 0.01 + random.random() * random.choice((0.1, 1.0, 3.0, 8.0))

    def _part(self, *, both_ways: bool) -> None:
        self.scene.hit(Moment.MEMBERS_PARTED)
        self.scene.hit(Moment.PARTED_BOTH_WAYS if both_ways else Moment.PARTED_ONE_WAY)
        one, other = self._two()
        pairs = [(one, other), (other, one)]
        if not both_ways:
            pairs.remove(self.scene.world.random.choice(pairs))
        for pair in pairs:
            self.network.hold(*pair)
        self.schedule.later(self._duration_s(), lambda: self._release(pairs))

    def _release(self, pairs: Iterable[tuple[str, str]]) -> None:
        for pair in pairs:
            self.network.release(*pair)
