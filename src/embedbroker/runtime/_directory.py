"""Opening the resources that brokers share or own: a directory with its lock, and a lock store."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from embedbroker.config import BrokerConfig
from embedbroker.locks import LeaseSession, LockFault, LockManagers, Locks, LockSession, called
from embedbroker.storage import (
    AuditLog,
    Disk,
    DiskFault,
    DiskOperation,
    FaultKind,
    JournalSettings,
    scan_audit_directory,
)
from embedclient.errors import ResourceAllocationException

from ._artemis_journal import check_no_artemis_journal
from ._body_directory import check_body_directory
from ._clock import SystemEntropy
from ._disk import FileDisk
from ._disk_gate import GatedDisk
from ._file_locks import FileLocks
from ._lock import LOCK_FILE, DirectoryLock, DirectoryLocked
from ._shortage import lacks_room, passes
from ._unusable import unusable

__all__ = ["OpenAudit", "OpenDirectory", "open_audit", "open_directory", "open_locks"]

# A killed process releases its files one by one: the right to be live may be free a moment before them. A process that
# takes longer is frozen, or reads the journal: this broker waits for it, and the operator is notified.
GIVEN_BACK_WITHIN_S = 5.0
_TRY_EVERY_S = 0.005

_logger = logging.getLogger("embedbroker.broker")


class OpenDirectory:
    """A disk with the resources to release when the broker's life ends."""

    def __init__(self, disk: Disk, settings: JournalSettings, owned: _Directory | GatedDisk) -> None:
        self.disk = disk
        self.settings = settings
        self._owned = owned

    def close(self) -> None:
        """Close the files and release the lock for another broker. A given disk stays open, but not to this life."""
        self._owned.close()

    def verify(self) -> None:
        """Check that no other broker was let in.

        Raises:
            LockFault: another broker may have been let in; the text gives the reason.
        """
        if isinstance(self._owned, _Directory):
            self._owned.verify()


class _Directory:
    """The files of a directory, with the lock that excludes a second broker.

    Opened at once, or by the first operation: a backup touches nothing before it may be live.
    """

    def __init__(self, path: Path, name: str, bodies: Path | None = None, *, is_journal: bool = False) -> None:
        self._path = path
        self._name = name
        self._bodies = bodies
        self._is_journal = is_journal
        self._guard = threading.Lock()
        self._locks: dict[Path, DirectoryLock] = {}
        self._files: FileDisk | None = None
        self._closing = threading.Event()

    def open(self, *, waits: bool) -> FileDisk:
        """Make, lock and open the directory; with ``waits`` as soon as no other broker uses it.

        Raises:
            DirectoryLocked: another broker uses it, and there is no wait, or the wait is over.
            OSError: it cannot be made, opened or locked.
        """
        if self._is_journal:
            check_no_artemis_journal(self._path)
        self._acquire(self._path, waits=waits)
        if self._bodies is not None:
            self._acquire(self._bodies, waits=waits)
        if self._is_journal:
            check_body_directory(self._path, self._bodies, SystemEntropy().random_bytes)
        self._files = FileDisk(self._path, body_directory=self._bodies)
        return self._files

    def _acquire(self, path: Path, *, waits: bool) -> None:
        path.mkdir(parents=True, exist_ok=True)
        warns_at = time.monotonic() + GIVEN_BACK_WITHIN_S
        while path not in self._locks:
            try:
                self._locks[path] = DirectoryLock.acquire(path, self._name)
            except DirectoryLocked as error:
                if not waits or self._closing.is_set():
                    raise
                if time.monotonic() >= warns_at:
                    warns_at = float("inf")
                    _logger.warning("waits to be live: %s", error)
                self._closing.wait(_TRY_EVERY_S)

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        files = self._files
        if files is None:
            with self._guard:
                files = self._files or self._open_late()
        return files.run(operations)

    def _open_late(self) -> FileDisk:
        if self._closing.is_set():
            raise DiskFault(FaultKind.FAILED, "", "the disk was closed")
        try:
            return self.open(waits=True)
        except DirectoryLocked as error:
            raise DiskFault(FaultKind.DENIED, "", str(error)) from error
        except OSError as error:
            kind = FaultKind.SHORT if passes(error) else FaultKind.FULL if lacks_room(error) else FaultKind.DENIED
            raise DiskFault(kind, "", unusable(self._path, error)) from error

    def verify(self) -> None:
        for path, lock in tuple(self._locks.items()):
            try:
                kept = lock.is_kept()
            except OSError as error:
                raise LockFault(unusable(path, error), passes=passes(error)) from error
            if not kept:
                raise LockFault(f"{path / LOCK_FILE} was removed or replaced: another broker may use the journal")

    def close(self) -> None:
        self._closing.set()
        with self._guard:
            if self._files is not None:
                self._files.close()
            for lock in self._locks.values():
                lock.release()


