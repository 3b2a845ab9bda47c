"""The journal's view of a disk: simple operations on named files, their results and their failures.

Responsible for the operation values, the ``Disk`` seam with its rules, and the unit of work that the journal hands out.
Opens no files itself: the driver over real files is in ``embedbroker.runtime``, its simulated counterpart in
``embedbroker.testing``; one conformance suite runs over both.

Rules of the seam, which the simulated disk enforces and a real disk obeys:
- Files are flat names inside one directory. A name that does not exist yet is created by ``Allocate`` or ``WriteAt``.
- Operations of one ``run`` happen in order; the first that fails ends the run and the rest does not happen.
- Written bytes can be read at once, and survive a power cut only after ``Sync`` of their file. Sectors of 512 bytes are
  lost or kept independently of each other.
- A name (creation, rename, removal) survives a power cut only after ``SyncDirectory``.
- A failed ``Sync`` leaves the disk in doubt. Bytes written before it may be gone although they can still be read, and a
  later ``Sync`` that succeeds proves nothing about them.
- A fault of kind ``SHORT`` is no fault of the disk: nothing of its operation happened, and nothing written is in doubt.
  The caller must do that operation and the rest again a moment later. A ``Sync`` that reached its file never fails so.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Protocol

from attrs import frozen

__all__ = [
    "SECTOR_BYTES",
    "Allocate",
    "Digest",
    "Disk",
    "DiskFault",
    "DiskOperation",
    "DiskWork",
    "FaultKind",
    "Lane",
    "ListFiles",
    "Read",
    "ReadChecked",
    "Remove",
    "Rename",
    "Stat",
    "Sync",
    "SyncDirectory",
    "Truncate",
    "WriteAt",
    "Zero",
    "loop_latency_s",
]

SECTOR_BYTES = 512


@frozen
class WriteAt:
    """Write all of ``data`` from ``offset``, in order; the file grows if it must. Result: None."""

    file: str
    offset: int
    data: tuple[bytes, ...]


@frozen
class Zero:
    """Write ``size`` zero bytes from ``offset``, as `WriteAt` would. Result: None.

    It is a separate operation, because a replica of this disk receives it in a few bytes.
    """

    file: str
    offset: int
    size: int


@frozen
class Read:
    """Read up to ``length`` bytes from ``offset``. Result: the bytes, fewer only at the end of the file."""

    file: str
    offset: int
    length: int


@frozen
class ReadChecked:
    """Read as `Read` does. Result: the bytes, and the CRC-32 of them behind bytes whose CRC-32 is ``checksum``."""

    file: str
    offset: int
    length: int
    checksum: int = 0


@frozen
class Digest:
    """Compute the SHA-256 of the bytes that a read of that length returns, without holding them. Result: the digest."""

    file: str
    offset: int
    length: int


@frozen
class Sync:
    """Make everything written to ``file`` so far survive a power cut. Result: None."""

    file: str


@frozen
class ListFiles:
    """List the names of all files. Result: the names, sorted, as a tuple."""


@frozen
class Stat:
    """Return the size of a file. Result: the size of ``file`` in bytes, or None when there is no such file."""

    file: str


@frozen
class Rename:
    """Give ``file`` the name ``new``, replacing a file of that name at once. Result: None."""

    file: str
    new: str


@frozen
class Allocate:
    """Make ``file`` at least ``size`` bytes long, with the space reserved; new bytes are zero. Result: None."""

    file: str
    size: int


@frozen
class Truncate:
    """Cut ``file`` to ``size`` bytes. Result: None."""

    file: str
    size: int


@frozen
class Remove:
    """Remove ``file``; a file that does not exist is no fault. Result: None."""

    file: str


@frozen
class SyncDirectory:
    """Make all names created, changed and removed so far survive a power cut. Result: None."""


DiskOperation = (
    WriteAt
    | Zero
    | Read
    | ReadChecked
    | Digest
    | Sync
    | ListFiles
    | Stat
    | Rename
    | Allocate
    | Truncate
    | Remove
    | SyncDirectory
)


class FaultKind(Enum):
    """The kind of a fault, as far as it changes the message to the operator."""

    FULL = "no space left"
    MISSING = "no such file"
    DENIED = "not permitted"
    #: A shortage of a resource that becomes available again: descriptors, memory.
    SHORT = "short of descriptors or memory"
    FAILED = "input or output error"


class DiskFault(Exception):
    """An operation failed. ``file`` is empty when the directory itself is meant.

    ``done`` holds the results of the operations before it.
    """

    def __init__(self, kind: FaultKind, file: str, text: str, done: tuple[object, ...] = ()) -> None:
        super().__init__(f"{file or 'the directory'}: {text}")
        self.kind = kind
        self.file = file
        self.text = text
        self.done = done


class Disk(Protocol):
    """One directory. Drivers are synchronous; the caller decides on which thread they run."""

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        """Do the operations in order and return one result for each.

        Raises:
            DiskFault: an operation failed; those after it did not happen.
        """


def loop_latency_s(disk: Disk) -> float | None:
    """Return how long each batch takes on a disk in memory, in seconds of the caller's clock.

    Return None for a disk that blocks.

    A disk in memory has an attribute of this name. Its operations end at once, so it needs no thread, and a clock that
    stands still meanwhile is not misled.
    """
    latency_s: float | None = getattr(disk, "loop_latency_s", None)
    return latency_s


class Lane(IntEnum):
    """The lanes of a disk. Each lane has at most one piece of work under way; no lane waits for another.

    COPY is that of replication: the content of files, beside the operations on them. RECORD holds the node record of a
    replicating broker.
    """

    JOURNAL = 0
    BACKGROUND = 1
    COPY = 2
    RECORD = 3


@frozen
class DiskWork:
    """One ``Disk.run`` to do. ``batch`` identifies it in the answer (``on_disk_done`` or ``on_disk_failed``)."""

    lane: Lane
    batch: int
    operations: tuple[DiskOperation, ...]
