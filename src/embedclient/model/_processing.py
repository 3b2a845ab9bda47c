"""The block in which a program processes one message.

Responsible for passing the outcome of the block on, in async programs and in blocking ones. Does not depend on what the
outcome does to the message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from ._summary import summary

__all__ = ["Processing"]


class Processing:
    """The block of one message: `async with` it, or `with` it in a blocking program. Made by `Message.processing`.

    The end of the block removes the message from its queue. If an exception leaves the block, it is logged, and the
    broker delivers the message again, or moves it to the dead letter address after too many attempts. The program goes
    on. A cancellation and KeyboardInterrupt leave the block as they are, and the message returns to its queue.
    """

    __slots__ = ("_call", "_finish")

    def __init__(self, finish: Callable[[BaseException | None], Awaitable[bool]]) -> None:
        self._finish = finish
        self._call: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return summary(self, "of a message")

    def use_calls(self, call: Callable[..., Any]) -> None:
        """Set the function that waits for the end, in a blocking program."""
        self._call = call

    def __call__(self) -> Awaitable[None]:
        """Do what the end of the block does: this is what `acknowledge` calls."""
        if self._call is None:
            return self._end()
        ended: Awaitable[None] = self._call(self._end)  # None, as each result of a blocking program
        return ended

    async def _end(self) -> None:
        await self._finish(None)

    async def __aenter__(self) -> None:
        if self._call is not None:
            raise TypeError("a message of a blocking program has 'with message.processing()', not 'async with'")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return await self._finish(error)

    def __enter__(self) -> None:
        if self._call is None:
            raise TypeError("'with message.processing()' is for blocking programs; use 'async with' here")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        assert self._call is not None
        absorbed: bool = self._call(self._finish, error)
        return absorbed
