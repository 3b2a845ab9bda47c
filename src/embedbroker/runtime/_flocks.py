"""Lock files in one folder, as one session has them: what locks and leases in files have in common.

Responsible for taking, looking after and giving back an flock on a file by name, and for turning what the operating
system says into ``LockFault``. Refuses to know what a lock is for, and who should have it.

An flock is tied to the open file description: it keeps out a second broker of the same process, too, a process that is
frozen keeps it, and the system drops it when the process dies, however that happens. Lock files stay when a lock is
given back: removing one could hand two brokers a lock on two different files. Should somebody else remove one, its
holder finds out when it verifies, and nobody takes a lock on a file without a name.

A session is closed while a batch may be under way in another thread: closing waits for it, but not for long. A store
at the other end of a network may hang, and who closes stands on the loop; a thread gives everything back when it can.
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

__all__ = ["Flocks", "sync_directory"]

_Operation = TypeVar("_Operation")

#: How long closing waits for a store that does not answer. A healthy one takes microseconds.
CLOSED_WITHIN_S = 1.0
# Whoever is alone with a file is so for as long as it takes to sync a few bytes.
_ALONE_WITHIN_S = 2.0
_TRY_EVERY_S = 0.005
_HOLDER_BYTES_MAX = 4096
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class Flocks:
    """Of one session, whose ``holder`` is what others are told. ``title`` and ``setting`` say what an operator calls
    the folder, and where it is configured."""

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
        """Do a batch, one at a time.

        Raises:
            LockFault: the session was closed, or the operating system refused something.
        """
        with self._guard:
            results = []
            for operation in operations:
                # Between two operations, too: whoever closed must not wait for the rest of a batch.
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
        """Give everything back; what hangs is given back when it goes on."""
        self._closed = True
        closer = threading.Thread(target=self._give_back, name="embedbroker-locks", daemon=True)
        closer.start()
        closer.join(CLOSED_WITHIN_S)

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
        """Take a lock, or have it already; False: somebody else has it."""
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
            # Somebody removed the file between opening and locking it, and the next attempt makes a new one; or it
            # cannot be written. A lock of which this session does not know would keep everybody out.
            if name not in self._held:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        return name in self._held

    def verify(self, name: str) -> bool:
        """Whether it is still held. Locked again: a server that was away may have given it to another machine."""
        if name not in self._held:
            return False
        descriptor = self._open[name]
        return is_named(self.folder / name, descriptor) and _try_lock(descriptor, fcntl.LOCK_EX)

    def release(self, name: str) -> None:
        """Give a lock back, if it is held."""
        if name in self._held:
            del self._held[name]
            # Unlocked by name as well: a child that was not forked by Python may still hold a copy of the descriptor.
            fcntl.flock(self._open[name], fcntl.LOCK_UN)

    def holder_of(self, name: str) -> str | None:
        """Who has a lock; None: nobody."""
        if name in self._held:
            return self.holder
        try:
            descriptor = self._descriptor(name)
        except OSError as error:
            # A file that is not there is made, so that a server of files is asked; without one nobody has the lock.
            if (passes(error) or lacks_room(error)) and not (self.folder / name).exists():
                return None
            raise
        # Shared: two that look do not see each other.
        if _try_lock(descriptor, fcntl.LOCK_SH):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            return None
        return os.pread(descriptor, _HOLDER_BYTES_MAX, 0).decode(errors="replace") or "another broker"

    @contextmanager
    def alone_with(self, name: str) -> Iterator[int]:
        """The open file of ``name``, with everybody else kept out for a moment.

        Raises:
            LockFault: somebody does not let it go.
        """
        path = self.folder / name
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
        try:
            give_up_at = time.monotonic() + _ALONE_WITHIN_S
            while not _try_lock(descriptor, fcntl.LOCK_EX):
                if time.monotonic() >= give_up_at:
                    raise LockFault(f"{path} is locked by somebody who does not let it go")
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
        """What a file that others replace holds, and its inode; None: there is none.

        Opened by each look: a server of files is asked then what has the name. What was opened last stays open, and is
        looked at while there is no descriptor for another one.
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
        """This is the open file of ``name`` from now on."""
        self.forget(name)
        self._open[name] = descriptor

    def forget(self, name: str) -> None:
        """Close the file of ``name``, which is not locked."""
        descriptor = self._open.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    def _descriptor(self, name: str) -> int:
        """The open file of a lock that is not held; opened anew when it has lost its name."""
        if name in self._open:
            if is_named(self.folder / name, self._open[name]):
                return self._open[name]
            os.close(self._open.pop(name))
        descriptor = self._open[name] = os.open(self.folder / name, os.O_RDWR | os.O_CREAT, 0o640)
        return descriptor


def sync_directory(folder: Path) -> None:
    """Have names in ``folder`` survive a power cut."""
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
