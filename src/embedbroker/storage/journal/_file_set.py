"""The journal as a set of files that a replica copies.

Responsible for which files belong to it, and for the part of each that is significant. In a directory of an earlier
life it finds, for each file, the whole run of batches that is on the disk. Does not depend on which replica copies it,
and why.

A read may return bytes that are in the operating system's memory alone. After a failed sync the system takes the bytes
for clean, and neither a later sync nor a digest detects that. So they are written again, as recovery does with the last
batch, and the digest covers what was synced then. These bytes may be affected:
1. A journal writes a batch when the one before is synced. In a finished one these are the content of the newest
   segment, and of those behind it, which have no batch yet.
2. A copy is synced now and then, in no order of its files: in an unfinished one, everything.
"""

from __future__ import annotations

import re

from attrs import frozen

from .._body_files import body_number
from .._disk import Digest, ListFiles, Read, Stat, Sync, WriteAt
from .._steps import Steps, read
from ._batch import BatchWalk
from ._segments import FIRST_BATCH_OFFSET, SegmentHeader, decode_header, segment_range
from ._settings import JournalSettings

__all__ = ["FileInventory", "belongs", "copied_bytes", "is_history", "take_inventory"]

_NAME = re.compile(r"(?:segment-\d{10,20}(?:-\d{10,20})?|spare-\d{10,20}|compacting)\.journal\Z", re.ASCII)


def belongs(name: str) -> bool:
    """Return True if the journal works on files of such a name."""
    return _NAME.match(name) is not None or body_number(name) is not None


def is_history(name: str) -> bool:
    """Return True if such a file holds confirmed data, and is worth keeping when it is in the way."""
    return segment_range(name) is not None or body_number(name) is not None


def copied_bytes(name: str, size: int) -> int:
    """Return how many bytes of a file from its start a copy needs; the rest may be anything."""
    return min(size, FIRST_BATCH_OFFSET) if name.startswith("spare-") else size


@frozen
class FileInventory:
    """The content of a directory: (name, valid bytes from the start, their SHA-256) of each segment.

    ``newest`` is the name of the segment in which the history ends, empty without segments.
    """

    identity: int
    newest: str
    files: tuple[tuple[str, int, bytes], ...]


@frozen
class _Found:
    """A segment: its valid bytes from the start, and whether batches are among them."""

    name: str
    header: SegmentHeader
    end: int
    has_batches: bool


def take_inventory(settings: JournalSettings, *, is_unfinished: bool = False) -> Steps[FileInventory]:
    """Examine a directory as a power cut, a fault of the disk or an interrupted copy may have left it.

    Everything in the inventory survives a power cut. Some of it is written once more for that; the content of files
    does not change. ``is_unfinished``: it is a copy that did not become whole.
    """
    (names,) = yield (ListFiles(),)
    assert isinstance(names, tuple)
    found: list[_Found] = []
    for name in names:
        if segment_range(name) is not None:
            found += yield from _look(settings, name)
    ends = [each for each in found if each.has_batches]
    newest = max(ends, key=lambda each: each.header.last, default=None)
    files: list[tuple[str, int, bytes]] = []
    for each in found:
        if is_unfinished or newest is None or each.header.last >= newest.header.last:
            yield from _write_again(settings, each)
        (digest,) = yield (Digest(each.name, 0, each.end),)
        assert isinstance(digest, bytes)
        files.append((each.name, each.end, digest))
    if newest is None:
        return FileInventory(0, "", tuple(files))
    return FileInventory(newest.header.identity, newest.name, tuple(files))


def _look(settings: JournalSettings, name: str) -> Steps[list[_Found]]:
    data, size = yield (Read(name, 0, FIRST_BATCH_OFFSET), Stat(name))
    assert isinstance(data, bytes) and isinstance(size, int)
    header = decode_header(data)
    if not isinstance(header, SegmentHeader):
        return []
    walk = yield from _walk(settings, name, size, header)
    return [_Found(name, header, walk.offset, walk.number is not None)]


def _write_again(settings: JournalSettings, found: _Found) -> Steps[None]:
    step = settings.recovery_slice_bytes
    for offset in range(0, found.end, step):
        data = yield from read(found.name, offset, min(step, found.end - offset))
        yield (WriteAt(found.name, offset, (data,)),)
    yield (Sync(found.name),)


def _walk(settings: JournalSettings, name: str, size: int, header: SegmentHeader) -> Steps[BatchWalk]:
    walk = BatchWalk(identity=header.identity, generation=header.generation, offset=FIRST_BATCH_OFFSET)
    while not walk.ended:
        offset = walk.offset
        data = yield from read(name, offset, max(settings.recovery_slice_bytes, walk.wanted))
        walk.feed(data, offset, at_end=offset + len(data) >= size)
    return walk
