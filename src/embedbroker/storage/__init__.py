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
from ._inspection import JournalReport, RecordRow, SegmentReport, inspect_journal, journal_rows
from ._journal import Journal, JournalState
from ._recovered import RecoveredMessage, RecoveredState, RecoveredTransaction
from ._repair import RepairReport, repair_journal
from ._salvage import Finding
from ._settings import JournalSettings

__all__ = [
    "SECTOR_BYTES",
    "Allocate",
    "Disk",
    "DiskFault",
    "DiskOperation",
    "DiskWork",
    "FaultKind",
    "Finding",
    "Journal",
    "JournalReport",
    "JournalSettings",
    "JournalState",
    "Lane",
    "ListFiles",
    "Read",
    "RecordRow",
    "RecoveredMessage",
    "RecoveredState",
    "RecoveredTransaction",
    "Remove",
    "Rename",
    "RepairReport",
    "SegmentReport",
    "Stat",
    "Sync",
    "SyncDirectory",
    "Truncate",
    "WriteAt",
    "inspect_journal",
    "journal_rows",
    "repair_journal",
]
