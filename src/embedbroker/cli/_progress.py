"""The line that shows how much of a body has been transferred, while stderr is a terminal.

Does not depend on the direction of the transfer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from embedclient import Progress

__all__ = ["body_progress", "progress_line"]

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
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    shown_at = float("-inf")
    # Stdout is for bodies and paths, so the line does not hold it.
    with Live(
        console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as live:

        def report(done: int, total: int | None) -> None:
            nonlocal shown_at
            now = trio.current_time()
            if done == total or now - shown_at >= _REFRESH_S:
                shown_at = now
                live.update(Text(progress_line(what, done, total), no_wrap=True, overflow="ellipsis"), refresh=True)

        yield report


def progress_line(what: str, done: int, total: int | None) -> str:
    """Return one line of progress. The size is unknown while a pipe is read."""
    size = "" if total is None else f" of {total / _MIB:,.1f}"
    part = f"  {done / total:.0%}" if total else ""
    return f"{what}  {done / _MIB:,.1f}{size} MiB{part}"
