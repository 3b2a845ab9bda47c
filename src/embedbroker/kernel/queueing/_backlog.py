"""The messages that wait in a queue, in delivery order.

Responsible for ten priority levels, first in first out inside each, returned messages back at their old place, and
removal from the middle for consumers with filters. Also responsible for holding a deep backlog so that the garbage
collector does not walk it. Does not depend on consumers, settings and time.

How a deep backlog is held: entries stand in chunks of 256. Chunks away from both ends are sealed into exact tuples of
plain values, which the collector stops tracking after it has seen them once. A full collection then costs per chunk and
not per message, without a change of the host program's collector settings. A sealed chunk is opened again when its
first message is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from .._statistics import BacklogStatistics
from ..message._message import Message
from ._bookmark import Bookmark
from ._chunk import SealedChunk
from ._priority_list import PriorityList
from ._reference import PackedReference, Reference, Restore, packed_position, position_of, unpack

__all__ = ["CHUNK_ENTRIES", "Backlog", "Bookmark", "PackedReference", "Reference", "Restore"]

CHUNK_ENTRIES = 256


def _everything(_message: Message) -> bool:
    return True


def _nothing_exempt() -> int:
    return -1


class Backlog:
    """Hold all waiting messages of one queue."""

    __slots__ = ("_highest", "_levels", "_restore", "size")

    def __init__(self, restore: Restore) -> None:
        self._levels: list[PriorityList | None] = [None] * 10
        self._restore = restore
        self._highest = -1
        self.size = 0

    def append(self, reference: Reference) -> None:
        """Add a new message behind all others of its priority."""
        priority = reference.message.priority
        level = self._levels[priority]
        if level is None:
            level = self._levels[priority] = PriorityList(self._restore)
        chunks, position = level.chunks, reference.position
        if chunks and position < chunks[-1].last:
            # Chunks are in order of position, for readers that search by it.
            self.give_back(reference)
            return
        tail = level.tail
        if tail is None or len(tail) >= CHUNK_ENTRIES:
            tail = level.begin_chunk()
        tail.append(reference)
        tail.last = position
        level.live += 1
        self.size += 1
        if priority > self._highest:
            self._highest = priority

    def give_back(self, reference: Reference) -> None:
        """Put a message that had left back to where it stood."""
        priority = reference.message.priority
        level = self._levels[priority]
        if level is None:
            level = self._levels[priority] = PriorityList(self._restore)
        level.returned.add(reference)
        level.live += 1
        self.size += 1
        if priority > self._highest:
            self._highest = priority

    def load(self, priority: int, chunks: Iterable[tuple[PackedReference, ...]]) -> None:
        """Fill an empty priority with chunks of sealed entries, `CHUNK_ENTRIES` at most, in order of position."""
        assert self._levels[priority] is None, priority
        level = self._levels[priority] = PriorityList(self._restore)
        level.load(chunks)
        self.size += level.live
        self._highest = max(self._highest, priority)

    def pop(self) -> Reference:
        """Take the first message. The backlog must not be empty."""
        levels = self._levels
        priority = self._highest
        level = levels[priority]
        while level is None or level.live == 0:
            priority -= 1
            self._highest = priority
            level = levels[priority]
        level.live -= 1
        self.size -= 1
        returned = level.returned
        if not returned.chunks:
            return level.take_front(level.front())
        # One that has just been taken from `live`: there is a message that never left if it is not below.
        if level.live >= returned.count:
            front = level.front()
            first = front[front.start]
            assert first is not None
            if first.position <= returned.first.position:
                return level.take_front(front)
        return returned.pop_first()

    def pop_run(self, limit: int) -> list[Reference]:
        """Take the first messages, up to ``limit`` and one at least. The backlog must not be empty."""
        level = self._levels[self._highest]
        if level is None or not level.live or level.returned.chunks:
            return [self.pop()]
        taken = level.take_front_run(limit)
        level.live -= len(taken)
        self.size -= len(taken)
        return taken

    def first_packed(self, limit: int) -> Sequence[PackedReference]:
        """Return the first messages, up to ``limit``, without taking them; none unless they are deep in the backlog."""
        level = self._levels[self._highest]
        if level is None or not level.live or level.returned.chunks:
            return ()
        chunk = level.front_sealed()
        return chunk.entries[chunk.start : chunk.start + limit] if chunk is not None else ()

    def take_packed(self, count: int) -> None:
        """Take the first messages of what `first_packed` has just returned."""
        level = self._levels[self._highest]
        assert level is not None
        level.take_sealed(count)
        self.size -= count

    def take_matching(
        self,
        cursor: Bookmark,
        matches: Callable[[Message], bool],
        budget: int,
        passed_over: Callable[[Reference], None] | None = None,
    ) -> tuple[Reference | None, int]:
        """Take the first message that matches, looking no further back than the cursor has been.

        At most ``budget`` messages are examined. Return the message (None: no match, or the budget ended) and the rest
        of the budget. ``passed_over`` is called for each message that does not match, and may be called again for it.
        """
        for priority in range(self._highest, -1, -1):
            level = self._levels[priority]
            if level is None or level.live == 0:
                continue
            candidate: Reference | None = None
            if level.returned.chunks:
                candidate, budget = level.returned.find(cursor, priority, matches, budget, passed_over)
                if candidate is None and budget <= 0:
                    return None, 0
            found, budget = level.scan(priority, cursor, matches, max(budget, 1), candidate, passed_over)
            if found is not None:
                if found is candidate:
                    level.returned.remove(candidate)
                    level.live -= 1
                else:
                    level.take_at(priority, cursor)
                self.size -= 1
                return found, budget
            if budget <= 0:
                return None, 0
        return None, budget

    def rewind(self, cursor: Bookmark, priority: int, position: int) -> None:
        """Let a reader look again at messages of a priority from a position on, if it has been there."""
        level = self._levels[priority]
        if level is not None:
            level.rewind(priority, cursor, position)

    def browse(self, cursor: Bookmark, budget: int) -> tuple[Reference | None, int]:
        """Return the next message a browser has not seen, without taking it."""
        for priority in range(9, -1, -1):
            level = self._levels[priority]
            if level is None:
                continue
            unseen = level.returned.chunk_behind(cursor.returned_position[priority]) if level.returned.chunks else ()
            candidate = unseen[0] if unseen else None
            found, budget = level.scan(priority, cursor, _everything, budget, candidate)
            if found is not None:
                cursor.returned_position[priority] = found.position
                if found is not candidate:
                    cursor.offset[priority] += 1
                return found, budget
            if budget <= 0:
                return None, 0
        return None, budget

    def remove_if(
        self,
        doomed: Callable[[Reference], bool],
        expired_before: int | None = None,
        exempt_through: Callable[[], int] = _nothing_exempt,
    ) -> Iterator[Reference | None]:
        """Remove every message for which ``doomed`` is true, yielding it; None between chunks. Either may be a pause.

        ``expired_before`` (wall ms) narrows the search: sealed chunks without an expiration up to it stay sealed.
        Messages at positions up to the value of ``exempt_through()`` stay; that value may change during a pause.
        """
        for level in self._levels:
            if level is None:
                continue
            yield from self._remove_returned(level, doomed, exempt_through)
            number = level.base
            # Chunks may be removed while this waits for its next turn.
            while (number := max(number, level.base)) < level.base + len(level.chunks):
                for entry in level.remove_in_chunk(number, doomed, expired_before, exempt_through):
                    self.size -= 1
                    yield entry
                yield None
                number += 1

    def _remove_returned(
        self, level: PriorityList, doomed: Callable[[Reference], bool], exempt_through: Callable[[], int]
    ) -> Iterator[Reference | None]:
        # Messages may arrive and leave while this waits for its next turn.
        position, exempt = -1, exempt_through()
        while behind := level.returned.chunk_behind(max(position, exempt)):
            for entry in behind:
                if entry.position > exempt and doomed(entry) and level.returned.remove(entry):
                    level.live -= 1
                    self.size -= 1
                    yield entry
                    exempt = exempt_through()
            yield None
            position, exempt = behind[-1].position, exempt_through()

    # -- ranges of positions -------------------------------------------------------------------------------------

    def behind(self, after: int, until: int, limit: int) -> list[PackedReference]:
        """Return messages in ``(after, until]`` in order of position, whatever their priority, without taking them.

        All of them, or about ``limit`` and a chunk of each priority: the next ones are behind the last. None: there are
        no more. The cost does not depend on what is before the range or behind it.
        """
        found = [
            entries
            for level in self._levels
            if level is not None and level.live
            for entries in (level.behind(after, until, limit), level.returned_behind(after, until, limit))
            if entries
        ]
        if len(found) <= 1:
            return found[0] if found else []
        complete = min([entries[-1][0] for entries in found if len(entries) >= limit], default=until)
        merged = [entry for entries in found for entry in entries if entry[0] <= complete]
        merged.sort(key=packed_position)
        return merged

    def count(self, after: int, until: int) -> int:
        """Return the number of messages in ``(after, until]``."""
        return sum([level.count(after, until) for level in self._levels if level is not None])

    def marks(self, after: int, until: int, exact_max: int) -> list[int]:
        """Return positions in ``(after, until]`` with about equally many messages between them.

        Each one's, if they are few.
        """
        if self.count(after, until) <= exact_max:
            marks = []
            while portion := self.behind(after, until, exact_max):
                marks += [entry[0] for entry in portion]
                after = marks[-1]
            return marks
        levels = [level for level in self._levels if level is not None]
        return sorted({last for level in levels for chunk in level.chunks if after < (last := chunk.last) <= until})

    def take_through(self, until: int) -> list[PackedReference]:
        """Take out messages up to a position: about a chunk of them per call, none when no more are there."""
        for level in self._levels:
            if level is not None and level.live and (taken := level.take_through(until)):
                self.size -= len(taken)
                return taken
        return []

    @property
    def last_position(self) -> int:
        """Return a position that no message here exceeds; 0 if there never was a message."""
        return max([level.last_position for level in self._levels if level is not None], default=0)

    # -- for queries -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Reference]:
        """Return all messages in delivery order, packed ones restored for the look. For queries, not for delivery."""
        for level in reversed(self._levels):
            if level is not None:
                yield from sorted(level.references(), key=position_of)

    def bounds(self) -> tuple[int, int] | None:
        """Return the lowest and the highest position of the waiting messages; None if there are none."""
        ends = [ends for level in self._levels if level is not None and (ends := level.ends()) is not None]
        return (min([low for low, _high in ends]), max([high for _low, high in ends])) if ends else None

    def statistics(self) -> BacklogStatistics:
        """Return the current figures."""
        levels = [level for level in self._levels if level is not None]
        chunks = [chunk for level in levels for chunk in level.chunks]
        sealed = sum([isinstance(chunk, SealedChunk) for chunk in chunks])
        return BacklogStatistics(
            size=self.size,
            returned=sum([level.returned.count for level in levels]),
            open_chunks=len(chunks) - sealed,
            sealed_chunks=sealed,
            entries=sum(map(len, chunks)),
        )

    def check(self) -> None:
        """Raise AssertionError if counts and positions do not agree with the chunks."""
        size = 0
        for priority, level in enumerate(self._levels):
            if level is not None:
                level.check()
                assert not level.live or priority <= self._highest, (priority, self._highest)
                size += level.live
        assert size == self.size, (size, self.size)

    def restored(self, packed: PackedReference) -> Reference:
        """Return the message itself of an entry in plain values."""
        return unpack(packed, self._restore)
