"""The faults of a test, and their times.

Responsible for faults beside the test's own body, at times that are given or drawn from the seed. Does not depend on
what a fault does: it is any function, and the switches of brokers, links and disks are meant.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from random import Random

import trio

from embedclient.model import summary

from ._arguments import check_seconds
from ._carrier import Carrier, carried_now
from ._surroundings import Around

__all__ = ["FaultPlan", "check_fault"]


class FaultPlan:
    """Schedule faults beside the test.

    ``seed`` is the same in every run of a test, unless ``--embedbroker-seed`` sets another one.

    Made by the fixture `fault_plan`.
    """

    def __init__(self, seed: int, around: Around) -> None:
        self.seed = seed
        #: The generator of this plan, for further values that a test draws.
        self.random: Random = around.random
        self._around = around
        self._waiting = 0

    def __repr__(self) -> str:
        return summary(self, f"seed={self.seed}", f"pending={self.pending}")

    @property
    def _carrier(self) -> Carrier | None:
        return self._around.carrier

    @property
    def pending(self) -> int:
        """Number of faults that have not happened yet."""
        return self._waiting

    @carried_now
    def at(self, seconds: float, fault: Callable[..., object], *args: object) -> None:
        """Call ``fault(*args)`` after some seconds, beside the test; what it returns is awaited if need be.

        Before the test begins, in a fixture that is no ``async def``, the time counts from the test's beginning. An
        exception of the fault ends the test. What has not happened when the test is over does not happen.

        Args:
            seconds: time until the fault, 0 or more.
            fault: the function to call.
            args: its arguments.

        Raises:
            TypeError: ``seconds`` is no number, or ``fault`` cannot be called.
            ValueError: ``seconds`` is negative.
        """
        check_fault(seconds, fault)

        async def happen() -> None:
            await trio.sleep(seconds)
            if self._around.is_over:
                return
            self._waiting -= 1
            self._around.note(f"fault: {getattr(fault, '__qualname__', repr(fault))}{args or '()'}")
            if self._carrier is not None:
                await self._carrier.carry_back(fault, *args)
                return
            result = fault(*args)
            if inspect.isawaitable(result):
                await result

        self._around.start_soon(happen)
        self._waiting += 1

    def within(self, seconds: float, fault: Callable[..., object], *args: object) -> float:
        """Call ``fault(*args)`` at a moment drawn from the seed.

        Args:
            seconds: the latest moment, seconds from now, 0 or more.
            fault: the function to call.
            args: its arguments.

        Returns:
            The seconds until the moment.

        Raises:
            TypeError: ``seconds`` is no number, or ``fault`` cannot be called.
            ValueError: ``seconds`` is negative.
        """
        check_fault(seconds, fault)
        moment = self.random.uniform(0.0, seconds)
        self.at(moment, fault, *args)
        return moment


def check_fault(seconds: object, fault: object) -> None:
    """Check a fault and its time.

    Raises:
        TypeError: ``seconds`` is no number, or ``fault`` cannot be called.
        ValueError: ``seconds`` is negative.
    """
    check_seconds("the time until a fault", seconds)
    if not callable(fault):
        raise TypeError(f"a fault is something to call, such as broker.crash, not {fault!r}")
