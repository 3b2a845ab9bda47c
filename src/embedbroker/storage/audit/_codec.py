"""The bytes of an audit log's records, and the names of its files.

Responsible for the layouts, version 1, and for the table of fields by which others take them apart in bulk. Headers,
batches and checksums are those of the journal; so are the identity in them and, in each batch, the broker's wall time,
which is that of the step in which all its records happened. Refuses to know what records mean together.

All numbers are little-endian. Files are named ``audit-0000000042.log``, with a number that grows by one, so a file
that is missing among others shows. Every life of a broker begins a file. Kinds share the numbers of the journal's
records: none means two things::

    SENT         size u32 | kind u8 | flags u8 | 2 bytes | message id i64 | queue id i64 | transaction id i64
    LEFT         the same; flags has the `Leaving`
    CONFIRMED    size u32 | kind u8 | 3 bytes | number i64
    COMMITTED    size u32 | kind u8 | 3 bytes | number i64 | transaction ids i64 ...
    DELIVERED    size u32 | kind u8 | flags u8 | 2 bytes | message id i64 | queue id i64 | consumer i64 | count i64
    RETURNED     size u32 | kind u8 | flags u8 | 2 bytes | message id i64 | queue id i64
    NAMED_QUEUE, NAMED_CONSUMER, BEGUN, ENDED    size u32 | kind u8 | 3 bytes | UTF-8 JSON, an object
    QUEUE_GONE   size u32 | kind u8 | 3 bytes | queue id i64

Ids of messages and transactions come from one counter of the broker. CONFIRMED says: what was sent outside a
transaction with an id up to ``number`` may be confirmed to its producer, and so may commits whose ``number`` is up to
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
    """Stored numbers: never reuse one, nor one of `RecordKind`."""

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


# Flags: of SENT, a crash leaves the message there; of DELIVERED, the consumer was told that it is not the first time;
# of RETURNED, the next delivery is to be told so.
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
    """The name of a file."""
    return f"audit-{number:010}.log"


def audit_number(name: str) -> int | None:
    """The number in the name of a file, None for other names."""
    match = _NAME.match(name)
    return int(match[1]) if match is not None else None


def audit_range(name: str) -> tuple[int, int] | None:
    """The same, as of a segment that stands for itself."""
    number = audit_number(name)
    return (number, number) if number is not None else None


def encode_facts(kind: AuditRecordKind, facts: Mapping[str, object]) -> bytes:
    """A record that is rare, so readable beats compact."""
    payload = json.dumps(facts, separators=(",", ":")).encode()
    return PREFIX.pack(PREFIX.size + len(payload), kind, 0, 0) + payload
