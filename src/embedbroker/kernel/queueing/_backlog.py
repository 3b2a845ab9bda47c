"""The messages that wait in a queue, in delivery order.

Responsible for ten priority levels, first in first out inside each, returned messages back at their old place, removal
from the middle for consumers with filters, and for holding a deep backlog so that the garbage collector does not walk
it. Refuses to know consumers, settings or time.

How a deep backlog is held: entries stand in chunks of 256. Chunks away from both ends are sealed into exact tuples of
plain values, which the collector stops tracking after it has seen them once; a full collection then costs per chunk and
not per message, without touching the host program's collector settings. A sealed chunk is opened again when its first
message is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from embedclient.model import Message

from ._priority_list import PackedReference, PriorityList, Reference, pack, position_of, sealed_position

__all__ = ["CHUNK_ENTRIES", "Backlog", "Bookmark", "PackedReference", "Reference", "Restore"]

CHUNK_ENTRIES = 256
# Chunks at each end that stay open: a queue that is being worked off never pays for sealing.
_OPEN_CHUNKS = 4

Restore: TypeAlias = Callable[[int, bytes | bytearray], Message]
"""Builds a message from its encoding tag and its bytes."""


def _everything(_message: Message) -> bool:
    return True


def _nothing_exempt() -> int:
    return -1


class Bookmark:
    """How far one reader with a filter, or a browser, has looked into each level."""

    __slots__ = ("chunk", "offset", "returned_position", "returned_version")

    def __init__(self) -> None:
        self.chunk = [0] * 10
        self.offset = [0] * 10
        # A reader with a filter: up to which position nothing matched among those that had returned by which addition.
        # A browser: position of the last message it was shown, so that nothing is shown twice.
        self.returned_position = [-1] * 10
        self.returned_version = [0] * 10


class Backlog:
    """All waiting messages of one queue."""

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
            level = self._levels[priority] = PriorityList()
        chunks, lasts, position = level.chunks, level.lasts, reference.position
        last = chunks[-1] if chunks else None
        if lasts and position < lasts[-1]:
            # Chunks are in order of position, whoever finds its way by that.
            self.give_back(reference)
            return
        if last is None or len(last) >= CHUNK_ENTRIES or type(last) is tuple:
            last = []
            chunks.append(last)
            lasts.append(position)
            if len(chunks) > 2 * _OPEN_CHUNKS:
                self._pack_chunk(level, len(chunks) - 1 - _OPEN_CHUNKS)
        last.append(reference)  # type: ignore[union-attr]  # a fresh or open chunk is a list
        lasts[-1] = position
        level.live += 1
        self.size += 1
        if priority > self._highest:
            self._highest = priority

    def give_back(self, reference: Reference) -> None:
        """Put a message that had left back to where it stood."""
        priority = reference.message.priority
        level = self._levels[priority]
        if level is None:
            level = self._levels[priority] = PriorityList()
        level.returned.add(reference)
        level.live += 1
        self.size += 1
        if priority > self._highest:
            self._highest = priority

    def load(self, priority: int, chunks: Iterable[tuple[PackedReference, ...]]) -> None:
        """Fill an empty priority with chunks of sealed entries, `CHUNK_ENTRIES` at most, in order of position."""
        assert self._levels[priority] is None, priority
        level = self._levels[priority] = PriorityList()
        given = list(chunks)
        level.chunks.extend(given)
        level.lasts.extend([chunk[-1][0] for chunk in given])
        level.live = sum(map(len, level.chunks))
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
            reference = self._first(level)
            self._drop_first(level)
            return reference
        first = self._first(level) if level.live >= returned.count else None
        if first is None or returned.first.position < first.position:
            return returned.pop_first()
        self._drop_first(level)
        return first

    def take_matching(
        self, cursor: Bookmark, matches: Callable[[Message], bool], budget: int
    ) -> tuple[Reference | None, int]:
        """Take the first message that matches, looking no further back than the cursor has been.

        At most ``budget`` messages are looked at; returns the message (None: no match, or the budget ended) and what is
        left of the budget.
        """
        for priority in range(self._highest, -1, -1):
            level = self._levels[priority]
            if level is None or level.live == 0:
                continue
            candidate: Reference | None = None
            if level.returned.chunks:
                candidate, budget = level.returned.find(cursor, priority, matches, budget)
                if candidate is None and budget <= 0:
                    return None, 0
            found, budget = self._scan(level, priority, cursor, matches, max(budget, 1), candidate)
            if candidate is not None and found is candidate:
                level.returned.remove(candidate)
            elif found is not None:
                self._punch(level, priority, cursor)
            if found is not None:
                level.live -= 1
                self.size -= 1
                return found, budget
            if budget <= 0:
                return None, 0
        return None, budget

    def browse(self, cursor: Bookmark, budget: int) -> tuple[Reference | None, int]:
        """Return the next message a browser has not seen, without taking it."""
        for priority in range(9, -1, -1):
            level = self._levels[priority]
            if level is None:
                continue
            unseen = level.returned.chunk_behind(cursor.returned_position[priority]) if level.returned.chunks else ()
            candidate = unseen[0] if unseen else None
            found, budget = self._scan(level, priority, cursor, _everything, budget, candidate)
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
        Nothing happens to positions up to the one that ``exempt_through`` says, which may change during a pause.
        """
        for level in self._levels:
            if level is None:
                continue
            yield from self._remove_returned(level, doomed, exempt_through)
            number = level.base
            # Chunks may go while this waits for its next turn.
            while (number := max(number, level.base)) < level.base + len(level.chunks):
                yield from self._remove_in_chunk(level, number, doomed, expired_before, exempt_through)
                yield None
                number += 1

    def _remove_returned(
        self, level: PriorityList, doomed: Callable[[Reference], bool], exempt_through: Callable[[], int]
    ) -> Iterator[Reference | None]:
        # Messages may come and go while this waits for its next turn.
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
        """Messages in ``(after, until]`` in order of position, whatever their priority, without taking them.

        All of them, or about ``limit`` and a chunk of each priority: the next ones are behind the last. None: there are
        no more. What it costs does not depend on what is before the range or behind it.
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
        merged.sort(key=sealed_position)
        return merged

    def count(self, after: int, until: int) -> int:
        """How many messages are in ``(after, until]``."""
        return sum([level.count(after, until) for level in self._levels if level is not None])

    def marks(self, after: int, until: int, exact_max: int) -> list[int]:
        """Positions in ``(after, until]`` between which about as many messages stand: each one's, if they are few."""
        if self.count(after, until) <= exact_max:
            marks = []
            while portion := self.behind(after, until, exact_max):
                marks += [entry[0] for entry in portion]
                after = marks[-1]
            return marks
        levels = [level for level in self._levels if level is not None]
        return sorted({last for level in levels for last in level.lasts if after < last <= until})

    def take_through(self, until: int) -> list[PackedReference]:
        """Take out messages up to a position: about a chunk of them in one call, none when no more are there."""
        for level in self._levels:
            if level is not None and level.live and (taken := level.take_through(until)):
                self.size -= len(taken)
                return taken
        return []

    @property
    def last_position(self) -> int:
        """No message in here has a position above this one; 0 when there never was any."""
        return max([level.last_position for level in self._levels if level is not None], default=0)

    # -- for queries -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Reference]:
        """All messages in delivery order, sealed ones restored for the look. For queries, not for delivery."""
        for level in reversed(self._levels):
            if level is None:
                continue
            entries = list(level.returned)
            for index, chunk in enumerate(level.chunks):
                start = level.head if index == 0 else 0
                for entry in chunk[start:]:
                    if type(entry) is tuple:
                        entries.append(self.restored(entry))
                    elif entry is not None:
                        entries.append(entry)  # type: ignore[arg-type]  # gaps and sealed entries are excluded above
            entries.sort(key=position_of)
            yield from entries

    def bounds(self) -> tuple[int, int] | None:
        """The lowest and the highest position of what waits; None when nothing does."""
        ends = [end for level in self._levels if level is not None and level.live for end in self._ends(level)]
        return (min(ends), max(ends)) if ends else None

    def _ends(self, level: PriorityList) -> Iterator[int]:
        returned = level.returned
        if returned.chunks:
            yield returned.first.position
            yield returned.chunks[-1][-1].position
        if level.live > returned.count:
            yield self._first(level).position
            for chunk in reversed(level.chunks):
                entry = next((entry for entry in reversed(chunk) if entry is not None), None)
                if entry is not None:
                    yield entry[0] if type(entry) is tuple else entry.position  # type: ignore[union-attr]
                    return

    # -- chunks --------------------------------------------------------------------------------------------------

    def restored(self, sealed: PackedReference) -> Reference:
        """The message itself of an entry in plain values."""
        position, delivery_count, _expiration, encoding, raw, _message_id, _durable = sealed
        return Reference(self._restore(encoding, raw), position, delivery_count)

    def _pack_chunk(self, level: PriorityList, index: int) -> None:
        chunk = level.chunks[index]
        if type(chunk) is list and None not in chunk:
            level.chunks[index] = tuple([pack(reference) for reference in chunk if reference is not None])

    def _open(self, level: PriorityList, index: int) -> list[Reference | None]:
        chunk = level.chunks[index]
        if type(chunk) is tuple:
            # Of the first chunk a part may have been taken as it was.
            gone = level.head if index == 0 else 0
            chunk = [*[None] * gone, *[self.restored(sealed) for sealed in chunk[gone:]]]
            level.chunks[index] = chunk
        assert type(chunk) is list
        return chunk

    def _first(self, level: PriorityList) -> Reference:
        """The first entry of the chunks, stepping over gaps; there must be one."""
        while True:
            chunk = self._open(level, 0)
            head = level.head
            while head < len(chunk):
                entry = chunk[head]
                if entry is not None:
                    level.head = head
                    return entry
                head += 1
            level.drop_chunk()

    def _drop_first(self, level: PriorityList) -> None:
        chunk = level.chunks[0]
        assert type(chunk) is list
        chunk[level.head] = None
        level.head += 1
        if level.head >= len(chunk):
            level.drop_chunk()

    def _scan(
        self,
        level: PriorityList,
        priority: int,
        cursor: Bookmark,
        matches: Callable[[Message], bool],
        budget: int,
        candidate: Reference | None,
    ) -> tuple[Reference | None, int]:
        """Move the cursor to the next match and return it; the cursor stays on it.

        A ``candidate`` that was returned comes out instead when its place is before that. None: nothing matches, or the
        budget ended before it was clear who is first.
        """
        number, offset = cursor.chunk[priority], cursor.offset[priority]
        if number < level.base or (number == level.base and offset < level.head):
            number, offset = level.base, level.head
        limit = candidate.position if candidate is not None else None
        found: Reference | None = None
        while found is None and number < level.base + len(level.chunks) and budget > 0:
            chunk = self._open(level, number - level.base)
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
                offset += 1
            else:
                if offset < len(chunk) or number + 1 == level.base + len(level.chunks):
                    break
                self._drop_gaps(level, number - level.base)
                number, offset = max(number + 1, level.base), 0
        cursor.chunk[priority], cursor.offset[priority] = number, offset
        if found is None and budget > 0:
            found = candidate
        return found, budget

    def _drop_gaps(self, level: PriorityList, index: int) -> None:
        """Let go of a chunk of which nothing is left: without consumers that take the first, nobody else would."""
        if any(level.chunks[index]):
            return
        level.chunks[index] = ()
        while len(level.chunks) > 1 and not level.chunks[0]:
            level.drop_chunk()

    def _punch(self, level: PriorityList, priority: int, cursor: Bookmark) -> None:
        """Leave a gap where the cursor stands."""
        chunk = level.chunks[cursor.chunk[priority] - level.base]
        assert type(chunk) is list
        chunk[cursor.offset[priority]] = None

    def _remove_in_chunk(
        self,
        level: PriorityList,
        number: int,
        doomed: Callable[[Reference], bool],
        expired_before: int | None,
        exempt_through: Callable[[], int],
    ) -> Iterator[Reference]:
        exempt = exempt_through()
        if level.lasts[number - level.base] <= exempt:
            return
        chunk = level.chunks[number - level.base]
        if type(chunk) is tuple:
            if expired_before is not None and not any(
                0 < sealed[2] <= expired_before and sealed[0] > exempt for sealed in chunk
            ):
                return
            chunk = self._open(level, number - level.base)
        assert type(chunk) is list
        for offset, entry in enumerate(chunk):
            if entry is not None and entry.position > exempt and doomed(entry):
                chunk[offset] = None
                level.live -= 1
                self.size -= 1
                yield entry
                exempt = exempt_through()
        if level.live == level.returned.count:
            # Nothing is left in any chunk, and cursors find their way by the base.
            level.base += len(level.chunks)
            level.head = 0
            level.chunks.clear()
            level.lasts.clear()
