"""Writing a salvaged copy of a damaged journal to another directory.

Responsible for turning what could be read into a clean journal, on which no broker starts before it is complete. Never
touches the damaged one.
"""

from __future__ import annotations

from attrs import frozen

from embedclient.model import Instant

from .._body_files import body_number
from .._disk import Disk, ListFiles, Read, Remove, Sync, SyncDirectory, WriteAt
from ..journal._journal import Journal
from ..journal._journal_state import JournalState
from ..journal._segments import UNFINISHED_COPY, holds_journal, segment_range
from ..journal._settings import JournalSettings
from ..recovery._recovered import RecoveredMessage, RecoveredTransaction
from ._inspection import find_refusal, repair_scan
from ._repair_scan import Finding

__all__ = ["RepairReport", "repair_journal"]

_MESSAGES_PER_BATCH = 1000
_COPIED_BYTES = 1024 * 1024


@frozen
class RepairReport:
    """The content of the copy, and the damage that was found."""

    messages: int
    queues: int
    prepared_transactions: int
    findings: tuple[Finding, ...]


def repair_journal(damaged: Disk, copy: Disk, settings: JournalSettings, now: Instant) -> RepairReport:
    """Write everything that can be read of a journal to ``copy``, which must hold no journal.

    The content of unreadable batches is missing: messages may be lost, acknowledged ones may be back. A transaction
    whose end cannot be read counts as rolled back unless it was prepared. ``settings.identity`` should be new.

    Raises:
        ValueError: there is a journal in ``copy``.
        DiskFault: reading or writing failed.
    """
    if holds_journal(copy):
        raise ValueError("the directory for the copy holds a journal already, or the beginning of one")
    salvaged = repair_scan(damaged)
    findings = salvaged.findings + _missing(damaged, {finding.file for finding in salvaged.findings})
    state = salvaged.replay.finish(())
    journal = Journal(settings)
    journal.open(now)
    _write(journal, copy, now)
    # A full disk or a kill must not leave a part of the journal that looks like all of it.
    mark = WriteAt(UNFINISHED_COPY, 0, (b"The repair that writes this copy has not finished.\n",))
    copy.run((mark, Sync(UNFINISHED_COPY), SyncDirectory()))
    journal.reserve_ids(salvaged.id_limit)
    for address in state.addresses:
        journal.add_address(address)
    for queue in state.queues:
        journal.add_queue(queue)
    for marker in state.fencing_tokens:
        journal.note(marker)
    messages = 0
    while portion := state.take_messages(_MESSAGES_PER_BATCH):
        for message in portion:
            _add(journal, message, 0, state.delayed)
        messages += len(portion)
        _write(journal, copy, now)
    while entries := state.take_duplicate_ids(_MESSAGES_PER_BATCH):
        for entry in entries:
            journal.add_duplicate_id(entry, 0)
        _write(journal, copy, now)
    for transaction in state.transactions:
        _add_prepared(journal, transaction)
    for outcome in state.outcomes:
        journal.add_outcome(outcome)
    for cursor in state.cursors:
        journal.note(cursor)
    for divert in state.diverts:
        journal.note(divert)
    for group in state.groups:
        journal.note(group)
    for changed in state.settings:
        journal.note(changed)
    _copy_bodies(damaged, copy)
    journal.close(now)
    _write(journal, copy, now)
    assert journal.state is JournalState.CLOSED
    copy.run((Remove(UNFINISHED_COPY), SyncDirectory()))
    return RepairReport(messages, len(state.queues), len(state.transactions), findings)


def _missing(damaged: Disk, known: set[str]) -> tuple[Finding, ...]:
    """Return findings for missing parts.

    Readable data does not show a missing part; the reason why a broker would not start does. That reason also names the
    end of a segment when the beginning of the next one is damaged, which is a finding already.
    """
    refusal = find_refusal(damaged)
    if refusal is None:
        return ()
    (names,) = damaged.run((ListFiles(),))
    assert isinstance(names, tuple)
    behind = min([name for name in names if segment_range(name) is not None and name > refusal.file], default="")
    if refusal.file in known or behind in known:
        return ()
    return (Finding(refusal.file, refusal.offset, refusal.text),)


def _copy_bodies(damaged: Disk, copy: Disk) -> None:
    """Copy the files of large bodies. A broker removes those that no message refers to."""
    (names,) = damaged.run((ListFiles(),))
    assert isinstance(names, tuple)
    for name in names:
        if body_number(name) is None:
            continue
        copy.run((WriteAt(name, 0, ()),))
        offset = 0
        while True:
            (data,) = damaged.run((Read(name, offset, _COPIED_BYTES),))
            assert isinstance(data, bytes)
            if not data:
                break
            copy.run((WriteAt(name, offset, (data,)),))
            offset += len(data)
        copy.run((Sync(name),))


def _add(journal: Journal, message: RecoveredMessage, transaction_id: int, delayed: dict[tuple[int, int], int]) -> None:
    journal.wall_ms = message.wall_ms
    references = [(queue_id, position) for queue_id, position, _count in message.references]
    journal.add_message(message, transaction_id, references)
    for queue_id, _position, count in message.references:
        due_ms = delayed.get((message.message_id, queue_id), 0)
        if count or due_ms:
            journal.update_delivery_count(message.message_id, queue_id, count, due_ms)


def _add_prepared(journal: Journal, transaction: RecoveredTransaction) -> None:
    while portion := transaction.take_adds(_MESSAGES_PER_BATCH):
        for message in portion:
            _add(journal, message, transaction.transaction_id, {})
    for message_id, queue_id in transaction.acknowledgements:
        journal.acknowledge(message_id, queue_id, transaction.transaction_id)
    for entry in transaction.duplicate_ids:
        journal.add_duplicate_id(entry, transaction.transaction_id)
    journal.prepare(transaction.transaction_id, transaction.xid)


def _write(journal: Journal, disk: Disk, now: Instant) -> None:
    while work := journal.take_work():
        for each in work:
            journal.on_disk_done(each.batch, disk.run(each.operations), now)
