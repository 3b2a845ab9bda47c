"""The end of a broker's access to its disk: the next broker on that disk must not meet late writes of this one.

Responsible for refusing operations after the end, and for waiting for operations under way. Does not depend on what the
operations are.
"""

from __future__ import annotations

import threading
from typing import NoReturn

from embedbroker.storage import Disk, DiskFault, DiskOperation, FaultKind, loop_latency_s

from ._forks import ends_in_child

__all__ = ["DiskGate", "GatedDisk"]


class DiskGate:
    """A gate that is open until it is shut; ``with gate:`` encloses what must be over by then.

    Inside, check ``is_shut`` before each operation, and call `refuse` if it is. The flag is read without the lock:
    shutting waits for all threads inside.
    """

    def __init__(self) -> None:
        self._begin()
        ends_in_child(self)

    def _begin(self) -> None:
        self.is_shut = False
        self._under_way = 0
        # Taken directly on the way in and out: each batch goes both ways, and the methods of a condition cost calls.
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
        """Refuse an operation on ``file``, because the gate is shut.

        Raises:
            DiskFault: always.
        """
        raise DiskFault(FaultKind.FAILED, file, "the disk was closed")

    def shut(self) -> None:
        """Wait until no thread is inside, and refuse all operations from now on."""
        with self._idle:
            self.is_shut = True
            self._idle.wait_for(lambda: not self._under_way)

    def end_in_child(self) -> None:
        self._begin()
        self.is_shut = True


class GatedDisk:
    """The access of one broker's life to a disk that it does not own, and that others may use afterwards."""

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
        """End this access, behind the batches under way. The disk itself stays open."""
        self._gate.shut()
