"""The bytes of journal records: layouts, kinds, and encoders for rare kinds.

Responsible for the record format, version 1. Does not depend on the combined meaning of records (replay) or on their
place (batches, segments).

All numbers are little-endian. Every record starts with the same eight bytes, so that a reader can step over kinds it
does not know::

    size u32 (of the whole record) | kind u8 | flags u8 | two bytes that depend on the kind

ADD_MESSAGE, hot, every field at a fixed offset::

     0  size u32 | kind u8 | flags u8 | encoding u8 | priority u8
     8  message id i64
    16  transaction id i64             0: none
    24  expiration i64                 Unix ms, 0: never
    32  timestamp i64                  Unix ms, the sender's
    40  wall time i64                  Unix ms, the broker's when it took the message
    48  deliver at i64                 Unix ms, 0: at once
    56  reference count u32 | raw size u32
    64  per reference: queue id i64 | position i64
        stored bytes of the message, in the encoding that the tag names

In a transaction the position of a reference is an ordinal. It grows from each of the transaction's messages to the
next one for the same queue. COMMIT contains the first position of each queue, and the sum is the message's position. A
record of a transaction thus keeps its position when compaction drops its neighbours. There are gaps: the kernel gives
ordinals to messages that are not recorded, too, so that positions are the same after a restart.

DUPLICATE_ID: an id with which no second message may come to an address. It ends when it is one of the oldest there or
the address is removed, or when CLEAR_DUPLICATE_IDS ends all that are in force at the address. It has a number from the
counter of message ids. Outside a transaction it stands in the batch of its message::

     0  size u32 | kind u8 | flags u8 | two bytes, 0
     8  number i64 | address id i64 | transaction id i64
    32  the id

COMMIT_SET: transactions that were committed together, and the value that a marker got with that. The position of a
message is the first of all, plus the offset of its queue in its transaction, plus its ordinal::

     0  size u32 | kind u8 | flags u8 | two bytes, 0
     8  marker id i64 | marker value i64 | first position of all i64 | transaction count u32 | name size u32
    40  the marker's name, UTF-8
        per transaction: its id i64 | queue count i64 | per queue: queue id i64, offset i64

UPDATE_DELIVERY_COUNT may end with the time of a redelivery that is delayed; without it, the message is delivered at
once. Programs without delays read the count alone.

A kind may be added without a new format version. If the flag SKIPPABLE is set, a reader that does not support the kind
steps over the record, and compaction keeps it. Otherwise the reader refuses the journal, because leaving the record out
would change what the broker promised. Replication ships records in the batches they were written in. Large messages and
pages stay in separate files, with records that refer to them (flag LARGE is reserved for that).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from operator import attrgetter
from struct import Struct, pack, unpack_from
from typing import Final, TypeAlias, assert_never

from attrs import Attribute, asdict, fields

from embedbroker.kernel import (
    AddressDefinition,
    CommitSet,
    CursorDefinition,
    CursorRemoved,
    DivertDefinition,
    DivertRemoved,
    DuplicateId,
    Fact,
    FencingToken,
    FencingTokenRemoved,
    GroupDecision,
    GroupDecisionRemoved,
    HeuristicOutcome,
    QueueDefinition,
    SettingsDefinition,
    SettingsRemoved,
    xid_bytes,
    xid_of,
)

__all__ = [
    "ACKNOWLEDGE",
    "ADD_MESSAGE",
    "ADD_ONE",
    "DELAYED_DELIVERY_COUNT",
    "DUPLICATE_ID",
    "DURABLE",
    "GROUPED",
    "LARGE",
    "PAIR",
    "PREFIX",
    "SKIPPABLE",
    "TRANSACTION",
    "UPDATE_DELIVERY_COUNT",
    "RecordKind",
    "decode_address",
    "decode_commit_set",
    "decode_cursor",
    "decode_delivery_count",
    "decode_divert",
    "decode_dropped",
    "decode_duplicate_id",
    "decode_group",
    "decode_marker",
    "decode_outcome",
    "decode_pairs",
    "decode_queue",
    "decode_segment_start",
    "decode_settings",
    "encode_commit",
    "encode_definition",
    "encode_dropped",
    "encode_duplicate_id",
    "encode_fact",
    "encode_id",
    "encode_outcome",
    "encode_prepare",
    "encode_rollback",
    "encode_segment_start",
]


class RecordKind(IntEnum):
    """Stored numbers: never reuse one."""

    ADD_MESSAGE = 1
    ACKNOWLEDGE = 2
    UPDATE_DELIVERY_COUNT = 3
    PREPARE = 4
    COMMIT = 5
    ROLLBACK = 6
    ADDRESS = 7
    REMOVE_ADDRESS = 8
    QUEUE = 9
    REMOVE_QUEUE = 10
    RESERVE_IDS = 11
    # The journal's own bookkeeping.
    SEGMENT_START = 12
    SEGMENTS_DROPPED = 13
    SEAL = 14
    # Broker state again.
    DUPLICATE_ID = 15
    HEURISTIC_OUTCOME = 16
    FORGET_OUTCOME = 17
    MARKER = 18
    REMOVE_MARKER = 19
    COMMIT_SET = 20
    CURSOR = 21
    REMOVE_CURSOR = 22
    DIVERT = 23
    REMOVE_DIVERT = 24
    SETTINGS = 25
    REMOVE_SETTINGS = 26
    CLEAR_DUPLICATE_IDS = 27
    GROUP = 28
    REMOVE_GROUP = 29


Definition: TypeAlias = (
    AddressDefinition | QueueDefinition | CursorDefinition | DivertDefinition | SettingsDefinition | GroupDecision
)

_KINDS = {
    AddressDefinition: RecordKind.ADDRESS,
    QueueDefinition: RecordKind.QUEUE,
    CursorDefinition: RecordKind.CURSOR,
    DivertDefinition: RecordKind.DIVERT,
    SettingsDefinition: RecordKind.SETTINGS,
    GroupDecision: RecordKind.GROUP,
}

# The definitions whose fields are plain values.
_FLAT: Final[dict[type, tuple[Sequence[Attribute[object]], Callable[[object], tuple[object, ...]]]]] = {
    each: (fields(each), attrgetter(*(attribute.name for attribute in fields(each))))
    for each in (AddressDefinition, QueueDefinition)
}
_TO_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# Fields of definitions that are left out at their default: records without them are those of earlier versions.
_LATER_FIELDS = {"group_rebalance_pause_dispatch", "enabled", "configuration_managed", "internal"}

SKIPPABLE = 0x80
DURABLE = 0x01
LARGE = 0x02
GROUPED = 0x04  # ADD_MESSAGE: the message may have a group

PREFIX = Struct("<IBBH")
ADD_MESSAGE = Struct("<IBBBBqqqqqqII")
ADD_ONE = Struct("<IBBBBqqqqqqIIqq")  # with the one reference that most messages have
PAIR = Struct("<qq")
ACKNOWLEDGE = Struct("<IBBHqqq")  # message id, queue id, transaction id
UPDATE_DELIVERY_COUNT = Struct("<IBBHqqI")  # message id, queue id, count
DELAYED_DELIVERY_COUNT = Struct("<IBBHqqIq")  # the same kind, with the wall time in Unix ms at which it is due
DUPLICATE_ID = Struct("<IBBHqqq")  # number, address id, transaction id; the id follows
TRANSACTION = Struct("<IBBHq")  # PREPARE (xid bytes follow), COMMIT (pairs follow), ROLLBACK: transaction id
OUTCOME = Struct("<IBBHqB")  # transaction id, whether it was committed; xid bytes follow
MARKER = Struct("<IBBHqq")  # id, value; the name follows, UTF-8
COMMIT_SET = Struct("<IBBHqqqII")  # see above
# REMOVE_ADDRESS, REMOVE_QUEUE, REMOVE_MARKER, REMOVE_CURSOR, REMOVE_DIVERT, REMOVE_SETTINGS, REMOVE_GROUP:
# id
# CLEAR_DUPLICATE_IDS: address id
# FORGET_OUTCOME: transaction id; RESERVE_IDS: limit; SEAL: Unix ms
IDENTIFIER = Struct("<IBBHq")
SEGMENT_START = Struct("<IBBHq")  # id limit; extents follow
EXTENT = Struct("<QQQ")  # first generation, last generation, last batch number of a segment file


def decode_delivery_count(data: bytes, start: int, size: int) -> tuple[int, int, int, int]:
    """Return message id, queue id, count, and the Unix milliseconds at which it is due, 0 for at once."""
    if size >= DELAYED_DELIVERY_COUNT.size:
        *_, message_id, queue_id, count, due_ms = DELAYED_DELIVERY_COUNT.unpack_from(data, start)
        return message_id, queue_id, count, due_ms
    *_, message_id, queue_id, count = UPDATE_DELIVERY_COUNT.unpack_from(data, start)
    return message_id, queue_id, count, 0


def encode_duplicate_id(entry: DuplicateId, transaction_id: int) -> bytes:
    """Encode DUPLICATE_ID: number, address and transaction, then the id."""
    size = DUPLICATE_ID.size + len(entry.value)
    kind = RecordKind.DUPLICATE_ID
    return DUPLICATE_ID.pack(size, kind, 0, 0, entry.number, entry.address_id, transaction_id) + entry.value


def decode_duplicate_id(data: bytes, start: int, size: int) -> tuple[DuplicateId, int]:
    """Return the entry in a DUPLICATE_ID record, and its transaction. Raises ValueError."""
    if size < DUPLICATE_ID.size:
        raise ValueError("a duplicate id cut short")
    _, _, _, _, number, address_id, transaction_id = DUPLICATE_ID.unpack_from(data, start)
    return DuplicateId(number, address_id, data[start + DUPLICATE_ID.size : start + size]), transaction_id


def encode_prepare(transaction_id: int, xid: bytes) -> bytes:
    """Encode PREPARE: the transaction id, then the bytes of the XA branch id."""
    return TRANSACTION.pack(TRANSACTION.size + len(xid), RecordKind.PREPARE, 0, 0, transaction_id) + xid


def encode_commit(transaction_id: int, positions: Sequence[tuple[int, int]]) -> bytes:
    """Encode COMMIT: the transaction id, then (queue id, first position) pairs."""
    pairs = b"".join([PAIR.pack(queue_id, position) for queue_id, position in positions])
    return TRANSACTION.pack(TRANSACTION.size + len(pairs), RecordKind.COMMIT, 0, 0, transaction_id) + pairs


def encode_rollback(transaction_id: int) -> bytes:
    """Encode ROLLBACK: the transaction id."""
    return TRANSACTION.pack(TRANSACTION.size, RecordKind.ROLLBACK, 0, 0, transaction_id)


def encode_outcome(outcome: HeuristicOutcome) -> bytes:
    """Encode HEURISTIC_OUTCOME: the transaction id, the decision, then the bytes of the XA branch id."""
    xid = xid_bytes(outcome.xid)
    size, kind = OUTCOME.size + len(xid), RecordKind.HEURISTIC_OUTCOME
    return OUTCOME.pack(size, kind, 0, 0, outcome.transaction_id, outcome.committed) + xid


def decode_outcome(data: bytes, start: int, size: int) -> HeuristicOutcome:
    """Return the decision in a HEURISTIC_OUTCOME record. Raises ValueError."""
    if size < OUTCOME.size:
        raise ValueError("a decision cut short")
    *_, transaction_id, committed = OUTCOME.unpack_from(data, start)
    return HeuristicOutcome(transaction_id, xid_of(data[start + OUTCOME.size : start + size]), bool(committed))


def encode_fact(fact: Fact) -> bytes:
    """Encode the argument of `Store.note`."""
    match fact:
        case FencingToken():
            name = fact.name.encode()
            return MARKER.pack(MARKER.size + len(name), RecordKind.MARKER, 0, 0, fact.id, fact.value) + name
        case FencingTokenRemoved():
            return encode_id(RecordKind.REMOVE_MARKER, fact.id)
        case CommitSet():
            return _encode_commit_set(fact)
        case CursorDefinition() | DivertDefinition() | SettingsDefinition() | GroupDecision():
            return encode_definition(fact)
        case CursorRemoved():
            return encode_id(RecordKind.REMOVE_CURSOR, fact.id)
        case DivertRemoved():
            return encode_id(RecordKind.REMOVE_DIVERT, fact.id)
        case SettingsRemoved():
            return encode_id(RecordKind.REMOVE_SETTINGS, fact.id)
        case GroupDecisionRemoved():
            return encode_id(RecordKind.REMOVE_GROUP, fact.id)
        case _:
            assert_never(fact)


def _encode_commit_set(commit_set: CommitSet) -> bytes:
    marker, count = commit_set.marker, len(commit_set.transaction_ids)
    name = marker.name.encode()
    places = pack(f"<{len(commit_set.places)}q", *commit_set.places)
    size = COMMIT_SET.size + len(name) + len(places)
    numbers = (marker.id, marker.value, commit_set.first_position, count, len(name))
    return COMMIT_SET.pack(size, RecordKind.COMMIT_SET, 0, 0, *numbers) + name + places


def decode_marker(data: bytes, start: int, size: int) -> FencingToken:
    """Return the marker in a MARKER record. Raises ValueError."""
    if size < MARKER.size:
        raise ValueError("a marker cut short")
    *_, identifier, value = MARKER.unpack_from(data, start)
    return FencingToken(identifier, data[start + MARKER.size : start + size].decode(), value)


def decode_commit_set(data: bytes, start: int, size: int) -> tuple[FencingToken, dict[int, dict[int, int]]]:
    """Return the marker in a COMMIT_SET record, and where each transaction begins in each queue. Raises ValueError."""
    if size < COMMIT_SET.size:
        raise ValueError("a commit set cut short")
    *_, marker_id, value, first, count, name_size = COMMIT_SET.unpack_from(data, start)
    end = start + COMMIT_SET.size + name_size
    if end > start + size or (start + size - end) % 8:
        raise ValueError("a commit set with wrong sizes")
    marker = FencingToken(marker_id, data[start + COMMIT_SET.size : end].decode(), value)
    numbers = unpack_from(f"<{(start + size - end) // 8}q", data, end)
    transactions: dict[int, dict[int, int]] = {}
    at = 0
    for _ in range(count):
        queues_end = at + 2 + 2 * numbers[at + 1]
        places = numbers[at + 2 : queues_end]
        transactions[numbers[at]] = {
            queue_id: first + offset for queue_id, offset in zip(places[::2], places[1::2], strict=True)
        }
        at = queues_end
    if at != len(numbers) or len(transactions) != count:
        raise ValueError("a commit set whose counts do not fit")
    return marker, transactions


def encode_id(kind: RecordKind, value: int) -> bytes:
    """Encode one number: all REMOVE records, CLEAR_DUPLICATE_IDS, FORGET_OUTCOME, RESERVE_IDS and SEAL."""
    return IDENTIFIER.pack(IDENTIFIER.size, kind, 0, 0, value)


def encode_definition(definition: Definition) -> bytes:
    """Encode ADDRESS, QUEUE, CURSOR, DIVERT, SETTINGS and GROUP: UTF-8 JSON, an object of the definition's fields.

    Rare, so readable beats compact.
    """
    kind = _KINDS[type(definition)]
    # Names come from peers that count in UTF-16 units: half a surrogate pair is a name, and json.loads takes it back.
    text = _TO_JSON(_recorded(definition))
    payload = text.encode("utf-8", "surrogatepass")
    return PREFIX.pack(PREFIX.size + len(payload), kind, 0, 0) + payload


def _recorded(definition: Definition) -> dict[str, object]:
    if type(definition) not in _FLAT:
        return asdict(definition, filter=_is_recorded)
    # A queue for each member of a cluster comes here, and each takes its definition apart.
    attributes, values = _FLAT[type(definition)]
    return {
        attribute.name: value
        for attribute, value in zip(attributes, values(definition), strict=True)
        if value != attribute.default or attribute.name not in _LATER_FIELDS
    }


def _is_recorded(attribute: Attribute[object], value: object) -> bool:
    return attribute.name not in _LATER_FIELDS or value != attribute.default


def encode_segment_start(id_limit: int, extents: Iterable[tuple[int, int, int]]) -> bytes:
    """Encode SEGMENT_START, the first record of a segment: the id limit and the extents of earlier segments.

    It makes a missing file detectable although segments go from the middle of the journal, not only from its start.
    """
    body = b"".join([EXTENT.pack(*extent) for extent in extents])
    return SEGMENT_START.pack(SEGMENT_START.size + len(body), RecordKind.SEGMENT_START, 0, 0, id_limit) + body


def encode_dropped(generations: Sequence[tuple[int, int]]) -> bytes:
    """Encode SEGMENTS_DROPPED: (first, last) generation of segments whose files may be gone from now on."""
    body = b"".join([PAIR.pack(first, last) for first, last in generations])
    return PREFIX.pack(PREFIX.size + len(body), RecordKind.SEGMENTS_DROPPED, 0, 0) + body


def decode_pairs(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Return the pairs of a COMMIT or an ADD_MESSAGE record."""
    return list(PAIR.iter_unpack(memoryview(data)[start:end]))


