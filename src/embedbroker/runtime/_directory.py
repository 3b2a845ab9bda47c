"""Opening a broker's directory: the files as a disk, and the lock that keeps a second broker out."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from embedbroker.config import BrokerConfig
from embedbroker.storage import Disk, JournalSettings
from embedclient.errors import ResourceAllocationException

from ._clock import SystemEntropy
from ._disk import FileDisk
from ._lock import DirectoryLock, DirectoryLocked

__all__ = ["OpenDirectory", "open_directory"]


class OpenDirectory:
    """A disk with what has to be given back when the broker's life ends."""

    def __init__(self, disk: Disk, settings: JournalSettings, lock: DirectoryLock | None) -> None:
        self.disk = disk
        self.settings = settings
        self._lock = lock

    def close(self) -> None:
        """Close the files and let another broker in. A disk that was handed in stays open."""
        if self._lock is not None:
            assert isinstance(self.disk, FileDisk)
            self.disk.close()
            self._lock.release()


def open_directory(config: BrokerConfig, given: Disk | None) -> OpenDirectory:
    """Make, lock and open the configured directory. A given disk needs no directory and no lock.

    Raises:
        ResourceAllocationException: the directory cannot be made, opened or locked.
    """
    identity = int.from_bytes(SystemEntropy().random_bytes(8), "big") >> 1
    settings = JournalSettings(identity=identity, segment_size_bytes=config.segment_size_bytes)
    if given is not None:
        return OpenDirectory(given, settings, None)
    assert config.data_directory is not None
    directory = Path(config.data_directory)
    with ExitStack() as undoing:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            lock = DirectoryLock.acquire(directory, config.name)
            undoing.callback(lock.release)
            disk = FileDisk(directory)
        except DirectoryLocked as error:
            raise ResourceAllocationException(str(error)) from error
        except OSError as error:
            raise ResourceAllocationException(f"cannot use directory {directory}: {error}") from error
        undoing.pop_all()
    return OpenDirectory(disk, settings, lock)
