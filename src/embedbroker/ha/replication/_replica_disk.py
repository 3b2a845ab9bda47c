"""The disk of a replicating broker: who of those that work on it is told what it did.

Responsible for the ways between the disk and the journal, the copy that is made of it or that it is, and the record
beside it. Refuses to decide anything: `Mandate` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from embedbroker import storage
from embedbroker.replication import (
    Duplication,
    DuplicationState,
    Replica,
    ReplicaState,
)
from embedbroker.storage import SmallFile

from .._record_file import RecordKeeper

if TYPE_CHECKING:
    from embedclient.model import Instant

__all__ = ["Copies"]


class Copies:
    """Of one life. A broker has a ``replica`` while it is a backup, and a ``duplication`` from when it activates.

    ``on_change`` is called when the record was read or written, or something went wrong.
    """

    def __init__(self, journal: storage.Journal, on_change: Callable[[], None]) -> None:
        self.keeper = RecordKeeper()
        self._journal = journal
        self._point = 0
        self._on_change = on_change
        self.replica: Replica | None = None
        self.duplication: Duplication | None = None
        #: The file of a voter, which is copied as the journal is: who takes over has given the same words.
        self.words: SmallFile | None = None

    @property
    def are_steady(self) -> bool:
        """Whether traffic changes nothing of them but what is done, and nothing is to be remembered."""
        if self.keeper.file.waits or (self.words is not None and self.words.waits):
            return False
        if self.replica is not None:
            return self.replica.state is ReplicaState.IN_SYNC
        return self.duplication is not None and self.duplication.is_steady

    @property
    def are_in_sync(self) -> bool:
        """Whether this broker is a copy of another one, or has a copy, up to the last work."""
        if self.replica is not None:
            return self.replica.state is ReplicaState.IN_SYNC
        return self.duplication is not None and self.duplication.state is DuplicationState.SYNCHRONISED

    @property
    def has_late_work(self) -> bool:
        """Whether there is something behind the last `take_work`: what connections left that were given up since."""
        return self._journal.point() != self._point

    def next_deadline(self) -> float | None:
        """Until when a backup has to answer, if it owes anything: that may begin with any step."""
        return self.duplication.next_deadline() if self.duplication is not None else None

    def take_work(self, now: Instant) -> list[storage.DiskWork]:
        """Everything that the disk is to do."""
        works: list[storage.DiskWork] = []
        if self.keeper.file.waits:
            record = self.keeper.file.take_work(storage.Lane.RECORD)
            assert record is not None
            works.append(record)
        if self.replica is not None:
            works += self.replica.take_work()
        duplication = self.duplication
        if duplication is not None:
            if self.words is not None and self.words.waits:
                word = self.words.take_work(storage.Lane.BACKGROUND)
                assert word is not None
                duplication.do_beside(word)
            works += duplication.take_work(self._journal.take_work())
            # What counts as done at once lets the journal go on.
            while self.settle(now):
                works += duplication.take_work(self._journal.take_work())
        self._point = self._journal.point()
        return works

    def settle(self, now: Instant) -> bool:
        """Tell the journal what is done; False: nothing."""
        completed = self.duplication.take_completed() if self.duplication is not None else ()
        for batch, results in completed:
            if self.words is None or not self.words.on_disk_done(batch, results):
                self._journal.on_disk_done(batch, results, now)
        return bool(completed)

    def on_disk_done(self, batch: int, results: tuple[object, ...]) -> None:
        """The disk did a piece of work."""
        if self.keeper.file.on_disk_done(batch, results):
            self._on_change()
            return
        if self.replica is not None:
            self.replica.on_disk_done(batch, results)
        elif self.duplication is not None:
            self.duplication.on_disk_done(batch, results)

    def on_disk_failed(self, batch: int, fault: storage.DiskFault) -> bool:
        """The disk could not do a piece of work; False when that was the journal's."""
        self._on_change()
        if self.keeper.file.on_disk_failed(batch, fault):
            return True
        if self.replica is not None:
            self.replica.on_disk_failed(batch, fault)
            return True
        if self.duplication is not None and self.duplication.on_disk_failed(batch, fault):
            return True
        return self.words is not None and self.words.on_disk_failed(batch, fault)
