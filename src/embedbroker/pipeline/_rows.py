"""Blocks of messages as Arrow batches, column by column.

Responsible for the value of each column, and for what becomes of messages that cannot be parsed. Refuses to know where
blocks come from, and Spark: the types of the columns are handed in.

Hot: everything here runs per message of a batch; a column that is not asked for costs nothing.
"""

from __future__ import annotations

from codecs import utf_16_le_decode
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from ._body_columns import BODY_TYPES, Bodies, parse_json
from ._frames import Block, Place
from ._property_columns import HEADER_COLUMNS, NOT_IN_MAPS, Entry, PropertyDecoder, duplicate_id, property_text
from ._schema import PROPERTY_COLUMNS, VALUE_COLUMN

__all__ = ["ParseError", "Poison", "RowConverter", "Rows"]

# Beyond it a time in milliseconds is none in microseconds, as Arrow and Spark have them: 292,000 years.
_MILLISECONDS_MAX: Final = (1 << 63) // 1000 - 1
_ROUTING_TYPES: Final[dict[object, str]] = {0: "MULTICAST", 1: "ANYCAST"}
_NEEDS_PROPERTIES: Final = {*HEADER_COLUMNS, "duplicateId", *PROPERTY_COLUMNS}
_BODY_COLUMNS: Final = ("body", "bodyText", VALUE_COLUMN)
_UUID_BYTES: Final = 16


class ParseError(ValueError):
    """A message is not what the option `format` says, and `onParseError` is fail. The text names the message."""


@frozen
class Poison:
    """A message that could not be parsed and is to become a dead letter."""

    place: Place
    reason: str


@frozen
class Rows:
    """The batch of one block, and the messages that are not in it."""

    batch: pa.RecordBatch
    poison: list[Poison]


class RowConverter:
    """Makes batches of blocks. `schema` has the columns, in order, with the types that Spark expects."""

    def __init__(self, schema: pa.Schema, *, form: str = "bytes", on_parse_error: str = "fail") -> None:
        self._schema = schema
        self._columns = set(schema.names)
        self._is_strict = form in ("text", "json")
        self._on_parse_error = on_parse_error
        self._decoder = PropertyDecoder()
        self._addresses: dict[bytes, str] = {}

    def convert(self, block: Block, queue: str) -> Rows:
        """The rows of a block of messages of one queue.

        Raises:
            ParseError: as `onParseError` says.
            RemoteProtocolError: the block is malformed.
        """
        places = block.places()
        arrays: dict[str, pa.Array] = {}
        has_bodies = self._is_strict or not self._columns.isdisjoint(_BODY_COLUMNS)
        bodies = Bodies(block, places) if has_bodies else None
        if bodies is not None:
            self._add_bodies(bodies, arrays)
        if self._columns & _NEEDS_PROPERTIES:
            self._add_properties(block, places, arrays)
        numbers: list[tuple[int, ...]] = list(zip(*places, strict=True)) or [()] * len(Place._fields)
        for name in self._columns - set(arrays):
            arrays[name] = self._plain(name, block, places, numbers, queue)
        batch = pa.RecordBatch.from_arrays([arrays[name] for name in self._schema.names], schema=self._schema)
        errors = {} if bodies is None else bodies.errors
        return self._without_poison(batch, places, errors, queue) if errors else Rows(batch, [])

    def _without_poison(self, batch: pa.RecordBatch, places: list[Place], errors: dict[int, str], queue: str) -> Rows:
        if self._on_parse_error == "fail":
            row, reason = min(errors.items())
            place = places[row]
            raise ParseError(
                f"message {place.message_id} of queue {queue!r} (position {place.position}): {reason}; option "
                f"'onParseError' can be dead-letter or null ({len(errors)} such messages in this block)"
            )
        if self._on_parse_error == "null":
            return Rows(batch, [])
        kept = [row for row in range(len(places)) if row not in errors]
        poison = [Poison(places[row], reason) for row, reason in sorted(errors.items())]
        return Rows(batch.take(pa.array(kept, type=pa.int64())), poison)

    def _add_bodies(self, bodies: Bodies, arrays: dict[str, pa.Array]) -> None:
        if "body" in self._columns:
            arrays["body"] = pa.array(bodies.bytes, type=pa.binary())
        if "bodyText" in self._columns or self._is_strict:
            texts = bodies.texts(strict=self._is_strict)
            if "bodyText" in self._columns:
                arrays["bodyText"] = _strings(texts)
            if VALUE_COLUMN in self._columns:
                kind = self._schema.field(VALUE_COLUMN).type
                arrays[VALUE_COLUMN] = parse_json(texts, kind, bodies.errors)

    def _add_properties(self, block: Block, places: list[Place], arrays: dict[str, pa.Array]) -> None:
        decode, data = self._decoder.entries, block.data
        rows = [decode(data, place.properties) for place in places]
        for column, (name, type_name) in HEADER_COLUMNS.items():
            if column in self._columns:
                arrays[column] = _header_column(column, [row.get(name) for row in rows], type_name)
        if "duplicateId" in self._columns:
            arrays["duplicateId"] = pa.array([duplicate_id(row.get("_AMQ_DUPL_ID")) for row in rows], type=pa.binary())
        if not self._columns.isdisjoint(PROPERTY_COLUMNS):
            self._add_maps(rows, arrays)

    def _add_maps(self, rows: list[dict[str, Entry]], arrays: dict[str, pa.Array]) -> None:
        left_out = NOT_IN_MAPS
        ends: list[int] = [0]
        names: list[str] = []
        entries: list[Entry] = []
        for row in rows:
            for name, entry in row.items():
                if entry[0] not in left_out.get(name, ()):
                    names.append(name)
                    entries.append(entry)
            ends.append(len(names))
        offsets, keys = pa.array(ends, type=pa.int32()), _strings(names)
        for column in PROPERTY_COLUMNS:
            if column in self._columns:
                shown = (
                    [entry[0] for entry in entries] if column == "propertyTypes" else list(map(property_text, entries))
                )
                kind = self._schema.field(column).type
                arrays[column] = pa.MapArray.from_arrays(offsets, keys, _strings(shown)).cast(kind)

    def _plain(
        self, name: str, block: Block, places: list[Place], numbers: list[tuple[int, ...]], queue: str
    ) -> pa.Array:
        match name:
            case "messageId":
                return pa.array(_message_ids(block.data, places), type=pa.string())
            case "address":
                return self._address_column(block.data, places)
            case "queue":
                return pa.repeat(pa.scalar(queue, type=pa.string()), len(places))
            case "bodyType":
                return pa.array([BODY_TYPES.get(kind, str(kind)) for kind in numbers[_TYPE]], type=pa.string())
            case _:
                return _number_column(name, numbers)

    def _address_column(self, data: bytes, places: list[Place]) -> pa.Array:
        known = self._addresses
        found: list[str] = []
        for place in places:
            encoded = data[place.body_end + 13 : place.address_end]
            address = known.get(encoded)
            if address is None:
                address = known[encoded] = utf_16_le_decode(encoded, "surrogatepass")[0]
            found.append(address)
        return _strings(found)


