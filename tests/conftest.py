"""Run `async def` tests in trio, in real or in virtual time, and skip interop and Spark unless they are named.

An async test that requests the fixture `autojump_clock` runs in virtual time: whenever every task waits, the clock
jumps to the next deadline. This file does not depend on brokers or clients.
"""

from __future__ import annotations

import gc
import inspect
import logging
import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.abc
import trio.testing

pytest_plugins = ["pytester"]

# Objects that may wait for the garbage collector before it looks for cycles.
_GARBAGE_MAX = 50_000
_BY_NAME_ONLY = [Path(__file__).parent / name for name in ("interop", "pipeline")]


def pytest_configure() -> None:
    """Ctrl-C is a matter of some tests, and a shell that runs pytest in its background has it ignored.

    Bytecode is half of the start of the processes that tests start.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out what needs Java, other libraries and minutes, unless the command line names it."""
    if collection_path not in _BY_NAME_ONLY:
        return None
    named = (
        Path(argument.split("::")[0]).resolve()
        for argument in config.invocation_params.args
        if collection_path.name in str(argument)
    )
    return None if any(path.is_relative_to(collection_path) for path in named) else True


def pytest_collection_finish() -> None:
    """A test leaves little behind: to look for it every few hundred objects takes a fourteenth of the suite's time.

    What garbage collection reports is reported no less, at the latest when the session ends.
    """
    gc.set_threshold(_GARBAGE_MAX)


def pytest_runtest_teardown() -> None:
    """Undo what a command line that ran inside a test set for the whole process: the levels of loggers."""
    for name in ("embedclient", "embedbroker"):
        logging.getLogger(name).setLevel(logging.NOTSET)


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
