"""The event loop in which an async test runs, and the plugin that runs it there.

Responsible for what a test requests: by its marks, by its parameters, or by the mode of another plugin. Also for the
tests that this plugin runs itself. Does not depend on what a test uses.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Literal

import outcome
import pytest
import trio.abc
from attrs import frozen

from ._async_fixtures import AsyncFixtures
from ._bench import Bench
from ._left_tasks import LeftTasks, run_and_prove
from ._plugins import has_plugin
from ._run import run_test

__all__ = ["Runner", "claim", "runner_of"]


@frozen
class Runner:
    """What runs a test: its event loop, and the plugin that starts it. None: this plugin."""

    loop: Literal["asyncio", "trio"]
    plugin: str | None


def runner_of(item: pytest.Function) -> Runner:
    """Return what runs the test.

    Marks in its source come first. Marks that a plugin puts on every async test are next.
    """
    above = item.parent.iter_markers() if item.parent is not None else ()
    written = {mark.name for mark in [*getattr(item.function, "pytestmark", []), *above]}
    marks = {mark.name for mark in item.iter_markers()}
    wants_anyio = "anyio" in written or "anyio_backend" in inspect.signature(item.function).parameters
    for wanted in (written | {"anyio"} if wants_anyio else written, marks | {"anyio"}):
        if "trio" in wanted:
            return Runner("trio", "trio" if has_plugin(item.config, "trio") else None)
        if "anyio" in wanted and "anyio_backend" in item.fixturenames:
            return _of_anyio(item)
        if "asyncio" in wanted:
            return Runner("asyncio", "asyncio" if has_plugin(item.config, "asyncio") else None)
    return Runner("trio", None)


def _of_anyio(item: pytest.Function) -> Runner:
    backend = item._request.getfixturevalue("anyio_backend")
    if (backend if isinstance(backend, str) else backend[0]) == "asyncio":
        return Runner("asyncio", "anyio" if has_plugin(item.config, "anyio") else None)
    return Runner("trio", None)  # in virtual time, which anyio has not


def claim(item: pytest.Function, bench: Bench, runner: Runner, fixtures: AsyncFixtures, left_tasks: LeftTasks) -> None:
    """Make a test run as it requests, whatever other plugin takes async tests and however it does it."""
    if runner.loop == "asyncio" and runner.plugin is not None:
        _prove_after(item, bench, left_tasks)
    if runner.plugin == "asyncio":
        return
    # In automatic mode pytest-asyncio has put its mark on the test, and would warn of a test that is not async.
    item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "asyncio"]
    run = _in_asyncio if runner.loop == "asyncio" else _in_trio

    def runtest() -> None:
        __tracebackhide__ = True
        test = item.obj
        # Before fixtures end: otherwise their scopes end inside of those that the test has left.
        body = bench.watched(test) if run is _in_trio else test

        def plain(**values: Any) -> None:
            __tracebackhide__ = True
            run(item, bench, lambda: fixtures.run(body, values))

        if runner.plugin is None:
            item.obj = plain
        try:
            pytest.Function.runtest(item)
        finally:
            item.obj = test

    vars(item)["runtest"] = runtest


def _prove_after(item: pytest.Function, bench: Bench, left_tasks: LeftTasks) -> None:
    """Make the test of an item fail with `LeftBehind` if it leaves tasks behind."""

    def drop_proof() -> None:
        bench.must_prove = False  # it would find the same connections, and fail a second time

    left_tasks.on_left = drop_proof
    # A test that runs again has what its first run has left there.
    test = getattr(item.obj, "_embedbroker_test", item.obj)
    proven = left_tasks.of_test(test)
    vars(proven)["_embedbroker_test"] = test
    item.obj = proven


def _in_trio(item: pytest.Function, bench: Bench, test: Callable[[], Any]) -> None:
    __tracebackhide__ = True
    clocks = [value for value in item.funcargs.values() if isinstance(value, trio.abc.Clock)]
    if len(clocks) > 1:
        raise pytest.UsageError("a test has one clock")
    run_test(bench, test, clock=clocks[0] if clocks else None)


def _in_asyncio(item: pytest.Function, bench: Bench, test: Callable[[], Any]) -> None:
    __tracebackhide__ = True
    failures: list[Exception] = []

    async def run() -> None:
        __tracebackhide__ = True
        result = await outcome.acapture(run_and_prove, test)
        if isinstance(result, outcome.Error) and isinstance(result.error, Exception):
            failures.append(result.error)
        else:
            result.unwrap()

    with asyncio.Runner() as runner:
        runner.run(run())
    if failures:
        raise failures[0]  # outside of asyncio, whose frames do not hide
