"""The end of a broker's way to its disk: whoever takes over must not meet its late writes.

Responsible for refusing what comes after the end, and for waiting for what was under way. Refuses to know what is done.
"""

from __future__ import annotations

import threading

from embedbroker.storage import Disk, DiskFault, DiskOperation, FaultKind

from ._forks import ends_in_child

__all__ = ["DiskGate", "GatedDisk"]


class DiskGate:
    """Open until it is shut; ``with gate:`` around what has to be over by then."""

    def __init__(self) -> None:
        self._under_way = 0
        self._idle = threading.Condition(threading.Lock())
        self._shut = False
        ends_in_child(self)

    def __enter__(self) -> None:
        with self._idle:
            self._under_way += 1

    def __exit__(self, *_error: object) -> None:
        with self._idle:
            self._under_way -= 1
            if self._shut:
                self._idle.notify_all()

    def check(self, file: str) -> None:
        """Ask inside, before each thing to do. Read without the lock: shutting waits for who is inside.

        Raises:
            DiskFault: the gate is shut; the fault is about ``file``.
        """
        if self._shut:
            raise DiskFault(FaultKind.FAILED, file, "the disk was closed")

    def shut(self) -> None:
        """Wait until nobody is inside, and refuse everybody from now on."""
        with self._idle:
            self._shut = True
            self._idle.wait_for(lambda: not self._under_way)

    def end_in_child(self) -> None:
        self._under_way = 0
        self._idle = threading.Condition(threading.Lock())
        self._shut = True


class GatedDisk:
    """The way of one broker's life to a disk that belongs to somebody else, and that others may use after it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._gate = DiskGate()

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        with self._gate:
            self._gate.check("")
            return self._disk.run(operations)

    def close(self) -> None:
        """End this way, behind the batches under way. The disk itself stays open."""
        self._gate.shut()
