"""Rows of a result as JSON, up to a limit: a list of a million elements must not take the broker's memory.

Does not depend on what the rows describe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ._registry import ManagementRefused

__all__ = ["RESULT_CHARS_MAX", "ROWS_MAX", "Rows", "too_many_rows"]

RESULT_CHARS_MAX = 16 * 1024 * 1024
"""Characters of one result; a larger one is refused."""

ROWS_MAX = 100_000
"""Elements of a list without pages; a longer list is refused."""


class Rows:
    """Gather rows as a JSON array."""

    def __init__(self) -> None:
        self._rows: list[str] = []
        self._size = 0

    def add(self, row: Mapping[str, object]) -> None:
        """Add a row.

        Raises:
            ManagementRefused: The result is too large.
        """
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        self._size += len(text) + 1
        if self._size > RESULT_CHARS_MAX:
            raise ManagementRefused(
                f"the result has more than {RESULT_CHARS_MAX} characters: request it in pages, or with a filter"
            )
        if len(self._rows) >= ROWS_MAX:
            raise too_many_rows()
        self._rows.append(text)

    def text(self) -> str:
        """Return the array."""
        return f"[{','.join(self._rows)}]"


def too_many_rows() -> ManagementRefused:
    """Return the refusal of a list that is too long to be returned as a whole."""
    return ManagementRefused(f"the list has more than {ROWS_MAX} elements: request it in pages, or with a filter")
