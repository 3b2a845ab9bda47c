"""How the numbers of messages are spelled when they become part of a string.

Responsible for giving the digits that Java clients and brokers give: shortest, with an exponent outside 0.001 to
10,000,000. Refuses to know who asks.
"""

from __future__ import annotations

import math
from struct import Struct
from typing import Final

__all__ = ["number_text", "rounded_to_single"]

_SINGLE: Final = Struct(">f")


def number_text(value: float, *, single: bool = False) -> str:
    """A float as Java spells it: shortest digits, an exponent outside 0.001 to 10,000,000."""
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
    """The fewest digits that still name this FLOAT."""
    for digits in range(1, 9):
        text = f"{value:.{digits}g}"
        try:
            if rounded_to_single(float(text)) == value:
                return text
        except OverflowError:
            continue  # rounding up left the range of a FLOAT
    return f"{value:.9g}"


def rounded_to_single(value: float) -> float:
    """The value in the precision a FLOAT has, so that a sender reads what the receiver will."""
    rounded: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    return rounded
