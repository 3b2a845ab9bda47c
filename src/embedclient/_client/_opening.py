"""Objects that are opened with `async with`, or with a plain `await` if their parent's scope is enough.

Does not depend on what is opened: a coroutine function makes the object and its `close()` ends it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from embedclient.errors import IllegalStateException


class Closeable(Protocol):
    def close(self) -> Awaitable[None]: ...


C = TypeVar("C", bound=Closeable)


class Opening(Generic[C]):
    """The result of a `create_...` method. Made by that method.

    `async with` closes the object at the end of the block. `await` returns the object, which then lives until its
    `close()` or that of its parent. Each block needs a `create_...` call: a second one raises IllegalStateException.
    """

    __slots__ = ("_open", "_opened")

    def __init__(self, open_it: Callable[[], Coroutine[None, None, C]]) -> None:
        self._open = open_it
        self._opened: C | None = None

    def __await__(self) -> Generator[None, None, C]:
        return self._open().__await__()

    async def __aenter__(self) -> C:
        if self._opened is not None:
            raise IllegalStateException("this was opened before: call create_... again for each block")
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._opened is not None
        await self._opened.close()
