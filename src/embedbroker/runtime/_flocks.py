"""The lock files of one session in one folder: the common part of locks and leases in files.

Responsible for acquiring, verifying and releasing an flock on a file by name, and for translating errors of the
operating system into ``LockFault``. Does not depend on the purpose of a lock, or on which broker should hold it.

An flock is tied to the open file description, so it also excludes a second broker of the same process. A frozen process
keeps its flock; the system drops it when the process dies, however that happens. Lock files stay after a release:
removing one could grant two brokers a lock on two different files. If another process removes a lock file, its holder
detects that on `verify`, and no session acquires a lock on a file without a name.

A session can be closed while a batch runs in another thread; closing waits for the batch, but only briefly. A store at
the other end of a network may hang, and `close` runs on the event loop. A thread then releases everything when it can.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from embedbroker.locks import LockFault

from ._forks import ends_in_child
from ._lock import is_named
from ._shortage import lacks_room, passes
from ._threads import run_at_most

__all__ = ["Flocks", "sync_directory"]

_Operation = TypeVar("_Operation")

#: How long closing waits for a store that does not answer. A healthy one takes microseconds.
CLOSED_WITHIN_S = 1.0
# Exclusive access to a file lasts as long as syncing a few bytes takes.
_ALONE_WITHIN_S = 2.0
_TRY_EVERY_S = 0.005
_HOLDER_BYTES_MAX = 4096
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class Flocks:
    """The lock files of one session.

    ``holder`` identifies the session to other sessions. ``title`` and ``setting`` are the operator's name of the folder
    and the setting that configures it.
    """

    def __init__(self, folder: Path, holder: str, title: str, setting: str) -> None:
        self.folder = folder
        self.holder = f"{holder} in process {os.getpid()}"
        self._title = title
        self._setting = setting
        self._open: dict[str, int] = {}
        self._held: dict[str, None] = {}
        self._closed = False
        self._guard = threading.Lock()
        ends_in_child(self)

    # -- the session ---------------------------------------------------------------------------------------------

    def run(self, do: Callable[[_Operation], object], operations: tuple[_Operation, ...]) -> tuple[object, ...]:
        """Run a batch; batches of one session run one at a time.

        Raises:
            LockFault: the session was closed, or the operating system refused an operation.
        """
        with self._guard:
            results = []
            for operation in operations:
                # Checked between two operations, too: `close` must not wait for the rest of a batch.
                if self._closed:
                    raise LockFault("the session was closed")
                results.append(self._attempt(do, operation))
            return tuple(results)

    def _attempt(self, do: Callable[[_Operation], object], operation: _Operation) -> object:
        try:
            return do(operation)
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno in _NO_LOCKS:
                reason += f"; its file system has no locks, {self._setting} may be on another one"
            elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                reason += "; the user of this broker has to be able to write there"
            text = f"cannot use the {self._title} {self.folder}: {reason}"
            raise LockFault(text, passes=passes(error) or lacks_room(error)) from error

    def close(self) -> None:
        """Release everything; a batch that hangs releases its locks when it continues."""
        self._closed = True
        run_at_most(CLOSED_WITHIN_S, self._give_back, "embedbroker-locks")

    def _give_back(self) -> None:
        with self._guard:
            for name in tuple(self._held):
                with suppress(OSError):  # the system has taken it back already, or does so when the file is closed
                    self.release(name)
            self._close_files()

    def end_in_child(self) -> None:
        self._guard = threading.Lock()
        self._closed = True
        self._held.clear()
        self._close_files()

    def _close_files(self) -> None:
        while self._open:
            _name, descriptor = self._open.popitem()
            with suppress(OSError):  # closed all the same
                os.close(descriptor)

    # -- one lock ------------------------------------------------------------------------------------------------

    def acquire(self, name: str) -> bool:
        """Acquire a lock, or keep it if it is held already; return False if another session holds it."""
        if name in self._held:
            return True
        descriptor = self._descriptor(name)
        if not _try_lock(descriptor, fcntl.LOCK_EX):
            return False
        try:
            if is_named(self.folder / name, descriptor):
                text = self.holder.encode()
                os.pwrite(descriptor, text, 0)
                os.ftruncate(descriptor, len(text))
                self._held[name] = None
        finally:
            # Another process removed the file between opening and locking it, and the next attempt makes a new one; or
            # the file cannot be written. A lock that this session does not record would exclude every other broker.
            if name not in self._held:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        return name in self._held

    def verify(self, name: str) -> bool:
        """Return True if the lock is still held.

        Locks the file again: a server that was away may have granted the lock to another machine.
        """
        if name not in self._held:
            return False
        descriptor = self._open[name]
        return is_named(self.folder / name, descriptor) and _try_lock(descriptor, fcntl.LOCK_EX)

    def release(self, name: str) -> None:
        """Release a lock, if it is held."""
        if name in self._held:
            del self._held[name]
            # Unlocked by name as well: a child that was not forked by Python may still hold a copy of the descriptor.
            fcntl.flock(self._open[name], fcntl.LOCK_UN)

    def holder_of(self, name: str) -> str | None:
        """Return the holder of a lock, or None if it is free."""
        if name in self._held:
            return self.holder
        try:
            descriptor = self._descriptor(name)
        except OSError as error:
            # A missing file is created, so that a file server has to answer. A file that cannot be created now has no
            # holder.
            if (passes(error) or lacks_room(error)) and not (self.folder / name).exists():
                return None
            raise
        # Shared: two sessions that look at the same time do not see each other.
        if _try_lock(descriptor, fcntl.LOCK_SH):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            return None
        return os.pread(descriptor, _HOLDER_BYTES_MAX, 0).decode(errors="replace") or "another broker"

    @contextmanager
    def alone_with(self, name: str) -> Iterator[int]:
        """Return the open file of ``name``, with every other session excluded for a moment.

        Raises:
            LockFault: another session does not release it.
        """
        path = self.folder / name
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
        try:
            give_up_at = time.monotonic() + _ALONE_WITHIN_S
            while not _try_lock(descriptor, fcntl.LOCK_EX):
                if time.monotonic() >= give_up_at:
                    raise LockFault(
                        f"{path} is locked by another process for more than {_ALONE_WITHIN_S:g} s: end that process"
                    )
                time.sleep(_TRY_EVERY_S)
            if is_new:
                sync_directory(self.folder)
            yield descriptor
        finally:
            # By name: a child that was forked at this moment has a copy of the descriptor.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def text_of(self, name: str, size_max: int) -> tuple[bytes, int] | None:
        """Return the content and the inode of a file that other sessions replace, or None if there is no such file.

        Each call opens the file, so that a file server resolves the name. The file opened last stays open, and is read
        while there is no descriptor for another one.
        """
        try:
            descriptor = os.open(self.folder / name, os.O_RDONLY)
        except FileNotFoundError:
            self.forget(name)
            return None
        except OSError as error:
            kept = self._open.get(name)
            if kept is None or not passes(error) or not is_named(self.folder / name, kept):
                raise
            descriptor = kept
        else:
            self.keep_open(name, descriptor)
        return os.pread(descriptor, size_max, 0), os.fstat(descriptor).st_ino

    def keep_open(self, name: str, descriptor: int) -> None:
        """Keep ``descriptor`` as the open file of ``name`` from now on."""
        self.forget(name)
        self._open[name] = descriptor

    def forget(self, name: str) -> None:
        """Close the file of ``name``, which is not locked."""
        descriptor = self._open.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    def _descriptor(self, name: str) -> int:
        """Return the open file of a lock that is not held; open it anew if it has lost its name."""
        if name in self._open:
            if is_named(self.folder / name, self._open[name]):
                return self._open[name]
            os.close(self._open.pop(name))
        descriptor = self._open[name] = os.open(self.folder / name, os.O_RDWR | os.O_CREAT, 0o640)
        return descriptor


def sync_directory(folder: Path) -> None:
    """Make the names in ``folder`` survive a power cut."""
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
