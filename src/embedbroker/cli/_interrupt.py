"""Ctrl-C and SIGTERM as a cancellation, so that scopes close in order and no traceback is printed.

Responsible for commands that end by themselves. `run`, which ends by signals only, handles them itself.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import click
import trio

__all__ = ["STOP_SIGNALS", "let_signals_kill", "run_interruptibly"]

T = TypeVar("T")
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def let_signals_kill() -> None:
    """Restore the system's default handling of stop signals, so that the next one ends even an end that hangs."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def run_interruptibly(work: Callable[[], Awaitable[T]]) -> T:
    """Run ``work`` in trio. A signal cancels it, and the command ends with 128 plus the signal's number."""
    return trio.run(_run, work)


async def _run(work: Callable[[], Awaitable[T]]) -> T:
    results: list[T] = []
    failure: click.ClickException | OSError | None = None
    caught: list[int] = []

    async def obey(signals: AsyncIterator[int], everything: trio.CancelScope) -> None:
        async for number in signals:
            let_signals_kill()
            caught.append(number)
            everything.cancel()

    with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(obey, signals, nursery.cancel_scope)
            try:
                results.append(await work())
            except (click.ClickException, OSError) as error:
                # Raised outside of the nursery, which would wrap it. Example: the reader of stdout has gone.
                failure = error
            nursery.cancel_scope.cancel()
    if caught:
        raise click.exceptions.Exit(128 + caught[0])
    if failure is not None:
        raise failure
    return results[0]
