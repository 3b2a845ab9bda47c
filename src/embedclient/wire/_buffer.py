"""The primitive encodings of the CORE protocol: a bounds-checked reader, and functions that append to a bytearray.

Responsible for numbers, the string forms, property maps, connectors and transaction ids. Does not depend on any packet.

Reading raises RemoteProtocolError and nothing else. It allocates no more than the bytes at hand justify, whatever a
length field promises. Writing raises LocalProtocolError for values the wire cannot carry.
"""

from __future__ import annotations

from codecs import utf_16_be_decode, utf_16_le_decode, utf_16_le_encode
from collections.abc import Callable, Mapping
from struct import Struct
from struct import error as StructError
from typing import Final

from ..errors import LocalProtocolError, RemoteProtocolError
from ..model import Properties, PropertyType, PropertyValue, TransportConfiguration, TypedValue, Xid

__all__ = [
    "Reader",
    "append_bytes",
    "append_connector",
    "append_properties",
    "append_property_value",
    "append_simple_string",
    "append_string",
    "append_utf",
    "append_xid",
    "decode_utf",
    "encode_simple_string",
]

Readable = bytes | bytearray | memoryview

I16: Final = Struct(">h")
U16: Final = Struct(">H")
I32: Final = Struct(">i")
I64: Final = Struct(">q")
F32: Final = Struct(">f")
F64: Final = Struct(">d")
# Of a Str in the layout of UTF: in code units, and in bytes.
_UTF_LENGTHS: Final = Struct(">iH")

# The limits between the three layouts of Str.
_SHORT_STRING_UNITS_MAX: Final = 8
_UTF_STRING_UNITS_MAX: Final = 4094

# The last character that is one UTF-16 code unit.
_PLANE_END: Final = "\uffff"

_EXTRA_PARAMETER_PREFIX: Final = "$.EP."

# By themselves: looking a member up in its enumeration costs more than the comparison.
_STRING: Final = PropertyType.STRING
_STRING_TAG: Final = int(PropertyType.STRING)
_NULL_TAG: Final = int(PropertyType.NULL)
# By the byte of the type.
_NUMBERS: Final = tuple({int(PropertyType.INT): I32, int(PropertyType.LONG): I64}.get(tag) for tag in range(256))
_KEPT_NAMES_MAX: Final = 512
_KEPT_NAME_CHARACTERS_MAX: Final = 64
_KIND_BOOLEAN, _KIND_INT, _KIND_LONG, _KIND_STRING = range(4)


def decode_utf16_le(data: Readable) -> str:
    """Decode UTF-16LE; lone surrogates are kept, as Java keeps them."""
    try:
        return utf_16_le_decode(data, "surrogatepass", True)[0]
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"malformed UTF-16 text: {error.reason}") from error


