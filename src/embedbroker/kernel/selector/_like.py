"""LIKE patterns, matched without ever going back over the text.

Responsible for ``%``, ``_`` and the escape character. Does not depend on selectors: text in, yes or no out.

A pattern is cut at its ``%``. The first and the last segment stand at the ends of the text; the others are searched
from left to right, each once. The search of a segment without ``_`` is that of a plain text, which is linear. A segment
with ``_`` is tried at a few places. After these, all places of a block are decided at once, one bit each. So a segment
that nearly fits everywhere costs a few operations per block and character, not per place. Its length is limited, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

__all__ = ["SEARCHED_LENGTH_MAX", "like_matcher", "searched_length"]

SEARCHED_LENGTH_MAX: Final = 256
"""Characters between two ``%``, if ``_`` is among them."""

_TRIES: Final = 8
_BLOCK: Final = 1024


@frozen
class _Segment:
    """A part of a pattern without ``%``: ``length`` characters, of which ``runs`` are given, by their offsets.

    ``anchor`` is the longest run, at ``anchor_at``, which is searched first. It is empty if every character may be any,
    and the whole segment if none may.
    """

    length: int
    runs: tuple[tuple[int, str], ...]
    anchor_at: int
    anchor: str

    @property
    def is_plain(self) -> bool:
        """Return True if no character may be any."""
        return self.length == len(self.anchor)

    def fits(self, text: str, start: int) -> bool:
        """Return True if the given characters are in the text, for a segment that begins at ``start``."""
        for offset, run in self.runs:  # noqa: SIM110  # a generator costs more than the comparison
            if not text.startswith(run, start + offset):
                return False
        return True

    def find(self, text: str, start: int, end: int) -> int:
        """Return the first place of the segment in ``text[start:end]``; -1 for none."""
        anchor, offset = self.anchor, self.anchor_at
        if self.length == len(anchor):
            return text.find(anchor, start, end)
        if not anchor:
            return start if start + self.length <= end else -1
        until = end - self.length + offset + len(anchor)
        for _ in range(_TRIES):
            place = text.find(anchor, start + offset, until) - offset
            if place < start:
                return -1
            if self.fits(text, place):
                return place
            start = place + 1
        return self._find_in_blocks(text, start, end)

    def _find_in_blocks(self, text: str, start: int, end: int) -> int:
        last = end - self.length
        while start <= last:
            count = min(last - start + 1, _BLOCK)
            place = self._first_in(text[start : start + count + self.length - 1], count)
            if place >= 0:
                return start + place
            start += count
        return -1

    def _first_in(self, window: str, count: int) -> int:
        """Return the first of ``count`` places; -1 for none. Bit ``i`` stands for the place ``i``."""
        possible = (1 << count) - 1
        places: dict[str, int] = {}
        for offset, run in self.runs:
            for index, character in enumerate(run, offset):
                if character not in places:
                    if possible.bit_count() <= _TRIES:
                        return self._first_of(window, possible)
                    places[character] = _places(window, character)
                possible &= places[character] >> index
                if not possible:
                    return -1
        return (possible & -possible).bit_length() - 1

    def _first_of(self, window: str, possible: int) -> int:
        while possible:
            place = (possible & -possible).bit_length() - 1
            if self.fits(window, place):
                return place
            possible &= possible - 1
        return -1


def _places(text: str, character: str) -> int:
    """Return an integer with a bit for each place of a character."""
    return int("1".join(["0" * len(part) for part in reversed(text.split(character))]), 2)


def _segment(items: list[str | None]) -> _Segment:
    runs: list[tuple[int, str]] = []
    for offset, item in enumerate(items):
        if item is None:
            continue
        if runs and runs[-1][0] + len(runs[-1][1]) == offset:
            runs[-1] = runs[-1][0], runs[-1][1] + item
        else:
            runs.append((offset, item))
    return _Segment(len(items), tuple(runs), *max(runs, key=lambda run: len(run[1]), default=(0, "")))


def _segments(pattern: str, escape: str | None) -> list[_Segment]:
    """Return the pattern cut at its ``%``.

    The escape character counts as such only before ``%``, ``_`` or itself.
    """
    # None stands for any one character.
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
    return [_segment(items) for items in segments]


def searched_length(pattern: str, escape: str | None) -> int:
    """Return the length of the longest part between two ``%`` that has a ``_``."""
    return max([each.length for each in _segments(pattern, escape)[1:-1] if not each.is_plain], default=0)


def like_matcher(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Return a function that searches for segments from left to right, each once.

    No pattern makes the search go back over the text. A regular expression with one wildcard per ``%`` would, and a
    peer could stop the broker with a dozen of them.
    """
    first, *middle = _segments(pattern, escape)
    if not middle:
        return lambda text: len(text) == first.length and first.fits(text, 0)
    last = middle.pop()
    middle = [segment for segment in middle if segment.length]

    def matches(text: str) -> bool:
        position, end = first.length, len(text) - last.length
        if end < position or not first.fits(text, 0) or not last.fits(text, end):
            return False
        for segment in middle:
            found = segment.find(text, position, end)
            if found < 0:
                return False
            position = found + segment.length
        return True

    return matches
