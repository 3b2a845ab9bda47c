"""StreamMessage: a body of values with types, one after the other.

Responsible for writing and reading them in order, with conversion. Does not depend on their encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ..errors import MessageEOFException
from ._destination import Destination
from ._jms_body import BodiedMessage
from ._jms_conversion import inferred, to_boolean, to_bytes, to_char, to_integer, to_real, to_text, typed
from ._properties import PropertyType, PropertyValue, TypedValue

__all__ = ["StreamMessage"]

T = TypeVar("T")


class StreamMessage(BodiedMessage):
    """A message whose body is a sequence of values.

    A new message is written; ``reset()`` and receiving make it read-only and put the cursor at its beginning. ``body``
    is a list of plain values, a copy, in either mode. Assigning to ``body`` replaces everything and infers the types.
    Readers raise ``MessageEOFException`` at the end, and ``MessageNotReadableException`` while the message is written.
    They raise ``MessageFormatException`` when the next value cannot be converted, which leaves the cursor before it.

    Conversions are those of Jakarta Messaging 3.1, section 3.11.3.

    Args:
        items: values of the body, in order; the types are inferred.
        properties: names and values of properties; None has none.
        correlation_id: the JMSCorrelationID as text or bytes; None has none.
        reply_to: the JMSReplyTo; None has none.
        type: the JMSType; None has none.

    Raises:
        MessageFormatException: an item or a property has a value of another type, or the name of a property is not
            allowed.
    """

    __slots__ = ("_cursor", "_items")

    _items: list[TypedValue]
    _cursor: int

    def __init__(
        self,
        items: Iterable[PropertyValue] = (),
        *,
        properties: Mapping[str, PropertyValue] | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,
    ) -> None:
        super().__init__(properties=properties, correlation_id=correlation_id, reply_to=reply_to, type=type)
        self._items = [inferred(item) for item in items]
        self._cursor = 0

    @property
    def body(self) -> list[PropertyValue]:
        """Return a copy of all values."""
        return [item.value for item in self.items]

    @body.setter
    def body(self, value: Iterable[PropertyValue]) -> None:
        self._check_writeable()
        self._items = [inferred(item) for item in value]

    @property
    def items(self) -> list[TypedValue]:
        """Return all values with their types. They must not be changed."""
        if self._body_source is not None:
            body = self._received_body()
            assert isinstance(body, list)
            self._items = body
        return self._items

    def reset(self) -> None:
        """Make the body read-only and go to its beginning."""
        self.body_is_read_only = True
        self._cursor = 0

    def clear_body(self) -> None:
        """Remove all values and begin writing."""
        super().clear_body()
        self._items = []
        self._cursor = 0

    def read_boolean(self) -> bool:
        """Return a boolean, from a string too."""
        return self._read(to_boolean)

    def read_byte(self) -> int:
        """Return an int of 8 bits."""
        return self._read(lambda item: to_integer(item, PropertyType.BYTE))

    def read_short(self) -> int:
        """Return an int of 16 bits."""
        return self._read(lambda item: to_integer(item, PropertyType.SHORT))

    def read_char(self) -> str:
        """Return one UTF-16 code unit."""
        return self._read(to_char)

    def read_int(self) -> int:
        """Return an int of 32 bits."""
        return self._read(lambda item: to_integer(item, PropertyType.INT))

    def read_long(self) -> int:
        """Return an int of 64 bits."""
        return self._read(lambda item: to_integer(item, PropertyType.LONG))

    def read_float(self) -> float:
        """Return a float of single precision."""
        return self._read(lambda item: to_real(item, PropertyType.FLOAT))

    def read_double(self) -> float:
        """Return a float of double precision."""
        return self._read(lambda item: to_real(item, PropertyType.DOUBLE))

    def read_string(self) -> str | None:
        """Return any value but bytes as a string."""
        return self._read(to_text)

    def read_bytes(self) -> bytes | None:
        """Return the bytes of one value, all of them."""
        return self._read(to_bytes)

    def read_object(self) -> PropertyValue:
        """Return the value unchanged."""
        return self._read(lambda item: item.value)

    def write_boolean(self, value: bool) -> None:
        """Write a boolean."""
        self._write(typed(value, PropertyType.BOOLEAN))

    def write_byte(self, value: int) -> None:
        """Write an int of 8 bits."""
        self._write(typed(value, PropertyType.BYTE))

    def write_short(self, value: int) -> None:
        """Write an int of 16 bits."""
        self._write(typed(value, PropertyType.SHORT))

    def write_char(self, value: str) -> None:
        """Write one UTF-16 code unit."""
        self._write(typed(value, PropertyType.CHAR))

    def write_int(self, value: int) -> None:
        """Write an int of 32 bits."""
        self._write(typed(value, PropertyType.INT))

    def write_long(self, value: int) -> None:
        """Write an int of 64 bits."""
        self._write(typed(value, PropertyType.LONG))

    def write_float(self, value: float) -> None:
        """Write a float of single precision."""
        self._write(typed(value, PropertyType.FLOAT))

    def write_double(self, value: float) -> None:
        """Write a float of double precision."""
        self._write(typed(value, PropertyType.DOUBLE))

    def write_string(self, value: str | None) -> None:
        """Write a string."""
        self._write(typed(value, PropertyType.STRING))

    def write_bytes(self, value: bytes | bytearray | memoryview) -> None:
        """Write bytes; they are copied."""
        self._write(typed(value, PropertyType.BYTES))

    def write_object(self, value: PropertyValue) -> None:
        """Write a value and infer its type."""
        self._write(inferred(value))

    def _begin_reading(self) -> None:
        super()._begin_reading()
        self._cursor = 0

    def _read(self, convert: Callable[[TypedValue], T]) -> T:
        self._check_readable()
        items = self.items
        if self._cursor >= len(items):
            raise MessageEOFException(f"all {len(items)} values were read")
        value = convert(items[self._cursor])
        self._cursor += 1
        return value

    def _write(self, item: TypedValue) -> None:
        self._check_writeable()
        self._items.append(item)
