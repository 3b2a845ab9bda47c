"""A user's tests in virtual time, with a failover and with a cluster: what one costs of a processor.

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


@pytest.mark.parametrize("number", range(COUNT))
async def test_cluster(broker_cluster, number):
    cluster = await broker_cluster(4).start()
    async with cluster.sessions() as sessions, cluster.consumers("orders", sessions) as consumers:
        for order in range(8):
            await sessions[0].create_producer(Queue("orders")).send(str(order))
        found = [[await consumer.receive_body(str) for _ in range(2)] for consumer in consumers]
        assert found == [[str(order), str(order + 4)] for order in range(4)]
"""
KINDS = {"shared store": "test_failover and shared-store", "replication": "test_failover and replication"}
REFERENCE = "test_one_broker"
CLUSTER = "test_cluster"


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
    many = 205 if effort.rounds > 1 else 25
    return rows_of(*_measured({**KINDS, REFERENCE: REFERENCE}, many, effort), many)


def cluster_test(effort: Effort) -> list[Row]:
    """A test with four nodes that share messages, with the pytest fixtures in virtual time: CPU per test."""
    costs, _sessions = _measured({CLUSTER: CLUSTER}, 105 if effort.rounds > 1 else 15, effort)
    return cluster_rows(costs[CLUSTER])


def cluster_rows(costs: list[float]) -> list[Row]:
    """Return the median over rounds."""
    details: dict[str, object] = {"rounds": [round(each, 2) for each in costs]}
    return [Row("cluster-test", "CPU of a test, four nodes", "ms", median(costs), None, "lower", 60, None, details)]


def _measured(
    expressions: dict[str, str], many: int, effort: Effort
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the milliseconds of a test, and those of a session with ``many`` of them, by kind of test."""
    rounds = 7 if effort.rounds > 1 else 1
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
    return costs, sessions


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
