"""The bodies of messages as columns: bytes, texts, and values parsed out of JSON.

Responsible for what a body of each type is to each of these, and for what cannot be parsed. Refuses to know what
becomes of a message that cannot be parsed.
"""

from __future__ import annotations

import json
import zlib
from codecs import utf_16_le_decode
from typing import Final

import pyarrow as pa
from pyarrow import json as arrow_json

from embedclient.wire.core import MessageType, property_key

from ._frames import Block, Place

__all__ = ["BODY_TYPES", "Bodies", "parse_json", "read_objects"]

BODY_TYPES: Final = {
    MessageType.DEFAULT: "default",
    MessageType.OBJECT: "object",
    MessageType.TEXT: "text",
    MessageType.BYTES: "bytes",
    MessageType.MAP: "map",
    MessageType.STREAM: "stream",
}
INFLATED_BYTES_MAX: Final = 100 * 1024 * 1024
_COMPRESSED: Final = property_key("_AMQ_LARGE_COMPRESSED")
_TEXT: Final = MessageType.TEXT
# In front of the characters of a text: whether there is one, and its length.
_TEXT_HEAD: Final = 5


class Bodies:
    """The bodies of one block, decoded when a column asks for them. Errors are by the number of the row."""

    def __init__(self, block: Block, places: list[Place]) -> None:
        data = block.data
        self.errors: dict[int, str] = {}
        self._types = [place.type for place in places]
        self._raw: list[bytes] = [data[place.start + 4 : place.body_end] for place in places]
        if data.find(_COMPRESSED) >= 0:
            self._inflate(data, places)
        self._texts: list[str | None] | None = None

    def _inflate(self, data: bytes, places: list[Place]) -> None:
        for row, place in enumerate(places):
            if data.find(_COMPRESSED, place.properties, place.end) >= 0:
                inflater = zlib.decompressobj()
                try:
                    self._raw[row] = inflater.decompress(self._raw[row], INFLATED_BYTES_MAX)
                except zlib.error as error:
                    self.errors[row] = f"the compressed body is malformed: {error}"
                if inflater.unconsumed_tail:
                    self.errors[row] = f"the compressed body holds more than {INFLATED_BYTES_MAX} bytes"

    @property
    def bytes(self) -> list[bytes | None]:
        """Texts as UTF-8, a text that is null as None, and every other body as it is."""
        if _TEXT not in self._types:
            return list(self._raw)
        texts = self._text_messages()
        return [
            (None if text is None else text.encode("utf-8", "surrogatepass")) if kind == _TEXT else raw
            for kind, raw, text in zip(self._types, self._raw, texts, strict=True)
        ]

    def texts(self, *, strict: bool) -> list[str | None]:
        """The texts of text messages. `strict`: bodies of bytes are UTF-8, and everything else is an error."""
        texts = self._text_messages()
        return self._strict(texts) if strict else texts

    def _text_messages(self) -> list[str | None]:
        if self._texts is None:
            self._texts = [None] * len(self._raw)
            for row, (kind, raw) in enumerate(zip(self._types, self._raw, strict=True)):
                if kind == _TEXT and raw and raw[0]:
                    try:
                        self._texts[row] = utf_16_le_decode(raw[_TEXT_HEAD:], "surrogatepass", True)[0]
                    except UnicodeDecodeError as error:
                        self.errors[row] = f"the text is malformed: {error}"
        return self._texts

    def _strict(self, texts: list[str | None]) -> list[str | None]:
        found = list(texts)
        for row, kind in enumerate(self._types):
            if kind == MessageType.BYTES:
                try:
                    found[row] = self._raw[row].decode()
                except UnicodeDecodeError as error:
                    self.errors[row] = f"the body is not UTF-8: {error.reason} at byte {error.start}"
            elif kind != _TEXT:
                self.errors[row] = f"a message of type {BODY_TYPES.get(kind, kind)} has no text"
        return found


def parse_json(texts: list[str | None], kind: pa.StructType, errors: dict[int, str]) -> pa.Array:
    """One value per text, null where it could not be parsed; `errors` hears why, by row."""
    good: list[int] = []
    for row, text in enumerate(texts):
        if row in errors:
            continue
        try:
            # Only to know that each text is one object: Arrow's reader takes a stream of them, and would not notice a
            # text that ends in the next one.
            if text is not None and isinstance(json.loads(text), dict):
                good.append(row)
            else:
                errors[row] = "the body is not a JSON object"
        except (ValueError, RecursionError) as error:
            errors[row] = f"the body is not JSON: {error}"
    values = _converted(texts, good, kind, errors)
    place_of = {row: place for place, row in enumerate(row for row in good if row not in errors)}
    return values.take(pa.array([place_of.get(row) for row in range(len(texts))], type=pa.int64()))


def _converted(texts: list[str | None], good: list[int], kind: pa.StructType, errors: dict[int, str]) -> pa.Array:
    """The values of the good rows; one by one only where not all of them fit the type."""
    try:
        return read_objects([str(texts[row]) for row in good], kind)
    except (pa.ArrowException, UnicodeEncodeError):
        pass
    parts = [pa.array([], type=kind)]
    for row in good:
        try:
            parts.append(read_objects([str(texts[row])], kind))
        except (pa.ArrowException, UnicodeEncodeError) as error:
            errors[row] = f"the body does not fit {kind}: {error}"
    return pa.concat_arrays(parts)


def read_objects(texts: list[str], kind: pa.StructType) -> pa.Array:
    """JSON objects as structs. Raises pyarrow.ArrowException, also for types that Arrow does not read from JSON."""
    if not texts:
        return pa.array([], type=kind)
    data = "\n".join(texts).encode()
    table = arrow_json.read_json(
        pa.BufferReader(data),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=pa.schema(list(kind)), newlines_in_values=True, unexpected_field_behavior="ignore"
        ),
    )
    if len(table) != len(texts):
        raise pa.ArrowInvalid(f"{len(texts)} objects were read as {len(table)}")
    return pa.StructArray.from_arrays(
        [column.combine_chunks() for column in table.columns], fields=[table.schema.field(i) for i in range(len(kind))]
    ).cast(kind)
