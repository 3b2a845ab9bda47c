"""The disk driver: one directory of real files.

Responsible for doing disk operations exactly as the seam in ``embedbroker.storage`` describes them, and for translating
errors of the operating system into ``DiskFault``. Does not depend on the content of the files.

It is synchronous. Lanes may run at once on several threads: in one file they write and read different parts. The table
of open files is guarded, and a file that a thread works on stays open. Closing may come from another thread, while a
broker crashes. It waits for the operation under way and refuses those behind it. The directory, and the numbers of the
descriptors, may belong to another broker a moment later.
"""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from embedbroker.storage import (
    BODY_SUFFIX,
    Allocate,
    Digest,
    DiskFault,
    DiskOperation,
    FaultKind,
    ListFiles,
    Read,
    ReadChecked,
    Remove,
    Rename,
    Stat,
    Sync,
    SyncDirectory,
    Truncate,
    WriteAt,
    Zero,
)

from ._disk_gate import DiskGate
from ._shortage import passes

__all__ = ["FileDisk"]

_OPEN_FILES_MAX = 16
_BUFFERS_MAX = 1024  # IOV_MAX of Linux
_DIGESTED_BYTES = 1024 * 1024
_ZEROS = bytes(256 * 1024)
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_KINDS = {
    errno.ENOSPC: FaultKind.FULL,
    errno.EDQUOT: FaultKind.FULL,
    errno.ENOENT: FaultKind.MISSING,
    errno.EACCES: FaultKind.DENIED,
    errno.EPERM: FaultKind.DENIED,
    errno.EROFS: FaultKind.DENIED,
}


