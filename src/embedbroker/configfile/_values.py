"""The texts of a file as values: booleans, numbers, times, sizes and names, in Artemis' notation.

Responsible for what a text may look like. Ranges are those of the configuration values that these become.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

__all__ = [
    "Reader",
    "WrongValue",
    "boolean",
    "number",
    "one_of",
    "prefixes",
    "seconds",
    "secret",
    "size",
    "text",
    "text_or_nothing",
    "whole",
]

T = TypeVar("T")
Reader = Callable[[str | None], object]

# Artemis keeps numbers in 64 bits, with a sign.
NUMBER_MAX = 2**63 - 1
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,30})\s*(?:([kmg])i?)?b?", re.ASCII | re.IGNORECASE)
_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


class WrongValue(ValueError):
    """Report that the text of an element or attribute is not valid."""


def _present(value: str | None, expected: str) -> str:
    if value is None or not value.strip():
        raise WrongValue(f"is empty; expected {expected}")
    return value.strip()


def text(value: str | None) -> str:
    """Return a text that is not empty."""
    return _present(value, "a text")


def text_or_nothing(value: str | None) -> str:
    """Return a text; an empty element is the empty text."""
    return "" if value is None else value.strip()


def secret(value: str | None) -> str:
    """Return a password as it stands in the file, masked or not."""
    return _present(value, "a password")


def boolean(value: str | None) -> bool:
    """Return True or False, written in any case, as Artemis reads it."""
    found = _present(value, "true or false")
    if found.lower() not in ("true", "false"):
        trap = ", which Artemis reads as false" if found == "1" else ""
        raise WrongValue(f"expected true or false, not {found!r}{trap}")
    return found.lower() == "true"


def whole(value: str | None) -> int:
    """Return a whole number, times in milliseconds among them."""
    found = _present(value, "a whole number")
    if not _WHOLE.fullmatch(found):
        raise WrongValue(f"expected a whole number without a unit, not {found!r}")
    return _limited(int(found))


def seconds(value: str | None) -> int:
    """Return a time that the file has in seconds, as milliseconds. -1 is not a time and stays -1."""
    found = whole(value)
    return found if found < 0 else _limited(found * 1000)


def number(value: str | None) -> float:
    """Return a number that may have a fraction."""
    found = _present(value, "a number")
    try:
        # Python alone reads 1_0, and digits of other scripts.
        if not found.isascii() or "_" in found:
            raise ValueError
        return float(found)
    except ValueError:
        raise WrongValue(f"expected a number, not {found!r}") from None


def size(value: str | None) -> int:
    """Return a size in bytes. Every unit is a power of 1024: ``10M``, ``10Mb`` and ``10 MiB`` are the same."""
    found = _present(value, "a size")
    matched = _SIZE.fullmatch(found)
    if matched is not None:
        return _limited(int(matched[1]) * _FACTORS[(matched[2] or "").lower()])
    if _WHOLE.fullmatch(found):
        return _limited(int(found))
    raise WrongValue(f"expected a size such as 10485760, 10M, 100Mb or 1GiB, not {found!r}")


def one_of(values: Mapping[str, T]) -> Callable[[str | None], T]:
    """Return a reader for one of some words, in any case."""

    def read(value: str | None) -> T:
        expected = ", ".join(values)
        found = _present(value, f"one of {expected}")
        if found.upper() not in values:
            raise WrongValue(f"expected one of {expected}, not {found!r}")
        return values[found.upper()]

    return read


def _limited(value: int) -> int:
    if abs(value) > NUMBER_MAX:
        raise WrongValue(f"{value} is larger than {NUMBER_MAX}")
    return value


def prefixes(value: str | None) -> tuple[str, ...]:
    """Return the entries of a list with commas."""
    return tuple(entry for each in text_or_nothing(value).split(",") if (entry := each.strip()))