def open_directory(config: BrokerConfig, given: Disk | None, *, late: bool) -> OpenDirectory:
    """Make, lock and open the configured directory, now or when it is first used. A given disk needs none of this.

    Raises:
        ResourceAllocationException: the directory cannot be made, opened or locked.
    """
    identity = int.from_bytes(SystemEntropy().random_bytes(8), "big") >> 1
    settings = JournalSettings(identity=identity, segment_size_bytes=config.segment_size_bytes)
    if given is not None:
        gated = GatedDisk(given)
        return OpenDirectory(gated, settings, gated)
    assert config.data_directory is not None
    place = config.large_messages_directory
    bodies = Path(place) if place is not None else None
    directory = _Directory(Path(config.data_directory), config.name, bodies, is_journal=True)
    if late:
        return OpenDirectory(directory, settings, directory)
    try:
        return OpenDirectory(directory.open(waits=False), settings, directory)
    except DirectoryLocked as error:
        directory.close()
        raise ResourceAllocationException(str(error)) from error
    except OSError as error:
        directory.close()
        raise ResourceAllocationException(unusable(Path(config.data_directory), error)) from error


class OpenAudit:
    """The directory of an audit log, and the log of the life that begins."""

    def __init__(self, disk: Disk, log: AuditLog, owned: _Directory) -> None:
        self.disk = disk
        self.log = log
        self._owned = owned

    def close(self) -> None:
        """Close the files and release the lock for another broker."""
        self._owned.close()


def open_audit(config: BrokerConfig) -> OpenAudit:
    """Make, lock and open the directory of the audit log.

    Each broker has its own audit directory, also when it shares the journal.

    Raises:
        ResourceAllocationException: the directory cannot be made, opened, locked or read.
    """
    assert config.audit_directory is not None
    directory = _Directory(Path(config.audit_directory), config.name)
    try:
        disk = directory.open(waits=False)
        place = scan_audit_directory(disk)
    except DirectoryLocked as error:
        raise ResourceAllocationException(f"audit log: {error}") from error
    except (OSError, DiskFault) as error:
        directory.close()
        text = unusable(Path(config.audit_directory), error) if isinstance(error, OSError) else str(error)
        raise ResourceAllocationException(f"audit log: {text}") from error
    log = AuditLog(place, retention_bytes=config.audit_retention, segment_size_bytes=config.segment_size_bytes)
    return OpenAudit(disk, log, directory)


def open_locks(config: BrokerConfig, given: Locks | LockManagers | None) -> LockSession | LeaseSession:
    """Begin a session in the lock store or lock manager that was given, or in the files beside the journal.

    Raises:
        ResourceAllocationException: the store is not available.
    """
    place = config.node_manager_lock_directory or config.data_directory
    assert given is not None or place is not None
    try:
        return (given if given is not None else FileLocks(str(place))).open(called(config.own_policy, config.name))
    except LockFault as error:
        raise ResourceAllocationException(str(error)) from error
