"""The messages of one queue that must not be delivered yet, in order of time.

Responsible for finding those that are due without looking at the others. Does not depend on the clock: the caller
passes the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from ._reference import Reference

__all__ = ["ScheduledReferences"]


class ScheduledReferences:
    """Hold references with the wall times, in Unix milliseconds, before which they must not be delivered.

    ``announced`` is the time for which the queue has asked its owner for a release; infinity for none.
    ``announced <= first_due_ms`` unless the queue is empty.
    """

    __slots__ = ("_by_position", "_heap", "announced")

    def __init__(self) -> None:
        # By position. Entries of the heap that are not here any more, or have another time, are skipped.
        self._by_position: dict[int, tuple[int, Reference]] = {}
        self._heap: list[tuple[int, int]] = []
        self.announced: float = math.inf

    def __len__(self) -> int:
        return len(self._by_position)

    def __iter__(self) -> Iterator[Reference]:
        """Return the references, the earliest first. For queries: messages may leave meanwhile."""
        for _due_ms, reference in sorted(self._by_position.values(), key=lambda entry: (entry[0], entry[1].position)):
            yield reference

    def entries(self) -> list[tuple[int, Reference]]:
        """Return each reference with its time, in no order."""
        return list(self._by_position.values())

    def add(self, due_ms: int, reference: Reference) -> None:
        """Add a reference that is due at ``due_ms``."""
        self._by_position[reference.position] = (due_ms, reference)
        heappush(self._heap, (due_ms, reference.position))

    def discard(self, reference: Reference) -> bool:
        """Remove a reference; return False if it is not here."""
        entry = self._by_position.get(reference.position)
        if entry is None or entry[1] is not reference:
            return False
        del self._by_position[reference.position]
        if len(self._heap) > 2 * len(self._by_position) + 64:
            self._heap = [(due_ms, position) for position, (due_ms, _reference) in self._by_position.items()]
            heapify(self._heap)
        return True

    def take_due(self, now_ms: int, limit: int) -> list[Reference]:
        """Remove and return up to ``limit`` references that are due, the earliest first."""
        taken: list[Reference] = []
        while len(taken) < limit and self.first_due_ms <= now_ms:
            _due_ms, position = heappop(self._heap)
            taken.append(self._by_position.pop(position)[1])
        return taken

    @property
    def first_due_ms(self) -> float:
        """Return when the next one is due; infinity for an empty queue."""
        heap = self._heap
        while heap:
            due_ms, position = heap[0]
            entry = self._by_position.get(position)
            if entry is not None and entry[0] == due_ms:
                return due_ms
            heappop(heap)
        return math.inf

    @property
    def lowest_position(self) -> float:
        """Return the lowest position; infinity for an empty queue. Examines every reference."""
        return min(self._by_position, default=math.inf)
