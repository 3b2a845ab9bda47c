"""The lock on a broker's directory: one broker at a time, in whatever process.

Responsible for refusing the second broker with the name of the first, and for readers, which exclude brokers without
writing anything. Never waits and never breaks a lock.

It is an flock: tied to the open file description, so it also excludes a second broker of the same process. A POSIX lock
(``lockf``) is granted again to the process that holds it. The system drops it when the process dies, however that
happens. The lock file stays after a release: removing it could grant two brokers a lock on two different files.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ._forks import ends_in_child

__all__ = ["LOCK_FILE", "DirectoryLock", "DirectoryLocked", "is_named"]

LOCK_FILE = "broker.lock"
_HOLDER_BYTES_MAX = 4096


class DirectoryLocked(Exception):
    """Another broker uses the directory. ``holder`` describes that broker, as far as known."""

    def __init__(self, directory: Path, holder: str) -> None:
        super().__init__(f"directory {directory} is used by {holder}")
        self.directory = directory
        self.holder = holder


class DirectoryLock:
    """The right to use a directory, from ``acquire`` to ``release`` or the end of the process."""

    def __init__(self, directory: Path, descriptor: int) -> None:
        self.directory = directory
        self._descriptor = descriptor
        ends_in_child(self)

    @classmethod
    def acquire(cls, directory: Path, name: str) -> DirectoryLock:
        """Lock ``directory`` for the broker called ``name``.

        Raises:
            DirectoryLocked: another broker holds it, in this process or in another.
            OSError: the lock file cannot be made or written.
        """
        while True:
            descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o640)
            with _closed_unless_locked(descriptor):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    holder = "a reader of its journal" if _only_read(descriptor) else _holder(descriptor)
                    raise DirectoryLocked(directory, holder) from None
                if is_named(directory / LOCK_FILE, descriptor):
                    # Shorten after writing, not before: a reader finds the old holder or the new one, never an empty
                    # file.
                    text = f"{os.getpid()} {name}\n".encode()
                    os.pwrite(descriptor, text, 0)
                    os.ftruncate(descriptor, len(text))
                    return cls(directory, descriptor)
            # Another process removed the file between opening and locking it: the next broker would lock a different
            # file.
            os.close(descriptor)

    @classmethod
    def acquire_to_read(cls, directory: Path) -> DirectoryLock:
        """Exclude brokers from ``directory``, together with other readers. Nothing is written, so it may be read-only.

        A directory without a lock file was never a broker's, or is a copy: there is nothing to hold then.

        Raises:
            DirectoryLocked: a broker holds it, in this process or in another.
            OSError: the lock file cannot be read.
        """
        while True:
            try:
                descriptor = os.open(directory / LOCK_FILE, os.O_RDONLY)
            except FileNotFoundError:
                return cls(directory, -1)
            with _closed_unless_locked(descriptor):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise DirectoryLocked(directory, _holder(descriptor)) from None
                if is_named(directory / LOCK_FILE, descriptor):
                    return cls(directory, descriptor)
            os.close(descriptor)

    def is_kept(self) -> bool:
        """Return True if the lock file is still the locked one: a different file would let a second broker in.

        Raises:
            OSError: the directory cannot be read.
        """
        return self._descriptor < 0 or is_named(self.directory / LOCK_FILE, self._descriptor)

    def release(self) -> None:
        """Release the lock for the next broker. Releasing twice is no error."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            # Unlocked by name as well: a child that was not forked by Python may still hold a copy of the descriptor.
            # Neither error may keep the broker's other locks: the system has taken this one back, or does when it is
            # closed.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            with suppress(OSError):
                os.close(descriptor)

    def end_in_child(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)


@contextmanager
def _closed_unless_locked(descriptor: int) -> Iterator[None]:
    try:
        yield
    except BaseException:  # Ctrl-C, too: a descriptor that stayed open could hold the lock for good
        os.close(descriptor)
        raise


def is_named(file: Path, descriptor: int) -> bool:
    """Return True if the open file still has that name: a lock on a file without a name excludes no broker.

    Raises:
        OSError: the directory cannot be read.
    """
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(file))
    except FileNotFoundError:
        return False


def _only_read(descriptor: int) -> bool:
    """Return True if only readers hold the lock: then another reader is allowed.

    Closing the descriptor drops the lock taken here.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    content = os.pread(descriptor, _HOLDER_BYTES_MAX, 0)
    pid, _, name = content.decode(errors="replace").partition("\n")[0].partition(" ")
    if not (pid.isascii() and pid.isdigit()):
        return "another broker"
    place = f"this process ({pid})" if int(pid) == os.getpid() else f"process {pid}"
    return f"broker {name!r} in {place}"
