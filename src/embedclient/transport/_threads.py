"""Work in threads of trio: name resolution, files and listeners of a client.

Responsible for the error of work that did not begin. Does not depend on the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from embedclient.model import ThreadShortage, is_thread_shortage

__all__ = ["run_in_thread"]

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T], purpose: str, *, abandon_on_cancel: bool = False) -> T:
    """Run work in a thread and return its result.

    Args:
        work: called once at most, and never if this raises ThreadShortage.
        purpose: what needs the thread, for the text of the error.
        abandon_on_cancel: whether a cancellation leaves the work to its thread.

    Raises:
        ThreadShortage: the operating system starts no thread.
    """
    has_begun = False

    def run() -> T:
        nonlocal has_begun
        has_begun = True
        return work()

    try:
        return await trio.to_thread.run_sync(run, abandon_on_cancel=abandon_on_cancel)
    except RuntimeError as error:
        # The work may start threads, too.
        if has_begun or not is_thread_shortage(error):
            raise
        raise ThreadShortage(purpose) from error