def decode_utf(data: Readable) -> str:
    """Decode the bytes of writeUTF: each UTF-16 code unit on its own, a supplementary character in 2 x 3 bytes."""
    try:
        text = bytes(data).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"malformed UTF text: {error.reason}") from error
    if text.isascii():
        return text
    if max(text) > _PLANE_END:
        raise RemoteProtocolError("malformed UTF text: a four-byte sequence")
    # Surrogate pairs arrived as two characters; a round trip through UTF-16 joins them.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class Reader:
    """A cursor over ``buffer[position:end]`` that never reads past ``end``."""

    __slots__ = ("buffer", "end", "position")

    def __init__(self, buffer: Readable, position: int = 0, end: int | None = None) -> None:
        self.buffer = buffer
        self.position = position
        size = len(buffer)
        self.end = size if end is None else end
        assert 0 <= position <= self.end <= size

    @property
    def remaining(self) -> int:
        """Return the number of bytes left."""
        return self.end - self.position

    def _advance(self, count: int) -> int:
        start = self.position
        if count < 0 or count > self.end - start:
            raise RemoteProtocolError(f"{count} bytes promised, {self.end - start} left")
        self.position = start + count
        return start

    def unpack(self, layout: Struct) -> tuple[int | float | bool | bytes, ...]:
        """Read one fixed layout."""
        start, size = self.position, layout.size
        if start + size > self.end:
            self._advance(size)
        self.position = start + size
        return layout.unpack_from(self.buffer, start)

    def i8(self) -> int:
        """Read a signed byte."""
        value = self.buffer[self._advance(1)]
        return value - 256 if value > 127 else value

    def boolean(self) -> bool:
        """Read a byte; any non-zero value is true."""
        position = self.position
        if position >= self.end:
            self._advance(1)
        self.position = position + 1
        return self.buffer[position] != 0

    def i16(self) -> int:
        """Read a signed 16-bit number."""
        value: int = I16.unpack_from(self.buffer, self._advance(2))[0]
        return value

    def u16(self) -> int:
        """Read an unsigned 16-bit number."""
        value: int = U16.unpack_from(self.buffer, self._advance(2))[0]
        return value

    def i32(self) -> int:
        """Read a signed 32-bit number."""
        position = self.position
        if self.end - position < 4:
            self._advance(4)
        self.position = position + 4
        value: int = I32.unpack_from(self.buffer, position)[0]
        return value

    def i64(self) -> int:
        """Read a signed 64-bit number."""
        value: int = I64.unpack_from(self.buffer, self._advance(8))[0]
        return value

    def f32(self) -> float:
        """Read a 32-bit float."""
        value: float = F32.unpack_from(self.buffer, self._advance(4))[0]
        return value

    def f64(self) -> float:
        """Read a 64-bit float."""
        value: float = F64.unpack_from(self.buffer, self._advance(8))[0]
        return value

    def take(self, count: int) -> bytes:
        """Read ``count`` raw bytes."""
        start = self._advance(count)
        return bytes(self.buffer[start : start + count])

    def rest(self) -> bytes:
        """Read everything that is left."""
        return self.take(self.end - self.position)

    def counted_bytes(self) -> bytes:
        """Read a 32-bit length and that many bytes."""
        return self.take(self.i32())

    def count(self, entry_size_min: int) -> int:
        """Read a 32-bit number of entries of at least ``entry_size_min`` bytes each. Check that they can fit."""
        count = self.i32()
        if count < 0 or count * entry_size_min > self.end - self.position:
            raise RemoteProtocolError(f"{count} entries promised, {self.end - self.position} bytes left")
        return count

    def simple_string(self) -> str:
        """Read SS."""
        # Without calls for its parts: most packets have texts.
        start = self.position + 4
        if start > self.end:
            self._advance(4)
        length: int = I32.unpack_from(self.buffer, start - 4)[0]
        if not 0 <= length <= self.end - start:
            self.position = start
            self._advance(length)
        self.position = start + length
        try:
            return utf_16_le_decode(self.buffer[start : start + length], "surrogatepass", True)[0]
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"malformed UTF-16 text: {error.reason}") from error

    def utf(self) -> str:
        """Read UTF."""
        position = self.position
        if self.end - position < 2:
            self._advance(2)
        start = position + 2
        end = start + U16.unpack_from(self.buffer, position)[0]
        if end > self.end:
            raise RemoteProtocolError(f"{end - start} bytes promised, {self.end - start} left")
        self.position = end
        return decode_utf(self.buffer[start:end])

    def string(self) -> str:
        """Read Str, whose layout depends on its length in UTF-16 code units."""
        units = self.i32()
        if units < 0:
            raise RemoteProtocolError(f"a string of {units} characters")
        if units > _UTF_STRING_UNITS_MAX:
            return self.simple_string()
        if units > _SHORT_STRING_UNITS_MAX:
            return self.utf()
        try:
            return utf_16_be_decode(self.take(units * 2), "surrogatepass", True)[0]
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"malformed UTF-16 text: {error.reason}") from error

    def char(self) -> str:
        """Read one UTF-16 code unit."""
        return chr(self.u16())

    def property_value(self, tag: int) -> PropertyValue:
        """Read the value of a property whose type tag was read before."""
        read = _PROPERTY_READERS.get(tag)
        if read is None:
            raise RemoteProtocolError(f"unknown property type {tag}")
        return read(self)

    def properties(self) -> Properties:
        """Read Props."""
        entries: dict[str, TypedValue] = {}
        if not self.boolean():
            return Properties.of_entries(entries)
        count = self.count(5)
        buffer, position, end = self.buffer, self.position, self.end
        try:
            # Inlined, because every message with a selector on its queue comes through here. A slice past the end of
            # the buffer is short and harmless; what counts is that the position never ends behind the limit.
            for _ in range(count):
                start = position + 4
                position = start + I32.unpack_from(buffer, position)[0]
                if not start <= position < end:
                    raise RemoteProtocolError(f"a property name of {position - start} bytes")
                name = utf_16_le_decode(buffer[start:position], "surrogatepass", True)[0]
                tag = buffer[position]
                if tag == _STRING_TAG:
                    start = position + 5
                    position = start + I32.unpack_from(buffer, position + 1)[0]
                    if not start <= position <= end:
                        raise RemoteProtocolError(f"a text of {position - start} bytes")
                    value: PropertyValue = utf_16_le_decode(buffer[start:position], "surrogatepass", True)[0]
                elif (layout := _NUMBERS[tag]) is not None:
                    start = position + 1
                    position = start + layout.size
                    if position > end:
                        raise RemoteProtocolError(f"{layout.size} bytes promised, {end - start} left")
                    value = layout.unpack_from(buffer, start)[0]
                elif tag == _NULL_TAG:
                    value = None
                    position += 1
                else:
                    self.position = position + 1
                    value = self.property_value(tag)
                    position = self.position
                entries[name] = tuple.__new__(TypedValue, (value, _PROPERTY_TYPES[tag]))
        except (StructError, UnicodeDecodeError) as error:
            raise RemoteProtocolError(f"malformed properties: {error}") from error
        self.position = position
        return Properties.of_entries(entries)

    def connector(self) -> TransportConfiguration:
        """Read TC."""
        name = self.string()
        factory = self.string()
        parameters: dict[str, bool | int | str] = {}
        extra: dict[str, bool | int | str] = {}
        for _ in range(self.count(6)):
            key = self.string()
            kind = self.i8()
            value: bool | int | str
            if kind == _KIND_BOOLEAN:
                value = self.boolean()
            elif kind == _KIND_INT:
                value = self.i32()
            elif kind == _KIND_LONG:
                value = self.i64()
            elif kind == _KIND_STRING:
                value = self.string()
            else:
                raise RemoteProtocolError(f"unknown kind {kind} of connector parameter")
            if key.startswith(_EXTRA_PARAMETER_PREFIX):
                extra[key.removeprefix(_EXTRA_PARAMETER_PREFIX)] = value
            else:
                parameters[key] = value
        return TransportConfiguration(name, factory, parameters, extra)

    def xid(self) -> Xid:
        """Read Xid: the branch qualifier comes before the global id."""
        format_id = self.i32()
        branch_qualifier = self.counted_bytes()
        return Xid(format_id, branch_qualifier, self.counted_bytes())


