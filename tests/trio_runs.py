"""Run `async def` tests in trio, in real or in virtual time, and end runs of trio that take too long.

An async test that requests the fixture `autojump_clock` runs in virtual time: whenever every task waits, the clock
jumps to the next deadline.

pytest-timeout raises its error wherever the main thread is at that moment. In the middle of trio this leaves a run that
never ends, and every later run of the process fails. So the run is cancelled first, and the error shows what each task
waited for. This file does not depend on brokers or clients.
"""

from __future__ import annotations

import inspect
import signal
import traceback
from collections.abc import Generator
from functools import partial
from pathlib import Path
from types import FrameType

import pytest
import trio
import trio.abc
import trio.lowlevel
import trio.testing

# A run that is cancelled has this time for its end; then the error of pytest-timeout breaks into it.
_END_S = 10.0
_LIBRARY = str(Path(trio.__file__).parent)


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """The clock of a test in virtual time."""
    return trio.testing.MockClock(autojump_threshold=0)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function to its end in a separate trio run."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    fixtures = pyfuncitem.funcargs
    clocks = [value for value in fixtures.values() if isinstance(value, trio.abc.Clock)]
    assert len(clocks) <= 1, "a test has one clock"
    wanted = {name: fixtures[name] for name in inspect.signature(test).parameters}
    trio.run(partial(test, **wanted), clock=clocks[0] if clocks else None)
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    """Cancel a run of trio in a fixture when the time of the test is over."""
    return (yield from _cancelled_in_time())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Cancel the run of trio when the time of the test is over, also one that the test itself began."""
    return (yield from _cancelled_in_time())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Cancel a run of trio at the end of a fixture when the time of the test is over."""
    return (yield from _cancelled_in_time())


def _cancelled_in_time() -> Generator[None, object, object]:
    on_alarm = signal.getsignal(signal.SIGALRM)
    if not callable(on_alarm):
        return (yield)
    waits: list[str] = []

    def end(number: int, frame: FrameType | None) -> None:
        if waits or not trio.lowlevel.in_trio_run():
            on_alarm(number, frame)
            return
        waits.append("all tasks of the run were busy")
        signal.setitimer(signal.ITIMER_REAL, _END_S)
        trio.lowlevel.current_trio_token().run_sync_soon(_cancel_run, waits)

    signal.signal(signal.SIGALRM, end)
    result = None
    try:
        result = yield
    except BaseException as error:
        if not waits or _stops_the_session(error):
            raise
        # A run that was not over is over as soon as nothing refers to it.
        traceback.clear_frames(error.__traceback__)
    finally:
        if signal.getsignal(signal.SIGALRM) is end:
            signal.signal(signal.SIGALRM, on_alarm)
    if waits:
        pytest.fail("\n".join(["the time of this test was over; its tasks were here:", *waits]), pytrace=False)
    return result


def _stops_the_session(error: BaseException) -> bool:
    return isinstance(error, KeyboardInterrupt | pytest.exit.Exception)


def _cancel_run(waits: list[str]) -> None:
    root = trio.lowlevel.current_root_task()
    assert root is not None
    waits[:] = _waits_of(root)
    # The innermost of trio's own nurseries has the main task alone.
    root.child_nurseries[-1].cancel_scope.cancel()


def _waits_of(task: trio.lowlevel.Task) -> list[str]:
    """Return one entry for each task: the places in tests and in the project, from the outermost to the innermost."""
    found = []
    frames = traceback.StackSummary.extract(task.iter_await_frames())
    places = [frame for frame in frames if not frame.filename.startswith(_LIBRARY)]
    if places:
        lines = [f"  {Path(each.filename).name}:{each.lineno} {each.name}: {each.line}" for each in places]
        found.append("\n".join([f"- {task.name}", *lines]))
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            found += _waits_of(child)
    return found
