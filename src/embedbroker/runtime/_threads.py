"""Threads for work that takes long: up to a number at a time, and started again after a shortage of threads.

Responsible for waiting while the operating system starts no thread. Does not depend on the work.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import trio

from embedclient.model import is_thread_shortage

__all__ = ["TRY_AGAIN_EVERY_S", "Threads", "run_at_most"]

# How often work that a shortage delays is tried again, and how often the log reports it.
TRY_AGAIN_EVERY_S = 0.1
_WARN_EVERY_S = 60.0

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Threads:
    """Run work in up to ``count`` threads at a time.

    Args:
        count: Maximum number; further work waits.
        warn: Logs a shortage, at most once in a minute.
    """

    def __init__(self, count: int, warn: Callable[[str], None] = lambda text: None) -> None:
        self._limiter = trio.CapacityLimiter(count)
        self._warn = warn
        self._warned_at = -math.inf

    async def run(self, work: Callable[[*Ts], T], *arguments: *Ts, abandon_on_cancel: bool = False) -> T:
        """Run work in a thread and return its result; wait for a shortage of threads to pass."""
        while True:
            try:
                return await trio.to_thread.run_sync(
                    work, *arguments, limiter=self._limiter, abandon_on_cancel=abandon_on_cancel
                )
            except RuntimeError as error:
                if not is_thread_shortage(error):
                    raise
                await self.wait_out(str(error))

    async def wait_out(self, shortage: str) -> None:
        """Wait a moment for a shortage to pass."""
        now = trio.current_time()
        if now >= self._warned_at + _WARN_EVERY_S:
            self._warned_at = now
            self._warn(f"work waits for what this process is short of, and goes on by itself: {shortage}")
        await trio.sleep(TRY_AGAIN_EVERY_S)


def run_at_most(seconds: float, work: Callable[[], None], name: str) -> None:
    """Run work that may hang, and leave it to its thread after this time; without a thread it runs here."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        if not is_thread_shortage(error):
            raise
        work()
    else:
        thread.join(seconds)
