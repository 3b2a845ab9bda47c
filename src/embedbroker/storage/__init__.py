"""The journal: durable records on a disk, and what a disk is.

Its parts load when the first of their names is used: a broker without a directory needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from ._record_codec import RecordKind
    from ._recovered import RecoveredMessage, RecoveredState, RecoveredTransaction
    from ._repair import RepairReport, repair_journal
    from ._salvage import Finding
    from ._segments import holds_journal
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
    "RecordKind",
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
    "holds_journal",
    "inspect_journal",
    "journal_rows",
    "repair_journal",
]

_MODULES = {
    "_disk": "SECTOR_BYTES Allocate Disk DiskFault DiskOperation DiskWork FaultKind Lane ListFiles Read Remove Rename "
    "Stat Sync SyncDirectory Truncate WriteAt",
    "_inspection": "JournalReport RecordRow SegmentReport inspect_journal journal_rows",
    "_journal": "Journal JournalState",
    "_record_codec": "RecordKind",
    "_recovered": "RecoveredMessage RecoveredState RecoveredTransaction",
    "_repair": "RepairReport repair_journal",
    "_salvage": "Finding",
    "_segments": "holds_journal",
    "_settings": "JournalSettings",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value
