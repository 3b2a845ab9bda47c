"""Cases with two brokers that stand in for each other: ours and Artemis' by the same drill, in turn.

It takes figures from the drill's JSON, and knows nothing of how a drill goes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median
from typing import Any

from benchmarks.broker_cases import Effort
from benchmarks.report import Row
from tests.interop.registry import artemis_home

BATCHES = 5


def _drill(rounds: int, seed: int, *options: str) -> list[float]:
    """Milliseconds from each kill to the first confirmed send on the backup."""
    command = [sys.executable, "-m", "embedbroker.cli", "drill", "--json", "--ha", "shared-store", "--seconds", "5"]
    command += ["--rounds", str(rounds), "--seed", str(seed), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    if not found["passed"]:
        print(f"  the drill was not passed: {found['objections']}", flush=True)
    times = (turn["outages"][0]["first_confirmed_s"] for turn in found["rounds"])
    return [time * 1000 for time in times if time is not None]


def failover(effort: Effort) -> list[Row]:
    """From kill -9 of the live broker to the first confirmed send on its backup, retryInterval 100, under load."""
    batches, rounds = (BATCHES, 10) if effort.rounds > 1 else (1, 2)
    peers = {"ours": (), "artemis": ("--peer", "artemis", "--artemis-home", str(artemis_home()))}
    times: dict[str, list[float]] = {peer: [] for peer in peers}
    for seed in range(1, batches + 1):
        for peer, options in peers.items():
            found = _drill(rounds, seed, *options)
            times[peer] += found
            print(f"  {peer}: {', '.join(f'{time:.0f}' for time in found)} ms", flush=True)
    ours, theirs = times["ours"], times["artemis"]
    details: dict[str, object] = {peer: [round(time, 1) for time in found] for peer, found in times.items()}
    name = "kill -9 of the live to first confirmed send on the backup, shared store"
    return [
        Row("failover", f"{name}: median", "ms", median(ours), median(theirs), "lower", 0.5, None, details),
        Row("failover", f"{name}: median", "ms", median(ours), None, "lower", 400, 200),
        Row("failover", f"{name}: worst of {len(ours)}", "ms", max(ours), None, "lower", 1_000, 500),
        Row("failover", f"{name}: worst", "ms", max(ours), max(theirs), "lower"),
    ]
