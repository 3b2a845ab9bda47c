"""The disk of a broker, or the one that a pair shares, with switches for what may happen to it.

Responsible for the faults of operations and for a crash: in memory nothing survives it but what was synced. Refuses to
know what is on the disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Protocol

from embedbroker.storage import Allocate, Disk, DiskFault, DiskOperation, FaultKind, Sync, SyncDirectory, WriteAt, Zero
from embedbroker.testing import SimulatedDisk

from ._arguments import check_seconds

__all__ = ["DiskSwitch"]

_WRITES = (Allocate, WriteAt, Zero, Sync, SyncDirectory)


class _Closable(Protocol):
    def close(self) -> None: ...


class DiskSwitch:
    """`fail`, `fill` and `slow_down` last until `heal`. A broker whose disk fails, or is full, stops."""

    def __init__(self, name: str, disk: Disk, note: Callable[[str], None], files: _Closable | None = None) -> None:
        self.name = name
        self._disk = disk
        self._note = note
        self._files = files
        self._memory = disk if isinstance(disk, SimulatedDisk) else None
        self._fault: FaultKind | None = None
        self._latency_s = 0.0

    def fail(self) -> None:
        """Let every write and every sync fail."""
        self._fault = FaultKind.FAILED
        self._note(f"disk {self.name}: fails")

    def fill(self) -> None:
        """Let there be no space for anything more."""
        self._fault = FaultKind.FULL
        self._note(f"disk {self.name}: full")

    def slow_down(self, seconds: float) -> None:
        """Let every batch of operations take so much longer."""
        check_seconds("what a disk takes longer", seconds)
        self._latency_s = seconds
        self._note(f"disk {self.name}: slower by {seconds:g} s")

    def heal(self) -> None:
        """Let it be quick and sound again, with space."""
        self._fault, self._latency_s = None, 0.0
        self._note(f"disk {self.name}: healed")

    # -- for the broker ------------------------------------------------------------------------------------------

    @property
    def loop_latency_s(self) -> float | None:
        """See `embedbroker.storage.loop_latency_s`; None over real files."""
        return None if self._memory is None else self._latency_s

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        """Do the operations, those before a fault."""
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
        """The broker that wrote is gone: keep what was synced, and, if ``torn``, any part of what was not."""
        if self._memory is None:
            return  # as after a kill: what the operating system has, it writes
        if torn is None:
            self._memory.lose_unsynced()
        else:
            self._memory.crash(torn)

    def close(self) -> None:
        """Nobody uses it any more."""
        if self._files is not None:
            self._files.close()
