"""Write docs/reliability.md from docs/reliability.json, which holds the results of long drills.

`python -m benchmarks.reliability RUN.json ...` puts the results of `embedbroker drill --json` there first, in the place
of earlier ones. `--add` keeps these, and `--note` adds what the runs have in common. `benchmarks.long_run` makes and
adds results by itself. It computes spreads and sums, and judges nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Run = dict[str, Any]
Groups = dict[tuple[str, str], list[Run]]

DOCS = Path(__file__).parents[1] / "docs"
DATA, PAGE = DOCS / "reliability.json", DOCS / "reliability.md"
LOSSES = ("lost", "vanished", "torn_transactions", "branches_left")
FAULTS = ("duplicated_unflagged", "reappeared", "reordered", "phantom")
#: Of runs that recorded them: the longest time in which the whole machine stood still, and its load at the end.
KEPT_IF_TOLD = ("halted_s", "load_average")
#: After a longer halt the clients' measurements prove nothing about brokers.
HALT_MAX_S = 2.0
KEPT = ("passed", "objections", "plan", "load_s", "confirmed", "delivered", "resent", *LOSSES, *FAULTS)
KEPT_OF_OUTAGES = (
    *("after", "unconfirmed_sends", "open_transactions", "sends_waiting_outside_transactions"),
    *("transactions_before_their_commit", "prepared_branches", "serving_s", "first_confirmed_s", "first_delivery_s"),
)
KEPT_OF_CLUSTERS = ("joined_s",)
PEERS = {"embedbroker": "embedbroker", "artemis": "Artemis 2.44.0"}
UNTIL = {
    "first_confirmed_s": "first confirmed send",
    "all_confirmed_s": "last producer's first confirmed send",
    "first_delivery_s": "first delivery",
    # Of clusters only.
    "joined_s": "messages go to the node and from it",
}
HEAD = """# Reliability

