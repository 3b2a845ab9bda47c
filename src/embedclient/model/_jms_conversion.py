"""Allowed conversions of values: the table of Jakarta Messaging 3.1, sections 3.5.4 and 3.11.3.

Responsible for typed values of properties, map entries and stream items, and for reading numbers from strings. Does not
depend on the place where the values are kept.
"""

from __future__ import annotations

import re
from struct import error as StructError
from typing import Final

from ..errors import MessageFormatException
from ._number_text import number_text, rounded_to_single, single_from_text
from ._properties import PropertyType, TypedValue, check_value, infer_type

__all__ = [
    "MISSING",
    "inferred",
    "to_boolean",
    "to_bytes",
    "to_char",
    "to_integer",
    "to_real",
    "to_text",
    "typed",
]

MISSING: Final = TypedValue(None, PropertyType.NULL)
"""The value that a missing name reads as."""

# A tuple, because a union of types would be built anew by every check.
_PLAIN: Final = (str, int, bool, float, bytes, type(None))
# By tag, because hashing an enum member is slow; 128 stands for "no integer".
_BITS: Final = (128, 128, 128, 8, 128, 16, 32, 64, 128, 128, 128, 128)
_INTEGER_TEXT: Final = re.compile(r"[+-]?0*[0-9]{1,20}", re.ASCII)
# No two parts may take the same digits: the search would try each way to share them.
_REAL_TEXT: Final = re.compile(
    r"\s*[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?|NaN|Infinity)\s*", re.ASCII
)


def _refusal(found: TypedValue, wanted: str) -> MessageFormatException:
    if found.value is None:
        return MessageFormatException(f"there is no value to read as {wanted}")
    return MessageFormatException(f"{found.type.name.lower()} {found.value!r} cannot be read as {wanted}")


def to_boolean(found: TypedValue) -> bool:
    """Convert from boolean and from string; a missing value is false."""
    value = found.value
    if isinstance(value, bool):
        return value
    if value is None:
        return False
    if found.type is PropertyType.STRING:
        return str(value).lower() == "true"
    raise _refusal(found, "boolean")


def to_integer(found: TypedValue, wanted: PropertyType) -> int:
    """Convert from an integer type that is not wider, and from a string that holds a number of this size."""
    bits = _BITS[wanted]
    value = found.value
    if isinstance(value, int) and _BITS[found.type] <= bits:
        return value
    if found.type is PropertyType.STRING and isinstance(value, str) and _INTEGER_TEXT.fullmatch(value):
        number = int(value) if len(value) < 1000 else 0
        if -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            return number
    raise _refusal(found, wanted.name.lower())


def to_real(found: TypedValue, wanted: PropertyType) -> float:
    """Convert float from float, double from float and double, both from a string that holds a number."""
    value = found.value
    if isinstance(value, float) and (found.type is PropertyType.FLOAT or wanted is PropertyType.DOUBLE):
        return value
    if found.type is PropertyType.STRING and isinstance(value, str) and _REAL_TEXT.fullmatch(value):
        text = value.strip().rstrip("fFdD")
        return single_from_text(text) if wanted is PropertyType.FLOAT else float(text)
    raise _refusal(found, wanted.name.lower())


def to_char(found: TypedValue) -> str:
    """Convert only from char."""
    if found.type is PropertyType.CHAR and isinstance(found.value, str):
        return found.value
    raise _refusal(found, "char")


def to_text(found: TypedValue) -> str | None:
    """Convert from everything but bytes."""
    value = found.value
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number_text(value, single=found.type is PropertyType.FLOAT)
    raise _refusal(found, "string")


def to_bytes(found: TypedValue) -> bytes | None:
    """Convert only from bytes."""
    if found.value is None or isinstance(found.value, bytes):
        return found.value
    raise _refusal(found, "bytes")


def typed(value: object, kind: PropertyType) -> TypedValue:
    """Return the value as one of this type.

    Raises:
        MessageFormatException: it does not fit.
    """
    if kind is PropertyType.BYTES and isinstance(value, (bytearray, memoryview)):
        value = bytes(value)
    if value is None and kind in (PropertyType.STRING, PropertyType.BYTES):
        return MISSING
    if not isinstance(value, _PLAIN):
        raise MessageFormatException(f"{type(value).__name__} is no type of message values")
    try:
        check_value(value, kind)
        if kind is PropertyType.DOUBLE:
            value = float(value or 0.0)
        elif kind is PropertyType.FLOAT:
            value = rounded_to_single(float(value or 0.0))
    except (TypeError, ValueError, OverflowError, StructError) as error:
        raise MessageFormatException(str(error)) from error
    return TypedValue(value, kind)


def inferred(value: object) -> TypedValue:
    """Return the value with the type of a plain Python value: an int is an INT, or a LONG where necessary.

    Raises:
        MessageFormatException: it is not a bool, an int of 64 bits, a float, a str, bytes or None.
    """
    if isinstance(value, (bytearray, memoryview)):
        value = bytes(value)
    if not isinstance(value, _PLAIN):
        raise MessageFormatException(f"{type(value).__name__} is no type of message values")
    try:
        kind = infer_type(value)
        if kind is PropertyType.LONG:
            check_value(value, kind)
    except ValueError as error:
        raise MessageFormatException(str(error)) from error
    return TypedValue(value, kind)
