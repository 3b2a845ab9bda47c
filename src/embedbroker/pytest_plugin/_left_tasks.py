"""Tasks of asyncio that a test has begun, and that go on at its end: a connection opened by ``await`` is one, too.

Responsible for the difference between tasks of the test, and those of fixtures and of other plugins, which end after
it. Does not depend on brokers, nor on the plugin that runs the test.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from ._bench import LeftBehind

__all__ = ["prove_after", "run_and_prove"]

_of_a_test: ContextVar[bool] = ContextVar("of_a_test", default=False)
#: The name of the task in which a connection lives that was opened by ``await``.
_CONNECTION = "embedclient connection"
# A task that was cancelled, or whose event was set, ends within a few turns of the loop.
_TURNS = 5


def prove_after(item: pytest.Function) -> None:
    """Make the test of an item fail with `LeftBehind` if it leaves tasks behind."""
    test = item.obj
    if hasattr(test, "_embedbroker_proves"):
        return

    @wraps(test)
    async def proven(*args: Any, **kwargs: Any) -> object:
        __tracebackhide__ = True
        return await run_and_prove(lambda: test(*args, **kwargs))

    vars(proven)["_embedbroker_proves"] = True
    item.obj = proven


async def run_and_prove(body: Callable[[], Awaitable[object]]) -> object:
    """Run the body of a test in asyncio.

    Raises:
        LeftBehind: the body passed, and tasks that were begun in it go on.
    """
    __tracebackhide__ = True
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    begun: WeakSet[asyncio.Future[Any]] = WeakSet()

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
        result = await body()
    finally:
        _of_a_test.reset(token)
        loop.set_task_factory(before)
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    left = sorted(_described(task) for task in begun if isinstance(task, asyncio.Task) and _goes_on(task))
    if left:
        raise LeftBehind(f"left behind by this test: {', '.join(left)}")
    return result


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
    return f"the task {task.get_name()!r} of {getattr(task.get_coro(), '__qualname__', 'a coroutine')}"
