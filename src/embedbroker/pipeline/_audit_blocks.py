"""An audit's summary of one segment: sets of message ids, a few bytes each, instead of rows.

Ids are grouped by queue and by block of 65,536. A set is either the low 16 bits of each id, or a bitmap where that is
smaller. Work of a transaction stays separate until its end is read, which is mostly in the same segment. Responsible
for this summary and for the algebra of such sets. Does not depend on files or Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define

from embedbroker.storage import RecordKind

from ._journal_records import END, FINDING

__all__ = ["AGAIN", "CAME", "COLUMNS", "SUMMARY_TYPES", "WENT", "IdSet", "joined", "summary"]

# Kinds of rows beside those of records: ids that one segment acknowledges twice; messages and acknowledgements of one
# second.
AGAIN, CAME, WENT = 1002, 1003, 1004
# Columns that the summary needs.
COLUMNS = ("journal", "source", "generation", "written", "kind", "message_id", "queue_id", "transaction_id", "size",
           "wall_ms", "batch_ms", "batch", "offset", "text")  # fmt: skip
SUMMARY_TYPES: dict[str, Any] = {
    "journal": pa.int64(),
    "source": pa.int32(),
    "generation": pa.int64(),
    "written": pa.bool_(),
    "kind": pa.int16(),
    "queue_id": pa.int64(),
    "transaction_id": pa.int64(),
    "block": pa.int64(),
    "ids": pa.binary(),
    "count": pa.int64(),
    "bytes": pa.int64(),
    "second": pa.int64(),
    "offset": pa.int64(),
    "text": pa.string(),
    # True if it is behind a fork of a copy.
    "left_behind": pa.bool_(),
}
_BLOCK_BITS = 16
_BITMAP_BYTES = (1 << _BLOCK_BITS) // 8
_ADD, _ACKNOWLEDGE = int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE)
_COMMITS = (int(RecordKind.COMMIT), int(RecordKind.COMMIT_SET))
_ROLLBACK = int(RecordKind.ROLLBACK)
Array = Any
Row = dict[str, Any]


@define(eq=False)
class IdSet:
    """Hold message ids of one block, as a bitmap for calculation."""

    bits: Array

    @classmethod
    def of(cls, packed: bytes) -> IdSet:
        """Return the set of bytes made by `packed`."""
        if len(packed) == _BITMAP_BYTES:
            return cls(np.unpackbits(np.frombuffer(packed, np.uint8)).astype(bool))
        bits: Array = np.zeros(1 << _BLOCK_BITS, bool)
        bits[cls.low(packed)] = True
        return cls(bits)

    @classmethod
    def low(cls, packed: bytes) -> Array:
        """Return the low 16 bits of each id in bytes made by `packed`, as numbers."""
        if len(packed) == _BITMAP_BYTES:
            return np.flatnonzero(cls.of(packed).bits)
        return np.frombuffer(packed, "<u2")

    @classmethod
    def none(cls) -> IdSet:
        """Return the empty set."""
        return cls(np.zeros(1 << _BLOCK_BITS, bool))

    @property
    def count(self) -> int:
        """Return the number of ids."""
        return int(self.bits.sum())

    @property
    def packed(self) -> bytes:
        """Return the set in the smaller of its two forms."""
        return _packed(np.flatnonzero(self.bits))

    def ids(self, block: int) -> list[int]:
        """Return the whole ids, ascending."""
        found: list[int] = ((block << _BLOCK_BITS) + np.flatnonzero(self.bits)).tolist()
        return found


def _packed(low: Array) -> bytes:
    """Return the smaller form of ``low``: different numbers below 65,536."""
    if len(low) * 2 < _BITMAP_BYTES:
        return bytes(low.astype("<u2").tobytes())
    bits: Array = np.zeros(1 << _BLOCK_BITS, bool)
    bits[low] = True
    return bytes(np.packbits(bits).tobytes())


def joined(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows, in which every column may be missing, as a batch."""
    arrays = [pa.array([row.get(name) for row in rows], kind) for name, kind in SUMMARY_TYPES.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(SUMMARY_TYPES))


def summary(batches: Sequence[pa.RecordBatch], fork: int | None = None) -> Iterator[Row]:
    """Yield the summary of one segment, of which ``batches`` are the rows with `COLUMNS`.

    With a ``fork``, later batches have a separate summary.
    """
    table = pa.Table.from_batches(batches)
    if fork is None:
        yield from _summary(table, left_behind=False)
        return
    behind = pc.greater(table.column("batch"), fork)
    for part, left_behind in ((table.filter(pc.invert(behind)), False), (table.filter(behind), True)):
        if part.num_rows:
            yield from _summary(part, left_behind=left_behind)


