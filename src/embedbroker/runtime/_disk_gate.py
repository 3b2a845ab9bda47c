"""The end of a broker's way to its disk: whoever takes over must not meet its late writes.

Responsible for refusing what comes after the end, and for waiting for what was under way. Refuses to know what is done.
"""

from __future__ import annotations

import threading
from typing import NoReturn

from embedbroker.storage import Disk, DiskFault, DiskOperation, FaultKind, loop_latency_s

from ._forks import ends_in_child

__all__ = ["DiskGate", "GatedDisk"]


class DiskGate:
    """Open until it is shut; ``with gate:`` around what has to be over by then.

    Inside, before each thing to do, look whether it ``is_shut``, and `refuse` then. That is read without the lock:
    shutting waits for who is inside.
    """

    def __init__(self) -> None:
        self._begin()
        ends_in_child(self)

    def _begin(self) -> None:
        self.is_shut = False
        self._under_way = 0
        # Taken by itself on the way in and out: each batch goes both, and a condition's own methods cost calls.
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)

    def __enter__(self) -> None:
        with self._lock:
            self._under_way += 1

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._under_way -= 1
            if self.is_shut:
                self._idle.notify_all()

    def refuse(self, file: str) -> NoReturn:
        """What becomes of something to do, about ``file``, when the gate is shut.

        Raises:
            DiskFault: always.
        """
        raise DiskFault(FaultKind.FAILED, file, "the disk was closed")

    def shut(self) -> None:
        """Wait until nobody is inside, and refuse everybody from now on."""
        with self._idle:
            self.is_shut = True
            self._idle.wait_for(lambda: not self._under_way)

    def end_in_child(self) -> None:
        self._begin()
        self.is_shut = True


class GatedDisk:
    """The way of one broker's life to a disk that belongs to somebody else, and that others may use after it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._gate = DiskGate()

    @property
    def loop_latency_s(self) -> float | None:
        return loop_latency_s(self._disk)

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        with self._gate:
            if self._gate.is_shut:
                self._gate.refuse("")
            return self._disk.run(operations)

    def close(self) -> None:
        """End this way, behind the batches under way. The disk itself stays open."""
        self._gate.shut()