_TYPE: Final = Place._fields.index("type")


def _number_column(name: str, numbers: list[tuple[int, ...]]) -> pa.Array:
    def column(field: str) -> tuple[int, ...]:
        return numbers[Place._fields.index(field)]

    match name:
        case "sequenceId":
            return pa.array(column("message_id"), type=pa.int64())
        case "position":
            positions = pa.array(column("position"), type=pa.int64())
            return pc.if_else(pc.equal(positions, 0), None, positions)
        case "durable":
            return pc.not_equal(pa.array(column("durable"), type=pa.int8()), 0)
        case "priority":
            return pa.array(column("priority"), type=pa.int32())
        case "deliveryCount":
            return pa.array(column("deliveries"), type=pa.int32())
        case "redelivered":
            return pc.greater(pa.array(column("deliveries"), type=pa.int32()), 1)
        case _:
            return _times(column(name))


def _times(milliseconds: Iterable[int]) -> pa.Array:
    values = pa.array(milliseconds, type=pa.int64())
    is_one = pc.and_(pc.not_equal(values, 0), pc.less_equal(pc.abs(values), _MILLISECONDS_MAX))
    kept = pc.if_else(is_one, values, None)
    return pc.multiply(kept, 1000).cast(pa.timestamp("us", tz="UTC"))


def _message_ids(data: bytes, places: list[Place]) -> list[str | None]:
    found: list[str | None] = []
    for address_end in map(_ADDRESS_END, places):
        if data[address_end]:
            digits = data[address_end + 1 : address_end + 1 + _UUID_BYTES].hex()
            found.append(f"ID:{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}")
        else:
            found.append(None)
    return found


_ADDRESS_END: Final[Callable[[Place], int]] = itemgetter(Place._fields.index("address_end"))


def _header_column(column: str, entries: list[Entry | None], type_name: str) -> pa.Array:
    values = [entry[1] if entry is not None and entry[0] == type_name else None for entry in entries]
    if column == "groupSequence":
        return pa.array(values, type=pa.int32())
    if column == "routingType":
        values = [None if value is None else _ROUTING_TYPES.get(value, str(value)) for value in values]
    return _strings(values)


def _strings(values: Sequence[object]) -> pa.Array:
    """Texts; half of a surrogate pair, which UTF-8 does not have, is shown as a question mark."""
    try:
        return pa.array(values, type=pa.string())
    except UnicodeEncodeError:
        shown = [None if text is None else str(text).encode("utf-8", "replace").decode() for text in values]
        return pa.array(shown, type=pa.string())
