"""The scopes that a test in trio has entered and not left, such as a connection without ``async with``.

Responsible for their end in the task of the test. Otherwise trio closes each async generator in another task: one with
a nursery then waits for what never comes, or breaks the run. Does not depend on what the scopes are.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from types import AsyncGeneratorType
from typing import Any, TypeAlias
from weakref import ref

import trio

__all__ = ["LeftScopes"]

_Scope: TypeAlias = AsyncGeneratorType[Any, Any]


class LeftScopes:
    """Collect the async generators that the task of a test begins, and close those that it leaves open.

    Made in that task.
    """

    def __init__(self) -> None:
        self._task = trio.lowlevel.current_task()
        self._nurseries_before = len(self._task.child_nurseries)
        #: By id, the oldest first. A generator that another one begins is not here: the other one closes it.
        self._begun: dict[int, Callable[[], _Scope | None]] = {}
        self._hooks_before = sys.get_asyncgen_hooks()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note what is begun in the block."""
        sys.set_asyncgen_hooks(self._begin, self._drop)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*self._hooks_before)

    async def close(self) -> bool:
        """Close what is open, the newest first, and return whether the test left a nursery open.

        What a test opened with ``__aenter__`` of a nursery cannot be closed from here. Its tasks are cancelled.
        """
        had_nursery = self._has_nursery
        begun = [get() for get in self._begun.values()]
        self._begun.clear()
        if had_nursery:
            for scope in reversed(begun):
                if scope is not None and not scope.ag_running:
                    with suppress(Exception):  # such as: another scope is still open
                        await scope.aclose()
        for nursery in self._task.child_nurseries[self._nurseries_before :]:
            nursery.cancel_scope.cancel()
        return had_nursery

    @property
    def _has_nursery(self) -> bool:
        return len(self._task.child_nurseries) > self._nurseries_before

    def _begin(self, scope: AsyncGenerator[Any, Any]) -> None:
        assert isinstance(scope, AsyncGeneratorType)
        if self._hooks_before.firstiter is not None:
            self._hooks_before.firstiter(scope)
        self._begun.pop(id(scope), None)  # of one that has ended
        if not trio.lowlevel.in_trio_task() or trio.lowlevel.current_task() is not self._task:
            return
        held = {key: (get, each) for key, get in self._begun.items() if (each := get()) is not None and each.ag_frame}
        self._begun = {key: get for key, (get, _) in held.items()}
        if not any(each.ag_running for _, each in held.values()):
            self._begun[id(scope)] = ref(scope)

    def _drop(self, scope: AsyncGenerator[Any, Any]) -> None:
        """Hold what is held nowhere else if it may be the scope of a nursery. Python calls this once for each."""
        assert isinstance(scope, AsyncGeneratorType)
        if self._has_nursery and id(scope) in self._begun:
            self._begun[id(scope)] = lambda: scope
        elif self._hooks_before.finalizer is not None:
            self._hooks_before.finalizer(scope)
