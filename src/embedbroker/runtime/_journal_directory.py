"""The journal of a stopped broker: its directory opened for inspection, or for a salvaged copy.

Responsible for files, lock, time and chance around the reads and writes of `embedbroker.storage`. Refuses a journal
that a broker uses, because it would change during the reads. Leaves nothing behind in a directory that is only read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from embedbroker.storage import Disk, JournalSettings, RepairReport, repair_journal
from embedclient.errors import ResourceAllocationException
from embedclient.model import Instant

from ._artemis_journal import check_no_artemis_journal
from ._body_directory import check_bodies_differ
from ._clock import SystemEntropy
from ._disk import FileDisk
from ._lock import DirectoryLock, DirectoryLocked
from ._unusable import unusable

__all__ = ["journal_directory", "repair_directory"]


@contextmanager
def journal_directory(directory: Path, bodies: Path | None = None) -> Iterator[Disk]:
    """Return the files of a broker's directory to read, with brokers excluded meanwhile. Nothing in it changes.

    ``bodies`` is the directory of its large messages, None if they are in the same one.

    Raises:
        ResourceAllocationException: there is no such directory, it cannot be opened, or a broker uses it.
    """
    with _locked(directory, bodies, read_only=True) as disk:
        yield disk


@contextmanager
def _locked(directory: Path, bodies: Path | None = None, *, read_only: bool) -> Iterator[Disk]:
    try:
        check_no_artemis_journal(directory)
        if read_only:
            lock = DirectoryLock.acquire_to_read(directory)
        else:
            lock = DirectoryLock.acquire(directory, "journal repair")
    except DirectoryLocked as error:
        raise ResourceAllocationException(str(error)) from error
    except OSError as error:
        raise ResourceAllocationException(unusable(directory, error)) from error
    try:
        with closing(_files(directory, bodies, read_only=read_only)) as disk:
            yield disk
    finally:
        lock.release()


def _files(directory: Path, bodies: Path | None, *, read_only: bool) -> FileDisk:
    try:
        if bodies is not None:
            check_bodies_differ(directory, bodies)
    except OSError as error:
        raise ResourceAllocationException(unusable(directory, error)) from error
    try:
        return FileDisk(directory, body_directory=bodies, read_only=read_only)
    except OSError as error:
        raise ResourceAllocationException(unusable(directory, error)) from error


def repair_directory(damaged: Path, copy: Path, *, segment_size_bytes: int, bodies: Path | None = None) -> RepairReport:
    """Write what can be read of the journal in ``damaged`` to the directory ``copy``, which is made if it is not there.

    ``bodies`` is the directory of its large messages, None if they are in the same one. In the copy they are.

    Raises:
        ResourceAllocationException: one of the directories is not available.
        ValueError: there is a journal in ``copy`` already.
        DiskFault: reading or writing failed.
    """
    with journal_directory(damaged, bodies) as source:
        try:
            copy.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResourceAllocationException(unusable(copy, error)) from error
        with _locked(copy, read_only=False) as target:
            identity = int.from_bytes(SystemEntropy().random_bytes(8), "big") >> 1
            settings = JournalSettings(identity=identity, segment_size_bytes=segment_size_bytes)
            now = Instant(time.monotonic(), time.time_ns() // 1_000_000)
            return repair_journal(source, target, settings, now)