class FileDisk:
    """The files of ``directory``, which must exist. ``close`` releases the descriptors.

    A ``read_only`` disk opens files so that a read-only directory is enough, and every write is a fault. Files of large
    bodies are in ``body_directory`` if it is given; those that are in ``directory`` already stay there. A file that is
    in both must be equal in both.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        body_directory: str | os.PathLike[str] | None = None,
        read_only: bool = False,
    ) -> None:
        self.directory = Path(directory)
        self.body_directory = Path(body_directory) if body_directory is not None else None
        self._read_only = read_only
        self._guard = threading.Lock()
        self._gate = DiskGate()
        self._open: dict[str, int] = {}  # least recently used first
        self._unsynced: set[str] = set()
        self._in_hand: dict[int, str] = {}  # by thread: the file it opened last
        self._directory = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        self._body_directory = -1
        if self.body_directory is not None:
            try:
                self._body_directory = os.open(self.body_directory, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                os.close(self._directory)
                raise
        # A descriptor that is given to a file when this process has no other one left.
        self._reserve = -1
        self._keep_reserve()

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        """Do the operations in order and return one result for each.

        Raises:
            DiskFault: an operation failed; those after it did not happen.
        """
        results: list[object] = []
        gate = self._gate
        try:
            with gate:
                for operation in operations:
                    if gate.is_shut:
                        gate.refuse(_file_of(operation))
                    # Each batch of the journal does this; there is no call in between, for speed.
                    if type(operation) is WriteAt:
                        self._write(operation)
                        results.append(None)
                    elif type(operation) is Sync:
                        self._sync(operation.file)
                        results.append(None)
                    else:
                        results.append(self._do(operation))
        except OSError as error:
            failed = operations[len(results)]
            text = error.strerror or str(error)
            raise DiskFault(_kind_of(error, failed), _file_of(failed), text, tuple(results)) from error
        return tuple(results)

    def close(self) -> None:
        """Close all files, behind the operations under way. Data that was not synced stays in doubt."""
        self._gate.shut()
        with self._guard:
            descriptors = [*self._open.values(), self._directory, self._body_directory, self._reserve]
            self._open.clear()
            self._directory = self._body_directory = self._reserve = -1
        for descriptor in descriptors:
            if descriptor >= 0:
                with suppress(OSError):  # closed all the same: a file system may report here what it could not write
                    os.close(descriptor)

    def _do(self, operation: DiskOperation) -> object:
        match operation:
            case Zero(file, offset, size):
                self._zero(file, offset, size)
            case Read(file, offset, length):
                return self._read(self._descriptor(file), offset, length)
            case ReadChecked(file, offset, length, checksum):
                data = self._read(self._descriptor(file), offset, length)
                return data, crc32(data, checksum)
            case Digest(file, offset, length):
                return self._digest(self._descriptor(file), offset, length)
            case ListFiles():
                return self._names()
            case Stat(file):
                try:
                    return os.stat(self._place(file)).st_size
                except FileNotFoundError:
                    return None
            case Rename(file, new):
                self._forget(new)
                place = self._place(file)
                os.rename(place, place.parent / new)
                self._remove_twin(file)
                self._renamed(file, new)
            case Allocate(file, size):
                if size > 0:
                    _allocate(self._descriptor(file, create=True), size)
                self._unsynced.add(file)
            case Truncate(file, size):
                os.ftruncate(self._descriptor(file), size)
                self._unsynced.add(file)
            case Remove(file):
                self._forget(file)
                try:
                    os.unlink(self._place(file))
                except FileNotFoundError:
                    pass  # interrupted work is repeated, so a second removal is no error
                self._remove_twin(file)
            case SyncDirectory():
                if self._body_directory >= 0:
                    os.fsync(self._body_directory)
                os.fsync(self._directory)
        return None

    def _names(self) -> tuple[str, ...]:
        names = {entry.name for entry in os.scandir(self.directory) if entry.is_file()}
        if self.body_directory is not None:
            found = [entry.name for entry in os.scandir(self.body_directory) if entry.is_file()]
            names.update(name for name in found if name.endswith(BODY_SUFFIX))
        return tuple(sorted(names))

    def _place(self, file: str) -> Path:
        """Return the path of a file."""
        if self.body_directory is None or not file.endswith(BODY_SUFFIX):
            return self.directory / file
        earlier = self.directory / file
        return earlier if earlier.exists() else self.body_directory / file

    def _remove_twin(self, file: str) -> None:
        """Remove an equal file that is in the other directory, too: it would turn up under the name that is free."""
        if self.body_directory is not None and file.endswith(BODY_SUFFIX):
            with suppress(FileNotFoundError):
                os.unlink(self.body_directory / file)

    def _sync(self, file: str) -> None:
        os.fdatasync(self._descriptor(file))
        self._unsynced.discard(file)

    def _write(self, operation: WriteAt) -> None:
        file, offset, data = operation.file, operation.offset, operation.data
        self._unsynced.add(file)
        descriptor = self._descriptor(file, create=True)
        while data:
            group, data = data[:_BUFFERS_MAX], data[_BUFFERS_MAX:]
            total = sum(map(len, group))
            written = os.pwritev(descriptor, group, offset)
            if written < total:  # interrupted, or the disk is nearly full: then the next attempt reports that
                rest = memoryview(b"".join(group))
                while written < total:
                    written += os.pwrite(descriptor, rest[written:], offset + written)
            offset += total

    def _zero(self, file: str, offset: int, size: int) -> None:
        self._unsynced.add(file)
        descriptor = self._descriptor(file, create=True)
        end = offset + size
        with memoryview(_ZEROS) as zeros:
            while offset < end:
                offset += os.pwrite(descriptor, zeros[: end - offset], offset)

    def _read(self, descriptor: int, offset: int, length: int) -> bytes:
        data = os.pread(descriptor, length, offset)
        if len(data) == length or not data:
            return data
        parts = [data]
        while data and sum(map(len, parts)) < length:
            got = sum(map(len, parts))
            data = os.pread(descriptor, length - got, offset + got)
            parts.append(data)
        return b"".join(parts)

    @property
    def open_files(self) -> tuple[str, ...]:
        """Return the files that are open, least recently used first."""
        return tuple(self._open)

    def _digest(self, descriptor: int, offset: int, length: int) -> bytes:
        digest = hashlib.sha256()
        end = offset + length
        while offset < end:
            data = os.pread(descriptor, min(_DIGESTED_BYTES, end - offset), offset)
            if not data:
                break
            digest.update(data)
            offset += len(data)
        return digest.digest()

    def _descriptor(self, file: str, create: bool = False) -> int:
        with self._guard:
            self._in_hand[threading.get_ident()] = file
            descriptor = self._open.pop(file, None)
            if descriptor is None:
                flags = os.O_RDONLY if self._read_only else os.O_RDWR | (os.O_CREAT if create else 0)
                descriptor = self._open_file(file, flags)
                self._make_place()
                self._keep_reserve()
            self._open[file] = descriptor
            return descriptor

    def _open_file(self, file: str, flags: int) -> int:
        try:
            return os.open(self._place(file), flags, 0o640)
        except OSError as error:
            if error.errno not in _NO_DESCRIPTORS or not self._free_descriptor():
                raise
            return os.open(self._place(file), flags, 0o640)

    def _free_descriptor(self) -> bool:
        """Close the reserve, or a file that no thread uses. Return False without either."""
        if self._reserve < 0:
            return self._close_idle_file()
        os.close(self._reserve)
        self._reserve = -1
        return True

    def _keep_reserve(self) -> None:
        if self._reserve < 0 <= self._directory:
            with suppress(OSError):  # no descriptor is free at the moment: the next open may find one
                self._reserve = os.dup(self._directory)

    def _make_place(self) -> None:
        if len(self._open) >= _OPEN_FILES_MAX:
            self._close_idle_file()

    def _close_idle_file(self) -> bool:
        """Close a file that no thread uses. Return False without such a file.

        A file with unsynced bytes stays open: its errors must reach its sync.
        """
        kept = self._unsynced.union(self._in_hand.values())
        victim = next((name for name in self._open if name not in kept), None)
        if victim is None:
            return False
        os.close(self._open.pop(victim))
        return True

    def _forget(self, file: str) -> None:
        with self._guard:
            descriptor = self._open.pop(file, None)
            self._unsynced.discard(file)
        if descriptor is not None:
            os.close(descriptor)

    def _renamed(self, file: str, new: str) -> None:
        with self._guard:
            descriptor = self._open.pop(file, None)
            if descriptor is not None:
                self._open[new] = descriptor
            if file in self._unsynced:
                self._unsynced.discard(file)
                self._unsynced.add(new)


def _allocate(descriptor: int, size: int) -> None:
    """Reserve space. Some file systems allocate what they have before they report a shortage: that part is released."""
    before = os.fstat(descriptor).st_size
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        os.ftruncate(descriptor, before)
        raise


def _kind_of(error: OSError, operation: DiskOperation) -> FaultKind:
    # Only calls that look a name up put one into their errors: such a call wrote and synced nothing.
    is_by_name = error.filename is not None
    if is_by_name:
        is_short = passes(error)
    else:
        is_short = not isinstance(operation, Sync | SyncDirectory) and passes(error, of_descriptor=True)
    return FaultKind.SHORT if is_short else _KINDS.get(error.errno or 0, FaultKind.FAILED)


def _file_of(operation: DiskOperation) -> str:
    return getattr(operation, "file", "")
