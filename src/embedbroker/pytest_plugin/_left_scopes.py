"""The scopes that a test in trio has entered and not left, such as a connection without ``async with``.

Responsible for their end in the task of the test. Otherwise trio closes each async generator in another task: one with
a nursery then waits for what never comes, or breaks the run. Does not depend on what the scopes are.
"""

from __future__ import annotations

import math
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
        #: By id, the oldest first, with the number of nurseries before it. A generator that another one begins is not
        #: here: the other one closes it.
        self._begun: dict[int, tuple[int, Callable[[], _Scope | None]]] = {}
        #: Those that are held here alone.
        self._dropped: set[int] = set()
        self._hooks_before = sys.get_asyncgen_hooks()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note what is begun in the block."""
        sys.set_asyncgen_hooks(self._begin, self._drop)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*self._hooks_before)

    @property
    def has_nursery(self) -> bool:
        """Return True if the task is in a nursery that it has entered since."""
        return len(self._task.child_nurseries) > self._nurseries_before

    async def close(self) -> None:
        """Close what is open, the newest first.

        What a test opened with ``__aenter__`` of a nursery cannot be closed from here. Its tasks are cancelled.
        """
        begun = [(get(), key in self._dropped) for key, (_, get) in self._begun.items()]
        self._begun.clear()
        had_nursery = self.has_nursery
        for scope, is_dropped in reversed(begun):
            if scope is not None and not scope.ag_running and (had_nursery or is_dropped):
                await _close(scope)
        for nursery in self._task.child_nurseries[self._nurseries_before :]:
            nursery.cancel_scope.cancel()

    def _begin(self, scope: AsyncGenerator[Any, Any]) -> None:
        if self._hooks_before.firstiter is not None:
            self._hooks_before.firstiter(scope)
        self._begun.pop(id(scope), None)  # of one that has ended
        self._dropped.discard(id(scope))
        is_of_test = trio.lowlevel.in_trio_task() and trio.lowlevel.current_task() is self._task
        if not is_of_test or not isinstance(scope, AsyncGeneratorType):
            return
        open_ones = [
            (key, each) for key, (_, get) in self._begun.items() if (each := get()) is not None and each.ag_frame
        ]
        self._begun = {key: self._begun[key] for key, _ in open_ones}
        if not any(each.ag_running for _, each in open_ones):
            self._begun[id(scope)] = len(self._task.child_nurseries), ref(scope)

    def _drop(self, scope: AsyncGenerator[Any, Any]) -> None:
        """Hold what is held nowhere else if it may be the scope of a nursery. Python calls this once for each."""
        nurseries, _ = self._begun.get(id(scope), (math.inf, None))
        if len(self._task.child_nurseries) > nurseries and isinstance(scope, AsyncGeneratorType):
            self._begun[id(scope)] = 0, lambda: scope
            self._dropped.add(id(scope))
        elif self._hooks_before.finalizer is not None:
            self._hooks_before.finalizer(scope)


async def _close(scope: _Scope) -> None:
    """Close a scope. What it raises is a consequence: another scope is still open, for example."""
    try:
        with suppress(Exception):
            await scope.aclose()
    except BaseExceptionGroup as group:
        _, rest = group.split((Exception, GeneratorExit))
        if rest is not None:
            raise rest from None
