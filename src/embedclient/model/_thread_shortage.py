"""Threads that the operating system does not start.

Responsible for recognizing that, and for the error that a program gets. Does not depend on the purpose of a thread.
"""

from __future__ import annotations

from collections.abc import Callable

from embedclient.errors import ResourceAllocationException

__all__ = ["ThreadShortage", "is_thread_shortage", "start_thread"]


class ThreadShortage(ResourceAllocationException):
    """Report work that did not begin, because the operating system started no thread for it."""

    def __init__(self, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs a thread, and the operating system starts none (can't start new thread): end other "
            "threads, or raise the limit of the user (ulimit -u) or of the container (pids.max)"
        )


def is_thread_shortage(error: RuntimeError) -> bool:
    """Return True if a thread could not start, which may succeed a moment later."""
    return str(error).startswith("can't start new thread")


def start_thread(start: Callable[[], None], purpose: str) -> None:
    """Call ``Thread.start``.

    Raises:
        ThreadShortage: the operating system starts no thread; the text names the purpose.
    """
    try:
        start()
    except RuntimeError as error:
        if not is_thread_shortage(error):
            raise
        raise ThreadShortage(purpose) from error
