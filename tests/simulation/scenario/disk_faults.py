"""What goes wrong with a disk for a while: it is slow, full, or fails.

It holds a disk and its speed. Does not depend on whose they are.
"""

from __future__ import annotations

from collections.abc import Callable

from embedbroker.testing._disk import SimulatedDisk
from embedbroker.testing._scene import Moment, Scene

from .fault_kinds import FaultKind
from .fault_schedule import FaultSchedule

__all__ = ["DISK_FAULTS", "strike_disk"]

DISK_FAULTS = (FaultKind.SLOW_DISK, FaultKind.FULL_DISK, FaultKind.DISK_ERROR)


def strike_disk(
    scene: Scene,
    schedule: FaultSchedule,
    kind: FaultKind,
    disk: SimulatedDisk,
    set_speed: Callable[[float], None],
    repair: Callable[[], None],
) -> None:
    """One fault; ``set_speed`` takes the factor by which the disk is slower, ``repair`` ends the others."""
    random = scene.world.random
    duration_s = 0.05 + random.random()
    match kind:
        case FaultKind.SLOW_DISK:
            scene.hit(Moment.SLOW_DISK)
            set_speed(random.choice((10.0, 50.0, 200.0)))
            schedule.later(duration_s, lambda: set_speed(1.0))
        case FaultKind.FULL_DISK:
            scene.hit(Moment.DISK_FULL)
            disk.capacity_bytes = 0
            schedule.later(duration_s, repair)
        case _:
            scene.hit(Moment.DISK_ERROR)
            disk.fail_at(disk.operations + random.randrange(4))
            schedule.later(duration_s, repair)
