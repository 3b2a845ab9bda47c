"""An audit's summary of one segment of an audit log: sets of message ids with times, instead of rows.

Ids are grouped by queue and by block of 65,536, as in `_audit_blocks`. Work of a transaction stays separate until its
commit is read, which is mostly in the same segment. Deliveries become five sets per queue and block, from which those
of a whole life follow: see `_deliveries`. Does not depend on files or Spark, and does not judge.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import define

from embedbroker.storage import AUDIT_FIELDS, AuditRecordKind, RecordArrays

__all__ = ["LOG_TYPES", "LogKind", "LogSummary", "Row", "log_summary", "packed_numbers", "unpacked_numbers"]

LOG_TYPES: dict[str, Any] = {
    "journal": pa.int64(),
    "source": pa.int32(),
    "generation": pa.int64(),
    "life": pa.int64(),
    "kind": pa.int16(),
    "queue_id": pa.int64(),
    "transaction_id": pa.int64(),
    "block": pa.int64(),
    "ids": pa.binary(),
    "walls": pa.binary(),
    "needs": pa.binary(),
    "flags": pa.int16(),
    "number": pa.int64(),
    "text": pa.string(),
}
_BLOCK_BITS = 16
_LOW = (1 << _BLOCK_BITS) - 1
Array = Any
Row = dict[str, Any]


class LogKind:
    """Kinds of rows, apart from those of the journal's. ``ids`` are the low 16 bits; the rest of a row fits them.

    SENT (``walls``; ``needs``: the confirmation that its life must reach; ``flags``: durable), LEFT (``walls``;
    ``flags``: the way of leaving), DELIVERED, and of these TOUCHED, FIRST, LAST, TWICE. COMMITTED (``ids`` are
    transactions, ``needs`` their numbers), CONFIRMED (``number``), NAMED and GONE of a queue, BEGUN, ENDED, DAMAGED,
    READ_TO.
    """

    SENT, LEFT, DELIVERED, TOUCHED, FIRST, LAST, TWICE = range(2001, 2008)
    COMMITTED, CONFIRMED, NAMED, GONE, BEGUN, ENDED, DAMAGED, READ_TO = range(2011, 2019)


def packed_numbers(values: Array) -> bytes:
    """Return the bytes of 64-bit numbers."""
    return bytes(values.astype("<i8").tobytes())


def unpacked_numbers(data: bytes) -> Array:
    """Return the numbers of bytes made by `packed_numbers`."""
    return np.frombuffer(data, "<i8")


@define(eq=False)
class LogSummary:
    """Hold everything in one segment by kind, as columns; also ``wall`` and ``at`` (the place in the file)."""

    events: dict[int, dict[str, Array]]
    facts: list[tuple[int, dict[str, Any]]]
    committed: tuple[Array, Array]

    @classmethod
    def of(cls, stretches: Sequence[RecordArrays]) -> LogSummary:
        """Take the records of these stretches apart."""
        parts: dict[int, list[dict[str, Array]]] = {}
        facts: list[tuple[int, dict[str, Any]]] = []
        ids: list[Array] = []
        numbers: list[Array] = []
        for stretch in stretches:
            buffer = np.frombuffer(stretch.data, np.uint8)
            starts = np.frombuffer(stretch.starts, np.int64)
            kinds = buffer[starts + 4]
            walls: Array = np.repeat(np.frombuffer(stretch.walls_ms, np.int64), np.frombuffer(stretch.counts, np.int64))
            for kind in np.unique(kinds).tolist():
                chosen = np.flatnonzero(kinds == kind)
                if kind in _DTYPES:
                    fields = _gathered(buffer, starts[chosen], _DTYPES[kind])
                    part = {name: fields[name].astype(np.int64) for name in fields.dtype.names or ()}
                    part["wall"], part["at"] = walls[chosen], starts[chosen] + stretch.base
                    parts.setdefault(kind, []).append(part)
                    if kind == AuditRecordKind.COMMITTED:
                        for start, size in zip(starts[chosen].tolist(), part["size"].tolist(), strict=True):
                            ids.append(np.frombuffer(stretch.data, "<i8", (size - 16) // 8, start + 16))
                        numbers += [np.repeat(part["number"], (part["size"] - 16) // 8)]
                elif kind in AuditRecordKind._value2member_map_:
                    facts += [(kind, _facts_at(stretch.data, start)) for start in starts[chosen].tolist()]
        events = {
            kind: {name: np.concatenate([each[name] for each in found]) for name in found[0]}
            for kind, found in parts.items()
        }
        none: Array = np.zeros(0, np.int64)
        return cls(events, facts, (np.concatenate(ids or [none]), np.concatenate(numbers or [none])))

    @property
    def confirmed(self) -> int:
        """Return the last confirmation of sends in this segment, 0 for none."""
        part = self.events.get(AuditRecordKind.CONFIRMED)
        return int(part["number"].max()) if part is not None else 0


def _facts_at(data: bytes, start: int) -> dict[str, Any]:
    size = int.from_bytes(data[start : start + 4], "little")
    facts: dict[str, Any] = json.loads(data[start + 8 : start + size])
    return facts


_DTYPES = {
    int(kind): np.dtype(
        {
            "names": list(fields),
            "formats": [form for form, _ in fields.values()],
            "offsets": [offset for _, offset in fields.values()],
        }
    )
    for kind, fields in AUDIT_FIELDS.items()
}


def _gathered(buffer: Array, starts: Array, dtype: np.dtype[Any]) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(buffer, dtype.itemsize)
    return np.ascontiguousarray(windows[starts]).view(dtype)[:, 0]


def log_summary(summary: LogSummary) -> Iterator[Row]:
    """Yield the rows of one segment, without the columns that name it."""
    events = summary.events
    for kind, facts in summary.facts:
        match kind:
            case AuditRecordKind.NAMED_QUEUE:
                yield {"kind": LogKind.NAMED, "queue_id": facts["id"], "text": json.dumps(facts)}
            case AuditRecordKind.BEGUN | AuditRecordKind.ENDED:
                row_kind = LogKind.BEGUN if kind == AuditRecordKind.BEGUN else LogKind.ENDED
                yield {"kind": row_kind, "number": facts["life"], "text": json.dumps(facts)}
            case _:
                pass
    if summary.confirmed:
        yield {"kind": LogKind.CONFIRMED, "number": summary.confirmed}
    gone = events.get(AuditRecordKind.QUEUE_GONE)
    if gone is not None:
        yield from ({"kind": LogKind.GONE, "queue_id": queue_id} for queue_id in gone["number"].tolist())
    transactions, numbers = summary.committed
    if len(transactions):
        ids, needs = packed_numbers(transactions), packed_numbers(numbers)
        yield {"kind": LogKind.COMMITTED, "ids": ids, "needs": needs}
    order = np.argsort(transactions, kind="stable")
    transactions, numbers = transactions[order], numbers[order]
    for kind, row_kind in ((AuditRecordKind.SENT, LogKind.SENT), (AuditRecordKind.LEFT, LogKind.LEFT)):
        part = events.get(kind)
        if part is not None:
            yield from _messages(row_kind, part, transactions, numbers)
    delivered = events.get(AuditRecordKind.DELIVERED)
    if delivered is not None:
        yield from _sets(LogKind.DELIVERED, delivered["queue_id"], delivered["message_id"])
    yield from _deliveries(delivered, events.get(AuditRecordKind.RETURNED))


def _messages(kind: int, part: dict[str, Array], transactions: Array, numbers: Array) -> Iterator[Row]:
    """Yield rows per queue, flag and block; for a transaction without a commit here, per transaction, too."""
    message, transaction = part["message_id"], part["transaction_id"]
    needs: Array = message.copy()
    if len(transactions):
        place: Array = np.minimum(np.searchsorted(transactions, transaction), len(transactions) - 1)
        known = (transaction != 0) & (transactions[place] == transaction)
        needs[known] = numbers[place[known]]
        transaction = np.where(known, 0, transaction)
    block = message >> _BLOCK_BITS
    order = np.lexsort((part["at"], message, block, transaction, part["flags"], part["queue_id"]))
    keys = [column[order] for column in (part["queue_id"], part["flags"], transaction, block)]
    low, walls, needs = message[order] & _LOW, part["wall"][order], needs[order]
    for begin, end in _runs(keys):
        queue_id, flags, transaction_id, in_block = (int(key[begin]) for key in keys)
        yield {
            "kind": kind,
            "queue_id": queue_id,
            "flags": flags,
            "transaction_id": transaction_id,
            "block": in_block,
            "number": (in_block << _BLOCK_BITS) + int(low[begin]),
            "ids": bytes(low[begin:end].astype("<u2").tobytes()),
            "walls": packed_numbers(walls[begin:end]),
            "needs": packed_numbers(needs[begin:end]),
        }


def _sets(kind: int, queue: Array, message: Array) -> Iterator[Row]:
    if not len(message):
        return
    order = np.lexsort((message, queue))
    queue, message = queue[order], message[order]
    keys = [queue, message >> _BLOCK_BITS]
    for begin, end in _runs(keys):
        ids = np.unique(message[begin:end] & _LOW)
        row = {"kind": kind, "queue_id": int(queue[begin]), "block": int(keys[1][begin])}
        yield {**row, "ids": bytes(ids.astype("<u2").tobytes())}


def _runs(keys: Sequence[Array]) -> Iterable[tuple[int, int]]:
    """Return the bounds of runs in which all of the sorted keys stay the same."""
    changes: Array = np.zeros(len(keys[0]), bool)
    changes[0] = True
    for key in keys:
        changes[1:] |= key[1:] != key[:-1]
    begins = np.flatnonzero(changes)
    return zip(begins.tolist(), [*begins[1:].tolist(), len(changes)], strict=True)


def _deliveries(delivered: dict[str, Array] | None, returned: dict[str, Array] | None) -> Iterator[Row]:
    """Yield the sets of deliveries of one segment.

    A delivery without flag is right when there was none before, or when the previous one came back uncounted. The
    events of each message are deliveries without flag, and returns that undo one, in their order. TOUCHED are the
    messages with any event. FIRST and LAST are those whose first and last event in this segment is a delivery. TWICE
    are those with two deliveries and no return in between. The sets of a life follow from its segments in order: a
    message in LAST that is in FIRST again is TWICE.
    """
    plain, undoing, flagged = 0, 1, 2
    none: Array = np.zeros(0, np.int64)
    columns = [(none, none, none, none)]
    if delivered is not None:
        columns.append((delivered["queue_id"], delivered["message_id"], delivered["at"], delivered["flags"] * flagged))
    if returned is not None:
        free = returned["flags"] == 0
        codes: Array = np.full(int(free.sum()), undoing, np.int64)
        columns.append((returned["queue_id"][free], returned["message_id"][free], returned["at"][free], codes))
    queue, message, at, code = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.lexsort((at, message, queue))
    queue, message, code = queue[order], message[order], code[order]
    if not len(code):
        return
    same: Array = np.append(False, (queue[1:] == queue[:-1]) & (message[1:] == message[:-1]))
    before: Array = np.where(same, np.append(-1, code[:-1]), -1)
    keep = (code != flagged) & ~((code == undoing) & (before == flagged))
    queue, message, code = queue[keep], message[keep], code[keep]
    if not len(code):
        return
    same = np.append(False, (queue[1:] == queue[:-1]) & (message[1:] == message[:-1]))
    first = ~same
    last: Array = np.append(first[1:], True)
    twice = same & (code == plain) & np.append(False, code[:-1] == plain)
    chosen = ((LogKind.TOUCHED, first), (LogKind.FIRST, first & (code == plain)),
              (LogKind.LAST, last & (code == plain)), (LogKind.TWICE, twice))  # fmt: skip
    for kind, those in chosen:
        yield from _sets(kind, queue[those], message[those])
