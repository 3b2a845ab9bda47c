"""Figures of both ends of a replication, for tests, tools and reports.

Does not depend on the objects it describes: the values are frozen, and cost nothing until they are requested.
"""

from __future__ import annotations

from attrs import frozen

from embedbroker.storage import DiskWork, Lane

__all__ = ["ReplicaStatistics", "ReplicatorStatistics"]


@frozen
class ReplicatorStatistics:
    """Hold the figures of the primary's end."""

    copy_begun: bool
    """A backup receives its copy, and was sent which files there are."""
    uncopied_files: int
    """Files of the copy that are not sent whole; 0 without a copy."""
    withheld: tuple[Lane, ...]
    """Lanes whose next work was not given to the disk yet."""
    waiting_for_backup: tuple[Lane, ...]
    """Lanes whose work is done here and counts as soon as the backup has done it, too."""
    sent: tuple[DiskWork, ...]
    """Work of the journal that the backup was sent, and that does not count as done yet."""


@frozen
class ReplicaStatistics:
    """Hold the figures of the backup's end."""

    copied_parts: int
    """Parts of the copy that are on disk."""
