"""Recovery: from the files of a directory to a journal that can go on.

Responsible for which files count, for walking their batches in order, and for the verdict at the end. A torn tail is
cut and kept as a copy; on corruption the journal refuses to start. Does not depend on the meaning of records.

Only the last batch may be damaged without a fault of the disk: the next one is written only after it was synced. So
1. batch n is damaged and a batch n+1 exists, in this segment or a later one: n was synced; this is corruption;
2. batch n is damaged, nothing of n+1 exists: n was under way when the broker died, and was never confirmed; cut it.

A cut changes nothing on disk. The next batch n goes to a new segment. For a reader, a batch n at the start of a segment
means that the bytes behind n-1 before it were cut. Recovery can thus die at any point and simply begin again.

The last batch may be valid only in the operating system's memory (the broker was killed before the sync, or the sync
failed). Before its messages are visible it is written again, byte by byte the same, and synced. Syncing alone would not
be enough, because after a failed sync the system considers the bytes clean.
"""

from __future__ import annotations

from attrs import Factory, define

from .._body_files import body_number
from .._disk import ListFiles, Read, Remove, Stat, Sync, SyncDirectory, WriteAt
from .._steps import Corruption, Steps, read
from ..journal._batch import BatchExtent, BatchFlags, BatchWalk, find_header, stored_size
from ..journal._segments import (
    COMPACTING,
    FIRST_BATCH_OFFSET,
    UNFINISHED_COPY,
    Segment,
    SegmentFlags,
    SegmentHeader,
    decode_header,
    segment_name,
    segment_range,
    torn_name,
    torn_tail,
)
from ..journal._settings import JournalSettings
from ._recovered import RecoveredState
from ._replay import MalformedRecord, Replay

__all__ = ["Recovery", "recover"]

_MISSING = "the file is missing, but its batches were synced: bring it back, or save the rest with `journal repair`"
_COPY_BYTES_MAX = 16 * 1024 * 1024


@define(eq=False)
class _Tail:
    """Where the batches of a segment end before the journal does, or where the journal itself ends."""

    segment: Segment
    walk: BatchWalk


