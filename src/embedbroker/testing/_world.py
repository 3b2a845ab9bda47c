"""The world of a simulation: virtual time, one heap of events, one source of chance.

Time jumps from event to event. Everything random in a run is drawn from ``World.random``, so a seed fixes the run. The
world treats actors only as receivers of events; nodes, clients, links and faults are all actors.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Protocol

from embedclient.model import Instant

from ._trace import Trace

__all__ = ["Actor", "SeededEntropy", "World"]

#: The wall clock of every world starts here (2024-01-01T00:00:00Z), so that runs do not depend on today.
WALL_START_MS = 1_704_067_200_000
#: Virtual time in which events are counted to detect an endless loop.
_COUNTED_S = 10.0


class Actor(Protocol):
    """A receiver of events."""

    def on_event(self, event: object) -> None:
        """Handle an event at its time, which is ``World.now``."""


class SeededEntropy:
    """Ids and randomness of one node or client: a separate stream, so that one does not shift the other's."""

    __slots__ = ("_random",)

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def random(self) -> float:
        return self._random.random()


class World:
    """Run events in the order of (time, sequence)."""

    __slots__ = ("_halted", "_heap", "_instant", "_sequence", "events", "now", "random", "seed", "trace")

    def __init__(self, seed: int, *, trace_tail_lines: int = 200) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.trace = Trace(trace_tail_lines)
        self.now = 0.0
        self.events = 0
        self._heap: list[tuple[float, int, Actor, object]] = []
        self._sequence = 0
        self._halted = False
        self._instant = Instant(0.0, WALL_START_MS)

    @property
    def instant(self) -> Instant:
        """The present as nodes and clients see it: the wall time derives from the virtual one."""
        instant = self._instant
        if instant.monotonic != self.now:
            instant = self._instant = Instant(self.now, WALL_START_MS + int(self.now * 1000))
        return instant

    def wall_ms_at(self, when: float) -> int:
        """Return the wall time at a virtual time."""
        return WALL_START_MS + int(when * 1000)

    def entropy(self) -> SeededEntropy:
        """Return a new independent stream, fixed by the seed."""
        return SeededEntropy(self.random.getrandbits(64))

    def at(self, when: float, actor: Actor, event: object) -> None:
        """Schedule an event; the past means now."""
        self._sequence += 1
        heappush(self._heap, (when if when > self.now else self.now, self._sequence, actor, event))

    def after(self, delay_s: float, actor: Actor, event: object) -> None:
        """Schedule an event ``delay_s`` from now."""
        self._sequence += 1
        heappush(self._heap, (self.now + delay_s, self._sequence, actor, event))

    def note(self, actor: str, what: str, detail: object = "") -> None:
        """Add a line to the trace."""
        self.trace.add(self.now, actor, what, detail)

    def step(self) -> bool:
        """Run the earliest event. Return False without one."""
        if not self._heap:
            return False
        self.now, _, actor, event = heappop(self._heap)
        self.events += 1
        actor.on_event(event)
        return True

    def halt(self) -> None:
        """End `run` after the current event."""
        self._halted = True

    def run(self, until: float, *, events_max: int = 100_000) -> bool:
        """Run events up to the time ``until``, or until one of them calls `halt`. Return True if one did.

        More than ``events_max`` events within ten seconds indicate a loop in which hardly any time passes.
        """
        heap = self._heap
        limit, counted_until = 0, -inf
        self._halted = False
        while heap and heap[0][0] <= until:
            self.now, _, actor, event = heappop(heap)
            self.events += 1
            if self.now >= counted_until:
                limit, counted_until = self.events + events_max, self.now + _COUNTED_S
            actor.on_event(event)
            if self._halted:
                return True
            assert self.events < limit, f"{events_max} events in {_COUNTED_S:g} s by {self.now:.6f}: something spins"
        self.now = max(self.now, until)
        return False
