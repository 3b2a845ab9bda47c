"""Who may be live: the lock store as a seam, the rules of a claim, and locks in memory."""

from ._claim import Claim, Note, Standing
from ._memory import MemoryLocks
from ._operations import (
    Acquire,
    Holder,
    LiveState,
    Lock,
    LockFault,
    LockOperation,
    Locks,
    LockSession,
    LockWork,
    NodeRecord,
    ReadRecord,
    Release,
    Verify,
    WriteRecord,
)

__all__ = [
    "Acquire",
    "Claim",
    "Holder",
    "LiveState",
    "Lock",
    "LockFault",
    "LockOperation",
    "LockSession",
    "LockWork",
    "Locks",
    "MemoryLocks",
    "NodeRecord",
    "Note",
    "ReadRecord",
    "Release",
    "Standing",
    "Verify",
    "WriteRecord",
]
