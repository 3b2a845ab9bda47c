"""Objects that are opened with `async with`, or with a plain `await`.

What has a parent is made by a coroutine function, and lives in the parent's scope. What has none, a connection, needs a
scope for its tasks: the caller's block, or a background task that `close()` ends. Does not depend on what is opened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, Self, TypeVar

from embedclient.errors import IllegalStateException
from embedclient.model import Place, summary

from ._edge import BackgroundScope, Edge, Loop


class Closeable(Protocol):
    def close(self) -> Awaitable[None]: ...


class Scoped(Closeable, Protocol):
    #: The scope in the background, if the object was opened without a block.
    _background: BackgroundScope | None

    def _live_in(self, scope: BackgroundScope) -> None:
        """Note the scope in the background, which `close` ends."""


class ClosedByBlock:
    """An object that also closes itself at the end of an `async with` block, for programs that opened it by `await`."""

    __slots__ = ()

    if TYPE_CHECKING:

        async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


C = TypeVar("C", bound=Closeable)
S = TypeVar("S", bound=Scoped)


class Opening(Generic[C]):
    """The result of a `create_...` method. Made by that method.

    `async with` closes the object at the end of the block. `await` returns the object, which then lives until its
    `close()` or that of its parent. Each block needs a `create_...` call: a second one raises IllegalStateException.
    """

    __slots__ = ("__weakref__", "_open", "_opened")

    def __init__(self, open_it: Callable[[], Coroutine[None, None, C]]) -> None:
        self._open = open_it
        self._opened: C | None = None

    def __repr__(self) -> str:
        state = "opened" if self._opened is not None else "not opened yet: use `async with` or `await`"
        return summary(self, state)

    def __await__(self) -> Generator[None, None, C]:
        return self._open().__await__()

    async def __aenter__(self) -> C:
        if self._opened is not None:
            raise IllegalStateException("this was opened before: call create_... again for each block")
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._opened is not None
        await self._opened.close()
        return None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"this is not opened yet, so it has no {name!r}: use `async with` or `await`")


class ScopeOpening(Opening[S]):
    """The result of a `create_...` method of a factory. `await` returns an object that lives until its `close()`."""

    __slots__ = ("_is_used", "_loop", "_manager")

    def __init__(self, manager: AbstractAsyncContextManager[S], loop: Loop) -> None:
        super().__init__(self._enter)
        self._manager = manager
        self._loop = loop
        self._is_used = False

    async def _enter(self) -> S:
        self._use()
        opened, scope = await self._loop.enter(self._manager, Place.of_caller())
        opened._live_in(scope)
        return opened

    async def __aenter__(self) -> S:
        self._use()
        return await self._manager.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._manager.__aexit__(kind, error, trace)

    def _use(self) -> None:
        if self._is_used:
            raise IllegalStateException("this was opened before: call create_... again for each block")
        self._is_used = True
        # No cycle, which would keep the generators of a block that has ended until a collection of garbage.
        self._open = _refuse


async def _refuse() -> NoReturn:
    raise IllegalStateException("this was opened before: call create_... again for each block")


async def end_background(edge: Edge, scoped: Scoped) -> None:
    """End the background scope of an object, if it has one. A task of that scope does not wait for the end."""
    if scoped._background is None:
        return
    if edge.owns_this_task():
        scoped._background.leave_soon()
    else:
        await scoped._background.leave()
