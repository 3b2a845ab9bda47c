"""The disk of a broker, or the one that a pair shares, with switches for its faults.

Responsible for the faults of operations and for a crash: in memory only what was synced survives it. Does not depend on
what is on the disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Protocol

from embedbroker.storage import Allocate, Disk, DiskFault, DiskOperation, FaultKind, Sync, SyncDirectory, WriteAt, Zero
from embedbroker.testing import SimulatedDisk
from embedclient.model import summary

from ._arguments import check_seconds
from ._carrier import Carrier, carried_now

__all__ = ["DiskSwitch"]

_WRITES = (Allocate, WriteAt, Zero, Sync, SyncDirectory)


class _Closable(Protocol):
    def close(self) -> None: ...


class DiskSwitch:
    """Switch faults of a disk on and off.

    `fail`, `fill` and `slow_down` last until `heal`. A broker whose disk fails, or is full, stops.

    Made by the fixtures: a broker's `disk`.
    """

    def __init__(
        self,
        name: str,
        disk: Disk,
        note: Callable[[str], None],
        files: _Closable | None = None,
        carrier: Carrier | None = None,
    ) -> None:
        self.name = name
        self._carrier = carrier
        self._disk = disk
        self._note = note
        self._files = files
        self._memory = disk if isinstance(disk, SimulatedDisk) else None
        self._fault: FaultKind | None = None
        self._latency_s = 0.0

    def __repr__(self) -> str:
        return summary(self, self.name, self._fault.name.lower() if self._fault is not None else None)

    @carried_now
    def fail(self) -> None:
        """Make every write and every sync fail."""
        self._fault = FaultKind.FAILED
        self._note(f"disk {self.name}: fails")

    @carried_now
    def fill(self) -> None:
        """Make the disk full: there is no space for anything more."""
        self._fault = FaultKind.FULL
        self._note(f"disk {self.name}: full")

    @carried_now
    def slow_down(self, seconds: float) -> None:
        """Make every batch of operations take longer.

        Args:
            seconds: additional time of a batch, 0 or more.
        """
        check_seconds("what a disk takes longer", seconds)
        self._latency_s = seconds
        self._note(f"disk {self.name}: slower by {seconds:g} s")

    @carried_now
    def heal(self) -> None:
        """Make the disk quick and sound again, with space."""
        self._fault, self._latency_s = None, 0.0
        self._note(f"disk {self.name}: healed")

    # -- for the broker ------------------------------------------------------------------------------------------

    @property
    def loop_latency_s(self) -> float | None:
        """See `embedbroker.storage.loop_latency_s`; None over real files."""
        return None if self._memory is None else self._latency_s

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        """Run the operations; with a fault, those before the first write or sync."""
        if self._memory is None and self._latency_s:
            time.sleep(self._latency_s)
        if self._fault is not None:
            for number, operation in enumerate(operations):
                if isinstance(operation, _WRITES):
                    self._disk.run(operations[:number])
                    raise DiskFault(self._fault, getattr(operation, "file", ""), f"simulated: {self._fault.value}")
        return self._disk.run(operations)

    # -- for the bench -------------------------------------------------------------------------------------------

    def lose_power(self, torn: Random | None) -> None:
        """Lose power after the broker that wrote has ended.

        What was synced is kept, and, if ``torn``, any part of the rest.
        """
        if self._memory is None:
            return  # as after a kill: what the operating system has, it writes
        if torn is None:
            self._memory.lose_unsynced()
        else:
            self._memory.crash(torn)

    def close(self) -> None:
        """Close the files; the disk is not used any more."""
        if self._files is not None:
            self._files.close()