def _nothing(reader: Reader) -> None:
    return None


_PROPERTY_READERS: Final[dict[int, Callable[[Reader], PropertyValue]]] = {
    int(PropertyType.NULL): _nothing,
    int(PropertyType.BOOLEAN): Reader.boolean,
    int(PropertyType.BYTE): Reader.i8,
    int(PropertyType.BYTES): Reader.counted_bytes,
    int(PropertyType.SHORT): Reader.i16,
    int(PropertyType.INT): Reader.i32,
    int(PropertyType.LONG): Reader.i64,
    int(PropertyType.FLOAT): Reader.f32,
    int(PropertyType.DOUBLE): Reader.f64,
    int(PropertyType.STRING): Reader.simple_string,
    int(PropertyType.CHAR): Reader.char,
}
# Calling an IntEnum costs a microsecond; a table lookup does not.
_PROPERTY_TYPES: Final = {int(kind): kind for kind in PropertyType}


def append_bytes(out: bytearray, value: bytes | bytearray | memoryview) -> None:
    """Append a 32-bit length and the bytes."""
    out += I32.pack(len(value))
    out += value


def encode_simple_string(value: str) -> bytes:
    """Return the bytes of SS."""
    data = utf_16_le_encode(value, "surrogatepass")[0]
    return I32.pack(len(data)) + data


def append_simple_string(out: bytearray, value: str) -> None:
    """Append SS."""
    data = utf_16_le_encode(value, "surrogatepass")[0]
    out += I32.pack(len(data))
    out += data


def append_utf(out: bytearray, value: str) -> None:
    """Append UTF. Raise LocalProtocolError when it takes more than 65535 bytes."""
    if not value.isascii() and max(value) > _PLANE_END:
        units = value.encode("utf-16-le", "surrogatepass")
        value = "".join(chr(units[i] | units[i + 1] << 8) for i in range(0, len(units), 2))
    data = value.encode("utf-8", "surrogatepass")
    if len(data) > 0xFFFF:
        raise LocalProtocolError(f"a UTF text of {len(data)} bytes; 65535 is the limit")
    out += U16.pack(len(data))
    out += data


