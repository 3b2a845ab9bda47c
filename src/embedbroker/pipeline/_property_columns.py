"""The properties of messages as columns: those with a separate column, and the maps of all others.

Responsible for which property has a column, and for the texts of values in maps: a type's name beside a text restores
the value. Does not depend on Arrow.

Names repeat, so each is decoded once.
"""

from __future__ import annotations

from base64 import b64encode
from codecs import utf_16_le_decode
from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from embedclient.errors import RemoteProtocolError
from embedclient.model import number_text

__all__ = [
    "DUPLICATE_ID",
    "HEADER_COLUMNS",
    "NOT_IN_MAPS",
    "Entry",
    "PropertyDecoder",
    "Span",
    "duplicate_id",
    "property_text",
    "read_value",
]

# A decoded property: type name and value. Texts are str, bytes are bytes, other values are of their Python types.
Entry = tuple[str, object]

# Column: the property that it shows, and its required type; a property of another type stays in the maps.
HEADER_COLUMNS: Final = {
    "routingType": ("_AMQ_ROUTING_TYPE", "byte"),
    "correlationId": ("JMSCorrelationID", "string"),
    "replyTo": ("JMSReplyTo", "string"),
    "type": ("JMSType", "string"),
    "groupId": ("_AMQ_GROUP_ID", "string"),
    "groupSequence": ("_AMQ_GROUP_SEQUENCE", "int"),
    "user": ("_AMQ_VALIDATED_USER", "string"),
}
DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
# The connection that sent it: meaningful only to consumers of that connection.
_CONNECTION_ID: Final = "__AMQ_CID"
# The maps show every property except these, while they have these types: a separate column shows them, or they are of
# no use.
NOT_IN_MAPS: Final = {
    **{name: (type_name,) for name, type_name in HEADER_COLUMNS.values()},
    DUPLICATE_ID: ("string", "bytes"),
    _CONNECTION_ID: ("string",),
}

_COUNT: Final = Struct(">i")
_FIXED: Final[dict[str, Struct]] = {
    "boolean": Struct(">?"),
    "byte": Struct(">b"),
    "short": Struct(">h"),
    "int": Struct(">i"),
    "long": Struct(">q"),
    "float": Struct(">f"),
    "double": Struct(">d"),
    "char": Struct(">H"),
}
_TAGS: Final = {0: "null", 2: "boolean", 3: "byte", 4: "bytes", 5: "short", 6: "int", 7: "long", 8: "float",
                9: "double", 10: "string", 11: "char"}  # fmt: skip
# Tag: the type, and the size of a value; -1 if the size precedes the value.
_TYPES: Final = {
    tag: (name, _FIXED[name].size if name in _FIXED else 0 if name == "null" else -1) for tag, name in _TAGS.items()
}
NAMES_MAX: Final = 10_000


class Span(NamedTuple):
    """Hold the place of a property's value. A text is UTF-16LE, a number big-endian."""

    name: str
    type: str
    start: int
    end: int


def read_value(type_name: str, data: bytes) -> object:
    """Return the value of these bytes. Raises UnicodeDecodeError."""
    layout = _FIXED.get(type_name)
    if layout is not None:
        return layout.unpack(data)[0]
    if type_name == "string":
        return utf_16_le_decode(data, "surrogatepass", True)[0]
    return data if type_name == "bytes" else None


class PropertyDecoder:
    """Decode the properties of many messages. Names are remembered, `NAMES_MAX` at most."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}

    def entries(self, data: bytes, at: int, last: int) -> dict[str, Entry]:
        """Return the properties in `data[at:last]`, by name. Raises RemoteProtocolError."""
        found: dict[str, Entry] = {}
        try:
            for span in self.spans(data, at, last):
                found[span.name] = (span.type, read_value(span.type, data[span.start : span.end]))
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"malformed properties: {error}") from error
        return found

    def spans(self, data: bytes, at: int, last: int) -> list[Span]:
        """Return the places of the values of the properties in `data[at:last]`. Raises RemoteProtocolError."""
        found: list[Span] = []
        number, names = _COUNT.unpack_from, self._names
        try:
            if not data[at]:
                return found
            count = number(data, at + 1)[0]
            at += 5
            for _ in range(count):
                size = number(data, at)[0]
                if size < 0:
                    raise RemoteProtocolError(f"malformed properties: a name of {size} bytes")
                tag_at = at + 4 + size
                encoded = data[at + 4 : tag_at]
                name = names.get(encoded)
                if name is None:
                    name = self._decoded(encoded)
                type_name, size = _TYPES[data[tag_at]]
                start = tag_at + 1
                if size < 0:
                    start += 4
                    size = number(data, start - 4)[0]
                at = start + size
                if not start <= at <= last:
                    raise RemoteProtocolError(f"malformed properties: {name!r} has {size} bytes")
                found.append(tuple.__new__(Span, (name, type_name, start, at)))
        except (StructError, IndexError, KeyError, UnicodeDecodeError) as error:
            raise RemoteProtocolError(f"malformed properties: {error}") from error
        return found

    def _decoded(self, encoded: bytes) -> str:
        if len(self._names) >= NAMES_MAX:
            self._names.clear()
        name = self._names[encoded] = utf_16_le_decode(encoded, "surrogatepass", True)[0]
        return name


def duplicate_id(entry: Entry | None) -> bytes | None:
    """Return the id in the form in which brokers compare it: a text by its UTF-16LE bytes."""
    value = None if entry is None else entry[1]
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass")
    return value if isinstance(value, bytes) else None


def property_text(entry: Entry) -> str | None:
    """Return the value as a text: numbers as Java spells them, bytes as base64, a null as None."""
    type_name, value = entry
    return value if isinstance(value, str) else _TEXTS[type_name](value)


_TEXTS: Final[dict[str, Callable[[object], str | None]]] = {
    "null": lambda value: None,
    "boolean": lambda value: "true" if value else "false",
    "byte": str,
    "short": str,
    "int": str,
    "long": str,
    "float": lambda value: number_text(float(str(value)), single=True),
    "double": lambda value: number_text(float(str(value))),
    "char": lambda value: chr(int(str(value))),
    "bytes": lambda value: b64encode(value if isinstance(value, bytes) else b"").decode(),
}
