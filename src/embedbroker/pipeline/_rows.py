"""Blocks of messages as Arrow batches, column by column.

Responsible for the value of each column, and for the treatment of messages that cannot be parsed. Does not depend on
the origin of blocks, or on Spark: the types of the columns are passed in.

Hot: everything here runs per message of a batch; a column that is not requested costs nothing.
"""

from __future__ import annotations

from codecs import utf_16_le_decode
from typing import Final

import numpy as np
import pyarrow as pa
from attrs import frozen

from embedclient.errors import RemoteProtocolError

from ._body_columns import BODY_TYPES, Bodies, parse_json
from ._frames import Block, FramePosition, FramePositions
from ._property_arrays import PropertyArrays
from ._schema import VALUE_COLUMN
from ._vectors import Array, fields_at, gather, is_same, named, strings, uuid_texts

__all__ = ["ParseError", "Poison", "RowConverter", "Rows"]

# The largest time in milliseconds that fits into microseconds, the unit of Arrow and Spark: 292,000 years.
_MILLISECONDS_MAX: Final = (1 << 63) // 1000 - 1
_BODY_COLUMNS: Final = ("body", "bodyText", VALUE_COLUMN)
_FLAG: Final = np.dtype("u1")
# Before the characters of an address: the id of the sender's broker, whether there is an address, its length.
_ADDRESS_HEAD: Final = 13


class ParseError(ValueError):
    """A message does not match the option `format`, and `onParseError` is fail. The text names the message."""


@frozen
class Poison:
    """Hold a message that could not be parsed and must become a dead letter."""

    place: FramePosition
    reason: str


@frozen
class Rows:
    """Hold the batch of one block, and the messages that are not in it."""

    batch: pa.RecordBatch
    poison: list[Poison]


class RowConverter:
    """Convert blocks to batches.

    Args:
        schema: the columns, in order, with the types that Spark expects.
        form: the option `format`.
        on_parse_error: the option `onParseError`.
        deliveries_ahead: number to add to delivery counts. A consumer's counts include its own delivery. Where messages
            are browsed and not received, the next consumer's count is 1 more.
    """

    def __init__(
        self, schema: pa.Schema, *, form: str = "bytes", on_parse_error: str = "fail", deliveries_ahead: int = 0
    ) -> None:
        self._schema = schema
        self._columns = set(schema.names)
        self._is_strict = form in ("text", "json")
        self._on_parse_error = on_parse_error
        self._deliveries_ahead = deliveries_ahead
        self._properties = PropertyArrays(schema)

    def convert(self, block: Block, queue: str) -> Rows:
        """Return the rows of a block of messages of one queue.

        Raises:
            ParseError: a message cannot be parsed, and `onParseError` is fail.
            RemoteProtocolError: the block is malformed.
        """
        places = block.places()
        errors: dict[int, str] = {}
        arrays = self._properties.arrays(block, places, errors)
        has_bodies = self._is_strict or not self._columns.isdisjoint(_BODY_COLUMNS)
        bodies = Bodies(block, places) if has_bodies else None
        if bodies is not None:
            self._add_bodies(bodies, arrays)
        for name in self._columns - set(arrays):
            arrays[name] = _plain(name, block, places, queue, self._deliveries_ahead)
        batch = pa.RecordBatch.from_arrays([arrays[name] for name in self._schema.names], schema=self._schema)
        errors |= {} if bodies is None else bodies.errors
        return self._without_poison(batch, places, errors, queue) if errors else Rows(batch, [])

    def _without_poison(
        self, batch: pa.RecordBatch, places: FramePositions, errors: dict[int, str], queue: str
    ) -> Rows:
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
            arrays["body"] = bodies.column()
        if "bodyText" in self._columns:
            arrays["bodyText"] = bodies.text_column(strict=self._is_strict)
        if VALUE_COLUMN in self._columns:
            kind = self._schema.field(VALUE_COLUMN).type
            arrays[VALUE_COLUMN] = parse_json(bodies.texts(strict=True), kind, bodies.errors)
        elif self._is_strict:
            bodies.texts(strict=True)  # no column needs them, but invalid texts are errors


def _plain(name: str, block: Block, places: FramePositions, queue: str, deliveries_ahead: int) -> pa.Array:
    """Return a column that needs neither body nor properties."""
    match name:
        case "messageId":
            present = fields_at(block.buffer, places.address_end, _FLAG) != 0
            return uuid_texts(block.buffer, places.address_end + 1, present)
        case "address":
            return _addresses(block, places)
        case "queue":
            return pa.repeat(pa.scalar(queue, type=pa.string()), len(places))
        case "bodyType":
            return named(places.type, lambda kind: BODY_TYPES.get(kind, str(kind)))
        case "sequenceId":
            return pa.array(places.message_id)
        case "position":
            return pa.array(places.position, mask=places.position == 0)
        case "durable":
            return pa.array(places.durable != 0)
        case "priority":
            return pa.array(places.priority).cast(pa.int32())
        case "deliveryCount":
            return pa.array(places.deliveries + deliveries_ahead).cast(pa.int32())
        case "redelivered":
            return pa.array(places.deliveries + deliveries_ahead > 1)
        case "timestamp":
            return _times(places.timestamp)
        case _:
            return _times(places.expiration)


def _addresses(block: Block, places: FramePositions) -> pa.Array:
    starts, ends = places.body_end + _ADDRESS_HEAD, places.address_end
    sizes = np.maximum(ends - starts, 0)
    data = block.data
    if is_same(sizes) and is_same(gather(block.buffer, starts, int(sizes[0]))):
        encoded = data[int(starts[0]) : int(starts[0] + sizes[0])]
        return pa.repeat(strings([_address(encoded)])[0], len(places))
    known: dict[bytes, str] = {}
    found: list[str] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        encoded = data[start:end]
        address = known.get(encoded)
        if address is None:
            address = known[encoded] = _address(encoded)
        found.append(address)
    return strings(found)


def _address(encoded: bytes) -> str:
    try:
        return utf_16_le_decode(encoded, "surrogatepass", True)[0]
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"a malformed address: {error}") from error


def _times(milliseconds: Array) -> pa.Array:
    is_none = (milliseconds == 0) | (milliseconds > _MILLISECONDS_MAX) | (milliseconds < -_MILLISECONDS_MAX)
    microseconds = pa.array(np.where(is_none, 0, milliseconds) * 1000, mask=is_none)
    return microseconds.cast(pa.timestamp("us", tz="UTC"))
