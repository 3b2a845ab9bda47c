"""The disk of a replicating broker, which distributes the results of disk work.

Responsible for the ways between the disk and its users: the journal, the copy of it or that it is, and the record
beside it. Does not decide anything: `ReplicationActivation` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from embedbroker import storage
from embedbroker.replication import (
    Replica,
    ReplicaState,
    Replicator,
    ReplicatorState,
)
from embedbroker.storage import AtomicFile

from .._record_file import RecordFile

if TYPE_CHECKING:
    from embedclient.model import Instant

__all__ = ["ReplicaDisk"]


class ReplicaDisk:
    """The disk of one broker start.

    A broker has a ``replica`` while it is a backup, and a ``replicator`` from when it activates. ``on_change`` is
    called when the record was read or written, or something went wrong.
    """

    def __init__(self, journal: storage.Journal, on_change: Callable[[], None]) -> None:
        self.record_file = RecordFile()
        self._journal = journal
        self._point = 0
        self._on_change = on_change
        self.replica: Replica | None = None
        self.replicator: Replicator | None = None
        #: The file of a voter, which is copied as the journal is: the broker that takes over has the same grants.
        self.grants: AtomicFile | None = None

    def set_now(self, now: Instant) -> None:
        """Set the time of what is sent to a backup."""
        if self.replicator is not None:
            self.replicator.now = now

    @property
    def is_steady(self) -> bool:
        """Return True if traffic changes nothing here but which work is done, and no record or grant waits to be
        written."""
        if self.record_file.file.waits or (self.grants is not None and self.grants.waits):
            return False
        if self.replica is not None:
            return self.replica.state is ReplicaState.IN_SYNC
        return self.replicator is not None and self.replicator.is_steady

    @property
    def is_in_sync(self) -> bool:
        """Return True if this broker is a copy of another one, or has a copy, up to the last work."""
        if self.replica is not None:
            return self.replica.state is ReplicaState.IN_SYNC
        return self.replicator is not None and self.replicator.state is ReplicatorState.SYNCHRONISED

    @property
    def activation_sequence(self) -> int:
        """Return the epoch of the record, which grows whenever a broker begins to confirm what no other copy has."""
        return self.record_file.record.epoch

    @property
    def has_late_work(self) -> bool:
        """Return True if there is work behind the last `take_work`, from connections that were given up since."""
        return self._journal.point() != self._point

    def next_deadline(self) -> float | None:
        """Return when an answer of the backup is overdue, in monotonic seconds; None if none is due. Any step may
        change that."""
        return self.replicator.next_deadline() if self.replicator is not None else None

    def take_work(self, now: Instant) -> list[storage.DiskWork]:
        """Return all work for the disk."""
        works: list[storage.DiskWork] = []
        if self.record_file.file.waits:
            record = self.record_file.file.take_work(storage.Lane.RECORD)
            assert record is not None
            works.append(record)
        if self.replica is not None:
            works += self.replica.take_work()
        replicator = self.replicator
        if replicator is not None:
            if self.grants is not None and self.grants.waits:
                grant = self.grants.take_work(storage.Lane.BACKGROUND)
                assert grant is not None
                replicator.do_beside(grant)
            works += replicator.take_work(self._journal.take_work())
            # Work that counts as done at once lets the journal go on.
            while self.settle(now):
                works += replicator.take_work(self._journal.take_work())
        self._point = self._journal.point()
        return works

    def settle(self, now: Instant) -> bool:
        """Pass completed work to the journal; return False if there was none."""
        completed = self.replicator.take_completed() if self.replicator is not None else ()
        for batch, results in completed:
            if self.grants is None or not self.grants.on_disk_done(batch, results):
                self._journal.on_disk_done(batch, results, now)
        return bool(completed)

    def on_disk_done(self, batch: int, results: tuple[object, ...]) -> None:
        """Pass the results of a piece of work on."""
        if self.record_file.file.on_disk_done(batch, results):
            self._on_change()
            return
        if self.replica is not None:
            self.replica.on_disk_done(batch, results)
        elif self.replicator is not None:
            self.replicator.on_disk_done(batch, results)

    def on_disk_failed(self, batch: int, fault: storage.DiskFault) -> bool:
        """Pass a failure of the disk on; return False if the work was the journal's."""
        self._on_change()
        if self.record_file.file.on_disk_failed(batch, fault):
            return True
        if self.replica is not None:
            self.replica.on_disk_failed(batch, fault)
            return True
        if self.replicator is not None and self.replicator.on_disk_failed(batch, fault):
            return True
        return self.grants is not None and self.grants.on_disk_failed(batch, fault)
