"""A test that hangs in trio fails by itself, shows what it waited for, and leaves the process to the next test."""

from __future__ import annotations

from pathlib import Path

import pytest

INNER = """
import time
import pytest
import trio

async def never():
    await trio.Event().wait()

async def test_waits():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(never)

async def test_after_waits():
    await trio.sleep(0)

async def test_waits_in_virtual_time(autojump_clock):
    await never()

def test_runs_trio_itself():
    trio.run(never)

async def test_swallows():
    with trio.CancelScope() as scope:
        try:
            await never()
        except trio.Cancelled:
            scope.cancel()
            await trio.sleep_forever()

async def test_waits_in_python():
    time.sleep(60)

async def test_cannot_be_cancelled():
    with trio.CancelScope(shield=True):
        await never()

async def test_after_all():
    await trio.sleep(0)
"""


def test_a_test_that_hangs_fails_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(INNER)
    pytester.makeconftest("from tests import trio_runs\ntrio_runs._END_S = 0.2\npytest_plugins = ['tests.trio_runs']")
    left_out = ("trio", "anyio", "asyncio", "randomly", "embedbroker")
    settings = ("timeout=0.2", "timeout_method=signal", f"pythonpath={Path(__file__).parent.parent}")
    options = [*(f"-pno:{plugin}" for plugin in left_out), *(f"-o{setting}" for setting in settings)]
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=2, failed=6)
    result.stdout.fnmatch_lines(
        [
            "*_ test_waits _*",
            "the time of this test was over; its tasks were here:",
            "- *test_waits*",
            "  test_*.py:9 test_waits: *",
            "- *never",
            "  test_*.py:6 never: await trio.Event().wait()",
        ]
    )
