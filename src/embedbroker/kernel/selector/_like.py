"""LIKE patterns, matched without ever going back over the text.

Responsible for ``%``, ``_`` and the escape character. Does not depend on selectors: text in, yes or no out.

A pattern is cut at its ``%``. The first and the last segment stand at the ends of the text; the others are searched
from left to right, each once. The search of a segment with ``_`` costs up to its length for each character of the text,
so this length is limited.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

__all__ = ["SEARCHED_LENGTH_MAX", "like_matcher", "searched_length"]

SEARCHED_LENGTH_MAX: Final = 512
"""Characters between two ``%`` with ``_`` among them: of each pattern the longest part, and the sum of a selector's."""


def _segments(pattern: str, escape: str | None) -> list[list[str | None]]:
    """Return the pattern cut at its ``%``; within a segment ``None`` stands for "any one character".

    The escape character counts as such only before ``%``, ``_`` or itself.
    """
    segments: list[list[str | None]] = [[]]
    position = 0
    while position < len(pattern):
        character = pattern[position]
        following = pattern[position + 1 : position + 2]
        if character == escape and following and following in ("%", "_", escape):
            segments[-1].append(following)
            position += 1
        elif character == "%":
            segments.append([])
        else:
            segments[-1].append(None if character == "_" else character)
        position += 1
    return segments


def searched_length(pattern: str, escape: str | None) -> int:
    """Return the length of the longest part between two ``%`` that has a ``_``."""
    return max([len(segment) for segment in _segments(pattern, escape)[1:-1] if None in segment], default=0)


def like_matcher(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Return a function that searches for segments from left to right, each once.

    No pattern makes the search go back over the text. A regular expression with one wildcard per ``%`` would, and a
    peer could stop the broker with a dozen of them.
    """
    segments = _segments(pattern, escape)
    regexes = [
        re.compile("".join("." if item is None else re.escape(item) for item in segment), re.DOTALL)
        for segment in segments
    ]
    if len(regexes) == 1:
        whole = regexes[0]
        return lambda text: whole.fullmatch(text) is not None
    first, *middle, last = regexes
    tail_length = len(segments[-1])
    middle = [regex for regex in middle if regex.pattern]

    def matches(text: str) -> bool:
        head = first.match(text)
        if head is None:
            return False
        position, end = head.end(), len(text) - tail_length
        if end < position or last.match(text, end) is None:
            return False
        for regex in middle:
            found = regex.search(text, position, end)
            if found is None:
                return False
            position = found.end()
        return True

    return matches
