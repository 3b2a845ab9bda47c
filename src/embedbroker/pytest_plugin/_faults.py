"""What shall go wrong in a test, and when.

Responsible for faults beside the test's own body, at times that are given or drawn from the seed. Refuses to know what
a fault does: it is any function, and the switches of brokers, links and disks are meant.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from random import Random

import trio

from ._broker import Around

__all__ = ["FaultPlan"]


class FaultPlan:
    """``seed`` is the same in every run of a test, unless ``--embedbroker-seed`` says otherwise."""

    def __init__(self, seed: int, around: Around) -> None:
        self.seed = seed
        #: The generator of this plan, for more that a test wants to draw.
        self.random: Random = around.random
        self._around = around
        self._waiting = 0

    @property
    def pending(self) -> int:
        """Faults that have not happened yet."""
        return self._waiting

    def at(self, seconds: float, fault: Callable[..., object], *args: object) -> None:
        """Call ``fault(*args)`` so many seconds from now, beside the test; what it returns is awaited if need be.

        What it raises ends the test. What has not happened when the test is over does not happen.
        """
        if not seconds >= 0:
            raise ValueError(f"a fault happens in zero seconds or more, not in {seconds!r}")
        if not callable(fault):
            raise TypeError(f"a fault is something to call, such as broker.crash, not {fault!r}")
        self._waiting += 1

        async def happen() -> None:
            await trio.sleep(seconds)
            if self._around.is_over:
                return
            self._waiting -= 1
            self._around.note(f"fault: {getattr(fault, '__qualname__', repr(fault))}{args or '()'}")
            result = fault(*args)
            if inspect.isawaitable(result):
                await result

        self._around.start_soon(happen)

    def within(self, seconds: float, fault: Callable[..., object], *args: object) -> float:
        """The same at a moment drawn from the seed, at most so many seconds from now; returns when that will be."""
        moment = self.random.uniform(0.0, seconds)
        self.at(moment, fault, *args)
        return moment
