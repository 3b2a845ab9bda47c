"""The conversion between the numbers of messages and strings.

Responsible for giving the digits that Java clients and brokers give: shortest, with an exponent outside 0.001 to
10,000,000; and for reading a FLOAT as they do. Does not depend on the caller.
"""

from __future__ import annotations

import math
from struct import Struct
from typing import Final

__all__ = ["number_text", "rounded_to_single", "single_from_text"]

_SINGLE: Final = Struct(">f")
_DOUBLE: Final = Struct(">d")


def number_text(value: float, *, single: bool = False) -> str:
    """Return a float as Java spells it: shortest digits, an exponent outside 0.001 to 10,000,000."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    text = _shortest(value) if single else repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(text))
    mantissa, _, exponent = text.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    scale = int(exponent or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{scale}"


def _shortest(value: float) -> str:
    """Return the fewest digits that still name this FLOAT."""
    for digits in range(1, 9):
        text = f"{value:.{digits}g}"
        try:
            if rounded_to_single(float(text)) == value:
                return text
        except OverflowError:
            continue  # rounding up left the range of a FLOAT
    return f"{value:.9g}"


def rounded_to_single(value: float) -> float:
    """Return the value in the precision of a FLOAT, so that a sender reads the receiver's value."""
    rounded: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    return rounded


def single_from_text(text: str) -> float:
    """Return the FLOAT nearest to a number in decimal digits, as Java's Float.parseFloat.

    The result is infinity beyond the largest one.
    """
    value = float(text)
    if math.isfinite(value) and value != 0:
        value = _to_odd(value, text)
    try:
        return rounded_to_single(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _to_odd(value: float, text: str) -> float:
    """Return the double beside the number of a text whose last bit is set, so that a second rounding is right.

    The nearest double may lie in the middle of two FLOATs while the number itself does not.
    """
    from decimal import Decimal  # here, because few programs need it, and all would wait for it

    exact = Decimal(text)
    if exact == value or _DOUBLE.pack(value)[-1] & 1:
        return value
    return math.nextafter(value, math.inf if exact > value else -math.inf)
