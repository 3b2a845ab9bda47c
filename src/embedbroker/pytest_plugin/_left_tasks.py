"""Tasks of asyncio that a test has begun, and that go on at its end: a connection opened by ``await`` is one, too.

Responsible for the difference between tasks of the test, and those of fixtures and of other plugins, which end after
it. Does not depend on brokers, nor on the plugin that runs the test.

Tasks are collected while the body runs. They are judged when the async fixtures around it have ended, which may close
what the test has opened through them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any
from weakref import WeakSet

from ._bench import LeftBehind

__all__ = ["LeftTasks", "run_and_prove"]

_of_a_test: ContextVar[bool] = ContextVar("of_a_test", default=False)
#: The name of the task in which a connection lives that was opened by ``await``.
_CONNECTION = "embedclient connection"
# A task that was cancelled, or whose event was set, ends within a few turns of the loop.
_TURNS = 5


class LeftTasks:
    """What one test leaves behind that another plugin runs, and the fixtures around it. ``on_left`` is called first."""

    def __init__(self) -> None:
        self.on_left: Callable[[], object] = lambda: None
        self._begun: WeakSet[asyncio.Future[Any]] = WeakSet()
        #: The loop in which the body has passed.
        self._passed_in: asyncio.AbstractEventLoop | None = None
        #: The loop of each fixture that has begun and not ended. Fixtures may have another one than the test.
        self._around: list[asyncio.AbstractEventLoop] = []

    def of_test(self, test: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        """Return a test that collects its tasks, and is the judge of them if no fixture ends after it."""

        @wraps(test)
        async def proven(*args: Any, **kwargs: Any) -> object:
            __tracebackhide__ = True
            result = await _collect(lambda: test(*args, **kwargs), self._begun)
            self._passed_in = asyncio.get_running_loop()
            await self._judge()
            return result

        return proven

    def around(self, fixture: Callable[..., AsyncGenerator[Any, Any]]) -> Callable[..., AsyncIterator[Any]]:
        """Return an async fixture that is the judge of the tasks if it ends last."""

        @wraps(fixture)
        async def proving(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            __tracebackhide__ = True
            loop = asyncio.get_running_loop()
            async with asynccontextmanager(fixture)(*args, **kwargs) as value:
                self._around.append(loop)
                try:
                    yield value
                finally:
                    self._around.remove(loop)
            await self._judge()

        return proving

    async def _judge(self) -> None:
        __tracebackhide__ = True
        loop = asyncio.get_running_loop()
        if loop is self._passed_in and loop not in self._around:
            await _judge(self._begun, self.on_left)


async def run_and_prove(body: Callable[[], Awaitable[object]]) -> object:
    """Run the body of a test in asyncio, with its fixtures.

    Raises:
        LeftBehind: the body passed, and tasks that were begun in it go on.
    """
    __tracebackhide__ = True
    begun: WeakSet[asyncio.Future[Any]] = WeakSet()
    result = await _collect(body, begun)
    await _judge(begun)
    return result


async def _collect(body: Callable[[], Awaitable[object]], begun: WeakSet[asyncio.Future[Any]]) -> object:
    """Run the body of a test, and add the tasks that are begun in it."""
    __tracebackhide__ = True
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()

    def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        make_task: Any = before or (lambda loop, coroutine, **more: asyncio.Task(coroutine, loop=loop, **more))
        task = make_task(loop, coroutine, **options)
        # What a task of the test begins has its context; what a fixture has begun before has another one.
        if _of_a_test.get():
            begun.add(task)
        return task

    loop.set_task_factory(make)
    token = _of_a_test.set(True)
    try:
        return await body()
    finally:
        _of_a_test.reset(token)
        loop.set_task_factory(before)


async def _judge(begun: WeakSet[asyncio.Future[Any]], on_left: Callable[[], object] = lambda: None) -> None:
    __tracebackhide__ = True
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    left = sorted(_described(task) for task in begun if isinstance(task, asyncio.Task) and _goes_on(task))
    if left:
        on_left()
        raise LeftBehind(f"left behind by this test: {', '.join(left)}")


def _goes_on(task: asyncio.Task[Any]) -> bool:
    if task.done() or task.cancelling():
        return False
    return task.get_name() == _CONNECTION or not _is_ours(task)


def _is_ours(task: asyncio.Task[Any]) -> bool:
    """Return True for a task inside of a connection, which ends with it, and for one that carries out a plan."""
    code = getattr(task.get_coro(), "cr_code", None)
    client = getattr(sys.modules.get("embedclient.asyncio"), "__file__", None)
    places = {Path(file).parent for file in (__file__, client) if file is not None}
    return code is not None and Path(code.co_filename).parent in places


def _described(task: asyncio.Task[Any]) -> str:
    if task.get_name() == _CONNECTION:
        return "a connection that it has opened by 'await' and not closed; use 'async with', or close it"
    # Python 3.13.0 names a task so that a task factory made and that was given no name.
    name = "" if task.get_name() == "None" else f" {task.get_name()!r}"
    return f"the task{name} of {getattr(task.get_coro(), '__qualname__', 'a coroutine')}"
