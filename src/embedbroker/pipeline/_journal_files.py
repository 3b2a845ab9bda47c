"""The places of journals: directories and archives, their segment files, and access to the bytes of a segment.

Responsible for the list of segments to read, made of names and headers alone. Does not depend on records or Spark. It
takes no lock and writes nothing, so a broker may work in a directory meanwhile. When a segment is removed or reused
while it is read, the whole directory is read again (`CUT`): parts of two moments prove nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from attrs import Factory, define, frozen

from embedbroker.storage import SegmentHeader, read_header, segment_range

from ._archives import member_bytes, members

__all__ = ["JournalSource", "SegmentFile", "gone_since", "journal_sources", "opened_segment"]

_HEADER_BYTES = 4096
ReadAt = Callable[[int, int], bytes]


@frozen
class SegmentFile:
    """Hold one segment: a file in a directory, or a member of an archive. ``newest``: of its source, as written."""

    source: int
    path: str
    member: str | None
    name: str
    header: SegmentHeader
    newest: bool = False


@define(eq=False)
class JournalSource:
    """Hold one journal at one moment: a directory, or a folder in an archive.

    ``damage`` contains (file, text) of segments whose header cannot be read.
    """

    number: int
    name: str
    segments: list[SegmentFile] = Factory(list)
    damage: list[tuple[str, str]] = Factory(list)

    @property
    def identity(self) -> int:
        """Return the identity of the journal: the same in every directory."""
        return self.segments[0].header.identity

    @property
    def newest_generation(self) -> int:
        """Return the latest generation that a segment here contains."""
        return max(each.header.last for each in self.segments)


def journal_sources(places: Sequence[str | os.PathLike[str]]) -> list[JournalSource]:
    """List the segments of journals in directories and archives (.tar, .tar.gz and its like, .zip).

    An archive may hold several journals, each in a separate folder. Files that a compacted segment replaces are left
    out. Only headers are read.

    Raises:
        FileNotFoundError: a place does not exist, or has no journal.
        ValueError: an archive of an unknown type, or a place that is given twice.
    """
    sources: list[JournalSource] = []
    resolved = [Path(place).resolve() for place in places]
    for path in resolved:
        if resolved.count(path) > 1:
            raise ValueError(f"{path} is given twice")
        found = list(_sources_in(path, len(sources)))
        if not found:
            raise FileNotFoundError(f"there is no journal in {path}")
        sources += found
    return sources


def gone_since(sources: Sequence[JournalSource], places: Sequence[str | os.PathLike[str]]) -> str:
    """Return a text on a segment of these ``sources`` that was removed or replaced; empty if all are there."""
    now = {
        (each.path, each.member, each.name): each.header
        for source in journal_sources(places)
        for each in source.segments
    }
    for source in sources:
        for each in source.segments:
            if now.get((each.path, each.member, each.name)) != each.header:
                return f"{each.name} was removed or used anew while it was read"
    return ""


def _sources_in(path: Path, first: int) -> Iterator[JournalSource]:
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if path.is_dir():
        groups: dict[str, list[tuple[str | None, str, bytes]]] = {str(path): list(_in_directory(path))}
    else:
        groups = {}
        for member, header in members(path, _is_segment, _HEADER_BYTES):
            folder = str(PurePosixPath(member).parent)
            name = PurePosixPath(member).name
            groups.setdefault(f"{path}:{folder}", []).append((member, name, header))
    number = first
    for name in sorted(groups):
        source = _source(number, name, str(path), groups[name])
        if source.segments or source.damage:
            if not source.segments:
                raise FileNotFoundError(f"{name}: no segment has a header that can be read: {source.damage[0][1]}")
            yield source
            number += 1


def _source(number: int, name: str, path: str, files: list[tuple[str | None, str, bytes]]) -> JournalSource:
    source = JournalSource(number, name)
    for member, file, data in sorted(files, key=lambda each: each[1]):
        header = read_header(data)
        if isinstance(header, str):
            source.damage.append((file, f"{header}; its batches cannot be read"))
        elif segment_range(file) != (header.first, header.last):
            source.damage.append((file, "the name does not fit the segment header; not read"))
        elif source.segments and header.identity != source.identity:
            source.damage.append((file, "the segment belongs to another journal; not read"))
        else:
            source.segments.append(SegmentFile(number, path, member, file, header))
    every = source.segments
    source.segments = [each for each in every if not any(_covers(other.header, each.header) for other in every)]
    written = [each.header.generation for each in source.segments if not each.header.compacted]
    source.segments = [
        SegmentFile(
            number, path, each.member, each.name, each.header, each.header.generation == max(written, default=0)
        )
        for each in source.segments
    ]
    return source


def _covers(cover: SegmentHeader, header: SegmentHeader) -> bool:
    return cover is not header and cover.compacted and cover.first <= header.first and header.last <= cover.last


def _is_segment(name: str) -> bool:
    return segment_range(name) is not None


def _in_directory(path: Path) -> Iterator[tuple[str | None, str, bytes]]:
    for name in _stable_listing(path):
        try:
            with (path / name).open("rb") as file:
                yield None, name, file.read(_HEADER_BYTES)
        except FileNotFoundError:
            continue  # a broker's compaction removed it; later reads find its replacement


def _stable_listing(path: Path) -> list[str]:
    """Return the segments at one moment.

    A listing made while files are renamed may show neither the old nor the new name.
    """
    before: list[str] = []
    while True:
        names = sorted(filter(_is_segment, os.listdir(path)))
        if names == before:
            return names
        before = names


@contextmanager
def opened_segment(path: str, member: str | None, name: str) -> Iterator[tuple[int, ReadAt]]:
    """Yield the size of a segment file and a function that reads in it.

    Raises:
        FileNotFoundError: it was removed in between.
    """
    if member is None:
        with open(os.path.join(path, name), "rb") as file:
            descriptor = file.fileno()
            yield os.fstat(descriptor).st_size, lambda offset, count: os.pread(descriptor, count, offset)
        return
    data = member_bytes(path, member)
    yield len(data), lambda offset, count: data[offset : offset + count]
