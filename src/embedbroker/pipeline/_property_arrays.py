"""The property columns of a block, for many messages at once where their properties are alike.

Messages of one producer have the same properties of the same types, and often of the same sizes. Then every value
stands at the same place in each, and the first message shows the places. Such messages are a group, whose columns are
cut out of it as a whole. The remaining messages are decoded one by one, and only there properties can be malformed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from embedclient.errors import RemoteProtocolError

from ._frames import Block, FramePositions
from ._property_columns import (
    DUPLICATE_ID,
    HEADER_COLUMNS,
    NOT_IN_MAPS,
    Entry,
    PropertyDecoder,
    Span,
    duplicate_id,
    property_text,
    read_value,
)
from ._schema import PROPERTY_COLUMNS
from ._vectors import Array, ascii_texts, binaries, gather, is_same, named, strings

__all__ = ["PropertyArrays"]

# Smaller groups are decoded one by one, and so are messages that match none of so many patterns.
ALIKE_MIN: Final = 32
WAYS_MAX: Final = 16
_ROUTING_TYPES: Final = {0: "MULTICAST", 1: "ANYCAST"}
_WHOLE_NUMBERS: Final = ("byte", "short", "int", "long")


@frozen
class _Alike:
    """Hold messages with the same properties, of the same types and sizes: `matrix` has a row of bytes for each."""

    spans: dict[str, Span]
    matrix: Array

    def __len__(self) -> int:
        return len(self.matrix)

    def values(self, span: Span) -> Array:
        return np.ascontiguousarray(self.matrix[:, span.start : span.end])

    def numbers(self, span: Span) -> Array:
        return self.values(span).view(f">i{span.end - span.start}")[:, 0].astype(np.int64)

    def texts(self, span: Span) -> pa.Array:
        """Return texts unchanged, other values as texts."""
        values = self.values(span)
        match span.type:
            case "null":
                return pa.nulls(len(self), pa.string())
            case "boolean":
                return pc.if_else(pa.array(values[:, 0] != 0), "true", "false")
            case kind if kind in _WHOLE_NUMBERS:
                return pa.array(self.numbers(span)).cast(pa.string())
        if is_same(values):
            return pa.repeat(strings([_text_of(span.type, values[0].tobytes())])[0], len(self))
        if span.type == "string":
            found = ascii_texts(values, np.full(len(self), span.end - span.start))
            if found is not None:
                return found
        return strings([_text_of(span.type, value.tobytes()) for value in values])

    def binaries(self, span: Span) -> pa.Array:
        values = self.values(span)
        return binaries(values, np.full(len(self), values.shape[1]), pa.binary())


def _text_of(type_name: str, data: bytes) -> str | None:
    try:
        return property_text((type_name, read_value(type_name, data)))
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"malformed properties: {error}") from error


class PropertyArrays:
    """Build the columns that need properties. `schema` has all columns of a row; others are ignored."""

    def __init__(self, schema: pa.Schema) -> None:
        names = set(schema.names)
        self._headers = {column: where for column, where in HEADER_COLUMNS.items() if column in names}
        self._has_duplicate_ids = "duplicateId" in names
        self._maps = {column: schema.field(column).type for column in PROPERTY_COLUMNS if column in names}
        self._decoder = PropertyDecoder()

    def arrays(self, block: Block, places: FramePositions, errors: dict[int, str]) -> dict[str, pa.Array]:
        """Return the columns, by name; none if none needs properties.

        Malformed properties count as absent: `errors` receives the reason, by row.
        """
        if not self._headers and not self._has_duplicate_ids and not self._maps:
            return {}
        order: list[Array] = []
        parts: list[dict[str, pa.Array]] = []
        for rows, alike in self._groups(block, places):
            order.append(rows)
            parts.append(self._part(block, places, rows, alike, errors))
        if len(parts) == 1:
            return parts[0]
        numbers = np.concatenate(order)
        back: Array = np.empty(len(numbers), dtype=np.int64)
        back[numbers] = np.arange(len(numbers))
        return {name: pa.concat_arrays([part[name] for part in parts]).take(pa.array(back)) for name in parts[0]}

    def _part(
        self, block: Block, places: FramePositions, rows: Array, alike: _Alike | None, errors: dict[int, str]
    ) -> dict[str, pa.Array]:
        if alike is not None:
            try:
                return self._at_once(alike)
            except RemoteProtocolError:  # one of them is malformed: decoding one by one finds it
                pass
        return self._one_by_one(block, places, rows, errors)

    def _groups(self, block: Block, places: FramePositions) -> Iterator[tuple[Array, _Alike | None]]:
        """Yield all rows, in groups that are alike; rows without a large enough group come last, if there are any."""
        sizes = places.end - places.properties
        rows = np.arange(len(places))
        left_over: list[Array] = []
        for _ in range(WAYS_MAX):
            if len(rows) < ALIKE_MIN:
                break
            usual = np.bincount(np.minimum(sizes[rows], _SIZE_MAX)).argmax()
            same_size = rows[sizes[rows] == usual]
            if len(same_size) < ALIKE_MIN:
                break
            begin = int(places.properties[same_size[0]])
            spans = self._spans(block.data, begin, begin + int(usual))
            matrix = gather(block.buffer, places.properties[same_size], int(usual))
            if spans is None:
                is_alike = (matrix == matrix[0]).all(axis=1)
                left_over.append(same_size[is_alike])
            else:
                is_alike = ((matrix == matrix[0]) | _is_value(spans, int(usual))).all(axis=1)
                yield same_size[is_alike], _Alike(spans, matrix[is_alike])
            is_left: Array = np.ones(len(places), dtype=bool)
            is_left[same_size[is_alike]] = False
            rows = rows[is_left[rows]]
        left_over.append(rows)
        rest = np.concatenate(left_over)
        if len(rest) or not len(places):
            yield rest, None

    def _spans(self, data: bytes, begin: int, end: int) -> dict[str, Span] | None:
        """Return the places of the values, counted from the beginning, or None if they are not enough to read them."""
        try:
            found = self._decoder.spans(data, begin, end)
        except RemoteProtocolError:
            return None
        spans = {span.name: Span(span.name, span.type, span.start - begin, span.end - begin) for span in found}
        return spans if len(spans) == len(found) else None

    def _at_once(self, alike: _Alike) -> dict[str, pa.Array]:
        arrays: dict[str, pa.Array] = {}
        for column, (name, type_name) in self._headers.items():
            span = alike.spans.get(name)
            if span is None or span.type != type_name:
                arrays[column] = pa.nulls(len(alike), _header_type(column))
            elif column == "routingType":
                arrays[column] = named(alike.numbers(span), _routing_type)
            elif column == "groupSequence":
                arrays[column] = pa.array(alike.numbers(span)).cast(pa.int32())
            else:
                arrays[column] = alike.texts(span)
        if self._has_duplicate_ids:
            span = alike.spans.get(DUPLICATE_ID)
            if span is not None and span.type in ("string", "bytes"):
                arrays["duplicateId"] = alike.binaries(span)
            else:
                arrays["duplicateId"] = pa.nulls(len(alike), pa.binary())
        if self._maps:
            self._add_equal_maps(alike, arrays)
        return arrays

    def _add_equal_maps(self, alike: _Alike, arrays: dict[str, pa.Array]) -> None:
        shown = [span for span in alike.spans.values() if span.type not in NOT_IN_MAPS.get(span.name, ())]
        count, rows = len(shown), len(alike)
        offsets = pa.array(np.arange(rows + 1) * count, type=pa.int32())
        in_turn = pa.array(np.tile(np.arange(count), rows))
        keys = strings([span.name for span in shown]).take(in_turn)
        for column, kind in self._maps.items():
            if column == "propertyTypes" or not shown:
                values = strings([span.type for span in shown]).take(in_turn)
            else:
                # Column by column in the input, and row by row in a map.
                by_row = (np.arange(rows)[:, None] + np.arange(count) * rows).reshape(-1)
                values = pa.concat_arrays([alike.texts(span) for span in shown]).take(pa.array(by_row))
            arrays[column] = pa.MapArray.from_arrays(offsets, keys, values).cast(kind)

    def _one_by_one(
        self, block: Block, places: FramePositions, numbers: Array, errors: dict[int, str]
    ) -> dict[str, pa.Array]:
        arrays: dict[str, pa.Array] = {}
        rows: list[dict[str, Entry]] = []
        begins, ends = places.properties[numbers].tolist(), places.end[numbers].tolist()
        for number, begin, end in zip(numbers.tolist(), begins, ends, strict=True):
            try:
                rows.append(self._decoder.entries(block.data, begin, end))
            except RemoteProtocolError as error:
                rows.append({})
                errors[number] = str(error)
        for column, (name, type_name) in self._headers.items():
            arrays[column] = _header_column(column, [row.get(name) for row in rows], type_name)
        if self._has_duplicate_ids:
            arrays["duplicateId"] = pa.array([duplicate_id(row.get(DUPLICATE_ID)) for row in rows], type=pa.binary())
        if self._maps:
            self._add_maps(rows, arrays)
        return arrays

    def _add_maps(self, rows: list[dict[str, Entry]], arrays: dict[str, pa.Array]) -> None:
        ends: list[int] = [0]
        names: list[str] = []
        entries: list[Entry] = []
        for row in rows:
            for name, entry in row.items():
                if entry[0] not in NOT_IN_MAPS.get(name, ()):
                    names.append(name)
                    entries.append(entry)
            ends.append(len(names))
        offsets, keys = pa.array(ends, type=pa.int32()), strings(names)
        for column, kind in self._maps.items():
            is_types = column == "propertyTypes"
            shown = [entry[0] for entry in entries] if is_types else list(map(property_text, entries))
            arrays[column] = pa.MapArray.from_arrays(offsets, keys, strings(shown)).cast(kind)


# Larger ones are counted with this size, and then are not alike.
_SIZE_MAX: Final = 1 << 16


def _is_value(spans: dict[str, Span], size: int) -> Array:
    found: Array = np.zeros(size, dtype=bool)
    for span in spans.values():
        found[span.start : span.end] = True
    return found


def _header_type(column: str) -> pa.DataType:
    return pa.int32() if column == "groupSequence" else pa.string()


def _routing_type(number: int) -> str:
    return _ROUTING_TYPES.get(number, str(number))


def _header_column(column: str, entries: list[Entry | None], type_name: str) -> pa.Array:
    values = [entry[1] if entry is not None and entry[0] == type_name else None for entry in entries]
    if column == "groupSequence":
        return pa.array(values, type=pa.int32())
    if column == "routingType":
        values = [None if value is None else _routing_type(int(str(value))) for value in values]
    return strings(values)
