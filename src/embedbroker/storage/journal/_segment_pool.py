"""The supply of empty segments, so that the journal never waits for a file to be made.

Responsible for generations, for preparing the next segment ahead of its use and for reusing files with obsolete
content. Does not depend on the content of a segment.

A segment file appears under its name only when its header is synced. So a segment with a damaged header is damage, and
never a half-made file. Normally the next segment is prepared in the background. When that failed or came too late, the
journal makes it together with its first batch. Header and batch are written into a spare file and synced, and then the
file gets its name.
"""

from __future__ import annotations

from collections import deque

from attrs import Factory, define

from .._disk import Allocate, DiskOperation, Remove, Rename, Sync, SyncDirectory, WriteAt, Zero
from .._steps import Steps
from ._segments import FIRST_BATCH_OFFSET, Segment, SegmentFlags, SegmentHeader, encode_header, spare_name
from ._settings import JournalSettings

__all__ = ["SegmentPool"]


@define(eq=False)
class SegmentPool:
    """The empty segments.

    ``generation`` is the highest ever used; ``spares`` are (name, size) of files free for use.
    """

    settings: JournalSettings
    identity: int = 0
    generation: int = 0
    spares: deque[tuple[str, int]] = Factory(deque)
    prepared: Segment | None = None
    preparing: bool = False

    def take(self, size: int) -> Segment:
        """Return the segment after the current one, at least ``size`` bytes long.

        Its file may still have to be made.
        """
        segment = self.prepared or self._new_segment()
        self.prepared = None
        segment.size = max(segment.size, size)
        return segment

    def opening(self, segment: Segment, wall_ms: int) -> tuple[str, list[DiskOperation], list[DiskOperation]]:
        """Return how to write a segment's first batch: its file, operations before the write and after the sync."""
        if segment.made:
            grow = segment.size > self.settings.segment_size_bytes
            growth: list[DiskOperation] = [Allocate(segment.name, segment.size)] if grow else []
            return segment.name, growth, []
        name = self._take_spare(segment)
        segment.made = True
        before: list[DiskOperation] = [Allocate(name, segment.size), self._header(name, segment, wall_ms)]
        return name, before, [Rename(name, segment.name), SyncDirectory()]

    def prepare(self, wall_ms: int) -> Steps[None]:
        """Prepare the next segment, as background work."""
        segment = self.prepared = self._new_segment()
        self.preparing = True
        try:
            name = self._take_spare(segment)
            yield (Allocate(name, segment.size),)
            if not segment.reused:
                # Space that was only reserved costs a journal entry of the file system with each first write to it.
                # Written space does not (0.15 against 0.24 ms for a batch of 100 KiB on ext4). Synced piece by piece,
                # so that no batch of the journal waits behind one large sync.
                # The sync of the header covers the last piece.
                step = self.settings.background_sync_bytes
                for offset in range(FIRST_BATCH_OFFSET, segment.size, step):
                    left = segment.size - offset
                    write = Zero(name, offset, min(step, left))
                    yield (write,) if left <= step else (write, Sync(name))
            yield (self._header(name, segment, wall_ms), Sync(name))
            yield (Rename(name, segment.name), SyncDirectory())
            segment.made = True
        finally:
            self.preparing = False

    def recycle(self, segment: Segment) -> tuple[DiskOperation, ...]:
        """Return the operations that free a segment's file; files of unusual size are removed."""
        usual = segment.size == self.settings.segment_size_bytes
        if segment.compacted or not usual or len(self.spares) >= self.settings.spare_segments_max:
            return Remove(segment.name), SyncDirectory()
        return Rename(segment.name, spare_name(segment.generation)), SyncDirectory()

    def recycled(self, operations: tuple[DiskOperation, ...], size: int) -> None:
        """Record that the operations returned by ``recycle`` are done."""
        if isinstance(operations[0], Rename):
            self.spares.append((operations[0].new, size))

    def next_generation(self) -> int:
        """Return a number that no file ever had."""
        self.generation += 1
        return self.generation

    def _new_segment(self) -> Segment:
        number = self.next_generation()
        return Segment(first=number, last=number, generation=number, size=self.settings.segment_size_bytes, made=False)

    def _take_spare(self, segment: Segment) -> str:
        if self.spares:
            segment.reused = True
            return self.spares.popleft()[0]
        return spare_name(segment.generation)

    def _header(self, name: str, segment: Segment, wall_ms: int) -> WriteAt:
        header = SegmentHeader(
            identity=self.identity,
            generation=segment.generation,
            first=segment.first,
            last=segment.last,
            first_number=0,
            last_number=0,
            made_at_ms=wall_ms,
            flags=SegmentFlags.REUSED if segment.reused else 0,
        )
        return WriteAt(name, 0, (encode_header(header),))