def decode_dropped(data: bytes, start: int, size: int) -> list[tuple[int, int]]:
    """Return the (first, last) generations of a SEGMENTS_DROPPED record."""
    return decode_pairs(data, start + PREFIX.size, start + size)


def decode_segment_start(data: bytes, start: int, size: int) -> tuple[int, list[tuple[int, int, int]]]:
    """Return the id limit and the extents of a SEGMENT_START record."""
    id_limit: int = SEGMENT_START.unpack_from(data, start)[4]
    return id_limit, list(EXTENT.iter_unpack(memoryview(data)[start + SEGMENT_START.size : start + size]))


def decode_address(data: bytes, start: int, size: int) -> tuple[AddressDefinition, list[str]]:
    """Return the definition in an ADDRESS record, and the names of fields this version does not support."""
    known, unknown = _fields_of(AddressDefinition, data, start, size)
    return AddressDefinition(**known), unknown  # type: ignore[arg-type]  # the record holds what asdict gave


def decode_queue(data: bytes, start: int, size: int) -> tuple[QueueDefinition, list[str]]:
    """Return the definition in a QUEUE record, and the names of fields this version does not support."""
    known, unknown = _fields_of(QueueDefinition, data, start, size)
    return QueueDefinition(**known), unknown  # type: ignore[arg-type]  # the record holds what asdict gave


