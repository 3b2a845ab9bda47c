"""Reading a journal whatever its condition: all batches that are whole, and the places where others should be.

Responsible for reading on behind damage, which recovery must never do. Never writes, and does not depend on the meaning
of records.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import Factory, define, frozen

from .._disk import SECTOR_BYTES, ListFiles, Read, Stat
from .._steps import Steps, read
from ..journal._batch import BatchExtent, BatchFlags, BatchWalk, find_header
from ..journal._segments import FIRST_BATCH_OFFSET, Segment, SegmentFlags, decode_header, segment_name, segment_range

__all__ = ["Finding", "RepairScan"]

_SLICE_BYTES = 1024 * 1024


@frozen
class Finding:
    """A fault in a journal, and its place."""

    file: str
    offset: int
    text: str


@define(eq=False)
class RepairScan:
    """A walk over everything that can be read. ``on_batch`` receives segment, data and the batch in it, in order."""

    on_batch: Callable[[Segment, bytes, BatchExtent], None]
    findings: list[Finding] = Factory(list)
    segments: list[Segment] = Factory(list)
    batches: dict[str, int] = Factory(dict)
    identity: int | None = None
    sealed: bool = False
    number: int = 0
    slice_bytes: int = _SLICE_BYTES
    # Selects the files to read; returns the generations that each name stands for.
    range_of: Callable[[str], tuple[int, int] | None] = segment_range

    def run(self) -> Steps[None]:
        """Walk over all segments, oldest first."""
        (names,) = yield (ListFiles(),)
        assert isinstance(names, tuple)
        for name in names:
            if self.range_of(name) is not None:
                yield from self._read_header(name)
        self.segments.sort(key=lambda segment: (segment.first, -segment.last))
        for segment in self.segments.copy():
            if any(_covers(other, segment) for other in self.segments):
                self.segments.remove(segment)
        for segment in self.segments:
            yield from self._walk(segment)

    def _read_header(self, name: str) -> Steps[None]:
        data, size = yield (Read(name, 0, FIRST_BATCH_OFFSET), Stat(name))
        assert isinstance(data, bytes) and isinstance(size, int)
        header = decode_header(data)
        if isinstance(header, str):
            self._find(name, 0, f"{header}; its batches cannot be read")
            return
        if self.range_of(name) != (header.first, header.last):
            own = segment_name(header.first, header.last)
            self._find(name, 0, f"the name does not fit the segment header, which belongs to {own}; not read")
            return
        if self.identity is None:
            self.identity = header.identity
        if header.identity != self.identity:
            self._find(name, 0, "the segment belongs to another journal")
            return
        segment = Segment(first=header.first, last=header.last, generation=header.generation, size=size)
        segment.first_number, segment.last_number = header.first_number, header.last_number
        segment.compacted = bool(header.flags & SegmentFlags.COMPACTED)
        segment.reused = bool(header.flags & SegmentFlags.REUSED)
        self.segments.append(segment)

    def _walk(self, segment: Segment) -> Steps[None]:
        walk = self._begin(segment, FIRST_BATCH_OFFSET, 1 if segment.compacted else None)
        while True:
            offset = walk.offset
            data = yield from read(segment.name, offset, max(self.slice_bytes, walk.wanted))
            for batch in walk.feed(data, offset, at_end=offset + len(data) >= segment.size):
                self._note_gap(segment, batch)
                self.batches[segment.name] = self.batches.get(segment.name, 0) + 1
                self.on_batch(segment, data, batch)
            if not walk.ended:
                continue
            segment.end = max(segment.end, walk.offset)
            if walk.damage or walk.foreign:
                self._find(segment.name, walk.offset, walk.damage or walk.foreign or "")
            later = yield from self._next_header(segment, walk)
            if later is None:
                break
            if not walk.damage and not walk.foreign:
                self._find(segment.name, walk.offset, f"no batch stands here, but batch {later[0]} follows")
            walk = self._begin(segment, later[1], later[0])
        if segment.compacted:
            if not walk.flags & BatchFlags.SEAL:
                self._find(segment.name, segment.end, "a compacted segment does not end with its seal")
            self.number = segment.last_number

    def _begin(self, segment: Segment, offset: int, expected: int | None) -> BatchWalk:
        assert self.identity is not None
        return BatchWalk(self.identity, segment.generation, offset, expected=expected)

    def _next_header(self, segment: Segment, walk: BatchWalk) -> Steps[tuple[int, int] | None]:
        assert self.identity is not None
        offset = walk.offset + SECTOR_BYTES
        above = walk.number if walk.number is not None else 0
        while offset < segment.size:
            data = yield from read(segment.name, offset, _SLICE_BYTES)
            found = find_header(data, offset, identity=self.identity, generation=segment.generation, above=above)
            if found is not None or not data:
                return found
            offset += len(data)
        return None

    def _note_gap(self, segment: Segment, batch: BatchExtent) -> None:
        if segment.compacted:
            return
        if not segment.first_number:
            segment.first_number = batch.number
        segment.last_number = self.number = batch.number
        self.sealed = bool(batch.flags & BatchFlags.SEAL)

    def _find(self, file: str, offset: int, text: str) -> None:
        self.findings.append(Finding(file, offset, text))


def _covers(cover: Segment, segment: Segment) -> bool:
    return cover is not segment and cover.compacted and cover.first <= segment.first and segment.last <= cover.last
