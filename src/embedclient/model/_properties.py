"""Message properties: an ordered mapping that keeps the wire type of every value.

Responsible for the eleven property types of the CORE protocol and for the type of a plain Python value. Does not depend
on their encoding or on reserved names.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from enum import IntEnum
from typing import NamedTuple

__all__ = ["Properties", "PropertyType", "PropertyValue", "TypedValue"]

PropertyValue = bool | int | float | str | bytes | None


class PropertyType(IntEnum):
    """Type tags as they stand on the wire. CHAR is a string of one UTF-16 code unit; tag 1 is not in use."""

    NULL = 0
    BOOLEAN = 2
    BYTE = 3
    BYTES = 4
    SHORT = 5
    INT = 6
    LONG = 7
    FLOAT = 8
    DOUBLE = 9
    STRING = 10
    CHAR = 11


class TypedValue(NamedTuple):
    """A value together with its wire type."""

    value: PropertyValue
    type: PropertyType


# A member by itself: looking it up in its enumeration costs more than the comparison.
_STRING = PropertyType.STRING
# Those of four bytes fit into both.
_NUMBERS = (PropertyType.INT, PropertyType.LONG)

# By tag: tuples, because hashing an enum member costs more than the whole check. 0 stands for "no integer".
_INTEGER_BITS = (0, 0, 0, 8, 0, 16, 32, 64, 0, 0, 0, 0)
_PYTHON_TYPES: tuple[tuple[type, ...], ...] = (
    (type(None),),
    (),
    (bool,),
    (),
    (bytes,),
    (),
    (),
    (),
    (float, int),
    (float, int),
    (str,),
    (str,),
)


def infer_type(value: PropertyValue) -> PropertyType:
    """Return the wire type of a plain Python value without an explicit type."""
    if value is None:
        return PropertyType.NULL
    if isinstance(value, bool):  # before int: a bool is an int in Python
        return PropertyType.BOOLEAN
    if isinstance(value, int):
        return PropertyType.INT if -0x80000000 <= value <= 0x7FFFFFFF else PropertyType.LONG
    if isinstance(value, float):
        return PropertyType.DOUBLE
    if isinstance(value, str):
        return PropertyType.STRING
    if isinstance(value, bytes):
        return PropertyType.BYTES
    raise TypeError(f"a property cannot hold {type(value).__name__}")


def check_value(value: PropertyValue, kind: PropertyType) -> None:
    """Raise TypeError or ValueError when ``value`` cannot travel as ``kind``."""
    bits = _INTEGER_BITS[kind]
    if bits:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{kind.name} needs an int, not {type(value).__name__}")
        limit = 1 << (bits - 1)
        if not -limit <= value < limit:
            raise ValueError(f"{value} does not fit {kind.name}")
        return
    fits = isinstance(value, _PYTHON_TYPES[kind])
    if kind is PropertyType.CHAR:
        fits = isinstance(value, str) and len(value) == 1 and ord(value) <= 0xFFFF
    elif isinstance(value, bool):
        fits = kind is PropertyType.BOOLEAN
    if not fits:
        raise TypeError(f"{kind.name} cannot hold {value!r}")


class Properties:
    """Ordered mapping of property names to values. Equal when names, values and types are equal, in any order.

    Args:
        values: names and values, as a mapping or as pairs; the types are inferred.

    Raises:
        TypeError: a value has another type.
        ValueError: an int does not fit into 64 bits.
    """

    __slots__ = ("_entries",)

    _entries: dict[str, TypedValue]

    def __init__(self, values: Mapping[str, PropertyValue] | Iterable[tuple[str, PropertyValue]] = ()) -> None:
        self._entries = {}
        for name, value in dict(values).items():
            self[name] = value

    @classmethod
    def of_entries(cls, entries: dict[str, TypedValue]) -> Properties:
        """Wrap entries that are known to be consistent (a decoder's result). The dict is taken over, not copied."""
        properties = cls.__new__(cls)
        properties._entries = entries
        return properties

    def __getitem__(self, name: str) -> PropertyValue:
        return self._entries[name].value

    def get(self, name: str, default: PropertyValue = None) -> PropertyValue:
        """Return the value, or ``default`` when the name is missing.

        Args:
            name: name of the property.
            default: what to return for a missing name.
        """
        entry = self._entries.get(name)
        return default if entry is None else entry.value

    def __setitem__(self, name: str, value: PropertyValue) -> None:
        kind = infer_type(value)
        check_value(value, kind)
        self._entries[name] = TypedValue(value, kind)

    def set(self, name: str, value: PropertyValue, kind: PropertyType) -> None:
        """Set a value with an explicit wire type.

        Args:
            name: name of the property.
            value: a value that fits ``kind``.
            kind: type of the property on the wire.

        Raises:
            TypeError: the value has another type.
            ValueError: the value is out of the range of its type.
        """
        # Most are texts and numbers, and most of the time of a check is its calls.
        if value.__class__ is str:
            is_fit = kind is _STRING
        else:
            is_fit = value.__class__ is int and kind in _NUMBERS and -0x80000000 <= value <= 0x7FFFFFFF
        if not is_fit:
            check_value(value, kind)
        self._entries[name] = tuple.__new__(TypedValue, (value, kind))

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def pop(self, name: str, default: PropertyValue = None) -> PropertyValue:
        """Remove the name if it is there and return its value, else ``default``.

        Args:
            name: name of the property.
            default: what to return for a missing name.
        """
        entry = self._entries.pop(name, None)
        return default if entry is None else entry.value

    def type_of(self, name: str) -> PropertyType:
        """Return the wire type.

        Args:
            name: name of the property.

        Raises:
            KeyError: the name is missing.
        """
        return self._entries[name].type

    def typed_items(self) -> ItemsView[str, TypedValue]:
        """Return (name, TypedValue) pairs in order."""
        return self._entries.items()

    def keys(self) -> KeysView[str]:
        """Return the names in order."""
        return self._entries.keys()

    def items(self) -> list[tuple[str, PropertyValue]]:
        """Return (name, value) pairs in order."""
        return [(name, entry.value) for name, entry in self._entries.items()]

    def values(self) -> list[PropertyValue]:
        """Return the values in order."""
        return [entry.value for entry in self._entries.values()]

    def typed_values(self) -> ValuesView[TypedValue]:
        """Return the TypedValues in order."""
        return self._entries.values()

    def update(self, other: Properties | Mapping[str, PropertyValue]) -> None:
        """Take over every entry of ``other``; types are kept when it is a Properties.

        Args:
            other: the entries to take over.
        """
        if isinstance(other, Properties):
            self._entries.update(other._entries)
        else:
            for name, value in other.items():
                self[name] = value

    def clear(self) -> None:
        """Remove everything."""
        self._entries.clear()

    def copy(self) -> Properties:
        """Return an independent copy."""
        return Properties.of_entries(dict(self._entries))

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return self._entries == other._entries if isinstance(other, Properties) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable mappings are not hashable

    def __repr__(self) -> str:
        return f"Properties({dict(self.items())!r})"
