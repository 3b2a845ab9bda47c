"""The journal: durable records on a disk, and the definition of a disk.

Its parts load when the first of their names is used: a broker without a directory needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

if TYPE_CHECKING:
    from ._atomic_file import AtomicFile, AtomicFileOwner
    from ._body_files import BODY_SUFFIX, BodyFiles, body_file, body_number
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
        ReadChecked,
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
    from ._lane import StepLane
    from ._steps import Steps
    from .audit._codec import AUDIT_FIELDS, AuditRecordKind, audit_number
    from .audit._directory import AuditDirectory, scan_audit_directory
    from .audit._log import AuditLog, AuditWork
    from .inspect._inspection import JournalReport, RecordRow, SegmentReport, inspect_journal, journal_rows
    from .inspect._repair import RepairReport, repair_journal
    from .inspect._repair_scan import Finding
    from .inspect._segment_scan import (
        RECORD_FIELDS,
        RecordArrays,
        ReferenceFields,
        SegmentScan,
        read_header,
        read_records,
    )
    from .journal._file_set import FileInventory, belongs, copied_bytes, is_history, take_inventory
    from .journal._journal import Journal
    from .journal._journal_state import JournalState
    from .journal._record_codec import (
        RecordKind,
        decode_address,
        decode_commit_set,
        decode_dropped,
        decode_outcome,
        decode_queue,
        decode_segment_start,
    )
    from .journal._segments import UNFINISHED_COPY, SegmentHeader, holds_journal, segment_range
    from .journal._settings import JournalSettings
    from .journal._statistics import JournalStatistics, SegmentStatistics
    from .recovery._recovered import RecoveredMessage, RecoveredState, RecoveredTransaction

__all__ = [
    "AUDIT_FIELDS",
    "BODY_SUFFIX",
    "RECORD_FIELDS",
    "SECTOR_BYTES",
    "UNFINISHED_COPY",
    "Allocate",
    "AtomicFile",
    "AtomicFileOwner",
    "AuditDirectory",
    "AuditLog",
    "AuditRecordKind",
    "AuditWork",
    "BodyFiles",
    "Digest",
    "Disk",
    "DiskFault",
    "DiskOperation",
    "DiskWork",
    "FaultKind",
    "FileInventory",
    "Finding",
    "Journal",
    "JournalReport",
    "JournalSettings",
    "JournalState",
    "JournalStatistics",
    "Lane",
    "ListFiles",
    "Read",
    "ReadChecked",
    "RecordArrays",
    "RecordKind",
    "RecordRow",
    "RecoveredMessage",
    "RecoveredState",
    "RecoveredTransaction",
    "ReferenceFields",
    "Remove",
    "Rename",
    "RepairReport",
    "SegmentHeader",
    "SegmentReport",
    "SegmentScan",
    "SegmentStatistics",
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
    "body_file",
    "body_number",
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
    "loop_latency_s",
    "read_header",
    "read_records",
    "repair_journal",
    "scan_audit_directory",
    "segment_range",
    "take_inventory",
]

__getattr__ = lazy_names(
    __name__,
    {
        "._atomic_file": "AtomicFile AtomicFileOwner",
        "._body_files": "BODY_SUFFIX BodyFiles body_file body_number",
        ".audit._codec": "AUDIT_FIELDS AuditRecordKind audit_number",
        ".audit._log": "AuditLog AuditWork",
        ".audit._directory": "AuditDirectory scan_audit_directory",
        "._disk": (
            "SECTOR_BYTES Allocate Digest Disk DiskFault DiskOperation DiskWork FaultKind Lane ListFiles Read "
            "ReadChecked Remove Rename Stat Sync SyncDirectory Truncate WriteAt Zero loop_latency_s"
        ),
        ".inspect._inspection": "JournalReport RecordRow SegmentReport inspect_journal journal_rows",
        ".journal._journal": "Journal",
        ".journal._journal_state": "JournalState",
        ".journal._record_codec": (
            "RecordKind decode_address decode_commit_set decode_dropped decode_outcome decode_queue "
            "decode_segment_start"
        ),
        ".inspect._segment_scan": "RECORD_FIELDS RecordArrays ReferenceFields SegmentScan read_header read_records",
        ".recovery._recovered": "RecoveredMessage RecoveredState RecoveredTransaction",
        ".inspect._repair": "RepairReport repair_journal",
        ".inspect._repair_scan": "Finding",
        ".journal._file_set": "FileInventory belongs copied_bytes is_history take_inventory",
        "._lane": "StepLane",
        ".journal._segments": "UNFINISHED_COPY SegmentHeader holds_journal segment_range",
        ".journal._settings": "JournalSettings",
        ".journal._statistics": "JournalStatistics SegmentStatistics",
        "._steps": "Steps",
    },
)
