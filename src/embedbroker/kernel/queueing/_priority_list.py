"""One priority of a queue's backlog: chunks of messages in order of position, and those that returned.

Responsible for the bounds of chunks, for readers that walk them, and for ranges of positions. A range can be read,
counted, or taken up to a position. A range opens no sealed chunk and reads nothing outside of its bounds. Does not
depend on consumers and filters.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import attrgetter

from ..message._message import Message
from ._bookmark import Bookmark
from ._chunk import Chunk, OpenChunk, SealedChunk
from ._redelivered import Redelivered
from ._reference import PackedReference, Reference, Restore, pack

__all__ = ["PriorityList"]

# Chunks at each end that stay open: a queue that is being worked off never pays for sealing.
_OPEN_CHUNKS = 4

_last_of = attrgetter("last")


class PriorityList:
    """Hold the messages of one priority.

    ``base`` is the number of the first chunk since the beginning, ``live`` how many messages are left. ``tail`` is the
    last chunk while it takes new messages, None while the next message needs a new chunk.
    """

    __slots__ = ("_restore", "base", "chunks", "live", "returned", "tail")

    def __init__(self, restore: Restore) -> None:
        self._restore = restore
        self.chunks: deque[Chunk] = deque()
        self.tail: OpenChunk | None = None
        self.base = 0
        self.live = 0
        self.returned = Redelivered()

    def begin_chunk(self) -> OpenChunk:
        """Return a new last chunk; seal another one that is far from both ends."""
        chunks = self.chunks
        self.tail = tail = OpenChunk()
        tail.start = 0
        chunks.append(tail)
        if len(chunks) > 2 * _OPEN_CHUNKS:
            index = len(chunks) - 1 - _OPEN_CHUNKS
            chunks[index] = chunks[index].sealed()
        return tail

    def load(self, chunks: Iterable[tuple[PackedReference, ...]]) -> None:
        """Fill an empty priority with sealed chunks, in order of position."""
        assert not self.chunks
        self.chunks.extend([SealedChunk(entries) for entries in chunks])
        self.live = sum(map(len, self.chunks))

    def drop_chunk(self) -> None:
        """Release the first chunk."""
        self.chunks.popleft()
        self.base += 1
        if not self.chunks:
            self.tail = None

    def _open(self, index: int) -> OpenChunk:
        chunk = self.chunks[index]
        opened = chunk.opened(self._restore)
        if opened is not chunk:
            self._replace(index, opened)
        return opened

    def _replace(self, index: int, opened: OpenChunk) -> None:
        self.chunks[index] = opened
        if index == len(self.chunks) - 1:
            self.tail = opened

    # -- the first message ---------------------------------------------------------------------------------------

    def front(self) -> OpenChunk:
        """Return the chunk whose ``start`` is the first message that never left; there must be one."""
        while True:
            first = self.chunks[0]
            chunk = first.opened(self._restore)
            if chunk is not first:
                self._replace(0, chunk)
            start = chunk.start
            while start < len(chunk):
                if chunk[start] is not None:
                    chunk.start = start
                    return chunk
                start += 1
            self.drop_chunk()

    def take_front(self, chunk: OpenChunk) -> Reference:
        """Take the message at which `front` stands."""
        start = chunk.start
        reference = chunk[start]
        assert reference is not None
        chunk[start] = None
        start += 1
        chunk.start = start
        if start >= len(chunk):
            self.drop_chunk()
        return reference

    def take_front_run(self, limit: int) -> list[Reference]:
        """Take the first messages of the first chunk that has any, up to ``limit`` entries."""
        chunk = self.front()
        start = chunk.start
        end = min(start + limit, len(chunk))
        taken = [reference for reference in chunk[start:end] if reference is not None]
        chunk[start:end] = [None] * (end - start)
        chunk.start = end
        if end >= len(chunk):
            self.drop_chunk()
        return taken

    def front_sealed(self) -> SealedChunk | None:
        """Return the first chunk if it is sealed; its ``start`` is the first message that never left."""
        while self.chunks and self.chunks[0].start >= len(self.chunks[0]):
            self.drop_chunk()
        first = self.chunks[0] if self.chunks else None
        return first if isinstance(first, SealedChunk) else None

    def take_sealed(self, count: int) -> None:
        """Take the first messages of `front_sealed`."""
        chunk = self.chunks[0]
        assert isinstance(chunk, SealedChunk)
        chunk.start += count
        self.live -= count
        if chunk.start >= len(chunk):
            self.drop_chunk()

    # -- readers that walk the chunks ----------------------------------------------------------------------------

    def scan(
        self,
        priority: int,
        cursor: Bookmark,
        matches: Callable[[Message], bool],
        budget: int,
        candidate: Reference | None,
        passed_over: Callable[[Reference], None] | None = None,
    ) -> tuple[Reference | None, int]:
        """Move the cursor to the next match and return it with the rest of the budget; the cursor stays on it.

        A ``candidate`` that was returned comes out instead when its place is before that. None: nothing matches, or the
        budget ended before it was clear which message is first.
        """
        number, offset = cursor.chunk[priority], cursor.offset[priority]
        if number < self.base:
            number, offset = self.base, 0
        limit = candidate.position if candidate is not None else None
        found: Reference | None = None
        while found is None and number < self.base + len(self.chunks) and budget > 0:
            chunk = self._open(number - self.base)
            offset = max(offset, chunk.start)
            while offset < len(chunk) and budget > 0:
                entry = chunk[offset]
                if entry is not None:
                    budget -= 1
                    if limit is not None and entry.position > limit:
                        found = candidate
                        break
                    if matches(entry.message):
                        found = entry
                        break
                    if passed_over is not None:
                        passed_over(entry)
                offset += 1
            else:
                if offset < len(chunk) or number + 1 == self.base + len(self.chunks):
                    break
                self._drop_gaps(number - self.base, chunk)
                number, offset = max(number + 1, self.base), 0
        cursor.chunk[priority], cursor.offset[priority] = number, offset
        if found is None and budget > 0:
            found = candidate
        return found, budget

    def rewind(self, priority: int, cursor: Bookmark, position: int) -> None:
        """Move a cursor that is behind a position back to it."""
        cursor.returned_position[priority] = min(cursor.returned_position[priority], position - 1)
        index = bisect_left(self.chunks, position, key=_last_of)
        number = self.base + index
        if index == len(self.chunks) or number > cursor.chunk[priority]:
            return
        chunk = self.chunks[index]
        end = cursor.offset[priority] if number == cursor.chunk[priority] else len(chunk)
        cursor.chunk[priority], cursor.offset[priority] = number, chunk.offset_of(position, end)

    def _drop_gaps(self, index: int, chunk: OpenChunk) -> None:
        """Release a chunk of which nothing is left: there may be no consumer without a filter to do it."""
        if any(chunk):
            return
        chunk.clear()
        chunk.start = 0
        while len(self.chunks) > 1 and not self.chunks[0]:
            self.drop_chunk()

    def take_at(self, priority: int, cursor: Bookmark) -> None:
        """Leave a gap where the cursor stands."""
        self._open(cursor.chunk[priority] - self.base)[cursor.offset[priority]] = None
        self.live -= 1

    def remove_in_chunk(
        self,
        number: int,
        doomed: Callable[[Reference], bool],
        expired_before: int | None,
        exempt_through: Callable[[], int],
    ) -> Iterator[Reference]:
        """Remove every doomed message of one chunk, yielding it; see `Backlog.remove_if`."""
        exempt = exempt_through()
        chunk = self.chunks[number - self.base]
        if chunk.last <= exempt or not (expired_before is None or chunk.may_expire(expired_before, exempt)):
            return
        opened = self._open(number - self.base)
        for offset, entry in enumerate(opened):
            if entry is not None and entry.position > exempt and doomed(entry):
                opened[offset] = None
                self.live -= 1
                yield entry
                exempt = exempt_through()
        if self.live == self.returned.count:
            # Nothing is left in any chunk, and cursors find their way by the base.
            self.base += len(self.chunks)
            self.chunks.clear()
            self.tail = None

    def references(self) -> Iterator[Reference]:
        """Return all messages, the returned ones first and the others in order. For queries, not for delivery."""
        yield from self.returned
        for chunk in self.chunks:
            yield from chunk.references(self._restore)

    def ends(self) -> tuple[int, int] | None:
        """Return the lowest and the highest position of what is left; None if nothing is."""
        ends: list[int] = []
        returned = self.returned
        if returned.chunks:
            ends += [returned.first.position, returned.chunks[-1][-1].position]
        if self.live > returned.count:
            front = self.front()
            first = front[front.start]
            assert first is not None
            last = next(last for chunk in reversed(self.chunks) if (last := chunk.last_position()) is not None)
            ends += [first.position, last]
        return (min(ends), max(ends)) if ends else None

    def check(self) -> None:
        """Raise AssertionError if counts, positions and chunks do not agree."""
        before, waiting = -1, self.returned.count
        for chunk in self.chunks:
            assert 0 <= chunk.start <= len(chunk), (chunk.start, len(chunk))
            last = chunk.last_position()
            assert before < chunk.last and (last is None or before < last <= chunk.last), (before, last, chunk.last)
            before = chunk.last
            waiting += chunk.count_between(-1, before)
        assert waiting == self.live, (waiting, self.live)
        assert self.tail is None or self.tail is self.chunks[-1]

    # -- ranges of positions -------------------------------------------------------------------------------------

    def behind(self, after: int, until: int, limit: int) -> list[PackedReference]:
        """Return messages in ``(after, until]`` that never left: all, or at least ``limit`` and about a chunk."""
        chunks = self.chunks
        found: list[PackedReference] = []
        first = bisect_right(chunks, after, key=_last_of)
        for index in range(first, len(chunks)):
            chunk = chunks[index]
            found += chunk.packed(after if index == first else -1, until)
            if len(found) >= limit or chunk.last >= until:
                break
        return found

    def returned_behind(self, after: int, until: int, limit: int) -> list[PackedReference]:
        """Like `behind`, for the messages that returned."""
        found: list[PackedReference] = []
        while len(found) < limit and (behind := self.returned.chunk_behind(after)):
            found += [pack(entry) for entry in behind if entry.position <= until]
            after = behind[-1].position
            if after >= until:
                break
        return found

    def count(self, after: int, until: int) -> int:
        """Return how many messages are in ``(after, until]``."""
        counted = self.returned.count_between(after, until) if self.returned.chunks else 0
        first = bisect_right(self.chunks, after, key=_last_of)
        for chunk in islice(self.chunks, first, None):
            counted += chunk.count_between(after, until)
            after = -1
            if chunk.last >= until:
                break
        return counted

    def take_through(self, until: int) -> list[PackedReference]:
        """Take out the first messages up to a position: a chunk of them at most, none when no more are there."""
        taken = [pack(entry) for entry in self.returned.take_through(until)]
        while not taken and self.chunks:
            chunk = self.chunks[0]
            taken = chunk.take_through(until)
            if chunk.start < len(chunk):
                break
            self.drop_chunk()
        self.live -= len(taken)
        return taken

    @property
    def last_position(self) -> int:
        """Return a position that no message here exceeds; 0 if there never was a message."""
        return max(self.chunks[-1].last if self.chunks else 0, self.returned.last_position)
