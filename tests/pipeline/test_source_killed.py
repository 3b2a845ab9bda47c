"""The driver is killed between two steps of a batch, and the next run goes on: each message is one row."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from embedbroker import ThreadedBroker
from tests.pipeline.conftest import ROOT, spark_environment
from tests.pipeline.faulty import FLAGS, POINTS
from tests.pipeline.queues import fill, left_in, numbered

MESSAGES = 100


@pytest.mark.long
@pytest.mark.timeout(600)  # a Spark starts five times
def test_a_driver_that_is_killed_at_every_step_loses_and_doubles_nothing(
    broker: ThreadedBroker, tmp_path: Path
) -> None:
    """Behind `latestOffset`, behind `partitions`, behind the write of the sink, and behind `commit`."""
    flags = tmp_path / "flags"
    flags.mkdir()
    fill(broker.url, "orders", numbered("orders", range(MESSAGES)))
    environment = {**os.environ, **spark_environment(), FLAGS: str(flags)}
    command = [sys.executable, "-m", "tests.pipeline.faulty", broker.url, str(tmp_path)]
    deaths: list[set[str]] = []
    while True:
        before = {flag.name for flag in flags.iterdir()}
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
        died_at = {flag.name for flag in flags.iterdir()} - before
        if not died_at:
            break
        assert run.returncode != 0
        deaths.append(died_at)
    assert run.returncode == 0, run.stderr.decode()
    assert sorted(name for each in deaths for name in each) == sorted(POINTS)
    rows = pq.read_table(tmp_path / "rows").to_pylist()
    found = [row["body"] for row in sorted(rows, key=lambda row: row["position"])]
    assert found == [str(number).encode() for number in range(MESSAGES)]
    assert left_in(broker.url, "orders") == []
