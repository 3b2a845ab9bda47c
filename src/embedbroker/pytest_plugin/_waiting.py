"""Waiting for a condition of brokers: without polling, with a deadline, and with a reason when it passes.

Responsible for evaluating the condition again whenever a broker may have changed. Does not depend on conditions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import outcome
import trio

from ._arguments import check_seconds

__all__ = ["WAIT_S", "WaitTimeout", "Waiting"]

#: How long a wait lasts unless another time is given, in seconds of the test's clock.
WAIT_S = 10.0


class WaitTimeout(AssertionError):
    """The condition of a wait did not become true in time."""


class _Waiter:
    def __init__(self, holds: Callable[[], bool]) -> None:
        self._holds = holds
        self._over = trio.Event()
        self._result: outcome.Outcome[bool] = outcome.Value(False)

    def look(self) -> bool:
        """Evaluate the condition in the middle of a broker's step, which its exception must not end."""
        result = self._result = outcome.capture(self._holds)
        # By its class: the check of an abstract one takes longer than most conditions.
        over = result.value if type(result) is outcome.Value else True
        if over:
            self._over.set()
        return over

    async def wait(self) -> None:
        await self._over.wait()
        self._result.unwrap()


class Describe(Protocol):
    def __call__(self) -> Awaitable[str]: ...


class Waiting:
    """The pending waits of one test."""

    def __init__(self) -> None:
        self.waiters: dict[_Waiter, None] = {}

    def changed(self) -> None:
        """Evaluate all conditions: a broker may have changed."""
        for waiter in list(self.waiters):
            if waiter.look():
                # The first result counts: steps until its task continues are not looked at.
                del self.waiters[waiter]

    async def until(self, holds: Callable[[], bool], timeout: float | None, wanted: str, found: Describe) -> None:
        """Wait until ``holds``.

        Raises:
            WaitTimeout: it did not hold in ``timeout`` seconds; the text gives what was wanted, and what was found.
            Exception: ``holds`` raised it, because it never will.
        """
        __tracebackhide__ = True
        seconds = WAIT_S if timeout is None else timeout
        check_seconds("a time-out", seconds)
        waiter = _Waiter(holds)
        if not waiter.look():
            self.waiters[waiter] = None
        try:
            with trio.move_on_after(seconds) as scope:
                await waiter.wait()
                await trio.lowlevel.checkpoint()
        finally:
            self.waiters.pop(waiter, None)
        if scope.cancelled_caught:
            raise WaitTimeout(f"{wanted}: not within {seconds:g} s\n{await found()}")
