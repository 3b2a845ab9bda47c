"""The properties of messages as columns: those with a column of their own, and the maps of all others.

Responsible for which property has a column, and for the texts that maps show of values: a type's name beside a text
gives the value back. Refuses to know Arrow.

Hot: `PropertyDecoder.entries` runs once per message of a frame with such columns. Names repeat, so each is decoded
once.
"""

from __future__ import annotations

from base64 import b64encode
from codecs import utf_16_le_decode
from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Final

from embedclient.errors import RemoteProtocolError
from embedclient.model import number_text

__all__ = ["HEADER_COLUMNS", "NOT_IN_MAPS", "Entry", "PropertyDecoder", "duplicate_id", "property_text"]

# A property as it was decoded: type name and value. Texts are str, bytes are bytes, other values what they are.
Entry = tuple[str, object]

# Column: the property that it shows, and the type it has then; one of another type stays in the maps.
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
# Whose connection sent it: means something to consumers of that connection only.
_CONNECTION_ID: Final = "__AMQ_CID"
# The maps show every property but these, while they have these types: a column of their own shows them, or nobody
# needs them.
NOT_IN_MAPS: Final = {
    **{name: (type_name,) for name, type_name in HEADER_COLUMNS.values()},
    DUPLICATE_ID: ("string", "bytes"),
    _CONNECTION_ID: ("string",),
}

_COUNT: Final = Struct(">i")
_FIXED: Final[dict[int, tuple[str, Struct]]] = {
    2: ("boolean", Struct(">?")),
    3: ("byte", Struct(">b")),
    5: ("short", Struct(">h")),
    6: ("int", Struct(">i")),
    7: ("long", Struct(">q")),
    8: ("float", Struct(">f")),
    9: ("double", Struct(">d")),
    11: ("char", Struct(">H")),
}
_NULL, _BYTES, _STRING = 0, 4, 10
NAMES_MAX: Final = 10_000


class PropertyDecoder:
    """Decodes the properties of many messages. Names are remembered, `NAMES_MAX` at most."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}

    def entries(self, data: bytes, at: int) -> dict[str, Entry]:
        """The properties that begin at `at`, by name. Raises RemoteProtocolError."""
        found: dict[str, Entry] = {}
        if not data[at]:
            return found
        number, fixed, names = _COUNT.unpack_from, _FIXED, self._names
        try:
            count = number(data, at + 1)[0]
            at += 5
            for _ in range(count):
                tag_at = at + 4 + number(data, at)[0]
                encoded = data[at + 4 : tag_at]
                name = names.get(encoded)
                if name is None:
                    name = self._decoded(encoded)
                tag = data[tag_at]
                at = tag_at + 1
                if tag in (_STRING, _BYTES):
                    start = at + 4
                    at = start + number(data, at)[0]
                    value = data[start:at]
                    found[name] = (
                        ("string", utf_16_le_decode(value, "surrogatepass")[0]) if tag == _STRING else ("bytes", value)
                    )
                elif tag == _NULL:
                    found[name] = ("null", None)
                else:
                    type_name, layout = fixed[tag]
                    found[name] = (type_name, layout.unpack_from(data, at)[0])
                    at += layout.size
        except (StructError, IndexError, KeyError, UnicodeDecodeError) as error:
            raise RemoteProtocolError(f"malformed properties: {error}") from error
        return found

    def _decoded(self, encoded: bytes) -> str:
        if len(self._names) >= NAMES_MAX:
            self._names.clear()
        name = self._names[encoded] = utf_16_le_decode(encoded, "surrogatepass")[0]
        return name


def duplicate_id(entry: Entry | None) -> bytes | None:
    """The id as brokers compare it: a text by its UTF-16LE bytes."""
    value = None if entry is None else entry[1]
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass")
    return value if isinstance(value, bytes) else None


def property_text(entry: Entry) -> str | None:
    """The value as a text: numbers as Java spells them, bytes as base64, a null as None."""
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
