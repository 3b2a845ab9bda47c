"""The journal: durable records on a disk, and what a disk is."""

from ._disk import (
    SECTOR_BYTES,
    Allocate,
    Disk,
    DiskFault,
    DiskOperation,
    DiskWork,
    FaultKind,
    Lane,
    ListFiles,
    Read,
    Remove,
    Rename,
    Stat,
    Sync,
    SyncDirectory,
    Truncate,
    WriteAt,
)
from ._journal import Journal, JournalState
from ._recovered import RecoveredMessage, RecoveredState, RecoveredTransaction
from ._settings import JournalSettings

__all__ = [
    "SECTOR_BYTES",
    "Allocate",
    "Disk",
    "DiskFault",
    "DiskOperation",
    "DiskWork",
    "FaultKind",
    "Journal",
    "JournalSettings",
    "JournalState",
    "Lane",
    "ListFiles",
    "Read",
    "RecoveredMessage",
    "RecoveredState",
    "RecoveredTransaction",
    "Remove",
    "Rename",
    "Stat",
    "Sync",
    "SyncDirectory",
    "Truncate",
    "WriteAt",
]
