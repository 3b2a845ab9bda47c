"""The directory of a backup before and after a copy: what was in the way, and the mark of a copy that is not whole.

Responsible for keeping the newest of the journals that were in the way, and for making place for the files of the copy.
A crash at any point of both must leave nothing that a journal would start on. Does not depend on where the copy comes
from.

Files in the way get the names ``oldreplica.<number>.<name>``. The mark ``unfinished.copy`` stands before the first name
is changed and contains that number: a crash in between goes on with the same one. When the disk fails, the mark records
that, too: what a read shows may be gone from the disk, although a later sync succeeds. The disk may have failed so that
not even that could be written. So what is there under another mark is written again before it counts.
"""

from __future__ import annotations

import re
from collections.abc import Generator

from embedbroker import storage
from embedbroker.storage import UNFINISHED_COPY, DiskOperation, FileInventory, JournalSettings
from embedclient.wire.core import CopyBegin

from ._files import is_copied
from ._lane import CopySteps, Request, disk_steps

__all__ = ["begin_copy", "finish_copy", "leave_doubt", "take_stock"]

_SAVED = re.compile(r"oldreplica\.(\d{1,9})\.(.+)\Z", re.ASCII | re.DOTALL)
_ASIDE = re.compile(rb"aside (\d{1,9})\Z")
_DOUBT = b"in doubt"
_MARK_BYTES_MAX = 64
# The mark gets its name when its content is whole: an empty one would be that of another copy.
_NEW_MARK = "unfinished.new"
# Operations in one piece of work; a directory may have many files.
_OPERATIONS_MAX = 64


def begin_copy(begin: CopyBegin, saved_max: int) -> CopySteps:
    """Bring the directory to the state in which the copy begins. ``saved_max`` -1 keeps all journals that were in the
    way."""
    (names,) = yield (storage.ListFiles(),)
    assert isinstance(names, tuple)
    present = [name for name in names if is_copied(name)]
    if begin.afresh:
        yield from _put_aside(present, names, saved_max)
        present = []
    yield _marked(b"copying")
    yield from _in_portions(_room_for(begin, present))
    yield (storage.SyncDirectory(),)


def finish_copy() -> tuple[DiskOperation, ...]:
    """Return the operations that end a copy: all files are whole and synced, with their names."""
    return storage.Remove(UNFINISHED_COPY), storage.SyncDirectory()


def _marked(text: bytes) -> tuple[DiskOperation, ...]:
    return (
        storage.Remove(_NEW_MARK),
        storage.WriteAt(_NEW_MARK, 0, (text,)),
        storage.Sync(_NEW_MARK),
        storage.Rename(_NEW_MARK, UNFINISHED_COPY),
        storage.SyncDirectory(),
    )


def _put_aside(present: list[str], names: tuple[str, ...], saved_max: int) -> CopySteps:
    saved: dict[int, list[str]] = {}
    for name in names:
        match = _SAVED.match(name)
        if match is not None:
            saved.setdefault(int(match[1]), []).append(name)
    mark = yield from _read_mark()
    begun = _ASIDE.match(mark)
    # The remains of an earlier copy are not a journal.
    history = [name for name in present if storage.is_history(name)] if begun or not mark else []
    operations: list[DiskOperation] = []
    if history and saved_max:
        number = int(begun[1]) if begun else max(saved, default=0) + 1
        yield _marked(b"aside %d" % number)
        for name in history:
            saved.setdefault(number, []).append(f"oldreplica.{number}.{name}")
            operations.append(storage.Rename(name, saved[number][-1]))
    elif not mark:  # another one stands until what it is about is gone
        yield _marked(b"copying")
    kept = {operation.file for operation in operations if isinstance(operation, storage.Rename)}
    operations += [storage.Remove(name) for name in present if name not in kept]
    if saved_max >= 0:
        for number in sorted(saved)[: max(len(saved) - saved_max, 0)]:
            operations += [storage.Remove(name) for name in saved[number]]
    yield from _in_portions(operations)
    yield (storage.SyncDirectory(),)


def _read_mark() -> Generator[Request, tuple[object, ...], bytes]:
    """Return the content of the mark, empty without one."""
    (size,) = yield (storage.Stat(UNFINISHED_COPY),)
    if size is None:
        return b""
    (text,) = yield (storage.Read(UNFINISHED_COPY, 0, _MARK_BYTES_MAX),)
    assert isinstance(text, bytes)
    return text


def take_stock(settings: JournalSettings) -> Generator[Request, tuple[object, ...], FileInventory]:
    """Return the files from before that survive a power cut; none if they may not be what they seem."""
    mark = yield from _read_mark()
    if mark == _DOUBT:
        return FileInventory(0, "", ())
    return (yield from disk_steps(storage.take_inventory(settings, is_unfinished=bool(mark))))


def leave_doubt() -> CopySteps:
    """Mark the directory, because the disk failed. Files that were being put aside are not affected: the copy has not
    touched them."""
    mark = yield from _read_mark()
    if not _ASIDE.match(mark):
        yield _marked(_DOUBT)


def _room_for(begin: CopyBegin, present: list[str]) -> list[DiskOperation]:
    """Return operations for files of the right length, with zeros behind what is kept of them, and no others.

    Synced one by one: until then a file stays open, and there may be thousands. What is kept was perhaps written by a
    broker that was killed before it synced.
    """
    kept = {file.name: file.kept for file in begin.files}
    operations: list[DiskOperation] = [storage.Remove(name) for name in present if not kept.get(name)]
    for file in begin.files:
        name = file.name
        if file.kept < file.size or not file.size:
            cut = storage.Truncate(name, file.kept) if file.kept else storage.WriteAt(name, 0, ())
            operations += [cut, storage.Allocate(name, file.size)]
        operations.append(storage.Sync(name))
    return operations


def _in_portions(operations: list[DiskOperation]) -> CopySteps:
    for start in range(0, len(operations), _OPERATIONS_MAX):
        yield tuple(operations[start : start + _OPERATIONS_MAX])
