"""The line that shows how much has been transferred, of a body or of many messages, while stderr is a terminal.

Does not depend on the direction of the transfer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from embedclient import Progress

__all__ = ["body_progress", "count_line", "message_progress", "progress_line"]

_REFRESH_S = 0.25
_MIB = 1 << 20


@contextmanager
def body_progress(what: str) -> Iterator[Progress | None]:
    """Show the progress of one body on stderr, until the end of the block. Without a terminal return None.

    Args:
        what: Name of the body.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    with _live_line() as show:
        shown_at = float("-inf")

        def report(done: int, total: int | None) -> None:
            nonlocal shown_at
            now = trio.current_time()
            if done == total or now - shown_at >= _REFRESH_S:
                shown_at = now
                show(progress_line(what, done, total))

        yield report


@contextmanager
def message_progress() -> Iterator[Callable[[int], None] | None]:
    """Show on stderr how many messages have been sent, until the end of the block. Without a terminal return None."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    with _live_line() as show:
        began = shown_at = trio.current_time()

        def report(count: int) -> None:
            nonlocal shown_at
            now = trio.current_time()
            if now - shown_at >= _REFRESH_S:
                shown_at = now
                show(count_line(count, now - began))

        yield report


@contextmanager
def _live_line() -> Iterator[Callable[[str], None]]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    # Stdout is for bodies and paths, so the line does not hold it.
    with Live(
        console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as live:
        yield lambda line: live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)


def count_line(count: int, elapsed_s: float) -> str:
    """Return one line of progress of many messages."""
    return f"sent {count:,} messages  {count / elapsed_s:,.0f} per second"


def progress_line(what: str, done: int, total: int | None) -> str:
    """Return one line of progress. The size is unknown while a pipe is read."""
    size = "" if total is None else f" of {total / _MIB:,.1f}"
    part = f"  {done / total:.0%}" if total else ""
    return f"{what}  {done / _MIB:,.1f}{size} MiB{part}"
