"""Runs drills until docs/reliability.json holds as many faults as are wanted, for each kind of pair.

`python -m benchmarks.long_run` can be stopped at any time, by Ctrl-C or SIGTERM, and goes on where it was: what counts
is what stands in the file, to which each drill is added when it has ended. A drill that is not passed ends the run, and
what its brokers wrote is kept. It judges nothing: the drill does.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from benchmarks.reliability import Run, condensed, load, struck, write

#: Kinds of pairs, and how many rounds one drill has of each fault: what is lost by an interruption is one drill.
PAIRS = ("shared-store", "replication")
ROUNDS = {"kill": 10, "freeze": 5}
SECONDS = 5
_TICK_S = 0.5

Kind = tuple[str, str]


@frozen
class Task:
    """One drill."""

    ha: str
    fault: str
    rounds: int
    seed: int

    def command(self) -> list[str]:
        """Return the command, with the drill's defaults for everything else."""
        options = {"ha": self.ha, "fault": self.fault, "rounds": self.rounds, "seed": self.seed, "seconds": SECONDS}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return [sys.executable, "-m", "embedbroker.cli", "drill", "--json", *words]


class NoVerdict(Exception):
    """A drill ended without a verdict, or did not begin."""


def next_task(runs: Sequence[Run], goals: Mapping[Kind, int]) -> Task | None:
    """Return a drill of the kind that lacks most of its goal; None when no goal is left."""
    lacks: dict[Kind, int] = {}
    for kind, wanted in goals.items():
        lacks[kind] = wanted - sum(len(struck([run])) for run in _of_kind(runs, kind))
    kind = max(lacks, key=lambda each: lacks[each] / max(goals[each], 1))
    if lacks[kind] <= 0:
        return None
    # No seed twice: the same faults at the same moments would prove less.
    seed = max((run["plan"]["seed"] for run in _of_kind(runs, kind)), default=0) + 1
    ha, fault = kind
    return Task(ha, fault, min(ROUNDS[fault], lacks[kind]), seed)


def _of_kind(runs: Sequence[Run], kind: Kind) -> list[Run]:
    ha, fault = kind
    plans = {"peer": "embedbroker", "ha": ha, "faults": [fault]}
    alike = [run for run in runs if all(run["plan"][name] == value for name, value in plans.items())]
    return [run for run in alike if run["plan"].get("nodes", 1) == 1]


def drilled(task: Task, folder: Path) -> Run:
    """Carry out a drill. Its output and its brokers' files are below ``folder``.

    Raises:
        NoVerdict: it came to none; the text has its last line.
        KeyboardInterrupt: this process was stopped; the drill has cleaned up then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(folder.absolute())}
    said = folder / "drill.stderr"
    with said.open("w") as errors, (folder / "drill.json").open("w+") as output:
        # Ctrl-C at a terminal is for this process: a drill that receives two signals does not clean up.
        process = subprocess.Popen(
            task.command(), stdout=output, stderr=errors, env=environment, start_new_session=True
        )
        try:
            halted_s = _wait(process)
        finally:
            _end(process)
        output.seek(0)
        text = output.read()
    if process.returncode not in (0, 1) or not text.strip():
        lines = said.read_text(errors="replace").strip().splitlines()
        raise NoVerdict(f"{' '.join(task.command()[2:])}: exit code {process.returncode}: {lines[-1:]}")
    run: Run = json.loads(text)
    # Where the whole machine stood still, this process included, no time that a client measured is meaningful.
    return {**run, "halted_s": round(halted_s, 1), "load_average": round(os.getloadavg()[0], 2)}


def _wait(process: subprocess.Popen[bytes]) -> float:
    """Wait for the drill. Return the longest time for which this process itself did not run, in seconds."""
    longest_s = 0.0
    while True:
        before = time.monotonic()
        try:
            process.wait(timeout=_TICK_S)
        except subprocess.TimeoutExpired:
            longest_s = max(longest_s, time.monotonic() - before - _TICK_S)
        else:
            return longest_s


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop a drill that still runs; it stops its brokers."""
    if process.poll() is None:
        process.terminate()
        process.wait()


def run_until(
    goals: Mapping[Kind, int], note: str, evidence: Path, drill: Callable[[Task, Path], Run] = drilled
) -> list[str]:
    """Run drills until the goals are reached. Return the objections that ended the run before that.

    Raises:
        NoVerdict: a drill came to none.
    """
    while (task := next_task(load(), goals)) is not None:
        print(f"{task.ha}, {task.rounds} times {task.fault}, seed {task.seed}", flush=True)
        folder = evidence / f"{task.ha}-{task.fault}-{task.seed}"
        run = drill(task, folder)
        # Read again: another process may have added runs meanwhile.
        write([*load(), condensed(run, note)])
        if not run["passed"]:
            return [*run["objections"], f"what the brokers wrote is in {folder}"]
        shutil.rmtree(folder)
    return []


@contextmanager
def alone(evidence: Path) -> Iterator[None]:
    """Lock the evidence: two processes would take the same seed, and stand in each other's way.

    Raises:
        NoVerdict: another one works there.
    """
    evidence.mkdir(parents=True, exist_ok=True)
    with (evidence / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NoVerdict(f"another long run works in {evidence}") from None
        yield


def main() -> int:
    """Return 0 when all is there, 1 after a failed drill, 2 after one without a verdict, 130 when stopped."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_run", description=__doc__)
    parser.add_argument("--ha", choices=PAIRS, action="append", help="only these pairs")
    parser.add_argument("--kills", type=int, default=100, help="wanted of each pair (%(default)s)")
    parser.add_argument("--freezes", type=int, default=30, help="wanted of each pair (%(default)s)")
    parser.add_argument("--note", default="", help="a few words that stand beside these runs in the tables")
    parser.add_argument("--evidence", type=Path, default=Path("results") / "long-run", help="where drills work")
    arguments = parser.parse_args()
    wanted = {"kill": arguments.kills, "freeze": arguments.freezes}
    goals = {(ha, fault): count for ha in arguments.ha or PAIRS for fault, count in wanted.items()}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with alone(arguments.evidence):
            objections = run_until(goals, arguments.note, arguments.evidence)
    except NoVerdict as failure:
        print(failure, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    for objection in objections:
        print(f"FAILED {objection}", file=sys.stderr)
    return 1 if objections else 0


if __name__ == "__main__":
    sys.exit(main())
