"""The simulator's command line: runs seeds with live progress, prints failures, and ends with a summary in JSON.

It is an edge, not a part of the simulation: it reads the clock for progress, starts worker processes for ``--jobs``,
and runs itself again under other hash seeds for ``--hash-check``. What a seed does depends on none of that.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import attrs

from tests.simulation.scenario import Campaign, ScenarioFailed, SeedResult, draw_plan, run_seed, values_of

from .scenario.draw_group import draw_group_plan
from .scenario.plan import GroupMode
from .scenario.scenario import run_group_seed, varied
from .sites import (
    BRIDGE_MINIMA_PER_1000,
    CLUSTER_MINIMA_PER_1000,
    FAILOVER_MINIMA_PER_1000,
    draw_bridge_plan,
    draw_cluster_plan,
    draw_failover_plan,
    run_bridge_seed,
    run_cluster_seed,
    run_failover_seed,
)

#: About a minute and a half on two quiet cores.
SEEDS = 280
#: About 40 seconds.
GROUP_SEEDS = 100
#: A world with so many brokers takes its time.
VOTE_SEEDS = 40
BRIDGE_SEEDS = 100
CLUSTER_SEEDS = 100
HASH_CHECK_SEEDS = 15
GROUP_HASH_CHECK_SEEDS = 5
VOTE_HASH_CHECK_SEEDS = 2
PROGRESS_S = 2.0
FAILURES_SHOWN_MAX = 5
_MODES = {"shared-store": GroupMode.SHARED_STORE, "replication": GroupMode.REPLICATION, "votes": GroupMode.VOTES}
#: Objects that may wait for the garbage collector before it looks for cycles.
_GARBAGE_MAX = 50_000


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 if every seed ran clean and nothing fell short, 1 otherwise."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    others = options.groups or options.mode is not None or options.large_bodies or options.administrator
    if options.bridges and others:
        parser.error(
            "--bridges goes with no other kind: some messages are large, and some bridges administered, anyway"
        )
    if options.pairs and not options.cluster:
        parser.error("--pairs goes with --cluster")
    options.groups = options.groups or options.mode is not None
    _set_numbers(options)
    if options.keep is not None:
        options.keep.write_text(json.dumps(values_of(_first_plan(options)), indent=1) + "\n")
        return 0
    if options.digest:
        for result in map(_runner(options), range(options.first_seed, options.first_seed + options.seeds)):
            sys.stdout.write(f"{result.seed} {result.digest}\n")
        return 0
    started = time.monotonic()
    campaign = _make_campaign(options)
    _run(campaign, options, started)
    hash_check = True
    if options.hash_check:
        seeds = min(options.hash_check, options.seeds)
        hash_check = _hash_check(options, seeds, campaign)
    seconds = time.monotonic() - started
    summary = {
        **campaign.summary(),
        "first_seed": options.first_seed,
        "groups": options.groups,
        "bridges": options.bridges,
        "cluster": options.cluster,
        "pairs": options.pairs,
        "mode": options.mode,
        "large_bodies": options.large_bodies,
        "administrator": options.administrator,
        "digests_equal_under_other_hash_seeds": hash_check if options.hash_check else None,
        "seconds": round(seconds, 1),
        "seeds_per_second": round(campaign.seeds / seconds, 2),
        "python": ".".join(map(str, sys.version_info[:3])),
    }
    text = json.dumps(summary, indent=2)
    sys.stdout.write(text + "\n")
    if options.json is not None:
        options.json.write_text(text + "\n")
    return 0 if campaign.passed and hash_check else 1


def _first_plan(options: argparse.Namespace) -> object:
    """Return what the first seed stands for."""
    seed = options.first_seed
    if options.bridges:
        return draw_bridge_plan(seed)
    if options.cluster:
        return draw_failover_plan(seed) if options.pairs else draw_cluster_plan(seed)
    plan = draw_group_plan(seed, _mode(options)) if options.groups else draw_plan(seed)
    return varied(plan, large_bodies=options.large_bodies, administrator=options.administrator)


def _make_campaign(options: argparse.Namespace) -> Campaign:
    if options.bridges:
        return Campaign.of_sites(BRIDGE_MINIMA_PER_1000)
    if options.cluster:
        return Campaign.of_sites(FAILOVER_MINIMA_PER_1000 if options.pairs else CLUSTER_MINIMA_PER_1000)
    campaign = Campaign.of_groups(_mode(options)) if options.groups else Campaign()
    if options.administrator:
        campaign.add_administrator(has_acceptor=not options.groups)
    return campaign


def _set_numbers(options: argparse.Namespace) -> None:
    """Set the numbers of seeds that the command line leaves out."""
    seeds, hash_check = SEEDS, HASH_CHECK_SEEDS
    if _mode(options) is GroupMode.VOTES:
        seeds, hash_check = VOTE_SEEDS, VOTE_HASH_CHECK_SEEDS
    elif options.bridges:
        seeds, hash_check = BRIDGE_SEEDS, GROUP_HASH_CHECK_SEEDS
    elif options.cluster:
        seeds, hash_check = CLUSTER_SEEDS, VOTE_HASH_CHECK_SEEDS
    elif options.groups:
        seeds, hash_check = GROUP_SEEDS, GROUP_HASH_CHECK_SEEDS
    options.seeds = seeds if options.seeds is None else options.seeds
    options.hash_check = hash_check if options.hash_check is None else options.hash_check


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulated crashes from seeds.")
    parser.add_argument(
        "--seeds",
        type=int,
        help=f"how many (default {SEEDS}, of groups {GROUP_SEEDS}, of votes {VOTE_SEEDS}, of bridges {BRIDGE_SEEDS},"
        f" of clusters {CLUSTER_SEEDS})",
    )
    parser.add_argument("--groups", action="store_true", help="a primary with its backups, instead of one broker")
    parser.add_argument("--bridges", action="store_true", help="two or three brokers with bridges between them")
    parser.add_argument("--cluster", action="store_true", help="a cluster of two to eight brokers")
    parser.add_argument("--pairs", action="store_true", help="a cluster of pairs that fail over under load (--cluster)")
    parser.add_argument(
        "--mode",
        choices=list(_MODES),
        help="groups of this kind only (default: each seed chooses one of the first two)",
    )
    parser.add_argument("--large-bodies", action="store_true", help="some messages are large, with bodies in files")
    parser.add_argument(
        "--administrator", action="store_true", help="a user pauses, purges and changes queues while others work"
    )
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="worker processes (default 1)")
    parser.add_argument(
        "--hash-check",
        type=int,
        nargs="?",
        metavar="SEEDS",
        help="compare digests of so many seeds under other hash seeds"
        f" (default {HASH_CHECK_SEEDS}, of groups and bridges {GROUP_HASH_CHECK_SEEDS},"
        f" of votes and clusters {VOTE_HASH_CHECK_SEEDS}, 0: do not)",
    )
    parser.add_argument(
        "--interpreter", action="append", metavar="PYTHON", help="compare with this Python version, too"
    )
    parser.add_argument("--digest", action="store_true", help="print the digest of each seed and nothing else")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="write down what the first seed stands for, and run nothing",
    )
    parser.add_argument("--trace", type=int, default=60, metavar="LINES", help="trace lines shown of a failure")
    parser.add_argument("--max-failures", type=int, default=10, help="stop after so many (default 10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary there too")
    return parser


def _run(campaign: Campaign, options: argparse.Namespace, started: float) -> None:
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    shown = started
    for outcome in _outcomes(_runner(options), seeds, options.jobs):
        if isinstance(outcome, ScenarioFailed):
            campaign.add_failure(outcome)
            if len(campaign.failures) <= FAILURES_SHOWN_MAX:
                _show_failure(outcome, options)
            if len(campaign.failures) >= options.max_failures:
                return
        else:
            campaign.add(outcome)
        now = time.monotonic()
        if now - shown >= PROGRESS_S or campaign.seeds == len(seeds):
            shown = now
            _show_progress(campaign, len(seeds), now - started)


def _mode(options: argparse.Namespace) -> GroupMode | None:
    return _MODES[options.mode] if options.mode is not None else None


def _runner(options: argparse.Namespace) -> Callable[[int], SeedResult]:
    if options.bridges:
        return run_bridge_seed
    if options.cluster:
        return run_failover_seed if options.pairs else run_cluster_seed
    run = partial(run_group_seed, mode=_mode(options)) if options.groups else run_seed
    given = {name: True for name in ("large_bodies", "administrator") if getattr(options, name)}
    return partial(run, **given) if given else run


def _ways(options: argparse.Namespace) -> list[str]:
    """The options that say what a seed stands for."""
    groups = ["--groups"] if options.groups else []
    groups += ["--bridges"] if options.bridges else []
    groups += ["--cluster"] if options.cluster else []
    groups += ["--pairs"] if options.pairs else []
    groups += ["--large-bodies"] if options.large_bodies else []
    groups += ["--administrator"] if options.administrator else []
    return [*groups, *(["--mode", options.mode] if options.mode is not None else [])]


def _outcomes(run: Callable[[int], SeedResult], seeds: range, jobs: int) -> Iterator[SeedResult | ScenarioFailed]:
    outcome = partial(_outcome, run)
    if jobs <= 1:
        collect_seldom()
        yield from map(outcome, seeds)
        return
    with ProcessPoolExecutor(jobs, initializer=collect_seldom) as pool:
        yield from pool.map(outcome, seeds, chunksize=10)


def collect_seldom() -> None:
    """What was imported stays, and a seed leaves little behind: looking through all of it often finds nothing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_MAX)


