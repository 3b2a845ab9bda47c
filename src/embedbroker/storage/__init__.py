"""The journal: durable records on a disk, and what a disk is.

Its parts load when the first of their names is used: a broker without a directory needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._audit_codec import AUDIT_FIELDS, AuditRecordKind, audit_number
    from ._audit_log import AuditLog, AuditWork
    from ._audit_place import AuditPlace, look_at_audit_place
    from ._disk import (
        SECTOR_BYTES,
        Allocate,
        Digest,
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
        Zero,
        loop_latency_s,
    )
    from ._file_set import Holdings, belongs, copied_bytes, is_history, survey
    from ._inspection import JournalReport, RecordRow, SegmentReport, inspect_journal, journal_rows
    from ._journal import Journal
    from ._journal_state import JournalState
    from ._lane import StepLane
    from ._record_codec import (
        RecordKind,
        decode_address,
        decode_commit_set,
        decode_dropped,
        decode_outcome,
        decode_queue,
        decode_segment_start,
    )
    from ._record_stretches import (
        RECORD_FIELDS,
        RecordStretch,
        ReferenceFields,
        SegmentReading,
        read_header,
        read_records,
    )
    from ._recovered import RecoveredMessage, RecoveredState, RecoveredTransaction
    from ._repair import RepairReport, repair_journal
    from ._salvage import Finding
    from ._segments import UNFINISHED_COPY, SegmentHeader, holds_journal, segment_range
    from ._settings import JournalSettings
    from ._steps import Steps

__all__ = [
    "AUDIT_FIELDS",
    "RECORD_FIELDS",
    "SECTOR_BYTES",
    "UNFINISHED_COPY",
    "Allocate",
    "AuditLog",
    "AuditPlace",
    "AuditRecordKind",
    "AuditWork",
    "Digest",
    "Disk",
    "DiskFault",
    "DiskOperation",
    "DiskWork",
    "FaultKind",
    "Finding",
    "Holdings",
    "Journal",
    "JournalReport",
    "JournalSettings",
    "JournalState",
    "Lane",
    "ListFiles",
    "Read",
    "RecordKind",
    "RecordRow",
    "RecordStretch",
    "RecoveredMessage",
    "RecoveredState",
    "RecoveredTransaction",
    "ReferenceFields",
    "Remove",
    "Rename",
    "RepairReport",
    "SegmentHeader",
    "SegmentReading",
    "SegmentReport",
    "Stat",
    "StepLane",
    "Steps",
    "Sync",
    "SyncDirectory",
    "Truncate",
    "WriteAt",
    "Zero",
    "audit_number",
    "belongs",
    "copied_bytes",
    "decode_address",
    "decode_commit_set",
    "decode_dropped",
    "decode_outcome",
    "decode_queue",
    "decode_segment_start",
    "holds_journal",
    "inspect_journal",
    "is_history",
    "journal_rows",
    "look_at_audit_place",
    "loop_latency_s",
    "read_header",
    "read_records",
    "repair_journal",
    "segment_range",
    "survey",
]

_MODULES = {
    "_audit_codec": "AUDIT_FIELDS AuditRecordKind audit_number",
    "_audit_log": "AuditLog AuditWork",
    "_audit_place": "AuditPlace look_at_audit_place",
    "_disk": "SECTOR_BYTES Allocate Digest Disk DiskFault DiskOperation DiskWork FaultKind Lane ListFiles Read Remove "
    "Rename Stat Sync SyncDirectory Truncate WriteAt Zero loop_latency_s",
    "_inspection": "JournalReport RecordRow SegmentReport inspect_journal journal_rows",
    "_journal": "Journal",
    "_journal_state": "JournalState",
    "_record_codec": "RecordKind decode_address decode_commit_set decode_dropped decode_outcome decode_queue "
    "decode_segment_start",
    "_record_stretches": "RECORD_FIELDS RecordStretch ReferenceFields SegmentReading read_header read_records",
    "_recovered": "RecoveredMessage RecoveredState RecoveredTransaction",
    "_repair": "RepairReport repair_journal",
    "_salvage": "Finding",
    "_file_set": "Holdings belongs copied_bytes is_history survey",
    "_lane": "StepLane",
    "_segments": "UNFINISHED_COPY SegmentHeader holds_journal segment_range",
    "_settings": "JournalSettings",
    "_steps": "Steps",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value
