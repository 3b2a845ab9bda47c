"""One priority of a queue's backlog: chunks of messages in order of position, and those that returned.

Responsible for what a message is while it waits, for the bounds of chunks, and for ranges of positions: looking at
one, counting it and taking everything up to a position, none of which opens a sealed chunk or looks at what is outside
the range. Refuses to know consumers and filters; the backlog walks the chunks for those.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import islice
from operator import attrgetter, itemgetter
from typing import TypeAlias

from embedclient.model import Message

from ._redelivered import Redelivered

__all__ = ["PackedReference", "PriorityList", "Reference", "pack", "position_of", "sealed_position"]


class Reference:
    """One message in one queue. Identity matters: it is in exactly one place (backlog, delivery, transaction)."""

    __slots__ = ("delivery_count", "message", "position")

    def __init__(self, message: Message, position: int, delivery_count: int = 0) -> None:
        self.message = message
        self.position = position
        self.delivery_count = delivery_count


PackedReference: TypeAlias = tuple[int, int, int, int, bytes | bytearray, int, bool]
"""(position, delivery count, expiration, encoding, raw, message id, durable)"""

position_of = attrgetter("position")
sealed_position = itemgetter(0)


def pack(reference: Reference) -> PackedReference:
    """The plain values of a reference and its message."""
    message = reference.message
    return (
        reference.position,
        reference.delivery_count,
        message.expiration,
        message.encoding,
        message.raw,
        message.message_id,
        message.durable,
    )


def _count_in(chunk: list[Reference | None], after: int, until: int) -> int:
    return sum([entry is not None and after < entry.position <= until for entry in chunk])


class PriorityList:
    """``chunks`` holds lists (open; None is a gap) or tuples of sealed entries.

    ``lasts`` has, for each chunk, the position of the last message that was put there: none in it is above, and all in
    the next are. ``base`` is the number of the first chunk since the beginning, ``head`` where its first message is.
    """

    __slots__ = ("base", "chunks", "head", "lasts", "live", "returned")

    def __init__(self) -> None:
        self.chunks: deque[list[Reference | None] | tuple[PackedReference, ...]] = deque()
        self.lasts: deque[int] = deque()
        self.base = 0
        self.head = 0
        self.live = 0
        self.returned = Redelivered()

    def drop_chunk(self) -> None:
        """Let go of the first chunk."""
        self.chunks.popleft()
        self.lasts.popleft()
        self.base += 1
        self.head = 0

    # -- ranges of positions -------------------------------------------------------------------------------------

    def behind(self, after: int, until: int, limit: int) -> list[PackedReference]:
        """Messages in ``(after, until]`` that never left, in order: all, or at least ``limit`` and about a chunk."""
        chunks, lasts = self.chunks, self.lasts
        found: list[PackedReference] = []
        first = bisect_right(lasts, after)
        for index in range(first, len(chunks)):
            chunk, last = chunks[index], lasts[index]
            if type(chunk) is tuple:
                start, end = self._part(chunk, index, after if index == first else -1, until if last > until else last)
                found += chunk if end - start == len(chunk) else chunk[start:end]
            else:
                assert type(chunk) is list
                found += [pack(entry) for entry in chunk if entry is not None and after < entry.position <= until]
            if len(found) >= limit or last >= until:
                break
        return found

    def returned_behind(self, after: int, until: int, limit: int) -> list[PackedReference]:
        """The same of those that returned."""
        found: list[PackedReference] = []
        while len(found) < limit and (behind := self.returned.chunk_behind(after)):
            found += [pack(entry) for entry in behind if entry.position <= until]
            after = behind[-1].position
            if after >= until:
                break
        return found

    def count(self, after: int, until: int) -> int:
        """How many messages are in ``(after, until]``."""
        counted = self.returned.count_between(after, until) if self.returned.chunks else 0
        first = bisect_right(self.lasts, after)
        for index, (chunk, last) in enumerate(islice(zip(self.chunks, self.lasts, strict=True), first, None), first):
            if type(chunk) is tuple:
                start, end = self._part(chunk, index, after if index == first else -1, until if last > until else last)
                counted += end - start
            else:
                assert type(chunk) is list
                whole = index > first and last <= until
                counted += len(chunk) - chunk.count(None) if whole else _count_in(chunk, after, until)
            if last >= until:
                break
        return counted

    def _part(self, chunk: tuple[PackedReference, ...], index: int, after: int, until: int) -> tuple[int, int]:
        """Where in a sealed chunk a range begins and ends; one that surely goes over an end is not searched for."""
        start = min(self.head, len(chunk)) if index == 0 else 0
        if after >= 0:
            start = bisect_right(chunk, after, lo=start, key=sealed_position)
        end = len(chunk)
        if until < self.lasts[index]:
            end = bisect_right(chunk, until, lo=start, key=sealed_position)
        return start, end

    def take_through(self, until: int) -> list[PackedReference]:
        """Take out the first messages up to a position: a chunk of them at most, none when no more are there."""
        taken = [pack(entry) for entry in self.returned.take_through(until)]
        while not taken and self.chunks:
            chunk, start = self.chunks[0], self.head
            if type(chunk) is tuple:
                end = bisect_right(chunk, until, lo=start, key=sealed_position)
                taken = list(chunk[start:end])
            else:
                assert type(chunk) is list
                end = start
                while end < len(chunk):
                    entry = chunk[end]
                    if entry is not None and entry.position > until:
                        break
                    if entry is not None:
                        taken.append(pack(entry))
                        chunk[end] = None
                    end += 1
            if end < len(chunk):
                self.head = end
                break
            self.drop_chunk()
        self.live -= len(taken)
        return taken

    @property
    def last_position(self) -> int:
        """No position in here is above this one; 0 when there never was any."""
        return max(self.lasts[-1] if self.lasts else 0, self.returned.last_position)