@define(eq=False)
class Recovery:
    """A recovery under way, and in the end the state that the journal continues with."""

    settings: JournalSettings
    identity: int
    replay: Replay = Factory(Replay)
    segments: list[Segment] = Factory(list)
    # Number and checksum of the last valid batch.
    number: int = 0
    crc: int | None = None
    sealed: bool = True
    generation: int = 0  # highest ever used
    spares: list[tuple[str, int]] = Factory(list)  # name and size
    state: RecoveredState | None = None
    # The segment to go on in, None when the next batch has to begin a new one.
    current: Segment | None = None
    prepared: Segment | None = None
    # Sizes of the files of large bodies, by their numbers.
    bodies: dict[int, int] = Factory(dict)
    _tails: list[_Tail] = Factory(list)
    _last: tuple[Segment, BatchExtent] | None = None

    def run(self) -> Steps[None]:
        """Recover.

        Raises:
            Corruption: something that was synced is damaged.
        """
        found, _ = yield (ListFiles(), SyncDirectory())
        assert isinstance(found, tuple)
        names: list[str] = list(found)
        yield from self._survey(names)
        for segment in self.segments:
            yield from self._walk(segment)
        self._check_extents()
        yield from self._judge_tails(names)
        yield from self._drop_old_copies(names)
        yield from self._rewrite_last_batch()
        self._choose_current()
        for segment in self.segments:
            if segment is not self.current:
                segment.close()
        for _pause in self.replay.settle():
            yield ()
        self.state = self.replay.finish(self.segments)
        self.state.identity = self.identity
        self.state.last_batch = self.number
        self.state.bodies = self.bodies

    # -- which files count -----------------------------------------------------------------------------------------

    def _survey(self, names: list[str]) -> Steps[None]:
        headers: list[tuple[SegmentHeader, int]] = []
        for name in names:
            extent = segment_range(name)
            if name == UNFINISHED_COPY:
                text = "the repair or the replication that wrote this copy did not finish it; messages are missing"
                raise Corruption(name, 0, text)
            number = body_number(name)
            if number is not None:
                (size,) = yield (Stat(name),)
                assert isinstance(size, int)
                self.bodies[number] = size
            elif name == COMPACTING:
                yield (Remove(name),)
            elif extent is not None or name.startswith("spare-"):
                data, size = yield (Read(name, 0, FIRST_BATCH_OFFSET), Stat(name))
                assert isinstance(data, bytes) and isinstance(size, int)
                header = decode_header(data)
                if isinstance(header, SegmentHeader):
                    self.generation = max(self.generation, header.generation)
                if extent is None:
                    self.spares.append((name, size))
                    continue
                if isinstance(header, str):
                    raise Corruption(name, 0, header)
                if (header.first, header.last) != extent:
                    raise Corruption(name, 0, "the name does not fit the segment header")
                headers.append((header, size))
                self.generation = max(self.generation, header.last)
        headers.sort(key=lambda each: (each[0].first, -each[0].last))
        yield from self._keep_uncovered(headers)

    def _keep_uncovered(self, headers: list[tuple[SegmentHeader, int]]) -> Steps[None]:
        """Keep what compaction's results do not cover.

        A result replaces the files it covers; those were about to be removed.
        """
        last: SegmentHeader | None = None
        for header, size in headers:
            segment = Segment(
                first=header.first,
                last=header.last,
                generation=header.generation,
                size=size,
                compacted=bool(header.flags & SegmentFlags.COMPACTED),
                reused=bool(header.flags & SegmentFlags.REUSED),
            )
            if last is None:
                self.identity = header.identity
            elif header.identity != self.identity:
                raise Corruption(segment.name, 0, "the segment belongs to another journal")
            elif header.first <= last.last:
                if header.last > last.last:
                    raise Corruption(segment.name, 0, "the segment overlaps another one")
                yield (Remove(segment.name), SyncDirectory())
                continue
            if segment.compacted:
                segment.first_number, segment.last_number = header.first_number, header.last_number
            self.segments.append(segment)
            last = header

    # -- the batches -----------------------------------------------------------------------------------------------

    def _walk(self, segment: Segment) -> Steps[None]:
        walk = BatchWalk(
            identity=self.identity,
            generation=segment.generation,
            offset=FIRST_BATCH_OFFSET,
            expected=1 if segment.compacted else None,
        )
        slice_bytes = self.settings.recovery_slice_bytes
        while not walk.ended:
            offset, length = walk.offset, max(slice_bytes, walk.wanted)
            data = yield from read(segment.name, offset, length)
            batches = walk.feed(data, offset, at_end=offset + len(data) >= segment.size)
            if walk.foreign:
                raise Corruption(segment.name, walk.offset, walk.foreign)
            if batches and offset == FIRST_BATCH_OFFSET:
                self._check_number(segment, segment.first_number or batches[0].number)
            yield from self._apply(segment, data, offset, batches)
        segment.end = walk.offset
        if segment.compacted:
            self._check_compacted(segment, walk)
            self.number, self.crc = segment.last_number, None
            self._tails.clear()
            return
        if walk.number is not None:
            # An earlier recovery cut what stood behind the last batch before, in earlier segments.
            self._tails.clear()
            self.number, self.crc = walk.number, walk.crc
            self.sealed = bool(walk.flags & BatchFlags.SEAL)
        segment.last_number = self.number
        self._tails.append(_Tail(segment, walk))

    def _apply(self, segment: Segment, data: bytes, base: int, batches: list[BatchExtent]) -> Steps[None]:
        for batch in batches:
            try:
                for _pause in self.replay.apply(data, batch.start, batch.end, segment, self.segments):
                    yield ()
            except MalformedRecord as malformed:
                raise Corruption(segment.name, base + malformed.position, str(malformed)) from None
        if batches:
            if not segment.first_number:
                segment.first_number = batches[0].number
            self._last = segment, batches[-1]

    def _check_number(self, segment: Segment, number: int) -> None:
        """Check that the first batch of a segment follows the last one before it.

        There may be a gap if segments between them were dropped.
        """
        if number <= self.number:
            raise Corruption(segment.name, FIRST_BATCH_OFFSET, f"batch {number} comes after batch {self.number}")
        if number == self.number + 1:
            return
        # Segments without batches (their first one was torn and cut) may stand between the two.
        later = segment
        for previous in reversed(self.segments[: self.segments.index(segment)]):
            if previous.last + 1 != later.first:
                return
            if previous.first_number:
                self._raise_missing(previous)
            later = previous

    def _raise_missing(self, segment: Segment) -> None:
        tail = next((tail for tail in self._tails if tail.segment is segment), None)
        reason = tail.walk.damage if tail is not None else None
        if reason is None:
            reason = f"the batch after {segment.last_number} is missing"
        raise Corruption(segment.name, segment.end, f"{reason}, but it was synced: later batches exist")

    def _check_compacted(self, segment: Segment, walk: BatchWalk) -> None:
        if walk.damage or not walk.flags & BatchFlags.SEAL or walk.offset != segment.size:
            text = walk.damage or "a compacted segment does not end with its seal"
            raise Corruption(segment.name, walk.offset, text)

    def _check_extents(self) -> None:
        """Check that nothing is missing of the segments that the latest segment start lists."""
        for first, last, number in self.replay.extents:
            holder = next((each for each in self.segments if each.first <= first and last <= each.last), None)
            if holder is None:
                # What was merged after the segment start was written is dropped as the merged range.
                if not any(low <= first and last <= high for low, high in self.replay.dropped):
                    raise Corruption(segment_name(first, last), 0, _MISSING)
            elif (holder.first, holder.last) == (first, last) and holder.extent[2] != number:
                self._raise_missing(holder)

    # -- the end ---------------------------------------------------------------------------------------------------

    def _judge_tails(self, names: list[str]) -> Steps[None]:
        """Examine the bytes behind the last batch: proof of a later one, a torn batch, or garbage."""
        for tail in self._tails:
            dirty = False
            last_byte = offset = tail.segment.end
            while offset < tail.segment.size:
                data = yield from read(tail.segment.name, offset, self.settings.recovery_slice_bytes)
                if not data:
                    break
                if data == bytes(len(data)):
                    # Never written to: most of the last segment, and a backup that takes over waits for this.
                    offset += len(data)
                    continue
                later = find_header(
                    data, offset, identity=self.identity, generation=tail.segment.generation, above=self.number + 1
                )
                if later is not None:
                    text = tail.walk.damage or f"batch {self.number + 1} cannot be found"
                    text = f"{text}, but it was synced: batch {later[0]} stands at offset {later[1]}"
                    raise Corruption(tail.segment.name, tail.segment.end, text)
                stripped = data.rstrip(b"\0")
                if stripped:
                    last_byte = offset + len(stripped)
                dirty = dirty or bool(stripped)
                offset += len(data)
            if tail.walk.damage or (dirty and not tail.segment.reused):
                yield from self._keep_tail(tail, last_byte, names)

    def _keep_tail(self, tail: _Tail, last_byte: int, names: list[str]) -> Steps[None]:
        """Cut what stands behind the last batch, and keep a copy for inspection by people."""
        segment, start = tail.segment, tail.segment.end
        name = torn_name(segment.generation, self.number + 1)
        reason = tail.walk.damage or "bytes that are no batch follow the last one"
        self.replay.notes.append(
            f"{segment.name} at offset {start}: {reason}; it was never confirmed and is cut, a copy is kept in {name}"
        )
        tail.walk.damage = reason
        if name in names:
            return
        end = min(last_byte, start + _COPY_BYTES_MAX)
        for offset in range(start, end, self.settings.recovery_slice_bytes):
            data = yield from read(segment.name, offset, min(self.settings.recovery_slice_bytes, end - offset))
            yield (WriteAt(name, offset - start, (data,)),)
        if end > start:
            yield (Sync(name), SyncDirectory())
            names.append(name)

    def _drop_old_copies(self, names: list[str]) -> Steps[None]:
        """Remove old copies: a broker that is killed every minute must not fill its disk with them."""
        copies = sorted((place, name) for name in names if (place := torn_tail(name)) is not None)
        for _place, name in copies[: max(len(copies) - self.settings.torn_copies_max, 0)]:
            yield (Remove(name),)

    def _rewrite_last_batch(self) -> Steps[None]:
        if self._last is None:
            return
        segment, batch = self._last
        if segment.compacted:
            return
        length = stored_size(batch.end - batch.start)
        data = yield from read(segment.name, batch.offset, length)
        yield (WriteAt(segment.name, batch.offset, (data,)), Sync(segment.name))

    def _choose_current(self) -> None:
        """Choose the segment to go on in: behind the last batch if nothing was cut.

        An empty segment behind it is the next one.
        """
        if not self._tails or any(tail.walk.damage for tail in self._tails):
            return
        last = self.segments[-1]
        if not last.first_number and not last.compacted and last.size >= self.settings.segment_size_bytes:
            self.prepared = self.segments.pop()
        if self.segments and self.segments[-1].first_number and not self.segments[-1].compacted:
            self.current = self.segments[-1]


def recover(settings: JournalSettings) -> Steps[Recovery]:
    """Recover the journal in a directory, which may be empty."""
    recovery = Recovery(settings, settings.identity)
    yield from recovery.run()
    return recovery
