"""The clock of a test, for tests that look at it.

Refuses to stand in for trio's functions: `trio.sleep` and time-outs follow the same clock by themselves.
"""

from __future__ import annotations

import time

import pytest
import trio

from embedclient.errors import IllegalStateException
from embedclient.model import summary

from ._arguments import check_seconds

__all__ = ["BrokerClock"]


class BrokerClock:
    """Count the seconds since the test began; virtual ones unless the test runs on real sockets.

    Made by the fixture `broker_clock`.
    """

    def __init__(self, *, is_virtual: bool) -> None:
        self.is_virtual = is_virtual
        self._begun = 0.0
        self._is_elsewhere = False

    def __repr__(self) -> str:
        return summary(self, "virtual time" if self.is_virtual else "real time")

    def begin(self, *, is_elsewhere: bool) -> None:
        """Count from here; ``is_elsewhere``: for a test that is not in this run of trio."""
        self._is_elsewhere = is_elsewhere
        self._begun = time.monotonic() if is_elsewhere else trio.current_time()

    @property
    def seconds(self) -> float:
        """Seconds since the test began.

        Raises:
            IllegalStateException: it has not begun, or is over, as for a fixture that is no ``async def``.
        """
        if self._is_elsewhere:
            return time.monotonic() - self._begun
        try:
            return trio.current_time() - self._begun
        except RuntimeError:
            raise IllegalStateException(
                "the clock of a test runs while the test does, and not before or after"
            ) from None

    async def advance(self, seconds: float) -> None:
        """Let time pass, with everything that is due in it. It costs no real time, and needs virtual time.

        In real time the test is skipped: an hour would be an hour.

        Args:
            seconds: the time that passes, 0 or more.
        """
        check_seconds("the time to pass", seconds)
        if not self.is_virtual:
            pytest.skip("broker_clock.advance() needs virtual time")
        await trio.sleep(seconds)
