"""The disk work of one simulated broker: what is under way, what of it happens when, and what a lost life leaves.

Responsible for running work on the simulated disk, at once or in part. Does not depend on lives, or on when work is
done: the host keeps time.
"""

from __future__ import annotations

from random import Random

from embedbroker.node import DiskDone, DiskFailed
from embedbroker.storage import Allocate, DiskFault, DiskWork, FaultKind, Lane, Read, Rename, Sync, WriteAt, Zero

from ._disk import DiskSpeed, SimulatedDisk
from ._world import World

__all__ = ["DiskWorks"]


class DiskWorks:
    """The disk work of the host of this name. ``written`` is what was done and not answered yet."""

    def __init__(self, name: str, world: World, disk: SimulatedDisk) -> None:
        self.name = name
        self.world = world
        self.disk = disk
        self.speed = DiskSpeed()
        #: The disk has no room for this host, although others of its group may still write.
        self.full = False
        self.under_way: dict[Lane, DiskWork] = {}
        self.written: dict[Lane, DiskDone | DiskFailed] = {}

    # Work

    def begin(self, work: DiskWork) -> float:
        """Accept work. Return in how many seconds it is done."""
        assert work.lane not in self.under_way, f"two pieces of work on {work.lane!r}"
        self.under_way[work.lane] = work
        syncs = 0
        for operation in work.operations:
            syncs += type(operation) is Sync
        duration = (self.speed.base_s + syncs * self.speed.sync_s) * self.speed.factor
        return duration * (0.5 + self._random.random())

    def complete(self, work: DiskWork) -> DiskDone | DiskFailed:
        """Complete a piece of work whose time has come."""
        del self.under_way[work.lane]
        return self.written.pop(work.lane) if work.lane in self.written else self._run(work)

    def write_through(self) -> None:
        """Let everything under way happen; the answers wait."""
        for lane, work in self.under_way.items():
            self.written[lane] = self._run(work)

    def end(self) -> None:
        """End the life: some of the work under way has been done by then, and the rest never is."""
        for lane, work in self.under_way.items():
            if lane in self.written:
                continue
            done = self._random.randint(0, len(work.operations))
            try:
                self.disk.run(work.operations[:done])
            except DiskFault as fault:
                self.world.note(self.name, "disk fault", fault)
        self.under_way.clear()
        self.written.clear()

    @property
    def _random(self) -> Random:
        return self.world.random

    def _run(self, work: DiskWork) -> DiskDone | DiskFailed:
        try:
            if self.full and any(isinstance(operation, WriteAt | Zero | Allocate) for operation in work.operations):
                raise DiskFault(FaultKind.FULL, "", "simulated: no space left here")
            return DiskDone(work.batch, self.disk.run(work.operations))
        except DiskFault as fault:
            self.world.note(self.name, "disk fault", fault)
            return DiskFailed(work.batch, fault)

    # What it is busy with

    def writes(self) -> bool:
        """Return True while a batch of the journal is on its way."""
        work = self.under_way.get(Lane.JOURNAL)
        return work is not None and any(isinstance(operation, WriteAt) for operation in work.operations)

    def reads_beside(self) -> bool:
        """Return True while something is read beside the journal's work."""
        work = self.under_way.get(Lane.BACKGROUND)
        return work is not None and any(isinstance(operation, Read) for operation in work.operations)

    def changes_files(self) -> bool:
        """Return True while files are made, reused or renamed."""
        return any(
            isinstance(operation, Allocate | Rename)
            for work in self.under_way.values()
            for operation in work.operations
        )
