"""Figures of a journal, for tests, tools and reports.

Does not depend on the objects it describes: the values are frozen, and cost nothing until they are requested.
"""

from __future__ import annotations

from attrs import frozen

__all__ = ["JournalStatistics", "SegmentStatistics"]


@frozen
class SegmentStatistics:
    """Hold the figures of one segment file."""

    name: str
    size_bytes: int
    end: int
    """The offset behind the last batch: ``end <= size_bytes``."""
    has_batches: bool
    is_merged: bool
    """A compaction wrote it."""
    is_reused: bool
    """Its file held an older segment before."""


@frozen
class JournalStatistics:
    """Hold the figures of one journal."""

    identity: int
    reached: int
    """The last batch that is durable."""
    segments: tuple[SegmentStatistics, ...]
    """Oldest first, the current one last."""
    prepared: str | None
    """The name of the empty segment that comes next, None without one."""
    is_preparing: bool
    """The file of the next segment is being made."""
    has_background_work: bool
    """Work beside traffic is under way: a new file, a removal, or a compaction."""
    gathered_records: int
    """Parts of records in the batch that gathers."""
    live_messages: int
    queues_with_counts: int
    """Queues with messages whose delivery count is persisted."""
    unsettled_commit_sets: int
    """Commit sets whose transactions have not all ended."""
