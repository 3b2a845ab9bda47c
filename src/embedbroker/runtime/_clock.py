"""Time and randomness at the edge: the values that sync layers receive.

Under a virtual clock (trio's MockClock) wall time derives from it, so that expiry follows the clock of the test.
"""

from __future__ import annotations

import os
import random
import sys
from time import time_ns

import trio

from embedclient.model import Instant

__all__ = ["EdgeClock", "SystemEntropy"]


class EdgeClock:
    """Read time inside a trio run."""

    __slots__ = ("_last", "_monotonic", "_virtual_start")

    def __init__(self) -> None:
        # A virtual clock starts at a fixed wall time plus its own: the same test sees the same dates.
        self._virtual_start = 1_700_000_000_000 if _clock_is_virtual() else None
        # Called directly: trio.current_time() looks for the running loop first, twice for each message of a lone
        # sender.
        self._monotonic = trio.lowlevel.current_clock().current_time
        self._last = Instant(-1.0, 0)

    def now(self) -> Instant:
        """Return the present moment."""
        monotonic = self._monotonic()
        if self._virtual_start is None:
            return Instant(monotonic, time_ns() // 1_000_000)
        # A virtual clock stands still for most steps.
        if monotonic != self._last.monotonic:
            self._last = Instant(monotonic, self._virtual_start + int(monotonic * 1000))
        return self._last


def _clock_is_virtual() -> bool:
    """Return True if a test's MockClock drives this run.

    Without a loaded trio.testing no MockClock exists; loading it costs as much as trio itself.
    """
    testing = sys.modules.get("trio.testing")
    return testing is not None and isinstance(trio.lowlevel.current_clock(), testing.MockClock)


class SystemEntropy:
    """Randomness of the operating system."""

    def random_bytes(self, count: int) -> bytes:
        """Return random bytes."""
        return os.urandom(count)

    def random(self) -> float:
        """Return a float in [0, 1)."""
        return random.random()
