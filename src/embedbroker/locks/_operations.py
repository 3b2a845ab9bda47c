"""What a lock store is to a broker: a few dumb operations on named locks and one record, their results and failures.

Responsible for the operation values, the ``Locks`` seam with its rules, and the unit of work that a claim hands out. It
is to the right to be live what the disk is to the journal. Refuses to open files itself: the driver over files lives in
``embedbroker.runtime``, the simulated one in ``embedbroker.testing``; one conformance suite runs over all of them.

Rules of the seam:
- The brokers of one live and backup group share one store. Each opens a session of its own in it, for one life.
- A lock has at most one session that holds it. Two sessions of one process are two holders.
- No operation waits for a lock: who wants one asks again.
- A session that ends, in whatever way, has given everything back. What the record says stays.
- Only the holder of the live lock writes the record, so nobody reads it half written and nobody overwrites another's.
  The record says whose it is: locks that do not reach every machine are given twice, and then the record tells it.
- A holder that is frozen keeps its locks. A store whose locks run out instead (leases) fits in like this: acquiring and
  verifying answer how long the right lasts, counted from the moment when the work was handed out, and the claim ends
  its broker when that is over, whether an answer has come or not.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol, TypeAlias

from attrs import frozen

__all__ = [
    "NOT_ALONE",
    "NOT_HELD",
    "Acquire",
    "LiveState",
    "Lock",
    "LockFault",
    "LockOperation",
    "LockSession",
    "LockWork",
    "Locks",
    "ReadHolder",
    "ReadRecord",
    "Release",
    "StoreRecord",
    "Verify",
    "WriteRecord",
]


class Lock(Enum):
    """What can be held. The values are names for files and log lines."""

    #: The right to be live: to open the journal and to serve.
    LIVE = "live"
    #: First in the queue of backups.
    BACKUP = "backup"
    #: A primary waits to be live again. It goes before every backup.
    FAILBACK = "failback"


class LiveState(Enum):
    """How the last broker that was live is doing, as it said itself."""

    #: There was none.
    NOT_STARTED = "not started"
    #: It is live, or died without saying so: a backup takes over when the live lock is free.
    ACTIVE = "active"
    #: It gave way to a primary that waited.
    FAILING_BACK = "failing back"
    #: It was stopped, and nobody is to take over.
    PAUSED = "paused"


@frozen
class StoreRecord:
    """What a store remembers of the node that its brokers are one after the other.

    ``node_id`` and ``journal_identity`` are None as long as no broker was live. ``copied`` is said by the driver when
    what it read was not written here: then another store with the same node id exists, or existed. ``life`` is the
    number of the life that wrote it, which no other life of any broker has. ``last_batch`` is a batch that the journal
    had on disk when this was written: a healthy one never ends before it. None: an earlier release wrote the record.
    """

    state: LiveState = LiveState.NOT_STARTED
    node_id: str | None = None
    journal_identity: int | None = None
    copied: bool = False
    life: int | None = None
    last_batch: int | None = None

    def may_follow(self, life: int | None) -> bool:
        """Whether who last knew the record as that of ``life`` may replace this one; a removed one always."""
        return self.life is None or self.life == life


@frozen
class Acquire:
    """Take ``lock`` if nobody has it. Result: whether this session holds it now, True also if it did before."""

    lock: Lock


@frozen
class Release:
    """Give ``lock`` back; one that is not held is no fault. Result: None."""

    lock: Lock


@frozen
class ReadHolder:
    """Result: a description of who holds ``lock`` (this session, too), or None when nobody does."""

    lock: Lock


@frozen
class Verify:
    """Result: whether this session surely still holds ``lock``, asked anew of the store that everybody else asks."""

    lock: Lock


@frozen
class ReadRecord:
    """Result: the StoreRecord; an empty store has one without a node id."""


@frozen
class WriteRecord:
    """Replace the record, so that it survives a power cut. Result: None.

    It is a fault not to hold the live lock, and to find the record of another life than ``over``.
    """

    record: StoreRecord
    over: int | None = None


LockOperation: TypeAlias = Acquire | Release | ReadHolder | Verify | ReadRecord | WriteRecord


NOT_HELD = "the live lock is not held: another broker may be live"
#: A store that would be asked by every machine would not have given its lock twice.
NOT_ALONE = (
    "another broker was made live on the same store while this one had the live lock: do its locks reach every machine"
    " that shares it (an NFS mount with local_lock keeps them local)?"
)


class LockFault(Exception):
    """The store could not do an operation; the text names it and tells the operator why.

    ``passes``: it is short of something that comes back, such as descriptors, memory or space. What is held is held
    still, and the same operation may succeed a moment later.
    """

    def __init__(self, text: str, *, passes: bool = False) -> None:
        super().__init__(text)
        self.passes = passes


class LockSession(Protocol):
    """The part of one broker's life in a store. Synchronous; the caller decides on which thread it runs."""

    #: Whether ``run`` never waits for a device, so that it may run where everything else waits for it.
    immediate: bool

    def run(self, operations: tuple[LockOperation, ...]) -> tuple[object, ...]:
        """Do the operations in order and return one result for each.

        Raises:
            LockFault: an operation failed; those after it did not happen.
        """

    def close(self) -> None:
        """Give everything back. Closing twice is no error."""


class Locks(Protocol):
    """A lock store."""

    def open(self, holder: str) -> LockSession:
        """Begin a session; ``holder`` is who to name to others, see `called`.

        Raises:
            LockFault: the store is not to be had.
        """


@frozen
class LockWork:
    """One ``LockSession.run`` to do, one at a time. ``batch`` names it in the answer."""

    batch: int
    operations: tuple[LockOperation, ...]
