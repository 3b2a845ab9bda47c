"""The plugin beside others: pytest-trio, pytest-xdist, pytest-randomly; and what it costs tests that do not use it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from embedbroker.pytest_plugin import PAIR_MODES
from tests.embedbroker.pytest_plugin.conftest import Inner

ROOT = Path(__file__).parents[3]
# A separate process, or several, or a stretch of virtual time in which brokers look for each other.
SLOW_START = pytest.mark.timeout(600)
FAILOVER = """
    async def test_failover(broker_pair):
        await put(broker_pair.url, "before")
        await broker_pair.failover()
        await broker_pair.wait_for(queue="orders", count=1)
"""


def test_the_entry_point_loads_pytest_and_nothing_heavy() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module = project["entry-points"]["pytest11"]["embedbroker"]
    code = f"import sys, pytest; before = set(sys.modules); import {module}; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    # Of the client there are the names only, and what loads them later.
    assert run.stdout.split() == ["embedbroker", "embedbroker.pytest_plugin", "embedclient", "embedclient._lazy"]


@SLOW_START
def test_a_session_without_its_fixtures_loads_no_more_of_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        import sys

        def test_it():
            assert [name for name in sys.modules if name.startswith("embedbroker.")] == ["embedbroker.pytest_plugin"]
            assert not {"trio", "attr", "embedclient.model"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess("-p", "embedbroker.pytest_plugin").assert_outcomes(passed=1)


@SLOW_START
@pytest.mark.search
def test_it_runs_under_xdist(inner: Inner) -> None:
    source = FAILOVER.replace("async def", "@pytest.mark.parametrize('turn', range(4))\n    async def")
    source = source.replace("(broker_pair)", "(broker_pair, turn)")
    plain = "    def test_plain(broker_pair_blocking, worker_id): broker_pair_blocking.failover(); print(worker_id)"
    result = inner(source + plain, "-p", "xdist", "-n", "2", "--embedbroker-real", subprocess=True)
    result.assert_outcomes(passed=5 * len(PAIR_MODES))


def test_it_runs_in_random_order_with_the_same_seeds(inner: Inner) -> None:
    source = """
        @pytest.mark.parametrize("turn", range(4))
        async def test_it(embedded_broker, fault_plan, turn):
            await embedded_broker.restart()
            print("draws", turn, fault_plan.seed, fault_plan.random.random())
    """

    def draws(order: int) -> list[str]:
        result = inner(source, "-s", "-p", "pytest_randomly", f"--randomly-seed={order}")
        result.assert_outcomes(passed=4)
        return sorted(line[line.index("draws") :] for line in result.outlines if "draws" in line)

    assert draws(1) == draws(2)


@SLOW_START
def test_pytest_trio_runs_its_fixtures_and_ours_in_virtual_time(inner: Inner) -> None:
    result = inner(
        """
        @pytest.fixture
        async def session(broker_pair):
            async with ConnectionFactory(broker_pair.url).connect() as connection, connection.session() as session:
                yield session

        @pytest.mark.trio
        async def test_marked(session, broker_pair, nursery):
            nursery.start_soon(trio.sleep, 3600)
            await session.create_producer(ORDERS).send("before")
            await broker_pair.failover()
            await session.create_producer(ORDERS).send("after")
            await broker_pair.wait_for(queue="orders", count=2)
            await trio.sleep(60)
            nursery.cancel_scope.cancel()

        @pytest.mark.trio
        async def test_with_its_clock(autojump_clock, broker_pair):
            assert trio.lowlevel.current_clock() is autojump_clock
            await trio.sleep(60)
            await broker_pair.failover()

        async def test_not_marked(autojump_clock, broker_pair):
            assert trio.lowlevel.current_clock() is autojump_clock
            await trio.sleep(60)
            await broker_pair.failover()

        @pytest.mark.trio
        async def test_of_its_own():
            await trio.sleep(0)
        """,
        "-p",
        "pytest_trio.plugin",
    )
    result.assert_outcomes(passed=3 * len(PAIR_MODES) + 1)


def test_a_run_of_trio_that_another_plugin_keeps_is_told(inner: Inner) -> None:
    result = inner(
        """
        @pytest.fixture
        def kept(monkeypatch):  # as anyio keeps one for async fixtures
            monkeypatch.setattr(trio.lowlevel, "in_trio_run", lambda: True)

        async def test_it(embedded_broker, kept): pass
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*trio runs in this thread already: another plugin, such as anyio, keeps it *"])


def test_other_async_tests_are_left_to_others(inner: Inner) -> None:
    result = inner("async def test_it(): pass")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*async def functions are not natively supported*"])
