"""Skip interop and Spark unless they are named, and set up the process for tests.

`tests.trio_runs` runs `async def` tests. This file does not depend on brokers or clients.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester", "tests.trio_runs"]

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
