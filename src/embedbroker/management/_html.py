"""Tables of HTML, for the operations of Artemis that return them.

Responsible for escaping, which Artemis leaves out: names and properties come from clients. Does not depend on what the
tables describe.
"""

from __future__ import annotations

from html import escape

from ._registry import ManagementRefused
from ._rows import RESULT_CHARS_MAX

__all__ = ["Html", "cell", "row_color"]


def cell(value: object, tag: str = "td", attributes: str = "") -> str:
    """Return a cell of a table. The value becomes text; the attributes are those of the tag, with a leading blank."""
    return f"<{tag}{attributes}>{escape(str(value), quote=False)}</{tag}>"


def row_color(number: int) -> str:
    """Return the background of a row as an attribute: every other row is gray."""
    return f' bgcolor="#{"F0F0F0" if number % 2 else "FFFFFF"}"'


class Html:
    """Gather a text of HTML."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def add(self, *parts: str) -> None:
        """Add parts of the text.

        Raises:
            ManagementRefused: The text is too large.
        """
        self._parts += parts
        self._size += sum(map(len, parts))
        if self._size > RESULT_CHARS_MAX:
            raise ManagementRefused(
                f"the result has more than {RESULT_CHARS_MAX} characters: use the operation that returns JSON"
            )

    def text(self) -> str:
        """Return the text."""
        return "".join(self._parts)
