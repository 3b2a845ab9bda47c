"""References by the thousand: what a consumer was given and has not settled, and what was taken from it.

Responsible for holding them in portions. Taking all of them, or all up to one, costs per portion, and no code must free
them in one go. Does not depend on their later use.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from ._backlog import Reference

__all__ = ["CHUNK_ENTRIES", "Bundle", "Deliveries"]

CHUNK_ENTRIES = 1024


class Bundle:
    """Hold many references in order, in portions that are never changed."""

    __slots__ = ("_count", "_portions")

    def __init__(self, portions: Iterable[Collection[Reference]] = ()) -> None:
        self._portions = deque(portions)
        self._count = sum(map(len, self._portions))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Reference]:
        return chain.from_iterable(self._portions)

    def __contains__(self, reference: object) -> bool:
        return any(reference in portion for portion in self._portions)

    def portions(self) -> Iterator[list[Reference]]:
        """Return all references, in lists of a limited size. For queries: they may be drained meanwhile."""
        for portion in list(self._portions):
            yield list(portion)

    def drain(self) -> Iterator[Reference]:
        """Yield each reference; release a portion when it is over, so that nothing is left in the end."""
        while self._portions:
            yield from self._portions[0]
            self._count -= len(self._portions.popleft())


class Deliveries:
    """Hold references by message id, in the order in which they were delivered.

    ``oldest`` and ``newest`` are the ends of the chunks. Most of the time there is only one chunk, which is both. Code
    that empties the oldest must call `trim`; code that finds the newest full must call `grow`.
    """

    __slots__ = ("_chunks", "newest", "oldest")

    def __init__(self) -> None:
        self.oldest: OrderedDict[int, Reference] = OrderedDict()
        self.newest = self.oldest
        self._chunks = deque([self.oldest])

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._chunks)

    def __contains__(self, message_id: int) -> bool:
        return any(message_id in chunk for chunk in self._chunks)

    def __setitem__(self, message_id: int, reference: Reference) -> None:
        newest = self.newest
        if len(newest) >= CHUNK_ENTRIES:
            newest = self.grow()
        newest[message_id] = reference

    def values(self) -> Iterator[Reference]:
        """Return all references, in order."""
        return chain.from_iterable(chunk.values() for chunk in self._chunks)

    def portions(self) -> Iterator[list[Reference]]:
        """Return all references, in lists of `CHUNK_ENTRIES` at most. For queries: messages may leave meanwhile."""
        for chunk in list(self._chunks):
            yield list(chunk.values())

    def pop(self, message_id: int) -> Reference:
        """Take one reference out.

        Raises:
            KeyError: The message is not here.
        """
        for chunk in self._chunks:
            reference = chunk.pop(message_id, None)
            if reference is not None:
                if not chunk:
                    self._drop(chunk)
                return reference
        raise KeyError(message_id)

    def grow(self) -> OrderedDict[int, Reference]:
        """Begin another chunk."""
        self.newest = OrderedDict()
        self._chunks.append(self.newest)
        return self.newest

    def trim(self) -> None:
        """Release the oldest chunk if nothing is left in it."""
        if not self.oldest:
            self._drop(self.oldest)

    def take_through(self, message_id: int) -> Bundle:
        """Take out everything up to and including a message, which must be here."""
        portions: list[Collection[Reference]] = []
        while message_id not in self.oldest:
            portions.append(self.oldest.values())
            self._drop(self.oldest)
        oldest, last = self.oldest, list[Reference]()
        current = None
        while current != message_id:
            current, reference = oldest.popitem(last=False)
            last.append(reference)
        self.trim()
        return Bundle([*portions, last])

    def take_all(self) -> Bundle:
        """Take out everything."""
        bundle = Bundle([chunk.values() for chunk in self._chunks])
        self.oldest = self.newest = OrderedDict()
        self._chunks = deque([self.oldest])
        return bundle

    def _drop(self, chunk: OrderedDict[int, Reference]) -> None:
        if len(self._chunks) > 1:
            if chunk is self.oldest:
                self._chunks.popleft()
            else:
                self._chunks = deque([other for other in self._chunks if other is not chunk])
            self.oldest, self.newest = self._chunks[0], self._chunks[-1]
