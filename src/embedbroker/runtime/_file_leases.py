"""The lock manager over files: one folder that all brokers of a cluster reach.

Responsible for doing lease operations exactly as the seam in ``embedbroker.locks`` describes them; ``Flocks`` manages
the files. Does not depend on which broker should hold what.

The names are those of Artemis' ``FileBasedLockManager``: a lease is a lock on a file named like its key. A number is
eight bytes, big-endian, in a file named ``ML:`` and the key.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from embedbroker.locks import (
    GiveLease,
    KeepLease,
    Lease,
    LeaseOperation,
    LockFault,
    ReadLeaseHolder,
    ReadSequence,
    SwapSequence,
    TakeLease,
)

from ._flocks import Flocks

__all__ = ["FileLockManager"]

_NUMBER = struct.Struct(">q")


class FileLockManager:
    """The leases and numbers in ``folder``, which must exist."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def open(self, holder: str) -> _FileSession:
        """Begin a session.

        Raises:
            LockFault: there is no such folder.
        """
        if not self.folder.is_dir():
            raise LockFault(
                f"the locks-folder {self.folder} is no directory: make one that all brokers of the pair reach"
            )
        return _FileSession(self.folder, holder)


class _FileSession:
    immediate = False

    def __init__(self, folder: Path, holder: str) -> None:
        self._flocks = Flocks(folder, holder, "locks-folder", "the locks-folder")

    def run(self, operations: tuple[LeaseOperation, ...]) -> tuple[object, ...]:
        return self._flocks.run(self._do, operations)

    def close(self) -> None:
        self._flocks.close()

    def _do(self, operation: LeaseOperation) -> object:
        key = operation.key
        if "/" in key or "\0" in key or key.startswith("."):
            raise LockFault(f"{key!r} cannot be the name of a lock file")
        match operation:
            case TakeLease():
                return Lease() if self._flocks.acquire(key) else None
            case KeepLease():
                return Lease() if self._flocks.verify(key) else None
            case GiveLease():
                self._flocks.release(key)
            case ReadLeaseHolder():
                return self._flocks.holder_of(key)
            case ReadSequence():
                with self._flocks.alone_with(_number_file(key)) as descriptor:
                    return self._read(key, descriptor)
            case SwapSequence(_, expected, new):
                return self._swap(key, expected, new)
        return None

    def _swap(self, key: str, expected: int, new: int) -> bool:
        with self._flocks.alone_with(_number_file(key)) as descriptor:
            if self._read(key, descriptor) != expected:
                return False
            os.pwrite(descriptor, _NUMBER.pack(new), 0)
            os.fsync(descriptor)
            return True

    def _read(self, key: str, descriptor: int) -> int:
        """Return a number; one that was never written is zero.

        Anything but eight bytes is damage: read as zero, it would let an outdated copy be live.
        """
        data = os.pread(descriptor, _NUMBER.size + 1, 0)
        if len(data) not in (0, _NUMBER.size):
            raise LockFault(
                f"{self._flocks.folder / _number_file(key)} is damaged, it has to have {_NUMBER.size} bytes: put the"
                " right one back; or remove it, and node.state beside the journal that was live last, which becomes a"
                " new node"
            )
        number: int = _NUMBER.unpack(data)[0] if data else 0
        return number


def _number_file(key: str) -> str:
    return f"ML:{key}"
