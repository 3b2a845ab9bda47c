"""Faults of brokers that copy to each other, in every mode that has copies: their disks, and the links between two.

Responsible for the faults that `ReplicaFaults` and `VoteFaults` share. Every fault heals by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from embedbroker.testing._network import Network
from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

from .copy_view import stream_of
from .crashes import Trap
from .disk_faults import DISK_FAULTS, strike_disk
from .fault_kinds import FaultKind
from .fault_schedule import FaultSchedule
from .group import Group
from .member_faults import MemberFaults

__all__ = ["CopyFaults"]


@define(eq=False)
class CopyFaults:
    """A mode adds which two brokers a fault comes between, and for how long."""

    group: Group
    schedule: FaultSchedule
    scene: Scene = field(init=False)
    network: Network = field(init=False)
    members: MemberFaults = field(init=False)
    traps: Mapping[FaultKind, Trap] = field(init=False)

    def strike(self, kind: FaultKind) -> bool:
        """Strike once; return False if the fault is of another kind."""
        if kind is FaultKind.CUT_MEMBERS:
            for link in self.network.between(*self._two()):
                link.cut("connection reset")
            self.schedule.healed()
        elif kind is FaultKind.SLOW_MEMBERS:
            self.scene.hit(Moment.LINK_SLOWED)
            one, other = self._two()
            self.network.slow_down(one, other, 0.005 + self.scene.world.random.random() * 0.2)
            self.schedule.later(self._duration_s(), lambda: self.network.slow_down(one, other, 0.0))
        elif kind in DISK_FAULTS:
            host = self.members.somebody()
            speed = lambda factor: setattr(host.speed, "factor", factor)  # noqa: E731 - of that host
            strike_disk(self.scene, self.schedule, kind, host.disk, speed, host.disk.repair)
        else:
            return False
        return True

    def _copied_to(self) -> NodeHost | None:
        """Return the backup that the live broker waits for."""
        members = self.group.members
        stream = stream_of(members.active) if members.active is not None else None
        return members.hosts.get(stream.to) if stream is not None else None

    def _two(self) -> tuple[str, str]:
        """Return the brokers between which something happens."""
        raise AssertionError("each mode chooses two brokers")

    def _duration_s(self) -> float:
        raise AssertionError("each mode has durations")
