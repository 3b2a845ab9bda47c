"""Pauses inside sequences.

Responsible for calls that are done when a time has come. Refuses to read a clock.
"""

from heapq import heappop, heappush

from embedclient.agent._call import Call
from embedclient.model import Instant


class Timers:
    """Calls in order of their time; those of one time in the order they were made."""

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Call[None]]] = []
        self._count = 0

    def after(self, seconds: float, now: Instant) -> Call[None]:
        """A call that is done `seconds` from now. Failing it early cancels the pause."""
        call: Call[None] = Call(None)
        heappush(self._heap, (now.monotonic + seconds, self._count, call))
        self._count += 1
        return call

    def next(self) -> float | None:
        while self._heap and self._heap[0][2].done:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def expire(self, now: Instant) -> None:
        while self._heap and self._heap[0][0] <= now.monotonic:
            heappop(self._heap)[2].succeed(None)