What long runs of `embedbroker drill` have found: real broker processes, real sockets, real disks, real signals.
Producers and consumers work through every fault, a third each in transactions and in XA branches;
[a ledger](guide/simulation.md#the-ledger) follows every message. This page is written by
`python -m benchmarks.reliability` from `docs/reliability.json`, to which `python -m benchmarks.long_run` adds one drill
after the other; [Drills](guide/drill.md) describes them. With replication each of the two has its own journal,
and a folder of locks as lock manager. In a cluster one node after the other is struck. Runs of different days are of
different versions.
"""


def condensed(run: Run, note: str = "") -> Run:
    """Return what is kept of one run: no roles, and of the producers' times the last."""
    rounds = []
    for turn in run["rounds"]:
        outages = []
        for outage in turn["outages"]:
            kept = {name: outage[name] for name in KEPT_OF_OUTAGES}
            kept |= {name: outage[name] for name in KEPT_OF_CLUSTERS if outage.get(name) is not None}
            outages.append({**kept, "all_confirmed_s": max(outage["producers_s"], default=None)})
        rounds.append({"fault": turn["fault"], "outages": outages})
    told = {name: run[name] for name in KEPT_IF_TOLD if name in run}
    return {"note": note, **told, **{name: run[name] for name in KEPT}, "rounds": rounds}


def named(plan: dict[str, Any]) -> str:
    """Return the brokers of a drill in words."""
    peer, ha, nodes = PEERS[plan["peer"]], plan["ha"], plan.get("nodes", 1)
    if nodes == 1:
        return f"{peer}, {ha}"
    return f"{peer}, cluster of {nodes} " + ("brokers" if ha == "none" else f"pairs, {ha}")


def grouped(runs: Iterable[Run]) -> Groups:
    """Group runs by brokers, in words, and by fault; a run with several faults counts apart. Ours come first."""
    groups: Groups = {}
    for run in sorted(
        runs, key=lambda each: (each["plan"]["peer"] != "embedbroker", each["plan"]["faults"][0] != "kill")
    ):
        plan = run["plan"]
        brokers = ", ".join(filter(None, (named(plan), run["note"])))
        groups.setdefault((brokers, ", ".join(plan["faults"])), []).append(run)
    return groups


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def summed(runs: Iterable[Run], name: str) -> int:
    return sum(int(run[name]) for run in runs)


def struck(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """Return the outages that began with a fault."""
    return [turn["outages"][0] for run in runs for turn in run["rounds"]]


def what_was_lost(groups: Groups) -> list[str]:
    head = ("Brokers", "Fault", "Faults", "Confirmed", "Lost", "Torn", "Branches left", "Twice, unmarked", "Reordered")
    rows = []
    for (brokers, fault), runs in groups.items():
        lost = summed(runs, "lost") + summed(runs, "vanished")
        twice = summed(runs, "duplicated_unflagged") + summed(runs, "reappeared") + summed(runs, "phantom")
        counts = (len(struck(runs)), summed(runs, "confirmed"), lost, summed(runs, "torn_transactions"))
        more = (summed(runs, "branches_left"), twice, summed(runs, "reordered"))
        rows.append((brokers, fault, *(f"{count:,}" for count in (*counts, *more))))
    return table(head, rows)


def what_was_met(groups: Groups) -> list[str]:
    head = ("Brokers", "Fault", "Sends without an answer", "Open transactions", "Faults with prepared branches")
    rows = []
    for (brokers, fault), runs in groups.items():
        outages = struck(runs)
        sends, transactions = (
            sorted(outage[name] for outage in outages) for name in ("unconfirmed_sends", "open_transactions")
        )
        prepared = sum(outage["prepared_branches"] > 0 for outage in outages)
        spans = (f"{each[0]} / {statistics.median(each):g} / {each[-1]}" for each in (sends, transactions))
        rows.append((brokers, fault, *spans, f"{prepared} of {len(outages)}"))
    return table(head, rows)


def how_long(groups: Groups) -> list[str]:
    head = ("Brokers", "After", "Until", "Count", "Min", "Median", "p99", "Max")
    rows = []
    for (brokers, fault), runs in groups.items():
        outages = [outage for run in runs if _is_timed(run) for turn in run["rounds"] for outage in turn["outages"]]
        for after in dict.fromkeys(outage["after"] for outage in outages):
            name = after if after == fault or "," in fault else f"{after} (of {fault})"
            for column, until in UNTIL.items():
                if column in KEPT_OF_CLUSTERS and runs[0]["plan"].get("nodes", 1) == 1:
                    continue
                times = [waited(outage, column) for outage in outages if outage["after"] == after]
                rows.append((brokers, name, until, *spread([time for time in times if time is not None])))
    return table(head, rows)


def _is_timed(run: Run) -> bool:
    return float(run.get("halted_s", 0)) <= HALT_MAX_S


def how_busy(groups: Groups) -> list[str]:
    head = ("Brokers", "Fault", "Drills", "Load average", "Of these, the machine stood still in")
    rows = []
    for (brokers, fault), runs in groups.items():
        loads = sorted(run["load_average"] for run in runs if "load_average" in run)
        load = f"{loads[0]:.1f} / {statistics.median(loads):.1f} / {loads[-1]:.1f}" if loads else "not noted"
        rows.append((brokers, fault, len(runs), load, sum(not _is_timed(run) for run in runs)))
    return table(head, rows)


def waited(outage: dict[str, Any], column: str) -> float | None:
    """Return how long service was away. A frozen broker is live when it goes on, so a freeze counts from its end."""
    time, ended = outage.get(column), outage["serving_s"] if outage["after"] == "freeze" else 0.0
    return None if time is None or ended is None else time - ended


def spread(times: Sequence[float]) -> list[str]:
    ordered = sorted(times)
    if not ordered:
        return ["0", "", "", "", ""]
    p99 = ordered[math.ceil(0.99 * len(ordered)) - 1]
    found = (ordered[0], statistics.median(ordered), p99, ordered[-1])
    return [str(len(ordered)), *(f"{time * 1000:,.0f}" for time in found)]


def objections(runs: Sequence[Run]) -> list[str]:
    found = [
        f"- {named(run['plan'])}, seed {run['plan']['seed']}: {objection}"
        for run in runs
        for objection in run["objections"]
    ]
    passed = sum(run["passed"] for run in runs)
    count = f"{passed} of {len(runs)} drills passed, with messages of {runs[0]['plan']['size_bytes']:,} bytes."
    return [f"{count} What the others object to:", "", *found] if found else [count]


def page_of(runs: Sequence[Run]) -> str:
    """Return the whole page."""
    groups = grouped(runs)
    sections: dict[str, tuple[str, Callable[[Groups], list[str]]]] = {
        "What was lost": (
            "Lost: confirmed, or seen by a consumer, and then never again. Torn: a transaction of which a part "
            "happened.\nBranches left: prepared and never committed, although their producer or consumer went on.",
            what_was_lost,
        ),
        "What the faults met": (
            "A fault that finds nothing under way proves nothing, and fails its drill. Smallest, median and largest "
            "number at\nthe moment of the fault; messages of open transactions count as sends without an answer.",
            what_was_met,
        ),
        "How long clients were not served": (
            "Milliseconds, as clients of `embedclient` saw it with `retryInterval=100`. A kill counts from\n"
            "the signal, a freeze from its end, a failback from the first connection that was lost. Drills in which\n"
            "the whole machine stood still for more than two seconds are left out here, and only here.",
            how_long,
        ),
        "Beside what": (
            "The load average of a minute at the end of each drill, smallest, median and largest, on two processors.\n"
            "A drill alone has about one; the rest was other work, which brokers and clients shared them with.",
            how_busy,
        ),
    }
    lines = [HEAD, *objections(runs)]
    for title, (text, content) in sections.items():
        lines += ["", f"## {title}", "", text, "", *content(groups)]
    return "\n".join(lines) + "\n"


def load() -> list[Run]:
    """Return the runs whose results are kept."""
    runs = json.loads(DATA.read_text(encoding="utf-8"))
    assert isinstance(runs, list)
    return runs


def write(runs: Sequence[Run]) -> None:
    """Write the runs and the page; an interrupted write leaves the earlier files."""
    # A line for each run, so that an added run changes one line.
    text = "[\n" + ",\n".join(json.dumps(run) for run in runs) + "\n]\n"
    for path, content in ((DATA, text), (PAGE, page_of(runs))):
        new = path.with_name(f".{path.name}.new")
        new.write_text(content, encoding="utf-8")
        os.replace(new, path)


def main() -> int:
    """Take in the runs that are named, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability", description=__doc__)
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="RUN.json", help="the output of `embedbroker drill --json`"
    )
    parser.add_argument("--note", default="", help="a few words that stand beside these runs in the tables")
    parser.add_argument("--add", action="store_true", help="keep the runs that are there")
    arguments = parser.parse_args()
    runs = load() if arguments.add or not arguments.runs else []
    runs += [condensed(json.loads(path.read_text(encoding="utf-8")), arguments.note) for path in arguments.runs]
    write(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
