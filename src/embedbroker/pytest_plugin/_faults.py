"""What shall go wrong in a test, and when.

Responsible for faults beside the test's own body, at times that are given or drawn from the seed. Refuses to know what
a fault does: it is any function, and the switches of brokers, links and disks are meant.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from random import Random

import trio

from ._arguments import check_seconds
from ._broker import Around

__all__ = ["FaultPlan", "check_fault"]


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

        Before the test begins, in a fixture that is no ``async def``, now is when it begins.
        What it raises ends the test. What has not happened when the test is over does not happen.
        """
        check_fault(seconds, fault)

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
        self._waiting += 1

    def within(self, seconds: float, fault: Callable[..., object], *args: object) -> float:
        """The same at a moment drawn from the seed, at most so many seconds from now; returns when that will be."""
        check_fault(seconds, fault)
        moment = self.random.uniform(0.0, seconds)
        self.at(moment, fault, *args)
        return moment


def check_fault(seconds: object, fault: object) -> None:
    """Raises TypeError or ValueError for what cannot happen."""
    check_seconds("the time until a fault", seconds)
    if not callable(fault):
        raise TypeError(f"a fault is something to call, such as broker.crash, not {fault!r}")
