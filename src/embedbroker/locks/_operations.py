"""The lock store of a broker: a few simple operations on named locks and one record, their results and failures.

Responsible for the operation values, the ``Locks`` seam with its rules, and the unit of work that a claim hands out. It
is to the right to be active what the disk is to the journal. Does not open files itself: ``embedbroker.runtime``
contains the driver over files, ``embedbroker.testing`` the simulated one. One conformance suite runs over all of them.

Rules of the seam:

- The brokers of one live and backup group share one store. Each opens a separate session in it, for one broker start.
- A lock has at most one session that holds it. Two sessions of one process are two holders.
- No operation waits for a lock: a broker that needs one repeats its request.
- A session that ends, in whatever way, has given everything back. The content of the record stays.
- Only the holder of the live lock writes the record, so no broker reads it half written and none overwrites another's.
  The record contains its writer: locks that do not reach every machine are given twice, and then the record shows it.
- A holder that is frozen keeps its locks. A store whose locks run out instead (leases) fits in like this: acquiring and
  verifying return how long the right lasts, counted from the moment when the work was handed out. The claim ends its
  broker when that is over, whether an answer has come or not.
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
    """The locks of a store. The values are names for files and log lines."""

    #: The right to be active: to open the journal and to serve.
    LIVE = "live"
    #: First in the queue of backups.
    BACKUP = "backup"
    #: A primary waits to be active again. It goes before every backup.
    FAILBACK = "failback"


class LiveState(Enum):
    """The state of the broker that was active last, as it wrote it itself."""

    #: No broker was active yet.
    NOT_STARTED = "not started"
    #: It is active, or died without another record: a backup takes over when the live lock is free.
    ACTIVE = "active"
    #: It gave way to a primary that waited.
    FAILING_BACK = "failing back"
    #: It was stopped, and no backup must take over.
    PAUSED = "paused"


@frozen
class StoreRecord:
    """The record of a store: the node that its brokers are one after the other.

    Args:
        state: The state of the broker that was active last.
        node_id: The node id; None as long as no broker was active.
        journal_identity: The journal of that node; None as long as no broker was active.
        copied: Set by the driver when what it read was not written here. Then another store with the same node id
            exists, or existed.
        life: The number of the broker start that wrote it, which no other start of any broker has.
        last_batch: A batch that the journal had on disk when this was written: a healthy one never ends before it.
            None: an earlier release wrote the record.
    """

    state: LiveState = LiveState.NOT_STARTED
    node_id: str | None = None
    journal_identity: int | None = None
    copied: bool = False
    life: int | None = None
    last_batch: int | None = None

    def may_follow(self, life: int | None) -> bool:
        """Return True if a broker that last saw ``life`` in the record may replace this one; a removed one always."""
        return self.life is None or self.life == life


@frozen
class Acquire:
    """Take ``lock`` if it is free. Result: whether this session holds it now, True also if it did before."""

    lock: Lock


@frozen
class Release:
    """Give ``lock`` back; one that is not held is no fault. Result: None."""

    lock: Lock


@frozen
class ReadHolder:
    """Result: a description of the holder of ``lock`` (this session, too), or None if it is free."""

    lock: Lock


@frozen
class Verify:
    """Result: whether this session surely still holds ``lock``, read anew from the store that all brokers use."""

    lock: Lock


@frozen
class ReadRecord:
    """Result: the StoreRecord; an empty store has one without a node id."""


@frozen
class WriteRecord:
    """Replace the record, so that it survives a power cut. Result: None.

    It is a fault not to hold the live lock, and to find the record of another start than ``over``.
    """

    record: StoreRecord
    over: int | None = None


LockOperation: TypeAlias = Acquire | Release | ReadHolder | Verify | ReadRecord | WriteRecord


NOT_HELD = "the live lock is not held: another broker may be live"
#: A store that serves every machine would not have given its lock twice.
NOT_ALONE = (
    "another broker was made live on the same store while this one had the live lock: do its locks reach every machine"
    " that shares it (an NFS mount with local_lock keeps them local)?"
)


class LockFault(Exception):
    """The store could not do an operation; the text names it and gives the operator the reason.

    ``passes``: it is short of something that comes back, such as descriptors, memory or space. What is held is held
    still, and the same operation may succeed a moment later.
    """

    def __init__(self, text: str, *, passes: bool = False) -> None:
        super().__init__(text)
        self.passes = passes


class LockSession(Protocol):
    """The session of one broker start in a store. Synchronous; the caller decides on which thread it runs."""

    #: Whether ``run`` never waits for a device, so that it may run where everything else waits for it.
    immediate: bool

    def run(self, operations: tuple[LockOperation, ...]) -> tuple[object, ...]:
        """Do the operations in order and return one result for each.

        Raises:
            LockFault: An operation failed; those after it did not happen.
        """

    def close(self) -> None:
        """Give everything back. Closing twice is no error."""


class Locks(Protocol):
    """A lock store."""

    def open(self, holder: str) -> LockSession:
        """Begin a session.

        Args:
            holder: The name of this broker for others, see `called`.

        Raises:
            LockFault: The store is not available.
        """


@frozen
class LockWork:
    """One ``LockSession.run`` to do, one at a time. ``batch`` names it in the answer."""

    batch: int
    operations: tuple[LockOperation, ...]
