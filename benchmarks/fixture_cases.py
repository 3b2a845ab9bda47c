"""A user's failover test in virtual time: what one costs of a processor, beside a test of one broker that never fails.

Sessions of pytest with few and with many such tests, in turn: the difference is the tests, without pytest's own start.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.broker_cases import Effort
from benchmarks.report import Row

FEW = 5
SOURCE = """
import pytest

from embedclient import ConnectionFactory, Queue

COUNT = int(__import__("os").environ["COUNT"])


@pytest.mark.parametrize("number", range(COUNT))
async def test_failover(broker_pair, number):
    async with ConnectionFactory(broker_pair.url).connect() as connection, connection.session() as session:
        await session.create_producer(Queue("orders")).send("before")
        await broker_pair.failover()
        await session.create_producer(Queue("orders")).send("after")
        await broker_pair.wait_for(queue="orders", count=2)


@pytest.mark.parametrize("number", range(COUNT))
async def test_one_broker(embedded_broker, number):
    async with ConnectionFactory(embedded_broker.url).connect() as connection, connection.session() as session:
        await session.create_producer(Queue("orders")).send("before")
        await session.create_producer(Queue("orders")).send("after")
        await embedded_broker.wait_for(queue="orders", count=2)
"""
KINDS = {"shared store": "test_failover and shared-store", "replication": "test_failover and replication"}
REFERENCE = "test_one_broker"


def _session_ms(folder: Path, expression: str, count: int) -> float:
    """Return the processor time of one session of pytest, in milliseconds."""
    plugins = ("-p", "embedbroker.pytest_plugin", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "-k", expression, str(folder / "test_user.py")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # Bytecode, as once installed: where Python may not write any, each session would begin with a compilation.
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    environment |= {"COUNT": str(count), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0 or f"{count} passed" not in done.stdout:
        raise RuntimeError(f"{expression}: {done.stdout[-2000:]}")
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def failover_test(effort: Effort) -> list[Row]:
    """A failover test with the pytest fixtures in virtual time: CPU per test, and failovers per minute of one core."""
    many, rounds = (205, 7) if effort.rounds > 1 else (25, 1)
    expressions = {**KINDS, REFERENCE: REFERENCE}
    costs: dict[str, list[float]] = {name: [] for name in expressions}
    sessions: dict[str, list[float]] = {name: [] for name in expressions}
    with tempfile.TemporaryDirectory(prefix="embedbroker-bench-") as name:
        folder = Path(name)
        (folder / "test_user.py").write_text(SOURCE)
        (folder / "pytest.ini").write_text("[pytest]\n")  # nothing of a project around it
        for expression in expressions.values():
            _session_ms(folder, expression, FEW)  # writes the bytecode
        for _ in range(rounds):
            for kind, expression in expressions.items():
                few, all_of_them = (_session_ms(folder, expression, count) for count in (FEW, many))
                costs[kind].append((all_of_them - few) / (many - FEW))
                sessions[kind].append(all_of_them)
            print(f"  {', '.join(f'{kind}: {found[-1]:.1f} ms' for kind, found in costs.items())}", flush=True)
    return rows_of(costs, sessions, many)


def rows_of(costs: dict[str, list[float]], sessions: dict[str, list[float]], many: int) -> list[Row]:
    """Return medians over rounds."""
    details: dict[str, object] = {kind: [round(each, 2) for each in found] for kind, found in costs.items()}
    reference = median(costs[REFERENCE])
    rows = []
    for kind in KINDS:
        cost = median(costs[kind])
        per_minute = many / (median(sessions[kind]) / 60_000)
        rows += [
            Row("failover-test", f"CPU of a test, {kind}", "ms", cost, None, "lower", 20, 10, details),
            Row("failover-test", f"failovers a minute on one core, {kind}", "", per_minute, None, "higher", 1_000),
            Row("failover-test", f"CPU of a test, {kind}, beside one broker", "ms", cost, reference, "lower"),
        ]
    return rows
