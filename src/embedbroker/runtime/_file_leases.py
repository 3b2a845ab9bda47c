"""The lock manager over files: one folder that all brokers of a cluster reach.

Responsible for doing lease operations exactly as the seam in ``embedbroker.locks`` describes them. Refuses to know who
should hold what.

The names are those of Artemis' ``FileBasedLockManager``: a lease is a lock on a file that is called like its key, a
number is eight bytes, big-endian, in ``ML:`` and the key. The lock is an flock, tied to the open file description as in
``_file_locks``: it keeps out a second broker of the same process, too, a frozen process keeps it, and the system drops
it when the process dies.

A session is closed while a batch may be under way in another thread: closing waits for it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedbroker.locks import (
    GiveLease,
    KeepLease,
    Lease,
    LeaseHolder,
    LeaseOperation,
    LockFault,
    ReadSequence,
    SwapSequence,
    TakeLease,
)

from ._forks import ends_in_child

__all__ = ["FileLockManager"]

_HOLDER_BYTES_MAX = 4096
_NUMBER = struct.Struct(">q")
# Another broker has a number for as long as it takes to sync eight bytes.
_NUMBER_WITHIN_S = 2.0
_TRY_EVERY_S = 0.005
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class FileLockManager:
    """The leases and numbers in ``folder``, which has to exist."""

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
        self._folder = folder
        self._holder = f"{holder} in process {os.getpid()}"
        self._held: dict[str, int] = {}
        self._closed = False
        self._guard = threading.Lock()
        ends_in_child(self)

    def run(self, operations: tuple[LeaseOperation, ...]) -> tuple[object, ...]:
        with self._guard:
            if self._closed:
                raise LockFault("the session was closed")
            return tuple([self._attempt(operation) for operation in operations])

    def close(self) -> None:
        with self._guard:
            self._closed = True
            for key in list(self._held):
                self._give(key)

    def end_in_child(self) -> None:
        self._guard = threading.Lock()
        self._closed = True
        while self._held:
            _key, descriptor = self._held.popitem()
            os.close(descriptor)

    def _attempt(self, operation: LeaseOperation) -> object:
        if "/" in operation.key or "\0" in operation.key or operation.key.startswith("."):
            raise LockFault(f"{operation.key!r} cannot be the name of a lock file")
        try:
            return self._do(operation)
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno in _NO_LOCKS:
                reason += "; its file system has no locks, the locks-folder may be on another one"
            raise LockFault(f"cannot use the locks-folder {self._folder}: {reason}") from error

    def _do(self, operation: LeaseOperation) -> object:
        match operation:
            case TakeLease(key):
                return Lease() if key in self._held or self._take(key) else None
            case KeepLease(key):
                return Lease() if key in self._held and self._keep(key, self._held[key]) else None
            case GiveLease(key):
                self._give(key)
            case LeaseHolder(key):
                return self._holder_of(key)
            case ReadSequence(key):
                with self._number(key) as descriptor:
                    return self._read(key, descriptor)
            case SwapSequence(key, expected, new):
                return self._swap(key, expected, new)
        return None

    # -- leases --------------------------------------------------------------------------------------------------

    def _take(self, key: str) -> bool:
        descriptor = os.open(self._folder / key, os.O_RDWR | os.O_CREAT, 0o640)
        try:
            # Somebody may have removed the file between opening and locking it: the next attempt makes a new one.
            if not _try_lock(descriptor, fcntl.LOCK_EX) or not self._is_named(key, descriptor):
                return False
            text = self._holder.encode()
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))
            self._held[key] = descriptor
        finally:
            if key not in self._held:
                os.close(descriptor)
        return True

    def _keep(self, key: str, descriptor: int) -> bool:
        """Locked again: a server that was away may have given it to another machine meanwhile."""
        return self._is_named(key, descriptor) and _try_lock(descriptor, fcntl.LOCK_EX)

    def _give(self, key: str) -> None:
        descriptor = self._held.pop(key, None)
        if descriptor is not None:
            # Unlocked by name as well: a child that was not forked by Python may still hold a copy of the descriptor.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def _holder_of(self, key: str) -> str | None:
        if key in self._held:
            return self._holder
        try:
            descriptor = os.open(self._folder / key, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            # Shared: two that look do not see each other.
            if _try_lock(descriptor, fcntl.LOCK_SH):
                return None
            return os.pread(descriptor, _HOLDER_BYTES_MAX, 0).decode(errors="replace") or "another broker"
        finally:
            os.close(descriptor)

    def _is_named(self, key: str, descriptor: int) -> bool:
        try:
            named = os.stat(self._folder / key)
        except FileNotFoundError:
            return False
        return os.path.samestat(os.fstat(descriptor), named)

    # -- numbers -------------------------------------------------------------------------------------------------

    @contextmanager
    def _number(self, key: str) -> Iterator[int]:
        """The file of a number, with everybody else kept out."""
        path = self._folder / f"ML:{key}"
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
        try:
            give_up_at = time.monotonic() + _NUMBER_WITHIN_S
            while not _try_lock(descriptor, fcntl.LOCK_EX):
                if time.monotonic() >= give_up_at:
                    raise LockFault(f"{path} is locked by somebody who does not let it go")
                time.sleep(_TRY_EVERY_S)
            if is_new:
                _sync_directory(self._folder)
            yield descriptor
        finally:
            os.close(descriptor)

    def _swap(self, key: str, expected: int, new: int) -> bool:
        with self._number(key) as descriptor:
            if self._read(key, descriptor) != expected:
                return False
            os.pwrite(descriptor, _NUMBER.pack(new), 0)
            os.fsync(descriptor)
            return True

    def _read(self, key: str, descriptor: int) -> int:
        """A number that was never written is zero. Anything but eight bytes is damage: taken for zero, it would let a
        copy that was left behind be live."""
        data = os.pread(descriptor, _NUMBER.size + 1, 0)
        if len(data) not in (0, _NUMBER.size):
            raise LockFault(
                f"{self._folder / f'ML:{key}'} is damaged, it has to have {_NUMBER.size} bytes: put the right one"
                " back; or remove it, and node.state beside the journal that was live last, which becomes a new node"
            )
        number: int = _NUMBER.unpack(data)[0] if data else 0
        return number


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
