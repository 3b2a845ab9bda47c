"""A run of waiting messages of one priority, in order of position.

Responsible for the forms in which a run is held: references while it is worked off, plain values while it is deep in
the backlog. Does not depend on consumers, filters and the other chunks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from ._reference import PackedReference, Reference, Restore, pack, packed_position, unpack

__all__ = ["Chunk", "OpenChunk", "SealedChunk"]


class Chunk(ABC):
    """Hold entries in order of position. A third form, whose entries are not resident, would stand beside these two.

    Only `opened`, `references`, `packed` and `take_through` need the entries; counting and bounds must do without.
    """

    __slots__ = ()

    start: int
    """Index of the first entry that may be left: ``0 <= start <= len(chunk)``."""
    last: int
    """Position of the message that was put here last: no entry is above it, all of the next chunk are."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of entries, gaps and the ones before ``start`` included."""

    @abstractmethod
    def opened(self, restore: Restore) -> OpenChunk:
        """Return the chunk in the form in which messages can be taken out."""

    @abstractmethod
    def sealed(self) -> Chunk:
        """Return the chunk in the form that the garbage collector does not walk, if it has no gaps."""

    @abstractmethod
    def packed(self, after: int, until: int) -> Sequence[PackedReference]:
        """Return the messages in ``(after, until]``; ``after`` is -1 where no entry can be below it."""

    @abstractmethod
    def count_between(self, after: int, until: int) -> int:
        """Return how many messages are in ``(after, until]``; ``after`` as for `packed`."""

    @abstractmethod
    def offset_of(self, position: int, end: int) -> int:
        """Return the index before ``end`` from which on no message is below a position; ``end`` without one."""

    @abstractmethod
    def take_through(self, until: int) -> list[PackedReference]:
        """Take out the first messages up to a position, and set ``start`` to what is left."""

    @abstractmethod
    def may_expire(self, until_ms: int, after: int) -> bool:
        """Return False if no message above position ``after`` expires up to a wall time."""

    @abstractmethod
    def references(self, restore: Restore) -> Iterator[Reference]:
        """Return all messages, packed ones restored for the look."""

    @abstractmethod
    def last_position(self) -> int | None:
        """Return the position of the last message that is left; None if the chunk is empty."""


class OpenChunk(list[Reference | None], Chunk):
    """Hold references; None is a gap. The chunk is itself a list: one object for each chunk, not two."""

    __slots__ = ("last", "start")

    def opened(self, restore: Restore) -> OpenChunk:
        return self

    def sealed(self) -> Chunk:
        if not self or None in self:
            return self
        return SealedChunk(tuple([pack(reference) for reference in self if reference is not None]))

    def packed(self, after: int, until: int) -> list[PackedReference]:
        return [pack(entry) for entry in self if entry is not None and after < entry.position <= until]

    def count_between(self, after: int, until: int) -> int:
        if after < 0 and self.last <= until:
            return len(self) - self.count(None)
        return sum([entry is not None and after < entry.position <= until for entry in self])

    def offset_of(self, position: int, end: int) -> int:
        while end > self.start and ((entry := self[end - 1]) is None or entry.position >= position):
            end -= 1
        return end

    def take_through(self, until: int) -> list[PackedReference]:
        taken: list[PackedReference] = []
        while self.start < len(self):
            entry = self[self.start]
            if entry is not None:
                if entry.position > until:
                    break
                taken.append(pack(entry))
                self[self.start] = None
            self.start += 1
        return taken

    def may_expire(self, until_ms: int, after: int) -> bool:
        return True

    def references(self, restore: Restore) -> Iterator[Reference]:
        return (entry for entry in self if entry is not None)

    def last_position(self) -> int | None:
        return next((entry.position for entry in reversed(self) if entry is not None), None)


class SealedChunk(Chunk):
    """Hold an exact tuple of exact tuples of plain values.

    The collector stops tracking it after it has seen it once.
    """

    __slots__ = ("entries", "last", "start")

    def __init__(self, entries: tuple[PackedReference, ...]) -> None:
        self.entries = entries
        self.start = 0
        self.last = entries[-1][0]

    def __len__(self) -> int:
        return len(self.entries)

    def opened(self, restore: Restore) -> OpenChunk:
        chunk = OpenChunk([None] * self.start)
        chunk += [unpack(packed, restore) for packed in self.entries[self.start :]]
        chunk.start, chunk.last = self.start, self.last
        return chunk

    def sealed(self) -> Chunk:
        return self

    def _range(self, after: int, until: int) -> tuple[int, int]:
        entries, start, end = self.entries, self.start, len(self.entries)
        if after >= 0:
            start = bisect_right(entries, after, lo=start, key=packed_position)
        if until < self.last:
            end = bisect_right(entries, until, lo=start, key=packed_position)
        return start, end

    def packed(self, after: int, until: int) -> tuple[PackedReference, ...]:
        start, end = self._range(after, until)
        return self.entries[start:end]

    def count_between(self, after: int, until: int) -> int:
        start, end = self._range(after, until)
        return end - start

    def offset_of(self, position: int, end: int) -> int:
        return bisect_left(self.entries, position, lo=self.start, hi=max(end, self.start), key=packed_position)

    def take_through(self, until: int) -> list[PackedReference]:
        start = self.start
        self.start = bisect_right(self.entries, until, lo=start, key=packed_position)
        return list(self.entries[start : self.start])

    def may_expire(self, until_ms: int, after: int) -> bool:
        return any(0 < packed[2] <= until_ms and packed[0] > after for packed in self.entries)

    def references(self, restore: Restore) -> Iterator[Reference]:
        return (unpack(packed, restore) for packed in self.entries[self.start :])

    def last_position(self) -> int | None:
        return self.entries[-1][0] if self.start < len(self.entries) else None
