"""MapMessage: a body of named values with types.

Responsible for typed access to the entries. Does not depend on their encoding.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import MessageFormatException
from ._destination import Destination
from ._jms_body import BodiedMessage
from ._jms_conversion import (
    MISSING,
    inferred,
    to_boolean,
    to_bytes,
    to_char,
    to_integer,
    to_real,
    to_text,
    typed,
)
from ._properties import Properties, PropertyType, PropertyValue, TypedValue

__all__ = ["MapMessage"]


class MapMessage(BodiedMessage):
    """A message whose body is a set of named values.

    ``body`` is a dict of plain values, a copy. Assigning to ``body`` replaces all entries and infers their types.
    Getters raise ``MessageFormatException`` when the value cannot be converted; those of numbers and characters raise
    it also for a missing value. Setters raise ``MessageNotWriteableException`` on a received message until
    ``clear_body()``.

    Conversions are those of Jakarta Messaging 3.1, section 3.11.3.

    Args:
        entries: names and values of the body; the types are inferred. None has none.
        properties: names and values of properties; None has none.
        correlation_id: the JMSCorrelationID as text or bytes; None has none.
        reply_to: the JMSReplyTo; None has none.
        type: the JMSType; None has none.

    Raises:
        MessageFormatException: an entry or a property has a value of another type, or a name that is not allowed.
    """

    __slots__ = ("_entries",)

    _entries: Properties

    def __init__(
        self,
        entries: Mapping[str, PropertyValue] | None = None,
        *,
        properties: Mapping[str, PropertyValue] | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,
    ) -> None:
        super().__init__(properties=properties, correlation_id=correlation_id, reply_to=reply_to, type=type)
        self._entries = Properties()
        if entries:
            self.body = dict(entries)

    @property
    def body(self) -> dict[str, PropertyValue]:
        """Return a copy of all entries."""
        return dict(self.entries.items())

    @body.setter
    def body(self, value: Mapping[str, PropertyValue]) -> None:
        self._check_writeable()
        entries = Properties()
        for name, item in value.items():
            entries.set(_checked_name(name), *inferred(item))
        self._entries = entries

    @property
    def entries(self) -> Properties:
        """Return all entries with their types. They must not be changed."""
        if self._body_source is not None:
            body = self._received_body()
            assert isinstance(body, Properties)
            self._entries = body
        return self._entries

    @property
    def map_names(self) -> list[str]:
        """Return the names of all entries."""
        return list(self.entries)

    def item_exists(self, name: str) -> bool:
        """Return True if there is an entry of this name."""
        return name in self.entries

    def clear_body(self) -> None:
        """Remove all entries and make the body writable."""
        super().clear_body()
        self._entries = Properties()

    def get_boolean(self, name: str) -> bool:
        """Return a boolean, False when missing; from a string too."""
        return to_boolean(self._found(name))

    def get_byte(self, name: str) -> int:
        """Return an int of 8 bits."""
        return to_integer(self._found(name), PropertyType.BYTE)

    def get_short(self, name: str) -> int:
        """Return an int of 16 bits."""
        return to_integer(self._found(name), PropertyType.SHORT)

    def get_char(self, name: str) -> str:
        """Return one UTF-16 code unit."""
        return to_char(self._found(name))

    def get_int(self, name: str) -> int:
        """Return an int of 32 bits."""
        return to_integer(self._found(name), PropertyType.INT)

    def get_long(self, name: str) -> int:
        """Return an int of 64 bits."""
        return to_integer(self._found(name), PropertyType.LONG)

    def get_float(self, name: str) -> float:
        """Return a float of single precision."""
        return to_real(self._found(name), PropertyType.FLOAT)

    def get_double(self, name: str) -> float:
        """Return a float of double precision."""
        return to_real(self._found(name), PropertyType.DOUBLE)

    def get_string(self, name: str) -> str | None:
        """Return any value but bytes as a string, None when missing."""
        return to_text(self._found(name))

    def get_bytes(self, name: str) -> bytes | None:
        """Return bytes, None when missing."""
        return to_bytes(self._found(name))

    def get_object(self, name: str) -> PropertyValue:
        """Return the value unchanged, None when missing."""
        return self._found(name).value

    def set_boolean(self, name: str, value: bool) -> None:
        """Set a boolean.

        Args:
            name: name of the entry, not empty.
            value: the value, a bool.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is empty or no text.
            MessageNotWriteableException: the body was received; call ``clear_body()`` first.
        """
        self._set(name, typed(value, PropertyType.BOOLEAN))

    def set_byte(self, name: str, value: int) -> None:
        """Set an int of 8 bits.

        Args:
            name: name of the entry, not empty.
            value: the value, -128 to 127.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is empty or no text.
            MessageNotWriteableException: the body was received; call ``clear_body()`` first.
        """
        self._set(name, typed(value, PropertyType.BYTE))

    def set_short(self, name: str, value: int) -> None:
        """Set an int of 16 bits.

        Args:
            name: name of the entry, not empty.
            value: the value, -32,768 to 32,767.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is empty or no text.
            MessageNotWriteableException: the body was received; call ``clear_body()`` first.
        """
        self._set(name, typed(value, PropertyType.SHORT))

    def set_char(self, name: str, value: str) -> None:
        """Set one UTF-16 code unit.

        Args:
            name: name of the entry, not empty.
            value: one character of the Basic Multilingual Plane.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is empty or no text.
            MessageNotWriteableException: the body was received; call ``clear_body()`` first.
        """
        self._set(name, typed(value, PropertyType.CHAR))

    def set_int(self, name: str, value: int) -> None:
        """Set an int of 32 bits.

        Args:
            name: name of the entry, not empty.
            value: the value, -2**31 to 2**31 - 1.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is empty or no text.
            MessageNotWriteableException: the body was received; call ``clear_body()`` first.
        """
        self._set(name, typed(value, PropertyType.INT))

    def set_long(self, name: str, value: int) -> None:
        """Set an int of 64 bits.

        Args:
            name: name of the entry, not empty.
            value: the value, -2**63 to 2**63 - 1.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is empty or no text.
            MessageNotWriteableException: the body was received; call ``clear_body()`` first.
        """
        self._set(name, typed(value, PropertyType.LONG))

    def set_float(self, name: str, value: float) -> None:
        """Set a float of single precision.

        Args:
            name: name of the entry, not empty.
            value: the value; it is rounded to single precision.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is empty or no text.
            MessageNotWriteableException: the body was received; call ``clear_body()`` first.
        """
        self._set(name, typed(value, PropertyType.FLOAT))

    def set_double(self, name: str, value: float) -> None:
        """Set a float of double precision.

        Args:
            name: name of the entry, not empty.
            value: the value.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is empty or no text.
            MessageNotWriteableException: the body was received; call ``clear_body()`` first.
        """
        self._set(name, typed(value, PropertyType.DOUBLE))

    def set_string(self, name: str, value: str | None) -> None:
        """Set a string.

        Args:
            name: name of the entry, not empty.
            value: the text, or None.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is empty or no text.
            MessageNotWriteableException: the body was received; call ``clear_body()`` first.
        """
        self._set(name, typed(value, PropertyType.STRING))

    def set_bytes(self, name: str, value: bytes | bytearray | memoryview | None) -> None:
        """Set bytes; they are copied.

        Args:
            name: name of the entry, not empty.
            value: the bytes, or None.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is empty or no text.
            MessageNotWriteableException: the body was received; call ``clear_body()`` first.
        """
        self._set(name, typed(value, PropertyType.BYTES))

    def set_object(self, name: str, value: PropertyValue) -> None:
        """Set a value and infer its type.

        Args:
            name: name of the entry, not empty.
            value: a bool, an int of 64 bits, a float, a str, bytes or None. An int becomes 32 bits if it fits, else 64.

        Raises:
            MessageFormatException: ``value`` has another type or more than 64 bits, or ``name`` is empty or no text.
            MessageNotWriteableException: the body was received; call ``clear_body()`` first.
        """
        self._set(name, inferred(value))

    def _found(self, name: str) -> TypedValue:
        entries = self.entries
        return TypedValue(entries[name], entries.type_of(name)) if name in entries else MISSING

    def _set(self, name: str, value: TypedValue) -> None:
        self._check_writeable()
        self._entries.set(_checked_name(name), value.value, value.type)


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise MessageFormatException(f"{name!r} cannot name an entry")
    return name