def append_string(out: bytearray, value: str) -> None:
    """Append Str."""
    units = len(value)
    if _SHORT_STRING_UNITS_MAX < units <= _UTF_STRING_UNITS_MAX and value.isascii():
        # As most texts: both lengths are that of the bytes.
        out += _UTF_LENGTHS.pack(units, units)
        out += value.encode()
        return
    big_endian = value.encode("utf-16-be", "surrogatepass")
    units = len(big_endian) // 2
    out += I32.pack(units)
    if units <= _SHORT_STRING_UNITS_MAX:
        out += big_endian
    elif units <= _UTF_STRING_UNITS_MAX:
        append_utf(out, value)
    else:
        append_simple_string(out, value)


def append_property_value(out: bytearray, value: PropertyValue, kind: PropertyType) -> None:
    """Append the value of a property, without its tag. Raise LocalProtocolError if the value does not fit the type."""
    try:
        scalar = _SCALAR_OF_TAG[kind]
        if scalar is not None:
            out += scalar.pack(value)
        elif kind is PropertyType.STRING:
            assert isinstance(value, str)
            append_simple_string(out, value)
        elif kind is PropertyType.BYTES:
            assert isinstance(value, bytes)
            append_bytes(out, value)
        elif kind is PropertyType.CHAR:
            assert isinstance(value, str)
            out += U16.pack(ord(value))
    except (StructError, OverflowError, TypeError) as error:
        raise LocalProtocolError(f"{value!r} cannot be a property of type {kind.name}") from error


_SCALARS: Final[Mapping[PropertyType, Struct]] = {
    PropertyType.BOOLEAN: Struct(">?"),
    PropertyType.BYTE: Struct(">b"),
    PropertyType.SHORT: I16,
    PropertyType.INT: I32,
    PropertyType.LONG: I64,
    PropertyType.FLOAT: F32,
    PropertyType.DOUBLE: F64,
}
# By tag: the hash of a member of an enumeration takes longer than the rest.
_SCALAR_OF_TAG: Final = tuple(
    {int(kind): layout for kind, layout in _SCALARS.items()}.get(tag) for tag in range(max(PropertyType) + 1)
)


class _EncodedNames(dict[str, bytes]):
    """Keep names in their encoding: programs use the same few in all of their messages."""

    def __missing__(self, name: str) -> bytes:
        encoded = encode_simple_string(name)
        if len(name) <= _KEPT_NAME_CHARACTERS_MAX:
            if len(self) >= _KEPT_NAMES_MAX:
                self.clear()
            self[name] = encoded
        return encoded


_encoded_names: Final = _EncodedNames()


def append_properties(out: bytearray, properties: Properties) -> None:
    """Append Props. An empty map is a single zero byte."""
    if not properties:
        out.append(0)
        return
    out.append(1)
    out += I32.pack(len(properties))
    # Straight codec calls: going through str.encode costs three times as much, and every send of a client is here.
    for name, (value, kind) in properties.typed_items():
        out += _encoded_names[name]
        out.append(kind)
        if kind is _STRING and value.__class__ is str:
            data = utf_16_le_encode(value, "surrogatepass")[0]
            out += I32.pack(len(data))
            out += data
        else:
            append_property_value(out, value, kind)


def append_connector(out: bytearray, connector: TransportConfiguration) -> None:
    """Append TC."""
    append_string(out, connector.name)
    append_string(out, connector.factory)
    out += I32.pack(len(connector.parameters) + len(connector.extra))
    for key, value in connector.parameters.items():
        _append_parameter(out, key, value)
    for key, value in connector.extra.items():
        _append_parameter(out, _EXTRA_PARAMETER_PREFIX + key, value)


def _append_parameter(out: bytearray, key: str, value: bool | int | str) -> None:
    append_string(out, key)
    if isinstance(value, bool):
        out.append(_KIND_BOOLEAN)
        out.append(0xFF if value else 0)
    elif isinstance(value, str):
        out.append(_KIND_STRING)
        append_string(out, value)
    elif -0x80000000 <= value <= 0x7FFFFFFF:
        out.append(_KIND_INT)
        out += I32.pack(value)
    else:
        out.append(_KIND_LONG)
        out += I64.pack(value)


def append_xid(out: bytearray, xid: Xid) -> None:
    """Append Xid."""
    out += I32.pack(xid.format_id)
    append_bytes(out, xid.branch_qualifier)
    append_bytes(out, xid.global_transaction_id)
