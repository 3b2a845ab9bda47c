"""The end of a time, for an object that outlives the run of an event loop: each trio run has another clock.

Responsible for the choice of the clock. Does not depend on what ends.
"""

from __future__ import annotations

import time

from ._edge import Loop

__all__ = ["Expiry"]


class Expiry:
    """A moment some seconds from now, by the clock of this run of the loop; in other runs, by that of the system."""

    def __init__(self, loop: Loop, seconds: float) -> None:
        self._loop = loop
        self._run = loop.current_run()
        self._at = loop.now() + seconds
        # A blocking program has a run for each connection.
        self._at_elsewhere = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Return True from that moment on."""
        if self._loop.current_run() is self._run:
            return self._loop.now() >= self._at
        return time.monotonic() >= self._at_elsewhere
