"""Reading a journal that no broker uses, and saving what can be saved of a damaged one.

Responsible for the verdict ("would a broker start on it?"), for rows that people can read, and for salvaged copies.
Never changes the journal that it reads: a salvaged copy goes to another directory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from attrs import asdict, define, evolve, frozen

from embedbroker.kernel import FencingToken, HeuristicOutcome, SettingsDefinition, name_of, xid_of
from embedclient.model import CONNECTOR_PARAMETERS, describe_url

from .._disk import Disk, DiskOperation, ListFiles, Read, Stat
from .._steps import Corruption, run_steps
from ..journal import _record_codec as codec
from ..journal._batch import BATCH_HEADER_BYTES, BatchExtent
from ..journal._record_codec import (
    ACKNOWLEDGE,
    ADD_MESSAGE,
    DURABLE,
    PREFIX,
    TRANSACTION,
    RecordKind,
)
from ..journal._segments import Segment
from ..journal._settings import JournalSettings
from ..recovery._recovered import RecoveredState
from ..recovery._recovery import recover
from ..recovery._replay import MalformedRecord, Replay
from ._repair_scan import Finding, RepairScan

__all__ = [
    "JournalReport",
    "RecordRow",
    "RepairableJournal",
    "SegmentReport",
    "inspect_journal",
    "journal_rows",
    "repair_scan",
]

_MESSAGES_PER_PORTION = 1000
# The node record that a broker keeps beside its journal, whatever its policy.
_NODE_RECORD = "node.state"
_NODE_RECORD_BYTES_MAX = 64 * 1024
_NUMBERS_SHOWN_MAX = 20


@frozen
class SegmentReport:
    """The report on one segment file. Numbers of batches are those of the journal, also for what compaction wrote."""

    file: str
    size_bytes: int
    used_bytes: int
    batches: int
    first_batch: int
    last_batch: int
    compacted: bool


@frozen
class JournalReport:
    """The journal as a starting broker would find it.

    ``refusal`` is the reason why it would not start; None if it would.
    """

    refusal: str | None
    # What it would report while it starts, such as a torn tail that it cuts.
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    segments: tuple[SegmentReport, ...]
    records: dict[str, int]
    sealed: bool
    # The messages that a broker would have after its start; None (unknown) where it would not start.
    messages: int | None
    queues: int | None
    prepared_transactions: int | None
    # The names of prepared branches, and of branches that were decided without their transaction managers.
    in_doubt: tuple[str, ...]
    decided: tuple[str, ...]
    duplicate_ids: int | None
    fencing_tokens: int | None

    @property
    def sound(self) -> bool:
        """True if the report contains no fault at all."""
        return self.refusal is None and not self.notes and not self.findings


@frozen
class RecordRow:
    """One record in a form that people can read."""

    file: str
    offset: int
    batch: int
    kind: str
    size_bytes: int
    text: str


@frozen
class RepairableJournal:
    """Everything that could be read of a journal, as one state, and the damage that was found."""

    replay: Replay
    findings: tuple[Finding, ...]
    id_limit: int


@define(eq=False)
class _ReadingDisk:
    """A disk on which recovery can be tried: its writes are left out."""

    disk: Disk

    def run(self, operations: tuple[DiskOperation, ...]) -> tuple[object, ...]:
        reading = (Read, ListFiles, Stat)
        return tuple([self.disk.run((each,))[0] if isinstance(each, reading) else None for each in operations])


def inspect_journal(disk: Disk) -> JournalReport:
    """Read the whole journal and report on it.

    Raises:
        DiskFault: a file cannot be read at all.
    """
    counts: dict[str, int] = {}

    def count(_segment: Segment, data: bytes, batch: BatchExtent) -> None:
        for _position, _size, kind in _records(data, batch):
            counts[_kind_name(kind)] = counts.get(_kind_name(kind), 0) + 1

    walk = RepairScan(count)
    run_steps(walk.run(), disk)
    refusal: str | None = None
    notes: tuple[str, ...] = ()
    messages: int | None = None
    queues: int | None = None
    prepared: int | None = None
    in_doubt: tuple[str, ...] = ()
    decided: tuple[str, ...] = ()
    duplicate_ids: int | None = None
    fencing_tokens: int | None = None
    state: RecoveredState | None = None
    try:
        recovery = run_steps(recover(JournalSettings()), _ReadingDisk(disk))
    except Corruption as corruption:
        refusal = str(corruption)
    else:
        state = recovery.state
        assert state is not None
        refusal = _missing_end(disk, state.identity, state.last_batch)
    if refusal is None and state is not None:
        notes, queues, prepared = state.notes, len(state.queues), len(state.transactions)
        in_doubt = tuple([_branch_name(transaction.xid) for transaction in state.transactions])
        decided = tuple([_describe_outcome(outcome) for outcome in state.outcomes])
        messages, fencing_tokens = 0, len(state.fencing_tokens)
        while portion := state.take_messages(_MESSAGES_PER_PORTION):
            messages += len(portion)
        duplicate_ids = 0
        while entries := state.take_duplicate_ids(_MESSAGES_PER_PORTION):
            duplicate_ids += len(entries)
    return JournalReport(
        refusal=refusal,
        notes=notes,
        findings=tuple(walk.findings),
        segments=tuple([_segment_report(segment, walk.batches) for segment in walk.segments]),
        records=counts,
        sealed=walk.sealed,
        messages=messages,
        queues=queues,
        prepared_transactions=prepared,
        in_doubt=in_doubt,
        decided=decided,
        duplicate_ids=duplicate_ids,
        fencing_tokens=fencing_tokens,
    )


def _missing_end(disk: Disk, identity: int, last_batch: int) -> str | None:
    """Return what the journal lacks according to the record beside it, None if nothing.

    Without a record there is nothing to compare with.
    """
    (names,) = disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    if _NODE_RECORD not in names:
        return None
    (text,) = disk.run((Read(_NODE_RECORD, 0, _NODE_RECORD_BYTES_MAX),))
    assert isinstance(text, bytes)
    lines = dict(line.split(": ", 1) for line in text.decode("utf-8", "replace").splitlines() if ": " in line)
    try:
        known, noted = int(lines["journal"], 16), int(lines["last batch"])
    except (KeyError, ValueError):
        return None  # none yet, or written by an earlier release
    if last_batch == 0:
        return f"there is no journal, but {_NODE_RECORD} beside it names one"
    if known != identity or last_batch >= noted:
        return None
    return (
        f"the journal ends with batch {last_batch}, but {_NODE_RECORD} beside it records that batch {noted} was on"
        " disk: its newest segments are missing, or it is an older copy"
    )


def journal_rows(disk: Disk) -> Iterator[RecordRow | Finding]:
    """Return all records that can be read, oldest first, with findings at their places. Reads while it is iterated."""
    pending: list[RecordRow | Finding] = []

    def collect(segment: Segment, data: bytes, batch: BatchExtent) -> None:
        base = batch.offset + BATCH_HEADER_BYTES - batch.start
        for position, size, kind in _records(data, batch):
            text = _describe(data, position, size, kind)
            pending.append(RecordRow(segment.name, base + position, batch.number, _kind_name(kind), size, text))

    walk = RepairScan(collect)
    steps, reported = walk.run(), 0
    results: tuple[object, ...] = ()
    at_end = False
    while not at_end:
        try:
            request = steps.send(results) if results else next(steps)
            assert isinstance(request, tuple)
            results = disk.run(request)
        except StopIteration:
            at_end = True
        pending += walk.findings[reported:]
        reported = len(walk.findings)
        yield from pending
        pending.clear()


def find_refusal(disk: Disk) -> Corruption | None:
    """Return why a broker would not start on this journal, None if it would. Nothing is written."""
    try:
        run_steps(recover(JournalSettings()), _ReadingDisk(disk))
    except Corruption as corruption:
        return corruption
    return None


def repair_scan(disk: Disk) -> RepairableJournal:
    """Apply everything that can be read, damaged or not, to one state.

    The content of unreadable batches is missing: a message may be lost, an acknowledged one may be back. A transaction
    whose end is unreadable counts as rolled back unless it was prepared.
    """
    replay = Replay()
    segments: list[Segment] = []
    malformed: list[Finding] = []

    def apply(segment: Segment, data: bytes, batch: BatchExtent) -> None:
        if not segments or segments[-1] is not segment:
            segments.append(segment)
        try:
            for _pause in replay.apply(data, batch.start, batch.end, segment, segments):
                pass
        except MalformedRecord as error:
            malformed.append(
                Finding(segment.name, batch.offset + BATCH_HEADER_BYTES + error.position - batch.start, str(error))
            )

    walk = RepairScan(apply)
    run_steps(walk.run(), disk)
    for _pause in replay.settle():
        pass
    highest = max([replay.id_limit, *_ids_in(replay)])
    return RepairableJournal(replay, (*walk.findings, *malformed), highest)


def _ids_in(replay: Replay) -> Iterator[int]:
    """Return one above every id and position that is known to be in use.

    The record that reserved them may be unreadable.
    """
    for message_id, stored in replay.messages.items():
        yield message_id + 1
        _, _, _, _, _, _, _, *tail = stored
        yield max(tail[1::2], default=0) + 1
    yield from (identifier + 1 for identifier in (*replay.queues, *replay.addresses))
    yield from (identifier + 1 for identifier in (*replay.transaction_ids, *replay.outcomes, *replay.fencing_tokens))
    yield from (identifier + 1 for identifier in (*replay.cursors, *replay.diverts, *replay.settings, *replay.groups))
    yield from (number + 1 for values in replay.duplicate_ids.values() for number in values)


def _segment_report(segment: Segment, batches: dict[str, int]) -> SegmentReport:
    return SegmentReport(
        segment.name,
        segment.size,
        segment.end,
        batches.get(segment.name, 0),
        segment.first_number,
        segment.last_number,
        segment.compacted,
    )


def _records(data: bytes, batch: BatchExtent) -> Iterator[tuple[int, int, int]]:
    """Return (position, size, kind) of each record of a batch; end at one that makes no sense."""
    position = batch.start
    while position + PREFIX.size <= batch.end:
        size, kind, _, _ = PREFIX.unpack_from(data, position)
        if size < PREFIX.size or position + size > batch.end:
            return
        yield position, size, kind
        position += size


def _kind_name(kind: int) -> str:
    return RecordKind(kind).name if kind in RecordKind._value2member_map_ else f"kind {kind}"


# Records that hold one number.
_OF_ONE_NUMBER = frozenset(
    (
        RecordKind.REMOVE_ADDRESS,
        RecordKind.REMOVE_QUEUE,
        RecordKind.REMOVE_MARKER,
        RecordKind.REMOVE_CURSOR,
        RecordKind.REMOVE_DIVERT,
        RecordKind.REMOVE_GROUP,
        RecordKind.REMOVE_SETTINGS,
        RecordKind.CLEAR_DUPLICATE_IDS,
        RecordKind.RESERVE_IDS,
        RecordKind.SEAL,
    )
)


def _describe(data: bytes, position: int, size: int, kind: int) -> str:
    match kind:
        case RecordKind.ADD_MESSAGE:
            return _describe_message(data, position)
        case RecordKind.ACKNOWLEDGE:
            *_, message_id, queue_id, transaction_id = ACKNOWLEDGE.unpack_from(data, position)
            return f"message {message_id} of queue {queue_id}{_in_transaction(transaction_id)}"
        case RecordKind.UPDATE_DELIVERY_COUNT:
            message_id, queue_id, count, due_ms = codec.decode_delivery_count(data, position, size)
            later = f", due at {due_ms}" if due_ms else ""
            return f"message {message_id} of queue {queue_id} delivered {count} times{later}"
        case RecordKind.DUPLICATE_ID:
            entry, transaction_id = codec.decode_duplicate_id(data, position, size)
            return (
                f"id {entry.number} of address {entry.address_id}: {entry.value.hex()}{_in_transaction(transaction_id)}"
            )
        case RecordKind.PREPARE | RecordKind.ROLLBACK:
            xid = data[position + TRANSACTION.size : position + size]
            branch = f", {_branch_name(xid)}" if kind == RecordKind.PREPARE else ""
            return f"transaction {TRANSACTION.unpack_from(data, position)[4]}{branch}"
        case RecordKind.HEURISTIC_OUTCOME:
            outcome = codec.decode_outcome(data, position, size)
            return f"transaction {outcome.transaction_id}, {_describe_outcome(outcome)}"
        case RecordKind.COMMIT:
            pairs = codec.decode_pairs(data, position + TRANSACTION.size, position + size)
            places = ", ".join([f"queue {queue_id} from {first}" for queue_id, first in pairs])
            return f"transaction {TRANSACTION.unpack_from(data, position)[4]}{': ' + places if places else ''}"
        case RecordKind.MARKER:
            return _describe_marker(codec.decode_marker(data, position, size))
        case RecordKind.COMMIT_SET:
            marker, transactions = codec.decode_commit_set(data, position, size)
            numbers = ", ".join(map(str, islice(transactions, _NUMBERS_SHOWN_MAX)))
            more = ", ..." if len(transactions) > _NUMBERS_SHOWN_MAX else ""
            return f"{_describe_marker(marker)}; {len(transactions)} transactions: {numbers}{more}"
        case RecordKind.FORGET_OUTCOME:
            return f"transaction {codec.IDENTIFIER.unpack_from(data, position)[4]}"
        case RecordKind.ADDRESS | RecordKind.QUEUE | RecordKind.CURSOR | RecordKind.DIVERT | RecordKind.GROUP:
            return data[position + PREFIX.size : position + size].decode(errors="replace")
        case RecordKind.SETTINGS:
            return _describe_settings(codec.decode_settings(data, position, size)[0])
        case RecordKind.SEGMENT_START:
            id_limit, extents = codec.decode_segment_start(data, position, size)
            files = ", ".join([f"{first}-{last} up to batch {number}" for first, last, number in extents])
            return f"ids below {id_limit} used; segments before: {files or 'none'}"
        case RecordKind.SEGMENTS_DROPPED:
            return ", ".join([f"{first}-{last}" for first, last in codec.decode_dropped(data, position, size)])
        case _ if kind in _OF_ONE_NUMBER:
            return str(codec.IDENTIFIER.unpack_from(data, position)[4])
        case _:
            return data[position + PREFIX.size : position + size].hex()


def _describe_message(data: bytes, position: int) -> str:
    fields = ADD_MESSAGE.unpack_from(data, position)
    _, _, flags, encoding, priority, message_id, transaction_id, expiration, _, _, _, count, raw_size = fields
    pairs = codec.decode_pairs(data, position + ADD_MESSAGE.size, position + ADD_MESSAGE.size + 16 * count)
    where = "ordinal" if transaction_id else "position"
    places = ", ".join([f"queue {queue_id} {where} {place}" for queue_id, place in pairs])
    durable = "durable" if flags & DURABLE else "not durable"
    expires = f", expires {expiration}" if expiration else ""
    return (
        f"message {message_id}, {raw_size} bytes in encoding {encoding}, {durable}, priority {priority}{expires}: "
        f"{places}{_in_transaction(transaction_id)}"
    )


def _describe_settings(definition: SettingsDefinition) -> str:
    """Return settings as JSON, without passwords of bridges and connectors."""
    values = dict(definition.values)
    if "password" in values:
        values["password"] = "****"
    if "url" in values:
        values["url"] = describe_url(values["url"], CONNECTOR_PARAMETERS)
    return json.dumps(asdict(evolve(definition, values=values)), ensure_ascii=False, separators=(",", ":"))


def _branch_name(xid: bytes) -> str:
    try:
        return name_of(xid_of(xid))
    except ValueError:
        return f"XA branch {xid.hex()}"


def _describe_outcome(outcome: HeuristicOutcome) -> str:
    return f"{name_of(outcome.xid)} {'committed' if outcome.committed else 'rolled back'} by an operator"


def _describe_marker(marker: FencingToken) -> str:
    return f"marker {marker.id} {marker.name!r} is {marker.value}"


def _in_transaction(transaction_id: int) -> str:
    return f" in transaction {transaction_id}" if transaction_id else ""
