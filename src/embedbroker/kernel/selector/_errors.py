"""What goes wrong with selectors: texts that are none, and values that no arithmetic takes.

Apart from the language itself, which loads with the first selector: most brokers and most programs have none.
"""

from __future__ import annotations

from typing import Final

__all__ = ["InvalidSelector", "NotANumber"]

QUOTED_CHARACTERS_MAX: Final = 200


class InvalidSelector(ValueError):
    """The text is not a selector: ``reason`` says why and ``position`` where (an index into ``text``)."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        shown = text if len(text) <= QUOTED_CHARACTERS_MAX else text[:QUOTED_CHARACTERS_MAX] + "..."
        super().__init__(f"invalid selector: {reason} at position {position} of {shown!r}")
        self.text = text
        self.position = position
        self.reason = reason


class NotANumber(TypeError):
    """Arithmetic met a value that is no number; the selector as a whole does not match."""
