"""Opening what brokers share or keep to themselves: a directory with its lock, and a lock store."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from embedbroker.config import BrokerConfig
from embedbroker.locks import LockFault, Locks, LockSession, called
from embedbroker.storage import Disk, DiskFault, DiskOperation, FaultKind, JournalSettings
from embedclient.errors import ResourceAllocationException

from ._clock import SystemEntropy
from ._disk import FileDisk
from ._disk_gate import GatedDisk
from ._file_locks import FileLocks
from ._lock import DirectoryLock, DirectoryLocked

__all__ = ["OpenDirectory", "open_directory", "open_locks"]

# A process that was killed gives its files back one by one: the right to be live may be free a moment before them.
GIVEN_BACK_WITHIN_S = 5.0
_TRY_EVERY_S = 0.005


class OpenDirectory:
    """A disk with what has to be given back when the broker's life ends."""

    def __init__(self, disk: Disk, settings: JournalSettings, owned: _Directory | GatedDisk) -> None:
        self.disk = disk
        self.settings = settings
        self._owned = owned

    def close(self) -> None:
        """Close the files and let another broker in. A disk that was handed in stays open, but not to this life."""
        self._owned.close()


class _Directory:
    """The files of a directory, with the lock that keeps a second broker out.

    Opened at once, or by the first operation: a backup touches nothing before it may be live.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._guard = threading.Lock()
        self._lock: DirectoryLock | None = None
        self._files: FileDisk | None = None
        self._closed = False

    def open(self, patience_s: float) -> FileDisk:
        """Make, lock and open it.

        Raises:
            DirectoryLocked: somebody else uses it, and went on to use it for so long.
            OSError: it cannot be made, opened or locked.
        """
        self._path.mkdir(parents=True, exist_ok=True)
        give_up_at = time.monotonic() + patience_s
        while self._lock is None:
            try:
                self._lock = DirectoryLock.acquire(self._path, self._name)
            except DirectoryLocked:
                if self._closed or time.monotonic() >= give_up_at:
                    raise
                time.sleep(_TRY_EVERY_S)
        self._files = FileDisk(self._path)
        return self._files

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        files = self._files
        if files is None:
            with self._guard:
                files = self._files or self._open_late()
        return files.run(operations)

    def _open_late(self) -> FileDisk:
        if self._closed:
            raise DiskFault(FaultKind.FAILED, "", "the disk was closed")
        try:
            return self.open(GIVEN_BACK_WITHIN_S)
        except DirectoryLocked as error:
            raise DiskFault(FaultKind.DENIED, "", str(error)) from error
        except OSError as error:
            raise DiskFault(FaultKind.DENIED, "", f"cannot use directory {self._path}: {error}") from error

    def close(self) -> None:
        self._closed = True
        with self._guard:
            if self._files is not None:
                self._files.close()
            if self._lock is not None:
                self._lock.release()


def open_directory(config: BrokerConfig, given: Disk | None, *, late: bool) -> OpenDirectory:
    """Make, lock and open the configured directory, now or when it is first used. A given disk needs none of it.

    Raises:
        ResourceAllocationException: the directory cannot be made, opened or locked.
    """
    identity = int.from_bytes(SystemEntropy().random_bytes(8), "big") >> 1
    settings = JournalSettings(identity=identity, segment_size_bytes=config.segment_size_bytes)
    if given is not None:
        gated = GatedDisk(given)
        return OpenDirectory(gated, settings, gated)
    assert config.data_directory is not None
    directory = _Directory(Path(config.data_directory), config.name)
    if late:
        return OpenDirectory(directory, settings, directory)
    try:
        return OpenDirectory(directory.open(0), settings, directory)
    except DirectoryLocked as error:
        raise ResourceAllocationException(str(error)) from error
    except OSError as error:
        directory.close()
        raise ResourceAllocationException(f"cannot use directory {config.data_directory}: {error}") from error


def open_locks(config: BrokerConfig, given: Locks | None) -> LockSession:
    """Begin a session in the lock store: the one that was handed in, or the files beside the journal.

    Raises:
        ResourceAllocationException: the store is not to be had.
    """
    place = config.node_manager_lock_directory or config.data_directory
    assert given is not None or place is not None
    try:
        return (given if given is not None else FileLocks(str(place))).open(called(config.ha_policy, config.name))
    except LockFault as error:
        raise ResourceAllocationException(str(error)) from error
