"""Numbers in selectors: arithmetic, conversion from strings, and their spelling in one.

Responsible for doing these as the brokers and clients in the field do: 64-bit integers that wrap, division in doubles.
Does not depend on expressions and messages.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Final

from embedclient.model import number_text

__all__ = ["OPERATIONS", "is_number", "number_in", "read_as", "text_of", "wrapped"]


def is_number(value: object) -> bool:
    """Return True for a number. Booleans are not numbers here, although Python's are integers."""
    return value.__class__ is int or value.__class__ is float


def wrapped(value: int) -> int:
    """Return an integer wrapped to 64 bits, as the peers' are; so no text can make integers grow."""
    return ((value + 0x8000_0000_0000_0000) & 0xFFFF_FFFF_FFFF_FFFF) - 0x8000_0000_0000_0000


def _divide(left: float, right: float) -> float:
    if right != 0:
        return float(left) / float(right)
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _remainder(left: float, right: float) -> float:
    if right == 0 or math.isinf(left):
        return math.nan
    return math.fmod(left, right)


OPERATIONS: Final[dict[str, Callable[[int | float, int | float], int | float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": _remainder,
}

# No two parts may take the same digits: the search would try each way to share them.
_FLOAT_TEXT: Final = re.compile(r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*", re.ASCII)
_INTEGER_TEXT: Final = re.compile(r"[+-]?0*[0-9]{1,19}", re.ASCII)


def number_in(text: str, *, whole: bool) -> int | float | None:
    """Return the number a string holds, ``None`` if it holds none."""
    if whole:
        return int(text) if _INTEGER_TEXT.fullmatch(text) and len(text) < 4000 else None
    return float(text) if _FLOAT_TEXT.fullmatch(text) else None


def text_of(value: object) -> str:
    """Return a value appended to a string, spelled as the peers' language spells it."""
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value)
    return str(value)


def read_as(text: str, example: object) -> object:
    """Return the string read as the type of ``example``; the string itself when it does not hold such a value."""
    if isinstance(example, bool):
        return text.lower() == "true"
    if isinstance(example, int | float):
        held = number_in(text, whole=isinstance(example, int))
        return text if held is None else held
    return text
