"""Runs a test in trio, in virtual or in real time, with its bench around it.

Responsible for the clock of the run. Does not depend on what the test uses.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Any

import trio
import trio.abc
import trio.testing

from ._bench import OPEN_SCOPE, Bench, LeftBehind, Surface
from ._collector import CollectedSeldom

__all__ = ["run_test"]


def run_test(
    bench: Bench,
    test: Callable[[], Awaitable[Any]],
    *,
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> None:
    """Run the test to its end. ``clock`` is the clock that the test requested, if it did.

    Raises:
        LeftBehind: the test ended inside of a scope.
    """
    __tracebackhide__ = True
    if trio.lowlevel.in_trio_run():
        raise RuntimeError(
            "trio runs in this thread already: another plugin, such as anyio, keeps it running for its async fixtures. "
            "Make these plain ones, or let pytest-trio run them"
        )
    if bench.surface is not Surface.VIRTUAL:
        clock = None  # what happens outside of this process follows no clock of ours
    elif clock is None:
        # Nothing on this surface uses a thread, so the clock never jumps over work that goes on elsewhere.
        clock = trio.testing.MockClock(autojump_threshold=0)
    try:
        with CollectedSeldom() if bench.surface is Surface.VIRTUAL else nullcontext():
            trio.run(bench.run, test, clock=clock, instruments=instruments)
    except (RuntimeError, trio.TrioInternalError) as error:
        # trio reports what the test has opened in the task in which all of it runs, and has not closed.
        if not bench.has_open_nursery and "stack corrupted" not in str(error):
            raise
    else:
        return
    _collect()
    raise bench.failure if isinstance(bench.failure, Exception) else LeftBehind(OPEN_SCOPE)


def _collect() -> None:
    """Free the coroutines of a run that trio gave up. They cannot be closed outside of it, and complain."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        gc.collect()
    finally:
        sys.unraisablehook = before
