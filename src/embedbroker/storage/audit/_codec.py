"""The bytes of an audit log's records, and the names of its files.

Responsible for the layouts, version 1, and for the table of fields by which bulk readers decode them. Headers, batches
and checksums are those of the journal. So are the identity in them and, in each batch, the broker's wall time: the
time of the step in which all its records happened. Does not depend on the combined meaning of records.

All numbers are little-endian. Files are named ``audit-0000000042.log``, with a number that grows by one, so that a
missing file between others is detected. Every life of a broker begins a file. Kinds share the numbers of the journal's
records: no number has two meanings::

    SENT         size u32 | kind u8 | flags u8 | 2 bytes | message id i64 | queue id i64 | transaction id i64
    LEFT         the same; flags has the `Leaving`
    CONFIRMED    size u32 | kind u8 | 3 bytes | number i64
    COMMITTED    size u32 | kind u8 | 3 bytes | number i64 | transaction ids i64 ...
    DELIVERED    size u32 | kind u8 | flags u8 | 2 bytes | message id i64 | queue id i64 | consumer i64 | count i64
    RETURNED     size u32 | kind u8 | flags u8 | 2 bytes | message id i64 | queue id i64
    NAMED_QUEUE, NAMED_CONSUMER, BEGUN, ENDED    size u32 | kind u8 | 3 bytes | UTF-8 JSON, an object
    QUEUE_GONE   size u32 | kind u8 | 3 bytes | queue id i64

Ids of messages and transactions come from one counter of the broker. CONFIRMED means: messages sent outside a
transaction, with ids up to ``number``, may be confirmed to their producers. So may commits whose ``number`` is up to
that. A message that is not durable is confirmed when it is sent. Names stand in each file before they are used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import IntEnum
from struct import Struct
from types import MappingProxyType

from ..journal._record_codec import PREFIX

__all__ = ["AUDIT_FIELDS", "AuditRecordKind", "audit_name", "audit_number", "audit_range", "encode_facts"]


class AuditRecordKind(IntEnum):
    """The kinds of audit records. Stored numbers: never reuse one, nor one of `RecordKind`."""

    SENT = 64
    LEFT = 65
    CONFIRMED = 66
    COMMITTED = 67
    DELIVERED = 68
    RETURNED = 69
    NAMED_QUEUE = 70
    QUEUE_GONE = 71
    NAMED_CONSUMER = 72
    BEGUN = 73
    ENDED = 74


# Flags. Of SENT: a crash leaves the message there. Of DELIVERED: the consumer received it as a redelivery. Of RETURNED:
# the next delivery must be marked as a redelivery.
DURABLE = REDELIVERED = COUNTED = 1

MESSAGE = Struct("<IBBHqqq")  # SENT and LEFT
DELIVERED = Struct("<IBBHqqqq")
RETURNED = Struct("<IBBHqq")
NUMBER = Struct("<IBBHq")  # CONFIRMED, COMMITTED (ids follow), QUEUE_GONE

_PREFIX = {"size": ("<u4", 0), "kind": ("u1", 4), "flags": ("u1", 5)}
_MESSAGE = {**_PREFIX, "message_id": ("<i8", 8), "queue_id": ("<i8", 16)}
_NUMBER = {**_PREFIX, "number": ("<i8", 8)}
AUDIT_FIELDS: MappingProxyType[AuditRecordKind, dict[str, tuple[str, int]]] = MappingProxyType(
    {
        AuditRecordKind.SENT: {**_MESSAGE, "transaction_id": ("<i8", 24)},
        AuditRecordKind.LEFT: {**_MESSAGE, "transaction_id": ("<i8", 24)},
        AuditRecordKind.CONFIRMED: _NUMBER,
        AuditRecordKind.COMMITTED: _NUMBER,
        AuditRecordKind.DELIVERED: {**_MESSAGE, "consumer": ("<i8", 24), "count": ("<i8", 32)},
        AuditRecordKind.RETURNED: _MESSAGE,
        AuditRecordKind.QUEUE_GONE: _NUMBER,
    }
)
"""Name -> (numpy's name of the type, offset in the record)."""

_NAME = re.compile(r"audit-(\d{10,})\.log\Z")


def audit_name(number: int) -> str:
    """Return the name of a file."""
    return f"audit-{number:010}.log"


def audit_number(name: str) -> int | None:
    """Return the number in the name of a file, None for other names."""
    match = _NAME.match(name)
    return int(match[1]) if match is not None else None


def audit_range(name: str) -> tuple[int, int] | None:
    """Return the number as the range of a segment that stands for itself."""
    number = audit_number(name)
    return (number, number) if number is not None else None


def encode_facts(kind: AuditRecordKind, facts: Mapping[str, object]) -> bytes:
    """Encode a rare record: readable beats compact."""
    payload = json.dumps(facts, separators=(",", ":")).encode()
    return PREFIX.pack(PREFIX.size + len(payload), kind, 0, 0) + payload
