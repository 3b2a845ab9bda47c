"""Options in Spark's form, a case-insensitive mapping of texts, taken one by one.

Responsible for conversions and for naming errors: a value that does not fit, and unknown names. Does not depend on
which options there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from embedclient.model import did_you_mean

__all__ = ["OptionError", "OptionReader"]

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_SIZE = re.compile(r"(\d+)\s*([a-z]*)", re.IGNORECASE)
_TRUTHS = {"true": True, "false": False}


class OptionError(ValueError):
    """An option of the format `embedbroker` is unknown, wrong, missing or contradicts another; the text names it."""


class OptionReader:
    """Take options out of a mapping. Each method raises OptionError for a value that it cannot use."""

    def __init__(self, options: Mapping[str, str], known: Sequence[str]) -> None:
        """Check the names.

        Raises:
            OptionError: a name is not `known`: a seemingly missing option may be misspelt.
        """
        by_lower = {name.lower(): name for name in known}
        for name in options:
            if name.lower() not in by_lower:
                raise OptionError(f"there is no option {name!r}{did_you_mean(name, known)}")
        self._values = {name.lower(): value for name, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        """Return the text, or None if the option was not given. An empty text raises OptionError."""
        value = self._values.get(name.lower())
        if value is not None and not value.strip():
            raise OptionError(f"option {name!r} is empty")
        return value

    def required(self, name: str, meaning: str) -> str:
        """Return the text of a required option."""
        value = self.text(name)
        if value is None:
            raise OptionError(f"option {name!r} is missing: {meaning}")
        return value

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """Return one of some words, in lower case."""
        value = (self.text(name) or default).lower()
        if value not in choices:
            raise OptionError(f"option {name!r} is one of {', '.join(choices)}, not {value!r}")
        return value

    def boolean(self, name: str, default: bool) -> bool:
        """Return the value of `true` or `false`."""
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in _TRUTHS:
            raise OptionError(f"option {name!r} is true or false, not {value!r}")
        return _TRUTHS[value.lower()]

    def whole(self, name: str, least: int, most: int) -> int | None:
        """Return a whole number in a range, or None if the option was not given."""
        value = self.text(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            raise OptionError(f"option {name!r} is a whole number, not {value!r}") from None
        if not least <= number <= most:
            raise OptionError(f"option {name!r} is from {least} to {most}, not {number}")
        return number

    def size(self, name: str) -> int | None:
        """Return a number of bytes, at least one, perhaps with a unit: `64m`."""
        value = self.text(name)
        if value is None:
            return None
        found = _SIZE.fullmatch(value.strip())
        unit = _UNITS.get(found[2].lower()) if found else None
        if found is None or unit is None or not int(found[1]):
            raise OptionError(f"option {name!r} is a number of bytes such as 1048576, 1024k or 1m, not {value!r}")
        return int(found[1]) * unit

    def together(self, name: str, other: str) -> None:
        """Raise OptionError if `name` was given without `other`."""
        if name in self and other not in self:
            raise OptionError(f"option {name!r} needs option {other!r}")

    def apart(self, name: str, other: str, reason: str) -> None:
        """Raise OptionError if two options contradict each other."""
        if name in self and other in self:
            raise OptionError(f"options {name!r} and {other!r} contradict each other: {reason}")
