"""Transactions of many messages, and a crash at every moment of the disk: all of it is there afterwards, or nothing.

``python -m benchmarks.great_transactions`` carries out three of 100,000 messages on a simulated disk. Before each disk
operation, and inside writes, a broker starts from what the disk would hold then, in each of the ways that
``tests/embedbroker/node/crash_points.py`` has. Prints a table as docs/guide/transactions.md has it, and ends with exit
code 1 at the first broker that has a part. This takes about half an hour.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter

from tests.embedbroker.node.crash_points import ALL, IN_DOUBT, NOTHING, TRANSACTIONS, Moment, Torn, Trials, run

MESSAGES = 100_000
PROGRESS_S = 5.0
_HEAD = (
    "| Transaction | Moments | Crashes | Different disks | Nothing | In doubt | All | A part |",
    "|---|---|---|---|---|---|---|---|",
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.great_transactions", description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"in each transaction (default {MESSAGES})")
    parser.add_argument("--only", choices=list(TRANSACTIONS), help="one of them")
    options = parser.parse_args(arguments)
    gc.disable()
    rows = []
    for kind in [options.only] if options.only else TRANSACTIONS:
        try:
            rows.append(_row(_tried(kind, options.messages)))
        except Torn as torn:
            sys.stderr.write(f"{kind}: {torn}\n")
            return 1
        sys.stderr.write(rows[-1] + "\n")
    sys.stdout.write("\n".join((*_HEAD, *rows)) + "\n")
    return 0


def _tried(kind: str, count: int) -> Trials:
    trials = Trials(kind, count)
    shown = started = time.monotonic()

    def look(moment: Moment) -> None:
        nonlocal shown
        before = trials.disks
        trials.try_all(moment)
        if trials.disks > before:
            # Each of the brokers is a large cycle.
            gc.collect()
        now = time.monotonic()
        if now - shown >= PROGRESS_S:
            shown = now
            said = f"{moment.number} moments, {trials.disks} disks, {now - started:.0f} s, {moment.phase}"
            sys.stderr.write(f"{kind}: {said}\n")

    run(kind, count, look)
    return trials


def _row(trials: Trials) -> str:
    found = Counter[str]()
    for (_phase, _way, outcome), count in trials.outcomes.items():
        found[outcome] += count
    figures = (trials.moments, found.total(), trials.disks, found[NOTHING], found[IN_DOUBT], found[ALL], 0)
    return f"| {trials.kind} | " + " | ".join(f"{figure:,}" for figure in figures) + " |"


if __name__ == "__main__":
    sys.exit(main())
