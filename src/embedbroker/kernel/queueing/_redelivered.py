"""Messages of one priority that came back, by position.

Responsible for taking the first, for removal from the middle, and for readers with filters that look at each message
once. All of that stays cheap however many there are: a lost connection can bring back a million. Refuses to know the
messages that never left, between which these stand.

They are held in sorted chunks. Each chunk knows at which addition it last got a message, so that a reader who was
further back already looks at the chunks that changed and skips the others.
"""

from __future__ import annotations

from bisect import bisect, bisect_left, insort
from collections.abc import Callable, Iterator
from operator import attrgetter

from embedclient.model import Message

from ._bookmark import Bookmark
from ._reference import Reference

__all__ = ["Redelivered"]

CHUNK_ENTRIES = 256

_position = attrgetter("position")
_EVERY_POSITION = 1 << 63


class Redelivered:
    """References in order of position; ``chunks`` is empty when there are none."""

    __slots__ = ("_changed", "_lasts", "_version", "chunks", "count")

    def __init__(self) -> None:
        self.chunks: list[list[Reference]] = []
        # For each chunk: no position in it is above this, and which addition was the last to it.
        self._lasts: list[int] = []
        self._changed: list[int] = []
        self._version = 0
        self.count = 0

    def __iter__(self) -> Iterator[Reference]:
        for chunk in self.chunks:
            yield from chunk

    def add(self, reference: Reference) -> None:
        """Put a message to its place."""
        chunks, lasts, position = self.chunks, self._lasts, reference.position
        self._version += 1
        self.count += 1
        index = bisect_left(lasts, position)
        if index == len(chunks):
            if index and len(chunks[-1]) < CHUNK_ENTRIES:
                index -= 1
                lasts[index] = position
            else:
                chunks.append([])
                lasts.append(position)
                self._changed.append(0)
        chunk = chunks[index]
        insort(chunk, reference, key=_position)
        self._changed[index] = self._version
        if len(chunk) >= 2 * CHUNK_ENTRIES:
            chunks[index : index + 1] = [chunk[:CHUNK_ENTRIES], chunk[CHUNK_ENTRIES:]]
            lasts.insert(index, chunks[index][-1].position)
            self._changed.insert(index, self._version)

    @property
    def first(self) -> Reference:
        """The one with the lowest position; there must be one."""
        return self.chunks[0][0]

    def pop_first(self) -> Reference:
        """Take the one with the lowest position."""
        return self._take(0, 0)

    def remove(self, reference: Reference) -> bool:
        """Take one out; False when it is not here any more."""
        index = bisect_left(self._lasts, reference.position)
        if index == len(self.chunks):
            return False
        chunk = self.chunks[index]
        at = bisect_left(chunk, reference.position, key=_position)
        if at == len(chunk) or chunk[at] is not reference:
            return False
        self._take(index, at)
        return True

    def _take(self, index: int, at: int) -> Reference:
        chunk = self.chunks[index]
        reference = chunk.pop(at)
        self.count -= 1
        if not chunk:
            del self.chunks[index], self._lasts[index], self._changed[index]
        return reference

    def take_through(self, until: int) -> list[Reference]:
        """Take out the first ones up to a position: a chunk of them at most."""
        if not self.chunks or self.chunks[0][0].position > until:
            return []
        chunk = self.chunks[0]
        end = bisect(chunk, until, key=_position)
        taken = chunk[:end]
        del chunk[:end]
        self.count -= end
        if not chunk:
            del self.chunks[0], self._lasts[0], self._changed[0]
        return taken

    def count_between(self, after: int, until: int) -> int:
        """How many are in ``(after, until]``."""
        counted = 0
        for index in range(bisect(self._lasts, after), len(self.chunks)):
            chunk = self.chunks[index]
            counted += bisect(chunk, until, key=_position) - bisect(chunk, after, key=_position)
            if self._lasts[index] >= until:
                break
        return counted

    @property
    def last_position(self) -> int:
        """No position in here is above this one; 0 when there are none."""
        return self._lasts[-1] if self._lasts else 0

    def chunk_behind(self, position: int) -> list[Reference]:
        """The next few behind a position, a list of its own; empty at the end."""
        index = bisect(self._lasts, position)
        if index == len(self.chunks):
            return []
        chunk = self.chunks[index]
        # A chunk's limit may be above what is left in it.
        return chunk[bisect(chunk, position, key=_position) :] or self.chunk_behind(self._lasts[index])

    def find(
        self, cursor: Bookmark, priority: int, matches: Callable[[Message], bool], budget: int
    ) -> tuple[Reference | None, int]:
        """The first that matches, which stays where it is; returns it and what is left of the budget.

        Nothing and no budget: the search goes on from here the next time. What came back to where this reader has been
        is looked at whatever it costs, a chunk for each of them at most, and one message behind it in any case: returns
        that do not end must not keep a reader with a small budget where it is.
        """
        seen_version, seen_position = cursor.returned_version[priority], cursor.returned_position[priority]
        looked_at = seen_position
        found: Reference | None = None
        for chunk, last, changed in zip(self.chunks, self._lasts, self._changed, strict=True):
            start = 0
            if changed <= seen_version:
                if last <= seen_position:
                    continue
                start = bisect(chunk, seen_position, key=_position)
            for entry in chunk[start:] if start else chunk:
                position = entry.position
                if budget <= 0 and looked_at > seen_position:
                    break
                budget -= 1
                if matches(entry.message):
                    found = entry
                    break
                looked_at = max(looked_at, position)
            else:
                continue
            break
        else:
            looked_at, budget = _EVERY_POSITION, max(budget, 1)
        # Found among what changed further back: other changes behind it have not been looked at yet.
        if found is None or found.position > seen_position:
            cursor.returned_version[priority] = self._version
            cursor.returned_position[priority] = looked_at
        return found, budget
