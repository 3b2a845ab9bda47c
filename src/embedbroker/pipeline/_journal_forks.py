"""Forks of a journal: a primary that died had batches on its disk that its backup never received.

Responsible for the last batch that two copies share. Batches are numbered, so both have one of the next number, and its
content distinguishes them. Does not judge the consequences for messages: `_audit_verdict` does. Needs no Spark; it
reads the newest segments that two copies have in common, which mostly is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

from embedbroker.storage import RecordArrays, read_records

from ._journal_files import JournalSource, SegmentFile, opened_segment

__all__ = ["forks"]

# Wall time and checksum of each batch, by its number.
_Batches = dict[int, tuple[int, int]]


def forks(
    sources: Sequence[JournalSource], current: JournalSource, last_batches: Mapping[tuple[int, int], int]
) -> dict[int, int]:
    """Return by number of a source the last batch that it shares with ``current``, for those that continued alone.

    ``sources`` are copies of one journal; ``last_batches`` by source and generation. A copy that merely ends earlier is
    not among them. A fork in a segment that compaction removed cannot be detected.

    Raises:
        FileNotFoundError: compaction removed a segment meanwhile.
    """
    reach = max(last_batches[current.number, each.header.generation] for each in current.segments)
    found = {}
    for source in sources:
        if source is not current:
            shared = _shared(source, current, last_batches)
            # If the other one ends there, it is a shorter copy.
            if shared is not None and shared < reach:
                found[source.number] = shared
    return found


def _shared(source: JournalSource, current: JournalSource, last_batches: Mapping[tuple[int, int], int]) -> int | None:
    """Return the last batch before they differ, or None if they do not."""
    ours, theirs = _written(source), _written(current)
    candidates = []
    agreed = 0
    for generation in sorted(ours.keys() & theirs.keys(), reverse=True):
        mine, other = _batches(ours[generation]), _batches(theirs[generation])
        common = sorted(mine.keys() & other.keys())
        differing = [number for number in common if mine[number] != other[number]]
        candidates += [number - 1 for number in differing[:1]]
        if common and common[0] not in differing[:1]:
            agreed = generation
            break
    # Or one of them left the segment before the other did: numbers that stand in the next one of ``current``.
    for behind in {agreed, source.newest_generation}:
        following = [each for each in current.segments if each.header.first > behind]
        if not following:
            continue
        first = _first_batch(min(following, key=lambda each: each.header.first))
        before = [
            last_batches[source.number, each.header.generation]
            for each in source.segments
            if agreed <= each.header.generation <= behind
        ]
        if first and max(before, default=0) >= first:
            candidates.append(first - 1)
    return min(candidates, default=None)


def _written(source: JournalSource) -> dict[int, SegmentFile]:
    return {each.header.generation: each for each in source.segments if not each.header.compacted}


def _first_batch(segment: SegmentFile) -> int:
    """Return the number of a segment's first batch; 0 if none can be read."""
    return segment.header.first_number if segment.header.compacted else min(_batches(segment), default=0)


def _batches(segment: SegmentFile) -> _Batches:
    found: _Batches = {}
    with opened_segment(segment.path, segment.member, segment.name) as (size, read_at):
        for part in read_records(segment.name, size, read_at):
            if isinstance(part, RecordArrays):
                at = 0
                for number, wall_ms, count in zip(part.batches, part.walls_ms, part.counts, strict=True):
                    starts = part.starts[at : at + count]
                    at += count
                    found[number] = wall_ms, _checksum(part.data, starts[0], starts[-1]) if count else 0
    return found


def _checksum(data: bytes, first: int, last: int) -> int:
    """Return the checksum of all records of a batch: each begins with its size."""
    return crc32(memoryview(data)[first : last + int.from_bytes(data[last : last + 4], "little")])
