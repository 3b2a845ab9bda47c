"""Message bodies: the meaning of the bytes between endOfBody and the headers for each message type.

Responsible for text, map, object, stream and bytes bodies over plain values and ``PropertyType``. Does not depend on
message classes, conversions between types, or compression. Reading raises RemoteProtocolError, writing
LocalProtocolError.
"""

from __future__ import annotations

from ...errors import LocalProtocolError
from ...model import Properties, PropertyType, PropertyValue, TypedValue
from .._buffer import (
    Reader,
    append_bytes,
    append_properties,
    append_property_value,
    append_simple_string,
    append_string,
    append_utf,
)

__all__ = [
    "Reader",
    "append_bytes_value",
    "append_stream_item",
    "decode_map",
    "decode_object",
    "decode_stream",
    "decode_text",
    "encode_map",
    "encode_object",
    "encode_stream",
    "encode_text",
    "read_bytes_value",
    "read_stream_item",
]

Body = bytes | bytearray | memoryview


def encode_text(text: str | None) -> bytes:
    """Return the body of a text message."""
    if text is None:
        return b"\x00"
    out = bytearray(b"\x01")
    append_simple_string(out, text)
    return bytes(out)


def decode_text(body: Body) -> str | None:
    """Read the body of a text message. An empty body is a null text: brokers write no text into messages they make."""
    reader = Reader(body)
    return reader.simple_string() if reader.remaining and reader.boolean() else None


def encode_map(values: Properties) -> bytes:
    """Return the body of a map message."""
    out = bytearray()
    append_properties(out, values)
    return bytes(out)


def decode_map(body: Body) -> Properties:
    """Read the body of a map message."""
    return Reader(body).properties() if body else Properties()


def encode_object(serialized: bytes | None) -> bytes:
    """Return the body of an object message: Java-serialized bytes, or nothing for a null object."""
    if serialized is None:
        return b""
    out = bytearray()
    append_bytes(out, serialized)
    return bytes(out)


def decode_object(body: Body) -> bytes | None:
    """Read the serialized bytes of an object message, None for a null object."""
    return Reader(body).counted_bytes() if body else None


def append_stream_item(out: bytearray, value: PropertyValue, kind: PropertyType) -> None:
    """Append one tagged value of a stream message. A null is written as an absent string."""
    if kind is PropertyType.NULL or kind is PropertyType.STRING:
        out.append(PropertyType.STRING)
        if value is None:
            out.append(0)
        elif isinstance(value, str):
            out.append(1)
            append_string(out, value)
        else:
            raise LocalProtocolError(f"{value!r} is not a string")
        return
    out.append(kind)
    _append_scalar(out, value, kind)


def read_stream_item(reader: Reader) -> TypedValue:
    """Read one tagged value of a stream message. A null comes as ``TypedValue(None, PropertyType.STRING)``."""
    tag = reader.i8()
    if tag == PropertyType.STRING:
        return TypedValue(reader.string() if reader.boolean() else None, PropertyType.STRING)
    # There is no null tag in a stream; a separate reader would let it through.
    value = reader.property_value(tag if tag != PropertyType.NULL else -1)
    return TypedValue(value, PropertyType(tag))


def encode_stream(items: list[TypedValue]) -> bytes:
    """Return the body of a stream message."""
    out = bytearray()
    for value, kind in items:
        append_stream_item(out, value, kind)
    return bytes(out)


def decode_stream(body: Body) -> list[TypedValue]:
    """Read every value of a stream message."""
    reader = Reader(body)
    items = []
    while reader.remaining:
        items.append(read_stream_item(reader))
    return items


def append_bytes_value(out: bytearray, value: PropertyValue, kind: PropertyType) -> None:
    """Append the bytes of one write call of a bytes message: no tag, UTF for strings, raw bytes without a length."""
    if kind is PropertyType.STRING:
        if not isinstance(value, str):
            raise LocalProtocolError(f"{value!r} is not a string")
        append_utf(out, value)
    elif kind is PropertyType.BYTES:
        if not isinstance(value, bytes):
            raise LocalProtocolError(f"{value!r} is not bytes")
        out += value
    elif kind is PropertyType.NULL:
        raise LocalProtocolError("a bytes message cannot hold null")
    else:
        _append_scalar(out, value, kind)


def read_bytes_value(reader: Reader, kind: PropertyType) -> PropertyValue:
    """Read the value of one read call of a bytes message. BYTES takes everything that is left."""
    if kind is PropertyType.STRING:
        return reader.utf()
    if kind is PropertyType.BYTES:
        return reader.rest()
    return reader.property_value(kind)


def _append_scalar(out: bytearray, value: PropertyValue, kind: PropertyType) -> None:
    # Bodies write true as 0xFF, properties as 1.
    if kind is PropertyType.BOOLEAN:
        out.append(0xFF if value else 0)
    else:
        append_property_value(out, value, kind)
