"""Cases with two brokers that stand in for each other: ours and Artemis' by the same drill, in turn.

It takes figures from the drill's JSON, and does not depend on how a drill is conducted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from attrs import frozen

from benchmarks.broker_cases import Effort
from benchmarks.report import Row
from tests.interop.registry import artemis_home


@frozen
class Batches:
    """How often both are drilled in turn, and with how many kills in a drill.

    A kill of Artemis takes ten times as long with the way back. So Artemis has fewer kills, and none any more after
    ``seconds_max``, but always one drill.
    """

    count: int
    ours: int
    theirs: int
    seconds_max: float


FULL = Batches(count=5, ours=10, theirs=4, seconds_max=330)
QUICK = Batches(count=1, ours=2, theirs=2, seconds_max=0)


def _drill(ha: str, rounds: int, seed: int, *options: str) -> list[float]:
    """Return the milliseconds from each kill to the first confirmed send on the backup."""
    command = [sys.executable, "-m", "embedbroker.cli", "drill", "--json", "--ha", ha, "--seconds", "5"]
    command += ["--rounds", str(rounds), "--seed", str(seed), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    if not found["passed"]:
        print(f"  the drill was not passed: {found['objections']}", flush=True)
    times = (turn["outages"][0]["first_confirmed_s"] for turn in found["rounds"])
    return [time * 1000 for time in times if time is not None]


def _in_turn(ha: str, batches: Batches) -> dict[str, list[float]]:
    theirs = ("--peer", "artemis", "--artemis-home", str(artemis_home()))
    times: dict[str, list[float]] = {"ours": [], "artemis": []}
    began = time.monotonic()
    for seed in range(1, batches.count + 1):
        peers: dict[str, tuple[int, Sequence[str]]] = {"ours": (batches.ours, ())}
        if seed == 1 or time.monotonic() - began < batches.seconds_max:
            peers["artemis"] = (batches.theirs, theirs)
        for peer, (rounds, options) in peers.items():
            found = _drill(ha, rounds, seed, *options)
            times[peer] += found
            print(f"  {ha}, {peer}: {', '.join(f'{each:.0f}' for each in found)} ms", flush=True)
    return times


def rows_of(ha: str, times: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return medians and the worst, beside Artemis and by themselves."""
    ours, theirs = times["ours"], times["artemis"]
    details: dict[str, object] = {peer: [round(time, 1) for time in found] for peer, found in times.items()}
    name = f"kill -9 of the live to first confirmed send on the backup, {ha}"
    counts = f"{len(ours)} and {len(theirs)} kills"
    case = f"failover-{ha}"
    return [
        Row(case, f"{name}: median ({counts})", "ms", median(ours), median(theirs), "lower", 0.5, None, details),
        Row(case, f"{name}: median", "ms", median(ours), None, "lower", 400, 200),
        Row(case, f"{name}: worst of {len(ours)}", "ms", max(ours), None, "lower", 1_000, 500),
        Row(case, f"{name}: worst ({counts})", "ms", max(ours), max(theirs), "lower"),
    ]


def _failover(ha: str, effort: Effort) -> list[Row]:
    return rows_of(ha, _in_turn(ha, FULL if effort.rounds > 1 else QUICK))


def failover(effort: Effort) -> list[Row]:
    """From kill -9 of the live broker to the first confirmed send on its backup, shared store, under load."""
    return _failover("shared-store", effort)


def failover_replication(effort: Effort) -> list[Row]:
    """The same with replication: the backup has a separate copy."""
    return _failover("replication", effort)
