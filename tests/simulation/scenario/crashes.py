"""Crashes that wait for their moment, and what a crash meets.

Responsible for the moments in which a broker dies. Does not depend on what starts it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field

from embedbroker.testing._node_host import NodeHost
from embedbroker.testing._scene import Moment, Scene

from .fault_kinds import FaultKind
from .fault_schedule import FaultSchedule

__all__ = ["MOMENTS", "Ambush", "Trap", "count_crash"]

#: What the crashes wait for that have a moment.
MOMENTS: Mapping[FaultKind, Callable[[NodeHost], bool]] = {
    FaultKind.CRASH_WHILE_WRITING: NodeHost.writing,
    FaultKind.CRASH_WHILE_SWITCHING: NodeHost.switching_segments,
    FaultKind.CRASH_WHILE_COMPACTING: NodeHost.compacting,
}
#: A crash does not wait longer for its moment.
_PATIENCE_S = 1.0


@define
class Trap:
    """Something that waits for its moment, until it is sprung or given up. The last one laid counts."""

    _laid: int = field(default=0, init=False)
    is_set: bool = field(default=False, init=False)

    def lay(self) -> int:
        """Waits from now on; returns the number that `give_up` takes."""
        self.is_set = True
        self._laid += 1
        return self._laid

    def spring(self) -> None:
        """The moment is there."""
        self.is_set = False

    def give_up(self, number: int) -> bool:
        """Waits no more. False if it was sprung, or laid again."""
        if not self.is_set or self._laid != number:
            return False
        self.is_set = False
        return True


@define(eq=False)
class Ambush:
    """Crashes of the broker that works: in a chosen moment, and once more while the next life reads its journal."""

    scene: Scene
    schedule: FaultSchedule
    crash: Callable[[], None]
    #: The broker that recovers next crashes, too.
    again: bool = field(default=False, init=False)
    _condition: Callable[[NodeHost], bool] | None = field(default=None, init=False)
    _trap: Trap = field(factory=Trap, init=False)

    def lay(self, condition: Callable[[NodeHost], bool], *, runs: bool) -> None:
        """Crash when a condition holds, or at once if no broker runs or another crash waits already."""
        if self._trap.is_set or not runs:
            self.crash()
            return
        self._condition = condition
        number = self._trap.lay()
        self.schedule.appoint(_PATIENCE_S, lambda: self._give_up(number))

    def look(self, host: NodeHost) -> None:
        """After each step of the broker that works: crash it if a crash has waited for this."""
        if self._trap.is_set and self._condition is not None and self._condition(host):
            self._trap.spring()
            self.crash()
        elif self.again and host.recovering and self.scene.chance(0.3):
            self.again = False
            self.schedule.expect()
            self.crash()

    def _give_up(self, number: int) -> None:
        if self._trap.give_up(number):
            self.crash()


def count_crash(scene: Scene, host: NodeHost) -> None:
    """What the crash of a running broker meets."""
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
