"""The disk of a replicating broker: who of those that work on it is told what it did.

Responsible for the ways between the disk and the journal, the copy that is made of it or that it is, and the record
beside it. Refuses to decide anything: `Mandate` does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from embedbroker import storage
from embedbroker.replication import (
    NEW_NODE_RECORD_FILE,
    NODE_RECORD_FILE,
    DamagedRecord,
    Duplication,
    Replica,
    ReplicaRecord,
)

if TYPE_CHECKING:
    from embedclient.model import Instant

__all__ = ["Copies", "RecordKeeper"]

# Far below the numbers of the copy lane, and of no journal.
_FIRST_NUMBER = -(1 << 40)
_RECORD_BYTES_MAX = 4096


class RecordKeeper:
    """Reads the record once, and replaces it as often as it is told, in order. ``failure`` says that it cannot."""

    def __init__(self) -> None:
        self.record = ReplicaRecord()
        self.failure: str | None = None
        #: Whether a copy was begun beside it and is not whole.
        self.is_unfinished = False
        self._last = _FIRST_NUMBER
        self._under_way = 0
        self._on_done: Callable[[tuple[object, ...]], None] | None = None
        self._waiting: deque[tuple[tuple[storage.DiskOperation, ...], Callable[[tuple[object, ...]], None]]] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether everything that was told is written."""
        return not self._waiting and not self._under_way

    def read(self, then: Callable[[], None]) -> None:
        """Read what there is; ``then`` is called when `record` says it."""

        def look(results: tuple[object, ...]) -> None:
            (names,) = results
            assert isinstance(names, tuple)
            self.is_unfinished = storage.UNFINISHED_COPY in names
            if NODE_RECORD_FILE in names:
                self._waiting.append(((storage.Read(NODE_RECORD_FILE, 0, _RECORD_BYTES_MAX),), understand))
            else:
                then()

        def understand(results: tuple[object, ...]) -> None:
            (text,) = results
            assert isinstance(text, bytes)
            try:
                self.record = ReplicaRecord.read(text)
            except DamagedRecord as error:
                self.failure = str(error)
            else:
                then()

        self._waiting.append(((storage.ListFiles(),), look))

    def write(self, record: ReplicaRecord, then: Callable[[], None] | None = None) -> None:
        """Replace it; ``then`` is called when that survives a power cut."""
        self.record = record
        text = record.text()
        operations = (
            storage.WriteAt(NEW_NODE_RECORD_FILE, 0, (text,)),
            storage.Truncate(NEW_NODE_RECORD_FILE, len(text)),
            storage.Sync(NEW_NODE_RECORD_FILE),
            storage.Rename(NEW_NODE_RECORD_FILE, NODE_RECORD_FILE),
            storage.SyncDirectory(),
        )
        self._waiting.append((operations, lambda _results: then() if then is not None else None))

    def take_work(self) -> storage.DiskWork | None:
        """What the disk is to do."""
        if self._under_way or not self._waiting or self.failure is not None:
            return None
        operations, self._on_done = self._waiting.popleft()
        self._last -= 1
        self._under_way = self._last
        return storage.DiskWork(storage.Lane.RECORD, self._under_way, operations)

    def on_disk_done(self, batch: int, results: tuple[object, ...]) -> bool:
        """The disk did a piece of work; whether that was the record's."""
        if batch != self._under_way:
            return False
        done, self._on_done, self._under_way = self._on_done, None, 0
        assert done is not None
        done(results)
        return True

    def on_disk_failed(self, batch: int, fault: storage.DiskFault) -> bool:
        """The disk could not do a piece of work; whether that was the record's."""
        if batch != self._under_way:
            return False
        self._under_way = 0
        self.failure = f"cannot keep the record of this broker: {fault}"
        return True


class Copies:
    """Of one life. A broker has a ``replica`` while it is a backup, and a ``duplication`` from when it activates.

    ``on_change`` is called when the record was read or written, or something went wrong.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.keeper = RecordKeeper()
        self._on_change = on_change
        self.replica: Replica | None = None
        self.duplication: Duplication | None = None

    def take_work(self, journal: storage.Journal, now: Instant) -> list[storage.DiskWork]:
        """Everything that the disk is to do."""
        works: list[storage.DiskWork] = []
        record = self.keeper.take_work()
        if record is not None:
            works.append(record)
        if self.replica is not None:
            works += self.replica.take_work()
        duplication = self.duplication
        if duplication is not None:
            works += duplication.take_work(journal.take_work())
            # What counts as done at once lets the journal go on.
            while self.settle(journal, now):
                works += duplication.take_work(journal.take_work())
        return works

    def settle(self, journal: storage.Journal, now: Instant) -> bool:
        """Tell the journal what is done; False: nothing."""
        completed = self.duplication.take_completed() if self.duplication is not None else []
        for batch, results in completed:
            journal.on_disk_done(batch, results, now)
        return bool(completed)

    def on_disk_done(self, batch: int, results: tuple[object, ...]) -> None:
        """The disk did a piece of work."""
        if self.keeper.on_disk_done(batch, results):
            self._on_change()
            return
        if self.replica is not None:
            self.replica.on_disk_done(batch, results)
        elif self.duplication is not None:
            self.duplication.on_disk_done(batch, results)

    def on_disk_failed(self, batch: int, fault: storage.DiskFault) -> bool:
        """The disk could not do a piece of work; False when that was the journal's."""
        self._on_change()
        if self.keeper.on_disk_failed(batch, fault):
            return True
        if self.replica is not None:
            self.replica.on_disk_failed(batch, fault)
            return True
        return self.duplication is not None and self.duplication.on_disk_failed(batch, fault)
