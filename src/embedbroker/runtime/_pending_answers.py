"""Requests of the broker's owner that are on their way through the node.

Responsible for waking the task that waits for an answer, also when the broker ends first. Decides nothing.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import trio

__all__ = ["PendingAnswers"]

T = TypeVar("T")


class _Pending(Generic[T]):
    def __init__(self) -> None:
        self.made = trio.Event()
        self.answer: T | None = None

    def make(self, answer: T | None) -> None:
        self.answer = answer
        self.made.set()


class PendingAnswers(Generic[T]):
    """The pending requests, by number."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Pending[T]] = {}

    def expect(self, number: int) -> None:
        """Prepare for a request that is about to be handed to the node."""
        self._waiting[number] = _Pending()

    async def wait(self, number: int) -> T | None:
        """Return the answer; None when the broker ended before it was durable."""
        pending = self._waiting[number]
        try:
            await pending.made.wait()
        finally:
            self._waiting.pop(number, None)
        return pending.answer

    def make(self, number: int, answer: T) -> None:
        """Record the node's answer; the waiting task may be gone."""
        if number in self._waiting:
            self._waiting[number].make(answer)

    def abandon(self) -> None:
        """Wake every waiting task: the node answers nothing any more."""
        for pending in self._waiting.values():
            if not pending.made.is_set():
                pending.make(None)
