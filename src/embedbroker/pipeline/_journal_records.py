"""Records of a journal as columns: stretches in, Arrow batches out, without an object per record.

Responsible for taking records apart in bulk by storage's table of fixed fields. Values that cost time per message
(names, digests, properties, the bytes themselves) are computed only for requested columns. Does not depend on files or
Spark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import Factory, define, frozen

from embedbroker.storage import (
    RECORD_FIELDS,
    RecordArrays,
    RecordKind,
    ReferenceFields,
    SegmentHeader,
    decode_commit_set,
    decode_dropped,
    decode_outcome,
    decode_segment_start,
)
from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import CoreMessage

__all__ = [
    "ARROW_TYPES",
    "CUT",
    "END",
    "FINDING",
    "IMPORT_MARK",
    "KEPT_KEY",
    "MESSAGE_COLUMNS",
    "Reader",
    "content_digest",
    "message_key",
]

# Kinds of rows that are not records: damage, the end of a segment, a segment that was removed while it was read.
FINDING, END, CUT = 0, -1, -2

ARROW_TYPES: dict[str, pa.DataType] = {
    "journal": pa.int64(),
    "source": pa.int32(),
    "generation": pa.int64(),
    "written": pa.bool_(),
    "batch": pa.int64(),
    "offset": pa.int64(),
    "batch_ms": pa.int64(),
    "kind": pa.int16(),
    "flags": pa.int16(),
    "message_id": pa.int64(),
    "queue_id": pa.int64(),
    "transaction_id": pa.int64(),
    "position": pa.int64(),
    "size": pa.int64(),
    "priority": pa.int16(),
    "encoding": pa.int16(),
    "expiration": pa.int64(),
    "timestamp": pa.int64(),
    "wall_ms": pa.int64(),
    "count": pa.int64(),
    "text": pa.string(),
    "key": pa.string(),
    "digest": pa.binary(),
    "producer": pa.string(),
    "sequence": pa.int64(),
    "raw": pa.binary(),
}
# Columns that need a decoded message.
MESSAGE_COLUMNS = ("key", "digest", "producer", "sequence", "raw")
_CORE = CoreMessage.encoding
# The key of a message before a repair gave it another duplicate id.
KEPT_KEY = "_AMQ_REPAIRED_KEY"
# Prefix of the duplicate ids that an import gives to messages without one: not chosen by their sender.
IMPORT_MARK = b"imported"
# Properties that a broker or a bridge adds on the way: not part of the sent message.
_ON_THE_WAY = ("_AMQ_", "__AMQ")
_DEFINITIONS = (RecordKind.QUEUE, RecordKind.ADDRESS)
_EXTENTS = (RecordKind.SEGMENT_START, RecordKind.SEGMENTS_DROPPED)
# numpy has no types here.
Array = Any
Part = dict[str, Any]
# Bytes gathered per record, with one reference; numpy reads them as fields.
_DTYPES = {
    kind: np.dtype(
        {
            "names": list(fields),
            "formats": [name for name, _ in fields.values()],
            "offsets": [offset for _, offset in fields.values()],
        }
    )
    for kind, fields in RECORD_FIELDS.items()
}


def content_digest(message: CoreMessage) -> bytes:
    """Return a digest of 16 bytes over the sender's content.

    It includes body, type, durability, priority, expiration, timestamp and properties. It excludes the broker's number,
    the address, and properties that brokers add on the way (``_AMQ_...``).
    """
    digest = blake2b(digest_size=16)
    fixed = (message.type, message.durable, message.priority, message.expiration, message.timestamp, len(message.body))
    digest.update(repr(fixed).encode())
    digest.update(message.body)
    raw = message.raw
    for name, tag, start, end in sorted(message.property_spans()):
        if not name.startswith(_ON_THE_WAY):
            digest.update(repr((name, tag, end - start)).encode("utf-8", "surrogatepass"))
            digest.update(raw[start:end])
    return digest.digest()


@frozen
class Damage:
    """Hold the place of an invalid record in the file, and the reason."""

    offset: int
    text: str


@define(eq=False)
class Reader:
    """Turn the stretches of one segment into rows.

    Args:
        columns: names of `ARROW_TYPES`.
        kinds: kinds of records to read; None means all.
    """

    source: int
    header: SegmentHeader
    columns: Sequence[str]
    kinds: frozenset[int] | None = None
    # Names of the properties with a message's sender, and its number at that sender.
    producer: str | None = None
    sequence: str | None = None
    # True if the newest segment of its journal is read: it lists the segments that must exist.
    newest: bool = False
    damage: list[Damage] = Factory(list)

    def rows(self, stretch: RecordArrays) -> pa.RecordBatch | None:
        """Return the records of a stretch, or None if there is nothing to show. Invalid records go to ``damage``."""
        if not len(stretch.starts):
            return None
        buffer = np.frombuffer(stretch.data, np.uint8)
        starts = np.frombuffer(stretch.starts, np.int64)
        kinds = buffer[starts + 4]
        batch_of: Array = np.repeat(np.arange(len(stretch.counts)), np.frombuffer(stretch.counts, np.int64))
        parts = []
        for kind in np.unique(kinds).tolist():
            if self.kinds is None or kind in self.kinds:
                chosen = kinds == kind
                part = self._part(kind, stretch, buffer, starts[chosen], batch_of[chosen])
                if part is not None and len(part["start"]):
                    parts.append(part)
        return self._batch(stretch, parts) if parts else None

    def _part(self, kind: int, stretch: RecordArrays, buffer: Array, starts: Array, batch_of: Array) -> Part | None:
        if kind == RecordKind.COMMIT_SET:
            return self._commit_sets(stretch, starts, batch_of)
        if kind not in RecordKind._value2member_map_ or RecordKind(kind) not in _DTYPES:
            part: Part = {"kind": kind, "start": starts, "batch_index": batch_of}
            if kind in _DEFINITIONS or kind == RecordKind.HEURISTIC_OUTCOME or (self.newest and kind in _EXTENTS):
                part["text"] = [_text(kind, stretch.data, int(start)) for start in starts]
            return part
        known = RecordKind(kind)
        dtype = _DTYPES[known]
        whole = _u32(buffer, starts) >= dtype.itemsize
        if not whole.all():
            self._refuse(stretch, known, starts[~whole])
            starts, batch_of = starts[whole], batch_of[whole]
        fields = _gather(buffer, starts, dtype)
        part = {"kind": kind, "start": starts, "batch_index": batch_of}
        match known:
            case RecordKind.ADD_MESSAGE:
                return self._messages(part, fields, stretch, buffer)
            case RecordKind.COMMIT:
                part["transaction_id"] = fields["transaction_id"]
                counts: Array = (fields["size"].astype(np.int64) - ReferenceFields.OF_COMMIT) // ReferenceFields.SIZE
                return _with_pairs(part, np.maximum(counts, 1), counts > 0, ReferenceFields.OF_COMMIT, buffer)
            case RecordKind.PREPARE:
                part["text"] = [
                    stretch.data[start + 16 : start + size].hex()
                    for start, size in zip(starts.tolist(), fields["size"].tolist(), strict=True)
                ]
            case RecordKind.REMOVE_ADDRESS | RecordKind.REMOVE_QUEUE:
                part["queue_id"] = fields["identifier"]
            case _:
                pass
        for name in ("message_id", "queue_id", "transaction_id", "count"):
            if name in (fields.dtype.names or ()):
                part[name] = fields[name]
        return part

    def _commit_sets(self, stretch: RecordArrays, starts: Array, batch_of: Array) -> Part:
        """Return a row for each transaction and queue of a set, as for a commit."""
        rows: list[tuple[int, int, int, int, int]] = []
        for start, batch in zip(starts.tolist(), batch_of.tolist(), strict=True):
            size = int.from_bytes(stretch.data[start : start + 4], "little")
            try:
                _marker, transactions = decode_commit_set(stretch.data, start, size)
            except (ValueError, IndexError):
                self._refuse(stretch, RecordKind.COMMIT_SET, np.array([start]))
                continue
            for transaction_id, places in transactions.items():
                rows += [(start, batch, transaction_id, *place) for place in (places or {0: 0}).items()]
        columns: Array = np.array(rows, np.int64).reshape(-1, 5).T
        names = ("start", "batch_index", "transaction_id", "queue_id", "position")
        return {"kind": int(RecordKind.COMMIT_SET), **dict(zip(names, columns, strict=True))}

    def _messages(self, part: Part, fields: Array, stretch: RecordArrays, buffer: Array) -> Part:
        references: Array = fields["references"].astype(np.int64)
        raw_size: Array = fields["raw_size"].astype(np.int64)
        sane = fields["size"] == ReferenceFields.OF_MESSAGE + ReferenceFields.SIZE * references + raw_size
        starts = part["start"]
        assert isinstance(starts, np.ndarray)
        if not sane.all():
            self._refuse(stretch, RecordKind.ADD_MESSAGE, starts[~sane])
            fields, references, raw_size = fields[sane], references[sane], raw_size[sane]
            part = {name: value[sane] if isinstance(value, np.ndarray) else value for name, value in part.items()}
            starts = starts[sane]
        for name in (
            "message_id",
            "transaction_id",
            "flags",
            "encoding",
            "priority",
            "expiration",
            "timestamp",
            "wall_ms",
        ):
            part[name] = fields[name]
        part["size"] = raw_size
        wanted = [name for name in MESSAGE_COLUMNS if name in self.columns]
        if wanted:
            ends = starts + fields["size"]
            spans = zip((ends - raw_size).tolist(), ends.tolist(), fields["encoding"].tolist(), strict=True)
            described = [self._describe(stretch.data[start:end], encoding, wanted) for start, end, encoding in spans]
            for name, values in zip(
                wanted, zip(*described, strict=True) if described else [()] * len(wanted), strict=True
            ):
                part[name] = list(values)
        return _with_pairs(part, references, references > 0, ReferenceFields.OF_MESSAGE, buffer)

    def _describe(self, raw: bytes, encoding: int, wanted: Sequence[str]) -> tuple[object, ...]:
        """Return the values of the wanted columns; None for a part of the message that this program cannot read."""
        if encoding != _CORE or wanted == ["raw"]:
            return tuple([raw if name == "raw" else None for name in wanted])
        try:
            message = CoreMessage.parse(bytearray(raw))
            return tuple([self._value(message, name, raw) for name in wanted])
        except RemoteProtocolError:
            return tuple([raw if name == "raw" else None for name in wanted])

    def _value(self, message: CoreMessage, name: str, raw: bytes) -> object:
        match name:
            case "key":
                return message_key(message)
            case "digest":
                return content_digest(message)
            case "producer":
                value = message.property(self.producer) if self.producer else None
                return None if value is None else str(value)
            case "sequence":
                value = message.property(self.sequence) if self.sequence else None
                return value if isinstance(value, int) and not isinstance(value, bool) else None
            case _:
                return raw

    def _refuse(self, stretch: RecordArrays, kind: RecordKind, starts: Array) -> None:
        for start in starts.tolist():
            self.damage.append(
                Damage(stretch.base + start, f"a record of kind {kind.name} with wrong sizes is left out")
            )

    def _batch(self, stretch: RecordArrays, parts: list[Part]) -> pa.RecordBatch:
        lengths = [len(part["start"]) for part in parts]
        total = sum(lengths)
        arrays = [self._column(name, stretch, parts, lengths, total) for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def _column(self, name: str, stretch: RecordArrays, parts: list[Part], lengths: list[int], total: int) -> pa.Array:
        kind = ARROW_TYPES[name]
        header = self.header
        match name:
            case "journal" | "source" | "generation" | "written":
                constants = {
                    "journal": header.identity,
                    "source": self.source,
                    "generation": header.generation,
                    "written": not header.compacted,
                }
                return pa.repeat(pa.scalar(constants[name], kind), total)
            case "text" | "key" | "digest" | "producer" | "sequence" | "raw":
                if not any(name in part for part in parts):
                    return pa.nulls(total, kind)
                pieces = [part.get(name, [None] * count) for part, count in zip(parts, lengths, strict=True)]
                return pa.array([value for piece in pieces for value in piece], kind)
            case "offset":
                return pa.array(np.concatenate([part["start"] for part in parts]) + stretch.base, kind)
            case "batch" | "batch_ms":
                values = np.frombuffer(stretch.batches if name == "batch" else stretch.walls_ms, np.int64)
                return pa.array(values[np.concatenate([part["batch_index"] for part in parts])], kind)
            case _:
                columns = [_numbers(part.get(name, 0), count) for part, count in zip(parts, lengths, strict=True)]
                return pa.array(np.concatenate(columns).astype(kind.to_pandas_dtype()), kind)


def _numbers(value: Any, count: int) -> Array:
    return value.astype(np.int64) if isinstance(value, np.ndarray) else np.full(count, value, np.int64)


def _u32(buffer: Array, starts: Array) -> Array:
    return _gather(buffer, starts, np.dtype({"names": ["size"], "formats": ["<u4"], "offsets": [0]}))["size"]


def _gather(buffer: Array, starts: Array, dtype: np.dtype[Any]) -> Array:
    """Return the bytes at these places, as records. Every place must have ``dtype.itemsize`` bytes behind it."""
    if not len(starts):
        return np.empty(0, dtype)
    # One record at each byte of the buffer; the copy takes those at the start of a record.
    everywhere: Array = np.ndarray(len(buffer) - dtype.itemsize + 1, dtype, buffer, strides=(1,))
    return everywhere[starts]


_PAIR = np.dtype({"names": ["queue_id", "position"], "formats": ["<i8", "<i8"], "offsets": [0, 8]})


def _with_pairs(part: Part, counts: Array, there: Array, behind: int, buffer: Array) -> Part:
    """Return one row per pair that stands ``behind`` bytes from each start.

    Without a pair, queue and position are 0.
    """
    starts = part["start"]
    assert isinstance(starts, np.ndarray)
    if not (counts == 1).all():
        rows: Array = np.repeat(np.arange(len(starts)), counts)
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        part = {name: _taken(value, rows) for name, value in part.items()}
        there = there[rows]
        places = starts[rows] + behind + ReferenceFields.SIZE * nth
    else:
        places = starts + behind
    pairs: Array = np.zeros(len(places), _PAIR)
    pairs[there] = _gather(buffer, places[there], _PAIR)
    part["queue_id"], part["position"] = pairs["queue_id"], pairs["position"]
    return part


def _taken(value: Any, rows: Array) -> Any:
    if isinstance(value, np.ndarray):
        return value[rows]
    return [value[row] for row in rows.tolist()] if isinstance(value, list) else value


def _text(kind: int, data: bytes, start: int) -> str:
    size = int.from_bytes(data[start : start + 4], "little")
    if kind == RecordKind.HEURISTIC_OUTCOME:
        outcome = decode_outcome(data, start, size)
        return f"{outcome.transaction_id} {'committed' if outcome.committed else 'rolled back'}"
    if kind == RecordKind.SEGMENT_START:
        return json.dumps([extent[:2] for extent in decode_segment_start(data, start, size)[1]])
    if kind == RecordKind.SEGMENTS_DROPPED:
        return json.dumps(decode_dropped(data, start, size))
    return data[start + 8 : start + size].decode("utf-8", "replace")


def message_key(message: CoreMessage) -> str:
    """Return the name of a message at every site: its JMSMessageID, else its duplicate id, else its content."""
    user_id = message.user_id
    if user_id is not None:
        return f"ID:{user_id.hex()}"
    kept = message.property(KEPT_KEY)
    if isinstance(kept, str):
        return kept
    duplicate_id = message.duplicate_id
    if duplicate_id is None or duplicate_id.startswith(IMPORT_MARK):
        return f"CONTENT:{content_digest(message).hex()}"
    return f"DUPLICATE:{duplicate_id.hex()}"
