"""Typed access to properties, with the methods of JMS.

Responsible for the sixteen typed getters and setters. Does not depend on the storage of properties.
"""

from __future__ import annotations

from ._jms_conversion import inferred, to_boolean, to_integer, to_real, to_text, typed
from ._jms_properties import MessageProperties, lookup
from ._properties import Properties, PropertyType, PropertyValue

__all__ = ["PropertyAccess"]


class PropertyAccess:
    """The part of a message that reads and writes properties by type.

    Getters raise ``MessageFormatException`` when the value cannot be converted; those of numbers raise it also when
    there is no value. Setters raise it for a name or value that cannot be set, and ``MessageNotWriteableException``
    while the properties are read-only.

    Conversions are those of Jakarta Messaging 3.1, section 3.5.4.

    Names of properties are those of section 3.5.1.
    """

    __slots__ = ()

    delivery_count: int

    def stored(self) -> Properties:
        raise AssertionError("a message keeps its properties itself")

    def stored_for_writing(self) -> Properties:
        raise AssertionError("a message keeps its properties itself")

    def property_exists(self, name: str) -> bool:
        """Return True if there is a property of this name, hidden ones included."""
        return name in MessageProperties(self) or name in self.stored()

    def get_boolean_property(self, name: str) -> bool:
        """Return a boolean, False when missing; from a string too."""
        return to_boolean(lookup(self, name))

    def get_byte_property(self, name: str) -> int:
        """Return an int of 8 bits."""
        return to_integer(lookup(self, name), PropertyType.BYTE)

    def get_short_property(self, name: str) -> int:
        """Return an int of 16 bits."""
        return to_integer(lookup(self, name), PropertyType.SHORT)

    def get_int_property(self, name: str) -> int:
        """Return an int of 32 bits."""
        return to_integer(lookup(self, name), PropertyType.INT)

    def get_long_property(self, name: str) -> int:
        """Return an int of 64 bits."""
        return to_integer(lookup(self, name), PropertyType.LONG)

    def get_float_property(self, name: str) -> float:
        """Return a float of single precision."""
        return to_real(lookup(self, name), PropertyType.FLOAT)

    def get_double_property(self, name: str) -> float:
        """Return a float of double precision."""
        return to_real(lookup(self, name), PropertyType.DOUBLE)

    def get_string_property(self, name: str) -> str | None:
        """Return any value as a string, None when missing."""
        return to_text(lookup(self, name))

    def get_object_property(self, name: str) -> PropertyValue:
        """Return the value unchanged, None when missing."""
        return lookup(self, name).value

    def set_boolean_property(self, name: str, value: bool) -> None:
        """Set a boolean.

        Args:
            name: name of the property: an identifier that is no word of selectors and not reserved.
            value: the value, a bool.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is not allowed.
            MessageNotWriteableException: the message was received; call ``clear_properties()`` first.
        """
        self._set_property(name, value, PropertyType.BOOLEAN)

    def set_byte_property(self, name: str, value: int) -> None:
        """Set an int of 8 bits.

        Args:
            name: name of the property: an identifier that is no word of selectors and not reserved.
            value: the value, -128 to 127.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is not allowed.
            MessageNotWriteableException: the message was received; call ``clear_properties()`` first.
        """
        self._set_property(name, value, PropertyType.BYTE)

    def set_short_property(self, name: str, value: int) -> None:
        """Set an int of 16 bits.

        Args:
            name: name of the property: an identifier that is no word of selectors and not reserved.
            value: the value, -32,768 to 32,767.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is not allowed.
            MessageNotWriteableException: the message was received; call ``clear_properties()`` first.
        """
        self._set_property(name, value, PropertyType.SHORT)

    def set_int_property(self, name: str, value: int) -> None:
        """Set an int of 32 bits.

        Args:
            name: name of the property: an identifier that is no word of selectors and not reserved.
            value: the value, -2**31 to 2**31 - 1.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is not allowed.
            MessageNotWriteableException: the message was received; call ``clear_properties()`` first.
        """
        self._set_property(name, value, PropertyType.INT)

    def set_long_property(self, name: str, value: int) -> None:
        """Set an int of 64 bits.

        Args:
            name: name of the property: an identifier that is no word of selectors and not reserved.
            value: the value, -2**63 to 2**63 - 1.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is not allowed.
            MessageNotWriteableException: the message was received; call ``clear_properties()`` first.
        """
        self._set_property(name, value, PropertyType.LONG)

    def set_float_property(self, name: str, value: float) -> None:
        """Set a float of single precision.

        Args:
            name: name of the property: an identifier that is no word of selectors and not reserved.
            value: the value; it is rounded to single precision.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is not allowed.
            MessageNotWriteableException: the message was received; call ``clear_properties()`` first.
        """
        self._set_property(name, value, PropertyType.FLOAT)

    def set_double_property(self, name: str, value: float) -> None:
        """Set a float of double precision.

        Args:
            name: name of the property: an identifier that is no word of selectors and not reserved.
            value: the value.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is not allowed.
            MessageNotWriteableException: the message was received; call ``clear_properties()`` first.
        """
        self._set_property(name, value, PropertyType.DOUBLE)

    def set_string_property(self, name: str, value: str | None) -> None:
        """Set a string.

        Args:
            name: name of the property: an identifier that is no word of selectors and not reserved.
            value: the text, or None.

        Raises:
            MessageFormatException: ``value`` does not fit, or ``name`` is not allowed.
            MessageNotWriteableException: the message was received; call ``clear_properties()`` first.
        """
        self._set_property(name, value, PropertyType.STRING)

    def set_object_property(self, name: str, value: PropertyValue) -> None:
        """Set a value and infer its type.

        Args:
            name: name of the property: an identifier that is no word of selectors and not reserved.
            value: a bool, an int of 64 bits, a float, a str, bytes or None. An int becomes 32 bits if it fits, else 64.

        Raises:
            MessageFormatException: ``value`` has another type or more than 64 bits, or ``name`` is not allowed.
            MessageNotWriteableException: the message was received; call ``clear_properties()`` first.
        """
        found = inferred(value)
        MessageProperties(self).set(name, found.value, found.type)

    def _set_property(self, name: str, value: PropertyValue, kind: PropertyType) -> None:
        found = typed(value, kind)
        MessageProperties(self).set(name, found.value, found.type)
