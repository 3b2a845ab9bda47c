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

@pytest.fixture
def begun():
    trio.run(never)

@pytest.fixture
def ended():
    yield
    trio.run(never)

def test_of_a_fixture(begun):
    pass

def test_of_the_end_of_a_fixture(ended):
    pass

async def test_after_all():
    await trio.sleep(0)

async def test_is_interrupted():
    try:
        await never()
    except trio.Cancelled:
        raise KeyboardInterrupt

async def test_after_the_interrupt():
    pass
"""


def test_a_test_that_hangs_fails_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(INNER)
    pytester.makeconftest("from tests import trio_runs\ntrio_runs._END_S = 0.2\npytest_plugins = ['tests.trio_runs']")
    left_out = ("trio", "anyio", "asyncio", "randomly", "embedbroker")
    settings = ("timeout=0.2", "timeout_method=signal", f"pythonpath={Path(__file__).parent.parent}")
    options = [*(f"-pno:{plugin}" for plugin in left_out), *(f"-o{setting}" for setting in settings)]
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=3, failed=6, errors=2)
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
    result.stdout.fnmatch_lines(["*! KeyboardInterrupt !*"])
    # Errors of fixtures come first.
    for title in ("setup of test_of_a_fixture", "teardown of test_of_the_end_of_a_fixture"):
        result.stdout.fnmatch_lines([f"*_ ERROR at {title} _*", "the time of this test was over; its tasks were here:"])