def _summary(table: pa.Table, *, left_behind: bool) -> Iterator[Row]:
    columns = {name: table.column(name).to_numpy() for name in COLUMNS if name != "text"}
    kind = columns["kind"]
    common = {name: table.column(name)[0].as_py() for name in ("journal", "source", "generation", "written")}
    common["left_behind"] = left_behind
    few = np.flatnonzero((kind != _ADD) & (kind != _ACKNOWLEDGE))
    # A commit is one row for each of its queues; one of them is enough here.
    seen: set[tuple[int, int]] = set()
    for row in table.select(["kind", "queue_id", "transaction_id", "offset", "text", "batch"]).take(few).to_pylist():
        if row["kind"] in (*_COMMITS, _ROLLBACK):
            key = (row["kind"], row["transaction_id"])
            if key in seen:
                continue
            seen.add(key)
        batch = row.pop("batch")
        yield {**common, **row, "count": batch if row["kind"] in (END, FINDING) else None}
    committed = np.unique(columns["transaction_id"][np.isin(kind, _COMMITS)])
    rolled_back = np.unique(columns["transaction_id"][kind == _ROLLBACK])
    for hot in (_ADD, _ACKNOWLEDGE):
        chosen = np.flatnonzero(kind == hot)
        if not len(chosen):
            continue
        part = {name: values[chosen] for name, values in columns.items()}
        yield from ({**common, **row} for row in _traffic(hot, part))
        transaction = part["transaction_id"]
        if transaction.any():
            keep = ~np.isin(transaction, rolled_back)
            part = {name: values[keep] for name, values in part.items()}
            transaction = part["transaction_id"]
            part["transaction_id"] = np.where(np.isin(transaction, committed), 0, transaction)
        yield from ({**common, **row} for row in _blocks(hot, part))


def _blocks(kind: int, part: dict[str, Array]) -> Iterator[Row]:
    message, queue, transaction = part["message_id"], part["queue_id"], part["transaction_id"]
    if not len(message):
        return
    order = np.lexsort((message, queue, transaction))
    message, queue, transaction, size = message[order], queue[order], transaction[order], part["size"][order]
    block = message >> _BLOCK_BITS
    begins = np.flatnonzero(_changes(transaction) | _changes(queue) | _changes(block))
    ends: Array = np.append(begins[1:], len(message))
    again: Array = np.append(
        False, (message[1:] == message[:-1]) & (queue[1:] == queue[:-1]) & (transaction[1:] == transaction[:-1])
    )
    sums = np.add.reduceat(size, begins)
    for begin, end, size_bytes in zip(begins.tolist(), ends.tolist(), sums.tolist(), strict=True):
        key = {"queue_id": int(queue[begin]), "transaction_id": int(transaction[begin]), "block": int(block[begin])}
        low = message[begin:end] & ((1 << _BLOCK_BITS) - 1)
        repeated = again[begin:end]
        if repeated.any():
            if kind == _ACKNOWLEDGE:
                yield {**key, "kind": AGAIN, "ids": _packed(np.unique(low[repeated]))}
            low = low[~repeated]
        yield {**key, "kind": kind, "ids": _packed(low), "count": len(low), "bytes": size_bytes}


def _changes(values: Array) -> Array:
    return np.append(True, values[1:] != values[:-1])


def _traffic(kind: int, part: dict[str, Array]) -> Iterator[Row]:
    """Yield records per queue, second and block, whatever the end of their transactions.

    Messages count by the time when the broker took them, acknowledgements by the time of their batch.
    """
    second = part["wall_ms" if kind == _ADD else "batch_ms"] // 1000
    message, queue = part["message_id"], part["queue_id"]
    order = np.lexsort((message, second, queue))
    message, queue, second, size = message[order], queue[order], second[order], part["size"][order]
    block = message >> _BLOCK_BITS
    changes = _changes(queue) | _changes(second) | _changes(block)
    begins = np.flatnonzero(changes)
    ends: Array = np.append(begins[1:], len(message))
    is_new = changes | _changes(message)
    low = (message & ((1 << _BLOCK_BITS) - 1))[is_new].astype("<u2")
    encoded = low.tobytes()
    places: Array = np.append(0, np.cumsum(is_new))
    sums = np.add.reduceat(size, begins)
    for begin, end, size_bytes in zip(begins.tolist(), ends.tolist(), sums.tolist(), strict=True):
        first, last = int(places[begin]), int(places[end])
        is_short = (last - first) * 2 < _BITMAP_BYTES
        yield {"kind": CAME if kind == _ADD else WENT, "block": int(block[begin]), "queue_id": int(queue[begin]),
               "ids": encoded[first * 2 : last * 2] if is_short else _packed(low[first:last]),
               "second": int(second[begin]), "count": end - begin, "bytes": size_bytes}  # fmt: skip
