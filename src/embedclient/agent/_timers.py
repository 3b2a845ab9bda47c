"""Pauses inside sequences.

Responsible for calls that are done when a time has come. Never reads a clock: `now` is the driver's last value.
"""

from collections.abc import Callable
from heapq import heappop, heappush

from ._call import Call


class Timers:
    """Calls in order of their time; those of one time in the order they were made."""

    __slots__ = ("_count", "_on_start", "current", "heap", "now")

    def __init__(self, on_start: Callable[[], None] | None = None) -> None:
        # Called for each pause: the driver needs the deadline of one that begins outside a step.
        self._on_start = on_start
        #: Pauses, with their times.
        self.heap: list[tuple[float, int, Call[None]]] = []
        self._count = 0
        self.now = 0.0
        # Whether `now` is the present moment: inside a step. After the step its age is unknown.
        self.current = False

    def after(self, seconds: float) -> Call[None]:
        """Return a call that is done `seconds` from now. Failing it early cancels the pause."""
        call: Call[None] = Call(None)
        heappush(self.heap, (self.now + seconds, self._count, call))
        self._count += 1
        if self._on_start is not None:
            self._on_start()
        return call

    def next(self) -> float | None:
        while self.heap and self.heap[0][2].done:
            heappop(self.heap)
        return self.heap[0][0] if self.heap else None

    def expire(self) -> None:
        while self.heap and self.heap[0][0] <= self.now:
            heappop(self.heap)[2].succeed(None)
