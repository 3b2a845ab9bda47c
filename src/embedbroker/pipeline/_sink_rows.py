"""Rows of a data frame as encoded messages.

Responsible for the part of a message that each column becomes. An error names the row, the column and the reason. Does
not depend on brokers or transactions.

Hot: columns are read as lists. A destination's address and properties are encoded once for all rows without individual
headers or properties; such a row costs its body alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from embedclient.model import Properties, PropertyType, PropertyValue, RoutingType, TypedValue
from embedclient.wire.core import MessageTemplate, encode_text

from . import _sink_values
from ._sink_identity import Task
from ._sink_options import BODY_TYPES, SinkOptions
from ._sink_values import Target

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch

__all__ = ["Row", "RowEncoder", "RowError"]

T = TypeVar("T")
Value = PropertyValue | list[tuple[str, str | None]]
Columns = dict[str, Sequence[Value]]

TEMPLATES_MAX = 1_000
_TEXT, _BYTES = BODY_TYPES["text"], BODY_TYPES["bytes"]
_TIMES = ("timestamp", "expiration")
# Column: property, and its type on the wire.
_HEADERS = {
    "correlationId": ("JMSCorrelationID", PropertyType.STRING),
    "replyTo": ("JMSReplyTo", PropertyType.STRING),
    "type": ("JMSType", PropertyType.STRING),
    "groupId": ("_AMQ_GROUP_ID", PropertyType.STRING),
    "groupSequence": ("_AMQ_GROUP_SEQUENCE", PropertyType.INT),
    "duplicateId": ("_AMQ_DUPL_ID", PropertyType.BYTES),
}
_CHECKS: dict[str, Callable[..., PropertyValue]] = {
    "replyTo": _sink_values.reply_to,
    "groupSequence": _sink_values.group_sequence,
}
_ROUTING_TYPES = {kind: TypedValue(int(kind), PropertyType.BYTE) for kind in RoutingType}


class RowError(ValueError):
    """A row cannot be written; the text has its partition, its number in there (from 0), the column and the reason."""


class Row:
    """Hold one encoded message, and the number of its row in the partition."""

    __slots__ = ("number", "raw", "target")

    def __init__(self, number: int, target: Target, raw: bytearray) -> None:
        self.number = number
        self.target = target
        self.raw = raw


class RowEncoder:
    """Convert the rows of one attempt at one partition to messages, batch by batch.

    `columns` are those of `sink_columns`; `now_ms` returns Unix milliseconds.
    """

    def __init__(self, options: SinkOptions, columns: Sequence[str], task: Task, now_ms: Callable[[], int]) -> None:
        self._options = options
        self._columns = columns
        self._task = task
        self._now_ms = now_ms
        self._rows = 0
        self._templates: dict[Target, MessageTemplate] = {}
        self._headers = {name: _HEADERS[name] for name in columns if name in _HEADERS}
        self._is_plain = options.is_exactly_once and not self._headers and "properties" not in columns
        self._fixed_target = _fixed_target(options)
        self._is_bodies_alone = (
            self._is_plain and self._fixed_target is not None and options.body_type in (None, "bytes")
        )
        self._body_at = columns.index("body") if "body" in columns else -1
        # Ids of messages: unique, and made without a system call for each.
        self._id_head = os.urandom(8)

    def encode(self, batch: RecordBatch) -> list[Row]:
        """Return the messages of a batch, in order. Raises RowError."""
        columns = self._lists(batch)
        now_ms = self._now_ms()
        first = self._rows
        self._rows += batch.num_rows
        if self._is_bodies_alone and columns.keys() == {"body"} and str(batch.column(self._body_at).type) == "binary":
            return self._encode_bodies(columns["body"], first, now_ms)
        encode_one = self._encode_one
        return [encode_one(columns, index, first + index, now_ms) for index in range(batch.num_rows)]

    def _encode_bodies(self, bodies: Sequence[Value], first: int, now_ms: int) -> list[Row]:
        """Return rows that have only bodies: the results of `_encode_one`, without looking for more."""
        options, target = self._options, self._fixed_target
        assert target is not None
        encode = self._template(target).message
        durable, priority, id_head = options.durable, options.priority, self._id_head
        expiration = now_ms + options.time_to_live_ms if options.time_to_live_ms else 0
        rows = []
        for number, body in enumerate(bodies, first):
            identity = id_head + number.to_bytes(8, "big")
            content = body if isinstance(body, bytes) else b""
            message = encode(content, _BYTES, durable, priority, now_ms, expiration, identity)
            rows.append(Row(number, target, message.raw))
        return rows

    def _lists(self, batch: RecordBatch) -> Columns:
        lists: Columns = {}
        for name, column in zip(self._columns, batch.columns, strict=True):
            if name in _TIMES:
                lists[name] = _milliseconds(column)
            elif name:
                lists[name] = self._values(name, column)
        return lists

    def _values(self, name: str, column: Array) -> list[Value]:
        try:
            return column.to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types
        except UnicodeDecodeError:
            # A string column of Spark may hold any bytes: a cast does not check them.
            for index in range(len(column)):
                try:
                    column[index].as_py()
                except UnicodeDecodeError as error:
                    raise self.error(self._rows + index, name, f"a string has to be UTF-8: {error}") from None
            raise

    def _encode_one(self, columns: Columns, index: int, number: int, now_ms: int) -> Row:
        options = self._options
        target = self._target(columns, index, number)
        template = self._template(target) if self._is_plain else self._own_template(target, columns, index, number)
        kind, body = self._body(columns, index, number)
        rank = self._checked(columns, "priority", index, number, _sink_values.priority)
        timestamp = self._checked(columns, "timestamp", index, number, _time)
        durable = columns["durable"][index] if "durable" in columns else None
        identity = self._checked(columns, "messageId", index, number, _sink_values.message_id)
        message = template.message(
            body,
            kind,
            options.durable if durable is None else bool(durable),
            options.priority if rank is None else rank,
            now_ms if timestamp is None else timestamp,
            self._expiration(columns, index, number, now_ms),
            self._id_head + number.to_bytes(8, "big") if identity is None else identity,
        )
        return Row(number, target, message.raw)

    def _checked(self, columns: Columns, name: str, index: int, number: int, check: Callable[..., T]) -> T | None:
        """Return the result of the check for a value, or None without a value."""
        values = columns.get(name)
        value = None if values is None else values[index]
        if value is None:
            return None
        try:
            return check(value)
        except ValueError as error:
            raise self.error(number, name, str(error)) from None

    def error(self, number: int, column: str, reason: str) -> RowError:
        """Return the error that names a row."""
        return RowError(f"partition {self._task.partition}, row {number}, column {column!r}: {reason}")

    # --- destination ---

    def _target(self, columns: Columns, index: int, number: int) -> Target:
        if self._fixed_target is not None:
            return self._fixed_target
        name = "destination" if "destination" in columns else "address"
        routing = columns["routingType"][index] if "routingType" in columns else None
        try:
            return _sink_values.target_of(_text(columns[name][index]), _text(routing))
        except ValueError as error:
            raise self.error(number, name, str(error)) from None

    def _template(self, target: Target) -> MessageTemplate:
        template = self._templates.get(target)
        if template is None:
            if len(self._templates) >= TEMPLATES_MAX:
                self._templates.clear()
            routing = {"_AMQ_ROUTING_TYPE": _ROUTING_TYPES[target.routing_type]}
            template = self._templates[target] = MessageTemplate(target.address, Properties.of_entries(routing))
        return template

    # --- content ---

    def _own_template(self, target: Target, columns: Columns, index: int, number: int) -> MessageTemplate:
        entries: dict[str, TypedValue] = {}
        if "properties" in columns:
            self._add_properties(columns, index, number, entries)
        for column, (name, kind) in self._headers.items():
            value = columns[column][index]
            if value is not None:
                assert not isinstance(value, list)
                if column in _CHECKS:
                    value = self._checked(columns, column, index, number, _CHECKS[column])
                entries[name] = TypedValue(value, kind)
        if not self._options.is_exactly_once:
            entries["_AMQ_DUPL_ID"] = TypedValue(self._task.duplicate_id(number), PropertyType.BYTES)
        if not entries:
            return self._template(target)
        entries["_AMQ_ROUTING_TYPE"] = _ROUTING_TYPES[target.routing_type]
        return MessageTemplate(target.address, Properties.of_entries(entries))

    def _add_properties(self, columns: Columns, index: int, number: int, entries: dict[str, TypedValue]) -> None:
        types = columns["propertyTypes"][index] if "propertyTypes" in columns else None
        values = columns["properties"][index]
        if values:
            assert isinstance(values, list)
            try:
                _sink_values.properties(values, dict(types) if isinstance(types, list) else {}, entries)
            except ValueError as error:
                raise self.error(number, "properties", str(error)) from None

    def _body(self, columns: Columns, index: int, number: int) -> tuple[int, bytes]:
        named = columns["bodyType"][index] if "bodyType" in columns else None
        type_name = _text(named) or self._options.body_type
        column = "body" if "body" in columns and columns["body"][index] is not None else "bodyText"
        value = columns[column][index] if column in columns else None
        if type_name is None:
            kind = _TEXT if isinstance(value, str) else _BYTES
        elif (found := BODY_TYPES.get(type_name.lower())) is not None:
            kind = found
        else:
            raise self.error(number, "bodyType", f"there is no type {type_name!r}; there are {', '.join(BODY_TYPES)}")
        if kind == _TEXT:
            return kind, self._text_body(value, column, number)
        if isinstance(value, str):
            return kind, value.encode()
        return kind, value if isinstance(value, bytes) else b""

    def _text_body(self, value: Value, column: str, number: int) -> bytes:
        if isinstance(value, bytes):
            try:
                # The source represents half a surrogate pair so in a text's bytes.
                value = value.decode("utf-8", "surrogatepass")
            except UnicodeDecodeError as error:
                raise self.error(number, column, f"a text has to be UTF-8: {error}") from None
        return encode_text(_text(value))

    def _expiration(self, columns: Columns, index: int, number: int, now_ms: int) -> int:
        expiration = self._checked(columns, "expiration", index, number, _time)
        if expiration is not None:
            return expiration
        lifetime = self._checked(columns, "timeToLiveMs", index, number, _lifetime)
        if lifetime is None:
            lifetime = self._options.time_to_live_ms
        return now_ms + lifetime if lifetime else 0


def _fixed_target(options: SinkOptions) -> Target | None:
    if options.queue is not None:
        return Target(options.queue, RoutingType.ANYCAST)
    return None if options.topic is None else Target(options.topic, RoutingType.MULTICAST)


def _text(value: Value) -> str | None:
    assert value is None or isinstance(value, str)
    return value


def _time(value: int) -> int:
    if value < 0:
        raise ValueError("a time before 1970 cannot be sent")
    return value


def _lifetime(value: int) -> int:
    if not 0 <= value <= 2**62:
        raise ValueError(f"a time to live is a number of milliseconds from 0 on, not {value}")
    return value


def _milliseconds(column: object) -> Sequence[int | None]:
    """Return Unix milliseconds of a column of times; finer parts are cut off."""
    import pyarrow

    unit = pyarrow.timestamp("ms", tz=column.type.tz)  # type: ignore[attr-defined]  # an array of times
    numbers = column.cast(unit, safe=False).cast(pyarrow.int64())  # type: ignore[attr-defined]  # as above
    return numbers.to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types
