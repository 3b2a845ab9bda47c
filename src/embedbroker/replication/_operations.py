"""Disk operations in the form of the stream, and back.

Responsible for which operations change anything, and so travel, and for refusing names that are not of a journal's
files: a peer must not reach beside them. Does not run operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from embedbroker import storage
from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import OperationCode, StreamOperation

from ._files import is_copied

__all__ = ["carried", "names_in", "restored", "size_of", "structural_names", "written_bytes"]

_WRITE, _SYNC, _RENAME, _ALLOCATE, _TRUNCATE, _REMOVE, _SYNC_NAMES, _ZERO = map(int, OperationCode)


def carried(operations: Iterable[storage.DiskOperation]) -> list[StreamOperation]:
    """Return the operations of some work that the other side must do, too."""
    found: list[StreamOperation] = []
    for operation in operations:
        match operation:
            case storage.WriteAt(file, offset, data):
                found.append(StreamOperation(_WRITE, file, offset, data))
            case storage.Zero(file, offset, size):
                found.append(StreamOperation(_ZERO, file, offset, size=size))
            case storage.Sync(file):
                found.append(StreamOperation(_SYNC, file))
            case storage.Rename(file, new):
                found.append(StreamOperation(_RENAME, file, other=new))
            case storage.Allocate(file, size):
                found.append(StreamOperation(_ALLOCATE, file, size))
            case storage.Truncate(file, size):
                found.append(StreamOperation(_TRUNCATE, file, size))
            case storage.Remove(file):
                found.append(StreamOperation(_REMOVE, file))
            case storage.SyncDirectory():
                found.append(StreamOperation(_SYNC_NAMES, ""))
            case storage.Read() | storage.ReadChecked() | storage.Digest() | storage.ListFiles() | storage.Stat():
                pass
            case _:
                assert_never(operation)
    return found


def restored(operations: Sequence[StreamOperation]) -> list[storage.DiskOperation]:
    """Return the operations that the other side sent.

    Raises:
        RemoteProtocolError: An operation is about a file that is not a journal's.
    """
    found: list[storage.DiskOperation] = []
    for code, file, number, data, other, size in operations:
        if code == _SYNC_NAMES:
            found.append(storage.SyncDirectory())
            continue
        if not is_copied(file) or (code == _RENAME and not is_copied(other)):
            raise RemoteProtocolError(f"{file or 'nothing'!r} {other!r} is no name of a journal's file")
        found.append(_operation(code, file, number, data, other, size))
    return found


def _operation(
    code: int, file: str, number: int, data: Sequence[bytes | bytearray], other: str, size: int
) -> storage.DiskOperation:
    if code == _WRITE:
        return storage.WriteAt(file, number, tuple([bytes(piece) for piece in data]))
    if code == _ZERO:
        return storage.Zero(file, number, size)
    if code == _SYNC:
        return storage.Sync(file)
    if code == _RENAME:
        return storage.Rename(file, other)
    if code == _ALLOCATE:
        return storage.Allocate(file, number)
    if code == _TRUNCATE:
        return storage.Truncate(file, number)
    assert code == _REMOVE, code
    return storage.Remove(file)


def size_of(operations: Iterable[storage.DiskOperation]) -> int:
    """Return the number of bytes that some work writes."""
    size = 0
    for operation in operations:
        if type(operation) is storage.WriteAt or type(operation) is storage.Zero:
            size += written_bytes(operation)
    return size


def written_bytes(operation: storage.WriteAt | storage.Zero) -> int:
    """Return the number of bytes that one operation writes."""
    return operation.size if isinstance(operation, storage.Zero) else sum(map(len, operation.data))


def names_in(operations: Iterable[storage.DiskOperation]) -> Iterator[str]:
    """Return the files that need a sync after some work was done without its own, under the names they have then."""
    for operation in operations:
        match operation:
            case (
                storage.WriteAt(file, _, _)
                | storage.Zero(file, _, _)
                | storage.Allocate(file, _)
                | storage.Truncate(file, _)
            ):
                yield file


def structural_names(operations: Iterable[storage.DiskOperation]) -> list[str]:
    """Return the files whose name or end some work changes, or that it replaces."""
    names: list[str] = []
    for operation in operations:
        match operation:
            case storage.Rename(file, new):
                names += [file, new]
            case storage.Remove(file) | storage.Truncate(file, _):
                names.append(file)
    return names
