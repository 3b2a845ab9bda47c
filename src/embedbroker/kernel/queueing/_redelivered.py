"""Messages of one priority that came back, by position.

Responsible for taking the first, for removal from the middle, and for readers with filters that look at each message
once. The cost of all that does not grow with their number: a lost connection can bring back a million. Does not depend
on the messages that never left, between which these stand.

They are held in sorted chunks. Each chunk records at which addition it last got a message. So a reader that was further
back already examines the chunks that changed and skips the others.
"""

from __future__ import annotations

from bisect import bisect, bisect_left, insort
from collections.abc import Callable, Iterator
from operator import attrgetter

from ..message._message import Message
from ._bookmark import Bookmark
from ._reference import Reference

__all__ = ["Redelivered"]

CHUNK_ENTRIES = 256

_position = attrgetter("position")
_EVERY_POSITION = 1 << 63


class Redelivered:
    """Hold references in order of position; ``chunks`` is empty when there are none."""

    __slots__ = ("_changed", "_lasts", "_version", "chunks", "count")

    def __init__(self) -> None:
        self.chunks: list[list[Reference]] = []
        # For each chunk: a position that no entry exceeds, and the number of its last addition.
        self._lasts: list[int] = []
        self._changed: list[int] = []
        self._version = 0
        self.count = 0

    def __iter__(self) -> Iterator[Reference]:
        for chunk in self.chunks:
            yield from chunk

    def add(self, reference: Reference) -> None:
        """Insert a message at its place."""
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
        """Return the reference with the lowest position; there must be one."""
        return self.chunks[0][0]

    def pop_first(self) -> Reference:
        """Take the reference with the lowest position."""
        return self._take(0, 0)

    def remove(self, reference: Reference) -> bool:
        """Take one reference out; return False if it is no longer here."""
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
        """Take out the first references up to a position: at most a chunk of them."""
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
        """Return the number of messages in ``(after, until]``."""
        counted = 0
        for index in range(bisect(self._lasts, after), len(self.chunks)):
            chunk = self.chunks[index]
            counted += bisect(chunk, until, key=_position) - bisect(chunk, after, key=_position)
            if self._lasts[index] >= until:
                break
        return counted

    @property
    def last_position(self) -> int:
        """Return a position that no message here exceeds; 0 if there are none."""
        return self._lasts[-1] if self._lasts else 0

    def chunk_behind(self, position: int) -> list[Reference]:
        """Return the next few references behind a position, as a new list; empty at the end."""
        index = bisect(self._lasts, position)
        if index == len(self.chunks):
            return []
        chunk = self.chunks[index]
        # A chunk's limit may be above what is left in it.
        return chunk[bisect(chunk, position, key=_position) :] or self.chunk_behind(self._lasts[index])

    def find(
        self,
        cursor: Bookmark,
        priority: int,
        matches: Callable[[Message], bool],
        budget: int,
        passed_over: Callable[[Reference], None] | None = None,
    ) -> tuple[Reference | None, int]:
        """Return the first message that matches, which stays at its place, and the rest of the budget.

        Nothing and no budget: the search continues from here the next time. Messages that came back to where this
        reader has been are examined at any cost, at most a chunk for each of them. One message behind them is examined
        in any case. A stream of returns without end must not hold up a reader with a small budget.
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
                if passed_over is not None:
                    passed_over(entry)
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
