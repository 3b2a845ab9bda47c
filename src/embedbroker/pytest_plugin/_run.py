"""Runs a test in trio, in virtual or in real time, with its bench around it.

Responsible for the clock of the run. Does not depend on what the test uses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio
import trio.abc
import trio.testing

from ._bench import Bench, Surface

__all__ = ["run_test"]


def run_test(
    bench: Bench,
    test: Callable[[], Awaitable[Any]],
    *,
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> None:
    """Run the test to its end. ``clock`` is the clock that the test requested, if it did."""
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
    trio.run(bench.run, test, clock=clock, instruments=instruments)
