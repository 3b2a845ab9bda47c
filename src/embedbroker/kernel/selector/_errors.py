"""Errors of selectors: texts that are not selectors, and values that have no result.

Apart from the language itself, which loads with the first selector: most brokers and most programs have none.
"""

from __future__ import annotations

from typing import Final

__all__ = ["InvalidSelector", "NoResult", "NotANumber", "TextTooLong"]

QUOTED_CHARACTERS_MAX: Final = 200


class InvalidSelector(ValueError):
    """Report a text that is not a selector: ``reason`` is why and ``position`` where (an index into ``text``)."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        shown = text if len(text) <= QUOTED_CHARACTERS_MAX else text[:QUOTED_CHARACTERS_MAX] + "..."
        super().__init__(f"invalid selector: {reason} at position {position} of {shown!r}")
        self.text = text
        self.position = position
        self.reason = reason


class NoResult(Exception):
    """Report that an expression has no result for a message; the selector as a whole does not match."""


class NotANumber(NoResult):
    """Report a value in arithmetic that is not a number."""


class TextTooLong(NoResult):
    """Report that texts that are appended to each other become too long."""
