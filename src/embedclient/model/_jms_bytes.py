"""BytesMessage: a body of raw bytes, written and read like a data stream.

Responsible for the layout of the primitive values (big-endian, as every JMS client writes them) and for the two modes,
writing and reading. Does not depend on the origin of the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from struct import error as StructError
from typing import Final

from ..errors import MessageEOFException, MessageFormatException
from ._destination import Destination
from ._jms_body import BodiedMessage
from ._jms_streams import Readable, ReadableBody, is_readable
from ._properties import PropertyValue

__all__ = ["BytesMessage"]

_BYTE: Final = Struct(">b")
_UNSIGNED_BYTE: Final = Struct(">B")
_SHORT: Final = Struct(">h")
_UNSIGNED_SHORT: Final = Struct(">H")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_FLOAT: Final = Struct(">f")
_DOUBLE: Final = Struct(">d")
_UTF_SIZE_MAX: Final = 0xFFFF


class BytesMessage(BodiedMessage):
    """A message whose body is bytes.

    A new message is written; ``reset()`` and receiving make it read-only and put the cursor at its beginning. ``body``
    gives all bytes in either mode and does not move the cursor. Readers raise ``MessageEOFException`` at the end, and
    ``MessageNotReadableException`` while the message is written; writers raise ``MessageNotWriteableException`` while
    it is read, and ``MessageFormatException`` for a value that does not fit.

    The data may be a readable, such as a file: it is read when the message is sent, as a large message of any size.

    Args:
        data: the bytes, or a readable.
        properties: names and values of properties; None has none.
        correlation_id: the JMSCorrelationID as text or bytes; None has none.
        reply_to: the JMSReplyTo; None has none.
        type: the JMSType; None has none.

    Raises:
        MessageFormatException: ``data`` is neither bytes nor a readable, the value of a property has another type, or
            its name is not allowed.
    """

    __slots__ = ("_content", "_cursor")

    _content: bytes | bytearray
    _cursor: int

    def __init__(
        self,
        data: bytes | bytearray | memoryview | Readable = b"",
        *,
        properties: Mapping[str, PropertyValue] | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,
    ) -> None:
        super().__init__(properties=properties, correlation_id=correlation_id, reply_to=reply_to, type=type)
        self._content = data if data.__class__ is bytes else self._taken(data)
        self._cursor = 0

    def _taken(self, data: object) -> bytes:
        """Return bytes as such. Keep a readable for the send."""
        if isinstance(data, bytes | bytearray | memoryview) or not is_readable(data):
            return _as_bytes(data)
        self._body_source = ReadableBody(data)  # type: ignore[arg-type]  # it was checked just now
        return b""

    @property
    def body(self) -> bytes:
        """Return all bytes."""
        return bytes(self._loaded())

    @body.setter
    def body(self, value: bytes | bytearray | memoryview) -> None:
        self._check_writeable()
        self._content = _as_bytes(value)
        self._body_source = None

    @property
    def body_length(self) -> int:
        """Return the number of bytes of a message that is being read."""
        self._check_readable()
        return len(self._loaded())

    def reset(self) -> None:
        """Make the body read-only and go to its beginning."""
        self.body_is_read_only = True
        self._cursor = 0

    def clear_body(self) -> None:
        """Remove all bytes and begin writing."""
        super().clear_body()
        self._content = b""
        self._cursor = 0

    def read_bytes(self, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes, by default the rest; ``b""`` at the end.

        Args:
            length: number of bytes, 0 or more; None for the rest.

        Raises:
            MessageFormatException: ``length`` is negative.
            MessageNotReadableException: the body is being written; call ``reset()`` first.
        """
        self._check_readable()
        if length is not None and length < 0:
            raise MessageFormatException(f"{length} is no number of bytes")
        content = self._loaded()
        start = self._cursor
        end = len(content) if length is None else min(len(content), start + length)
        self._cursor = end
        return bytes(content[start:end])

    def read_boolean(self) -> bool:
        """Return one byte as a bool; anything but zero is true."""
        return self._read(_UNSIGNED_BYTE) != 0

    def read_byte(self) -> int:
        """Return an int of 8 bits."""
        return self._read(_BYTE)

    def read_unsigned_byte(self) -> int:
        """Return an int of 8 bits without sign."""
        return self._read(_UNSIGNED_BYTE)

    def read_short(self) -> int:
        """Return an int of 16 bits."""
        return self._read(_SHORT)

    def read_unsigned_short(self) -> int:
        """Return an int of 16 bits without sign."""
        return self._read(_UNSIGNED_SHORT)

    def read_char(self) -> str:
        """Return one UTF-16 code unit."""
        return chr(self._read(_UNSIGNED_SHORT))

    def read_int(self) -> int:
        """Return an int of 32 bits."""
        return self._read(_INT)

    def read_long(self) -> int:
        """Return an int of 64 bits."""
        return self._read(_LONG)

    def read_float(self) -> float:
        """Return a float of single precision."""
        value: float = _FLOAT.unpack(self._take(4))[0]
        return value

    def read_double(self) -> float:
        """Return a float of double precision."""
        value: float = _DOUBLE.unpack(self._take(8))[0]
        return value

    def read_utf(self) -> str:
        """Return a string that ``write_utf`` wrote."""
        start = self._cursor
        length = self._read(_UNSIGNED_SHORT)
        try:
            data = self._take(length)
            return _decoded_utf(data)
        except (MessageEOFException, MessageFormatException):
            self._cursor = start
            raise

    def write_bytes(self, value: bytes | bytearray | memoryview) -> None:
        """Write the bytes, without their number."""
        self._check_writeable()
        data = _as_bytes(value)
        content = self._writable()
        content += data

    def write_boolean(self, value: bool) -> None:
        """Write one byte."""
        self._write(_UNSIGNED_BYTE, 0xFF if value else 0)

    def write_byte(self, value: int) -> None:
        """Write an int of 8 bits."""
        self._write(_BYTE, value)

    def write_short(self, value: int) -> None:
        """Write an int of 16 bits."""
        self._write(_SHORT, value)

    def write_char(self, value: str) -> None:
        """Write one UTF-16 code unit."""
        self._write(_UNSIGNED_SHORT, _code_of(value))

    def write_int(self, value: int) -> None:
        """Write an int of 32 bits."""
        self._write(_INT, value)

    def write_long(self, value: int) -> None:
        """Write an int of 64 bits."""
        self._write(_LONG, value)

    def write_float(self, value: float) -> None:
        """Write a float of single precision."""
        self._write(_FLOAT, value)

    def write_double(self, value: float) -> None:
        """Write a float of double precision."""
        self._write(_DOUBLE, value)

    def write_utf(self, value: str) -> None:
        """Write a string of up to 65,535 encoded bytes, with its length."""
        self._check_writeable()
        data = _encoded_utf(value)
        content = self._writable()
        content += _UNSIGNED_SHORT.pack(len(data))
        content += data

    def write_object(self, value: object) -> None:
        """Write a value by its type: bool, int (32 bits if it fits), float (double), str (``write_utf``) or bytes.

        Args:
            value: a bool, an int of 64 bits, a float, a str of up to 65,535 encoded bytes, or bytes.

        Raises:
            MessageFormatException: the value has another type, or does not fit.
            MessageNotWriteableException: the body is read-only; call ``clear_body()`` first.
        """
        match value:
            case bool():
                self.write_boolean(value)
            case int():
                self._write(_INT if -0x8000_0000 <= value <= 0x7FFF_FFFF else _LONG, value)
            case float():
                self.write_double(value)
            case str():
                self.write_utf(value)
            case bytes() | bytearray() | memoryview():
                self.write_bytes(value)
            case _:
                raise MessageFormatException(f"{value.__class__.__name__} cannot be written to a bytes message")

    def _begin_reading(self) -> None:
        self.body_is_read_only = True  # not through super(): this runs once per message
        self._cursor = 0

    def _loaded(self) -> bytes | bytearray:
        if self._body_source is not None:
            body = self._received_body()
            assert isinstance(body, bytes)
            self._content = body
        return self._content

    def _writable(self) -> bytearray:
        content = self._content if self._body_source is None else self._loaded()
        if not isinstance(content, bytearray):
            content = self._content = bytearray(content)
        return content

    def _write(self, layout: Struct, value: int | float) -> None:
        self._check_writeable()
        try:
            data = layout.pack(value)
        except (StructError, OverflowError, TypeError) as error:
            raise MessageFormatException(f"{value!r} cannot be written: {error}") from error
        content = self._writable()
        content += data

    def _take(self, length: int) -> bytes | bytearray:
        self._check_readable()
        content = self._loaded()
        start = self._cursor
        if len(content) - start < length:
            raise MessageEOFException(f"{length} bytes are needed, {len(content) - start} are left")
        self._cursor = start + length
        return content[start : start + length]

    def _read(self, layout: Struct) -> int:
        value: int = layout.unpack(self._take(layout.size))[0]
        return value


def _as_bytes(value: object) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise MessageFormatException(f"a bytes message holds bytes, not {value.__class__.__name__}")
    return bytes(value)


def _code_of(character: object) -> int:
    if not isinstance(character, str) or len(character) != 1:
        raise MessageFormatException(f"{character!r} is no single character")
    return ord(character)


def _encoded_utf(text: str) -> bytes:
    """Encode each UTF-16 code unit separately, so a supplementary character takes two times three bytes."""
    if not isinstance(text, str):
        raise MessageFormatException(f"{text.__class__.__name__} is no string")
    if text.isascii():
        data = text.encode("ascii")
    else:
        units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
        data = "".join(map(chr, units)).encode("utf-8", "surrogatepass")
    if len(data) > _UTF_SIZE_MAX:
        raise MessageFormatException(f"the string takes {len(data)} bytes; {_UTF_SIZE_MAX} is the limit")
    return data


def _decoded_utf(data: bytes | bytearray) -> str:
    if any(byte >= 0xF0 for byte in data):
        raise MessageFormatException("the string is malformed")
    try:
        text = data.decode("utf-8", "surrogatepass")
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    except UnicodeDecodeError as error:
        raise MessageFormatException("the string is malformed") from error
