"""The bodies of messages as columns: bytes, texts, and values parsed from JSON.

Responsible for the form of a body of each type in each of these, and for detecting what cannot be parsed. Does not
depend on the treatment of a message that cannot be parsed.
"""

from __future__ import annotations

import json
import zlib
from codecs import utf_16_le_decode
from functools import cached_property
from typing import Final

import pyarrow as pa
from pyarrow import json as arrow_json

from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import MessageType, property_key

from ._frames import Block, FramePosition, FramePositions
from ._property_columns import PropertyDecoder
from ._vectors import ascii_texts, binaries, gather, pieces, strings

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
_COMPRESSED: Final = "_AMQ_LARGE_COMPRESSED"
# Only a filter: the same bytes may occur in a body, a value or a longer name.
_COMPRESSED_KEY: Final = property_key(_COMPRESSED)
_TEXT: Final = MessageType.TEXT
# Before a body: its end.
_SIZE_BYTES: Final = 4
# Before the characters of a text: whether there is one, and its length.
_TEXT_HEAD: Final = 5


class Bodies:
    """Hold the bodies of one block, decoded when a column needs them. Errors are by the number of the row."""

    def __init__(self, block: Block, places: FramePositions) -> None:
        self._block = block
        self._places = places
        self.errors: dict[int, str] = {}
        self._is_text = places.type == _TEXT
        self._compressed = self._compressed_rows()
        # True if no body must be inflated, so all can be read in place.
        self._is_plain = not self._compressed

    def column(self) -> pa.Array:
        """Return the bodies as bytes: texts as UTF-8, a null text as null, and every other body unchanged.

        Null also marks a body that cannot be read at all. Strict `texts` must be called after this.
        """
        if not self._is_text.any() and self._is_plain:
            starts, ends = self._places.start + _SIZE_BYTES, self._places.body_end
            return binaries(pieces(self._block.buffer, starts, ends), ends - starts, pa.binary())
        ascii_only = self._ascii_only
        return pa.array(self._bytes, type=pa.binary()) if ascii_only is None else ascii_only.cast(pa.binary())

    def text_column(self, *, strict: bool) -> pa.Array:
        """Return the bodies as texts, see `texts`."""
        ascii_only = self._ascii_only
        return strings(self.texts(strict=strict)) if ascii_only is None else ascii_only

    def texts(self, *, strict: bool) -> list[str | None]:
        """Return the texts of text messages. `strict`: bodies of bytes are UTF-8, and everything else is an error."""
        return self._strict_texts if strict else self._texts

    @cached_property
    def _ascii_only(self) -> pa.Array | None:
        """Return the texts, if there are no other bodies and they are ASCII."""
        starts, ends = self._places.start + _SIZE_BYTES, self._places.body_end
        if not self._is_text.all() or not self._is_plain or not (ends - starts >= _TEXT_HEAD).all():
            return None
        buffer = self._block.buffer
        if not gather(buffer, starts, 1).all():  # some are null
            return None
        starts = starts + _TEXT_HEAD
        return ascii_texts(pieces(buffer, starts, ends), ends - starts)

    @cached_property
    def _raw(self) -> list[bytes]:
        data, places = self._block.data, self._places
        starts, ends = (places.start + _SIZE_BYTES).tolist(), places.body_end.tolist()
        raw = [data[start:end] for start, end in zip(starts, ends, strict=True)]
        if not self._is_plain:
            self._inflate(raw)
        return raw

    def _compressed_rows(self) -> list[int]:
        """Return the rows whose property marks the body as compressed: the boolean true under the exact name."""
        data = self._block.data
        if data.find(_COMPRESSED_KEY) < 0:
            return []
        decoder = PropertyDecoder()
        return [
            row
            for row, place in enumerate(self._places)
            if data.find(_COMPRESSED_KEY, place.properties, place.end) >= 0 and _is_compressed(decoder, data, place)
        ]

    def _inflate(self, raw: list[bytes]) -> None:
        for row in self._compressed:
            inflater = zlib.decompressobj()
            try:
                raw[row] = inflater.decompress(raw[row], INFLATED_BYTES_MAX)
            except zlib.error as error:
                self.errors[row] = f"the compressed body is malformed: {error}"
                continue
            if not inflater.eof:
                is_long = len(raw[row]) >= INFLATED_BYTES_MAX
                self.errors[row] = (
                    f"the compressed body holds more than {INFLATED_BYTES_MAX} bytes"
                    if is_long
                    else "the compressed body is malformed: it is cut short"
                )

    @property
    def _bytes(self) -> list[bytes | None]:
        found: list[bytes | None] = list(self._raw)
        if self._is_text.any():
            for row, text in enumerate(self._texts):
                if self._is_text[row]:
                    found[row] = None if text is None else text.encode("utf-8", "surrogatepass")
        for row in self.errors:
            found[row] = None
        return found

    @cached_property
    def _texts(self) -> list[str | None]:
        texts: list[str | None] = [None] * len(self._raw)
        for row in self._is_text.nonzero()[0].tolist():
            raw = self._raw[row]
            if raw and raw[0] and row not in self.errors:
                try:
                    texts[row] = utf_16_le_decode(raw[_TEXT_HEAD:], "surrogatepass", True)[0]
                except UnicodeDecodeError as error:
                    self.errors[row] = f"the text is malformed: {error}"
        return texts

    @cached_property
    def _strict_texts(self) -> list[str | None]:
        found = list(self._texts)
        for row, kind in enumerate(self._places.type.tolist()):
            if row in self.errors:
                continue
            if kind == MessageType.BYTES:
                try:
                    found[row] = self._raw[row].decode()
                except UnicodeDecodeError as error:
                    self.errors[row] = f"the body is not UTF-8: {error.reason} at byte {error.start}"
            elif kind != _TEXT:
                self.errors[row] = f"a message of type {BODY_TYPES.get(kind, kind)} has no text"
        return found


def _is_compressed(decoder: PropertyDecoder, data: bytes, place: FramePosition) -> bool:
    """Return True if the properties of a message mark its body as compressed. Malformed properties mark nothing."""
    try:
        return decoder.entries(data, place.properties, place.end).get(_COMPRESSED) == ("boolean", True)
    except RemoteProtocolError:
        return False


def parse_json(texts: list[str | None], kind: pa.StructType, errors: dict[int, str]) -> pa.Array:
    """Return one value per text, null where it could not be parsed; `errors` receives the reason, by row."""
    good: list[int] = []
    for row, text in enumerate(texts):
        if row in errors:
            continue
        try:
            # Only to check that each text is one object. Arrow's reader takes a stream of them, and would not detect a
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
    """Return the values of the good rows; one by one only where not all of them fit the type."""
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
    """Return JSON objects as structs.

    Raises:
        pyarrow.ArrowException: a text does not fit the type, or Arrow does not read the type from JSON.
    """
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