def decode_cursor(data: bytes, start: int, size: int) -> tuple[CursorDefinition, list[str]]:
    """Return the definition in a CURSOR record, and the names of fields this version does not support."""
    known, unknown = _fields_of(CursorDefinition, data, start, size)
    return CursorDefinition(**known), unknown  # type: ignore[arg-type]  # the record holds what asdict gave


def decode_divert(data: bytes, start: int, size: int) -> tuple[DivertDefinition, list[str]]:
    """Return the definition in a DIVERT record, and the names of fields this version does not support."""
    known, unknown = _fields_of(DivertDefinition, data, start, size)
    return DivertDefinition(**known), unknown  # type: ignore[arg-type]  # the record holds what asdict gave


def decode_group(data: bytes, start: int, size: int) -> tuple[GroupDecision, list[str]]:
    """Return the decision in a GROUP record, and the names of fields this version does not support."""
    known, unknown = _fields_of(GroupDecision, data, start, size)
    return GroupDecision(**known), unknown  # type: ignore[arg-type]  # the record holds what asdict gave


def decode_settings(data: bytes, start: int, size: int) -> tuple[SettingsDefinition, list[str]]:
    """Return the definition in a SETTINGS record, and the names of fields this version does not support."""
    known, unknown = _fields_of(SettingsDefinition, data, start, size)
    return SettingsDefinition(**known), unknown  # type: ignore[arg-type]  # the record holds what asdict gave


def _fields_of(kind: type[Definition], data: bytes, start: int, size: int) -> tuple[dict[str, object], list[str]]:
    payload: dict[str, object] = json.loads(data[start + PREFIX.size : start + size])
    names = {attribute.name for attribute in fields(kind)}
    return {name: value for name, value in payload.items() if name in names}, sorted(payload.keys() - names)
