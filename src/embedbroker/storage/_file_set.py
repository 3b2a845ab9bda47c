"""The journal as a set of files that somebody else keeps a copy of.

Responsible for which files belong to it, for how much of them means anything, and for looking at a directory from
before: what of each file is a whole run of batches. Refuses to know who wants a copy, and why.
"""

from __future__ import annotations

import re

from attrs import frozen

from ._batch import BatchWalk
from ._disk import Digest, ListFiles, Read, Stat
from ._segments import FIRST_BATCH_OFFSET, SegmentHeader, decode_header, segment_range
from ._settings import JournalSettings
from ._steps import Steps, read

__all__ = ["Holdings", "belongs", "copied_bytes", "is_history", "survey"]

_NAME = re.compile(r"(?:segment-\d{10,20}(?:-\d{10,20})?|spare-\d{10,20}|compacting)\.journal\Z", re.ASCII)


def belongs(name: str) -> bool:
    """Whether the journal works on files of such a name."""
    return _NAME.match(name) is not None


def is_history(name: str) -> bool:
    """Whether such a file holds what was confirmed, so that it is worth keeping when it is in the way."""
    return segment_range(name) is not None


def copied_bytes(name: str, size: int) -> int:
    """How much of a file from its start a copy needs; the rest may be anything."""
    return min(size, FIRST_BATCH_OFFSET) if name.startswith("spare-") else size


@frozen
class Holdings:
    """What a directory holds: (name, valid bytes from the start, their SHA-256) of each segment.

    ``newest`` is the name of the one in which the history ends, empty when there is none.
    """

    identity: int
    newest: str
    files: tuple[tuple[str, int, bytes], ...]


def survey(settings: JournalSettings) -> Steps[Holdings]:
    """Look at a directory as a power cut, or an interrupted copy, may have left it. Nothing in it is changed."""
    (names,) = yield (ListFiles(),)
    assert isinstance(names, tuple)
    identity, newest, newest_generation = 0, "", -1
    files: list[tuple[str, int, bytes]] = []
    for name in names:
        if not is_history(name):
            continue
        data, size = yield (Read(name, 0, FIRST_BATCH_OFFSET), Stat(name))
        assert isinstance(data, bytes) and isinstance(size, int)
        header = decode_header(data)
        if not isinstance(header, SegmentHeader):
            continue
        walk = yield from _walk(settings, name, size, header)
        (digest,) = yield (Digest(name, 0, walk.offset),)
        assert isinstance(digest, bytes)
        files.append((name, walk.offset, digest))
        if walk.number is not None and header.last > newest_generation:
            identity, newest, newest_generation = header.identity, name, header.last
    return Holdings(identity, newest, tuple(files))


def _walk(settings: JournalSettings, name: str, size: int, header: SegmentHeader) -> Steps[BatchWalk]:
    walk = BatchWalk(identity=header.identity, generation=header.generation, offset=FIRST_BATCH_OFFSET)
    while not walk.ended:
        offset = walk.offset
        data = yield from read(name, offset, max(settings.recovery_slice_bytes, walk.wanted))
        walk.feed(data, offset, at_end=offset + len(data) >= size)
    return walk
