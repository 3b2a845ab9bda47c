"""Async fixtures of a test that this plugin runs: they run in the event loop of the test, around its body.

Responsible for their order, and for what a fixture receives when the test ends. Does not depend on the event loop.

Pytest sets fixtures up before there is a loop. An async fixture has a place holder for a value until the test begins,
and so has each fixture on top of one.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import MethodType
from typing import Any

import outcome
import pytest
import trio

__all__ = ["AsyncFixtures", "Later", "bound"]


class Later:
    """The place holder for the value of one fixture."""

    def __init__(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.name = name
        self.value: object = None
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._running: Any = None

    async def begin(self) -> None:
        """Run the fixture up to its value."""
        __tracebackhide__ = True
        made = self._function(*self._args, **_resolved(self._kwargs))
        if inspect.isasyncgen(made):
            self._running = made
            self.value = await anext(made)
        elif inspect.isgenerator(made):
            self._running = made
            self.value = next(made)
        else:
            self.value = await made if inspect.isawaitable(made) else made

    async def end(self, failure: BaseException | None) -> None:
        """Run what follows the value. A cancellation is raised there: a scope of the fixture may be its source."""
        __tracebackhide__ = True
        running = self._running
        try:
            if inspect.isgenerator(running):
                next(running)
            elif inspect.isasyncgen(running):
                if failure is not None and _is_cancellation(failure):
                    await running.athrow(failure)
                else:
                    await anext(running)
            else:
                return
        except (StopIteration, StopAsyncIteration):
            if inspect.isasyncgen(running) and _is_cancellation(failure):
                pytest.fail(f"a scope of the fixture {self.name} cancelled the test", pytrace=False)
            return
        pytest.fail(f"the fixture {self.name} has more than one 'yield'", pytrace=False)


class AsyncFixtures:
    """The async fixtures of one test."""

    def __init__(self) -> None:
        self._fixtures: list[Later] = []

    def deferred(self, name: str, function: Callable[..., Any]) -> Callable[..., Later]:
        """Return the function of a fixture that returns a place holder for what ``function`` returns."""

        def defer(*args: Any, **kwargs: Any) -> Later:
            later = Later(name, function, args, kwargs)
            self._fixtures.append(later)
            return later

        return defer

    async def run(self, test: Callable[..., Awaitable[object]], fixtures: Mapping[str, Any]) -> None:
        """Run a test with the fixtures around it."""
        __tracebackhide__ = True
        begun: list[Later] = []

        async def body() -> None:
            __tracebackhide__ = True
            for each in self._fixtures:
                await each.begin()
                begun.append(each)
            await test(**_resolved(fixtures))

        failure = _error_of(await outcome.acapture(body))
        for each in reversed(begun):
            error = _error_of(await outcome.acapture(each.end, failure))
            if error is not None and error is not failure:
                error.__context__ = error.__context__ or failure
                failure = error
        if failure is not None:
            raise failure


def bound(function: Callable[..., Any], instance: object) -> Callable[..., Any]:
    """Return the function of a fixture for the instance of a test.

    Pytest has bound it to another instance of the class, and binds anew what is still a method.
    """
    if inspect.ismethod(function) and isinstance(instance, type(function.__self__)):
        return MethodType(function.__func__, instance)
    return function


def _error_of(result: outcome.Outcome[None]) -> BaseException | None:
    return result.error if isinstance(result, outcome.Error) else None


def _resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without place holders."""
    return {name: value.value if isinstance(value, Later) else value for name, value in values.items()}


def _is_cancellation(failure: BaseException | None) -> bool:
    """Return True if a scope around the test ended it."""
    if isinstance(failure, BaseExceptionGroup):
        return any(map(_is_cancellation, failure.exceptions))
    return isinstance(failure, trio.Cancelled | asyncio.CancelledError)
