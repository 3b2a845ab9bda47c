"""``python -m tests.fuzz --mutations 10000000 --seed 1``: mutations in bulk, with progress and a summary in JSON.

Exit code 1 when anything but RemoteProtocolError came out; the message names the input.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

from .campaign import run
from .families import families


def main() -> int:
    everything = families()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--mutations", type=int, default=10_000_000, help="per family (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first family (default: %(default)s)")
    parser.add_argument("--family", action="append", choices=[family.name for family in everything], help="only these")
    parser.add_argument("--summary", type=Path, default=Path("results/fuzz.json"), help="where the result goes")
    arguments = parser.parse_args()
    chosen = [family for family in everything if arguments.family is None or family.name in arguments.family]
    rows = []
    started = time.perf_counter()
    for number, family in enumerate(chosen):
        begin = time.perf_counter()

        def progress(done: int, name: str = family.name, begin: float = begin) -> None:
            rate = done / (time.perf_counter() - begin)
            sys.stderr.write(f"\r{name}: {done:,} of {arguments.mutations:,} ({rate:,.0f}/s)   ")
            sys.stderr.flush()

        outcome = run(family, arguments.mutations, arguments.seed + number, progress)
        seconds = time.perf_counter() - begin
        sys.stderr.write(f"\r{family.name}: {outcome.accepted:,} read, {outcome.refused:,} refused, {seconds:.0f} s\n")
        rows.append({"family": family.name, "seed": arguments.seed + number, "inputs": arguments.mutations})
        rows[-1] |= {"read": outcome.accepted, "refused": outcome.refused, "seconds": round(seconds, 1)}
    summary = {
        "inputs": arguments.mutations * len(chosen),
        "seconds": round(time.perf_counter() - started, 1),
        "memory_peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "families": rows,
    }
    arguments.summary.parent.mkdir(parents=True, exist_ok=True)
    arguments.summary.write_text(json.dumps(summary, indent=2) + "\n")
    sys.stdout.write(json.dumps(summary) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
