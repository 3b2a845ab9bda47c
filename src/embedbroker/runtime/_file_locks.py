"""The lock driver over files: one directory that the brokers of a live and backup group share.

Responsible for doing lock operations exactly as the seam in ``embedbroker.locks`` describes them, and for turning what
the operating system says into ``LockFault``. Refuses to know who should hold what.

Each lock is an flock on a file of its own, tied to the open file description: it keeps out a second broker of the same
process, too, a process that is frozen keeps it, and the system drops it when the process dies, however that happens.
Lock files stay when a lock is given back: removing one could hand two brokers a lock on two different files. Should
somebody else remove one, its holder finds out when it verifies, and nobody takes a lock on a file without a name.

The record is one small file, replaced at once by another one: who reads it finds the old text or the new. It holds the
number of its own inode: in a copy of the directory that number is another one.

A session is closed while a batch may be under way in another thread: closing waits for it, but not for long. A store
at the other end of a network may hang, and who closes stands on the loop; a thread gives everything back when it can.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from contextlib import suppress
from pathlib import Path

from embedbroker.locks import (
    NOT_ALONE,
    NOT_HELD,
    Acquire,
    Holder,
    LiveState,
    Lock,
    LockFault,
    LockOperation,
    NodeRecord,
    ReadRecord,
    Release,
    Verify,
    WriteRecord,
)

from ._forks import ends_in_child

__all__ = ["RECORD_FILE", "FileLocks"]

RECORD_FILE = "node.state"
_NEW_RECORD_FILE = "node.state.new"
_RECORD_BYTES_MAX = 4096
_HOLDER_BYTES_MAX = 4096
_NONE = "none"
#: How long closing waits for a store that does not answer. A healthy one takes microseconds.
CLOSED_WITHIN_S = 1.0
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class FileLocks:
    """The locks in ``directory``, which is made when the first session opens."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def open(self, holder: str) -> _FileSession:
        """Begin a session.

        Raises:
            LockFault: the directory cannot be made.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LockFault(f"cannot make the lock directory {self.directory}: {error.strerror}") from error
        return _FileSession(self.directory, holder)


class _FileSession:
    immediate = False

    def __init__(self, directory: Path, holder: str) -> None:
        self._directory = directory
        self._holder = f"{holder} in process {os.getpid()}"
        self._open: dict[Lock, int] = {}
        self._held: set[Lock] = set()
        self._closed = False
        self._guard = threading.Lock()
        ends_in_child(self)

    def run(self, operations: tuple[LockOperation, ...]) -> tuple[object, ...]:
        with self._guard:
            if self._closed:
                raise LockFault("the session was closed")
            return tuple([self._attempt(operation) for operation in operations])

    def close(self) -> None:
        self._closed = True
        closer = threading.Thread(target=self._give_back, name="embedbroker-locks", daemon=True)
        closer.start()
        closer.join(CLOSED_WITHIN_S)

    def _give_back(self) -> None:
        with self._guard:
            for lock in Lock:
                with suppress(OSError):  # the system has taken it back already, or does so when the file is closed
                    self._release(lock)
            self._close_files()

    def end_in_child(self) -> None:
        self._guard = threading.Lock()
        self._closed = True
        self._held.clear()
        self._close_files()

    def _close_files(self) -> None:
        while self._open:
            _lock, descriptor = self._open.popitem()
            with suppress(OSError):  # closed all the same
                os.close(descriptor)

    def _attempt(self, operation: LockOperation) -> object:
        try:
            return self._do(operation)
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno in _NO_LOCKS:
                reason += "; its file system has no locks, node_manager_lock_directory may be on another one"
            raise LockFault(f"cannot use the lock directory {self._directory}: {reason}") from error

    def _do(self, operation: LockOperation) -> object:
        match operation:
            case Acquire(lock):
                return self._acquire(lock)
            case Release(lock):
                self._release(lock)
            case Holder(lock):
                return self._holder_of(lock)
            case Verify(lock):
                return self._verify(lock)
            case ReadRecord():
                return self._read_record()
            case WriteRecord(record, over):
                if not self._verify(Lock.LIVE):
                    raise LockFault(NOT_HELD)
                if not self._read_record().may_follow(over):
                    raise LockFault(NOT_ALONE)
                self._write_record(record)
        return None

    # -- locks ---------------------------------------------------------------------------------------------------

    def _acquire(self, lock: Lock) -> bool:
        if lock in self._held:
            return True
        descriptor = self._descriptor(lock)
        if not _try_lock(descriptor, fcntl.LOCK_EX):
            return False
        try:
            if self._is_named(lock):
                text = self._holder.encode()
                os.pwrite(descriptor, text, 0)
                os.ftruncate(descriptor, len(text))
                self._held.add(lock)
        finally:
            # Somebody removed the file between opening and locking it, and the next attempt makes a new one; or it
            # cannot be written. A lock of which this session does not know would keep everybody out.
            if lock not in self._held:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        return lock in self._held

    def _verify(self, lock: Lock) -> bool:
        """Locked again: a server that was away may have given it to another machine meanwhile."""
        return lock in self._held and self._is_named(lock) and _try_lock(self._open[lock], fcntl.LOCK_EX)

    def _release(self, lock: Lock) -> None:
        if lock in self._held:
            self._held.discard(lock)
            # Unlocked by name as well: a child that was not forked by Python may still hold a copy of the descriptor.
            fcntl.flock(self._open[lock], fcntl.LOCK_UN)

    def _holder_of(self, lock: Lock) -> str | None:
        if lock in self._held:
            return self._holder
        descriptor = self._descriptor(lock)
        # Shared: two that look do not see each other.
        if _try_lock(descriptor, fcntl.LOCK_SH):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            return None
        return os.pread(descriptor, _HOLDER_BYTES_MAX, 0).decode(errors="replace") or "another broker"

    def _path(self, lock: Lock) -> Path:
        return self._directory / f"{lock.value}.lock"

    def _descriptor(self, lock: Lock) -> int:
        """The open file of a lock that is not held; opened anew when it has lost its name."""
        if lock in self._open:
            if self._is_named(lock):
                return self._open[lock]
            os.close(self._open.pop(lock))
        descriptor = self._open[lock] = os.open(self._path(lock), os.O_RDWR | os.O_CREAT, 0o640)
        return descriptor

    def _is_named(self, lock: Lock) -> bool:
        try:
            named = os.stat(self._path(lock))
        except FileNotFoundError:
            return False
        return os.path.samestat(os.fstat(self._open[lock]), named)

    # -- the record ----------------------------------------------------------------------------------------------

    def _read_record(self) -> NodeRecord:
        try:
            descriptor = os.open(self._directory / RECORD_FILE, os.O_RDONLY)
        except FileNotFoundError:
            return NodeRecord()
        try:
            text = os.pread(descriptor, _RECORD_BYTES_MAX, 0).decode("ascii", errors="replace")
            inode = os.fstat(descriptor).st_ino
        finally:
            os.close(descriptor)
        lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        try:
            return NodeRecord(
                LiveState(lines["state"]),
                lines["node"] if lines["node"] != _NONE else None,
                _number(lines["journal"]),
                int(lines["file"]) != inode,
                _number(lines.get("life", _NONE)),
            )
        except (KeyError, ValueError):
            raise LockFault(
                f"{self._directory / RECORD_FILE} is damaged: remove it, and the brokers that share it get a new"
                " node id"
            ) from None

    def _write_record(self, record: NodeRecord) -> None:
        new = self._directory / _NEW_RECORD_FILE
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o640)
        try:
            lines = {
                "state": record.state.value,
                "node": record.node_id or _NONE,
                "journal": _text(record.journal_identity),
                "life": _text(record.life),
                "file": os.fstat(descriptor).st_ino,
            }
            text = "".join(f"{name}: {value}\n" for name, value in lines.items())
            os.pwrite(descriptor, text.encode("ascii"), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(new, self._directory / RECORD_FILE)
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _number(text: str) -> int | None:
    return None if text == _NONE else int(text, 16)


def _text(number: int | None) -> str:
    return _NONE if number is None else f"{number:x}"


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
