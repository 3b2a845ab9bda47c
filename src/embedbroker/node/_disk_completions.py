"""Disk completions, on their way to the part that requested the work.

Responsible for holding completions back while it is not sure that this broker may still be live. Responsible, too, for
separating those of a replicating broker's copies, and of a voter's grants, from the journal's. Does not depend on their
consequences for the node.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from embedbroker import storage

from ._inputs import DiskDone, DiskFailed

if TYPE_CHECKING:
    from embedbroker.ha.replication import ReplicaDisk
    from embedbroker.storage import AtomicFile
    from embedclient.model import Instant

    from ._outputs import Output

__all__ = ["DiskCompletions"]


class DiskCompletions:
    """The disk completions of one node.

    Until ``sure_until`` they are valid: a process that was frozen may have lost its right.

    Completions that come later wait for `release`.
    """

    __slots__ = ("_journal", "_late", "_replica_disk", "grants", "sure_until")

    def __init__(
        self, journal: storage.Journal | None, replica_disk: ReplicaDisk | None, grants: AtomicFile | None
    ) -> None:
        self.sure_until = math.inf
        self._journal = journal
        self._replica_disk = replica_disk
        self.grants = grants
        if self._replica_disk is not None:
            self._replica_disk.grants = grants
        self._late: list[DiskDone | DiskFailed] = []

    def collect_grants(self, outputs: list[Output], now: Instant) -> None:
        """Collect the disk work of a voter, unless a replica disk takes it."""
        grants = self.grants
        if grants is not None and grants.waits and self._replica_disk is None and now.monotonic <= self.sure_until:
            work = grants.take_work(storage.Lane.RECORD)
            assert work is not None
            outputs.append(work)

    def on_done(self, done: DiskDone, now: Instant) -> bool:
        """Pass on a completion; return True if it went to the journal."""
        if now.monotonic > self.sure_until:
            self._late.append(done)
            return False
        if self._replica_disk is not None:
            self._replica_disk.on_disk_done(done.batch, done.results)
            return False
        if self.grants is not None and self.grants.on_disk_done(done.batch, done.results):
            return False
        assert self._journal is not None
        self._journal.on_disk_done(done.batch, done.results, now)
        return True

    def on_failed(self, failed: DiskFailed, now: Instant) -> bool:
        """Pass on a failure; return True if it went to the journal."""
        if now.monotonic > self.sure_until:
            self._late.append(failed)
            return False
        if self._replica_disk is not None and self._replica_disk.on_disk_failed(failed.batch, failed.fault):
            return False
        if self.grants is not None and self.grants.on_disk_failed(failed.batch, failed.fault):
            return False
        assert self._journal is not None
        self._journal.on_disk_failed(failed.batch, failed.fault, now)
        return True

    def release(self, now: Instant) -> bool:
        """Pass on the late completions, if they are valid again; return True if one went to the journal."""
        reached_journal = False
        while self._late and now.monotonic <= self.sure_until:
            late = self._late.pop(0)
            reached_journal |= self.on_done(late, now) if isinstance(late, DiskDone) else self.on_failed(late, now)
        return reached_journal

    def drop(self) -> None:
        """Drop the late completions; they are no longer needed."""
        self._late.clear()
        self.grants = None