def _outcome(run: Callable[[int], SeedResult], seed: int) -> SeedResult | ScenarioFailed:
    try:
        return run(seed)
    except ScenarioFailed as failure:
        return failure


def _show_progress(campaign: Campaign, seeds: int, seconds: float) -> None:
    rate = campaign.seeds / seconds if seconds else 0.0
    sys.stderr.write(
        f"{campaign.seeds}/{seeds} seeds, {len(campaign.failures)} failed, {campaign.operations} operations, "
        f"{campaign.faults} faults, {rate:.1f} seeds/s\n"
    )
    sys.stderr.flush()


def _show_failure(failure: ScenarioFailed, options: argparse.Namespace) -> None:
    ways = "".join(f" {each}" for each in _ways(options))
    replay = f"python -m tests.simulation{ways} --first-seed {failure.seed} --seeds 1 --hash-check 0 --trace 1000"
    trace = failure.trace[-options.trace :]
    text = ["", f"seed {failure.seed} FAILED: {failure.text}", *trace, f"replay: {replay}", *commit_lines(), ""]
    sys.stderr.write("\n".join(text) + "\n")


def commit_lines() -> list[str]:
    """Which commit this code is of, where it lies in its repository: a seed means nothing without."""
    here = Path(__file__)
    git = ["git", "-C", str(here.parent)]
    try:
        # An installed package may lie inside another repository.
        subprocess.run([*git, "ls-files", "--error-unmatch", here.name], capture_output=True, check=True)
        named = [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        commit = subprocess.run(named, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return []
    return [f"commit: {commit}"]


def _hash_check(options: argparse.Namespace, seeds: int, campaign: Campaign) -> bool:
    """Runs seeds again in processes with other hash seeds, or of other interpreters, and compares all digests."""
    first_seed, interpreters = options.first_seed, options.interpreter or ()
    known = {seed: digest for seed, digest in campaign.digests.items() if first_seed <= seed < first_seed + seeds}
    if not known:
        return True
    clean = max(known) - first_seed + 1
    ways = [(sys.executable, "0"), (sys.executable, "4242"), *((interpreter, "7") for interpreter in interpreters)]
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(lambda way: _digests(options, clean, *way), ways))
    equal = True
    for seed, digest in sorted(known.items()):
        found = {digest, *(run.get(seed, "none") for run in runs)}
        if len(found) > 1:
            equal = False
            sys.stderr.write(f"seed {seed} gives different traces: {sorted(found)}\n")
    verdict = "equal" if equal else "DIFFERENT"
    others = f" and by {', '.join(interpreters)}" if interpreters else ""
    sys.stderr.write(f"digests of {len(known)} seeds compared under two other hash seeds{others}: {verdict}\n")
    return equal


def _digests(options: argparse.Namespace, seeds: int, interpreter: str, hash_seed: str) -> dict[int, str]:
    command = [interpreter, "-m", "tests.simulation", "--digest", *_ways(options)]
    command += ["--seeds", str(seeds), "--first-seed", str(options.first_seed)]
    # Another interpreter needs no separate installation: all that a simulation imports is plain Python.
    root = Path(__file__).parents[2]
    paths = [str(root / "src"), str(Path(attrs.__file__).parents[1])]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(paths)}
    if interpreter == sys.executable:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    return {int(seed): digest for seed, digest in _pairs(run.stdout.splitlines())}


def _pairs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        seed, _, digest = line.partition(" ")
        yield seed, digest


if __name__ == "__main__":
    sys.exit(main())
