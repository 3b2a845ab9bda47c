"""A drill's text output: the line while it runs, the tables at its end, and the same as JSON."""

from __future__ import annotations

from collections.abc import Callable

from attrs import asdict
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from embedbroker.ledger import Verdict

from ._figures import milliseconds
from ._plan import DrillPlan, Findings, Ha, Hit, OutageRecord, Round
from ._run import Run

__all__ = [
    "NODE_HEADINGS",
    "ROUNDS_EXPLAINED",
    "as_json",
    "downtime_rows",
    "node_rows",
    "plan_text",
    "progress_line",
    "round_headings",
    "round_rows",
    "verdict_rows",
    "verdict_tables",
]

_GAP = Text("  ", no_wrap=True)
_LEFT_OUT_FIRST = ("queued", "phase", "consumed", "confirmed")
_COUNTED = (
    *("lost", "vanished", "torn_transactions"),
    *("duplicated_unflagged", "reappeared", "reordered", "phantom", "misrouted", "late"),
    *("in_doubt", "resent", "resend_duplicates"),
    *("redelivered", "duplicated_flagged", "redelivered_after_restart", "returned", "moved"),
)


def progress_line(run: Run, columns: int | None = None) -> Text:
    """Return one line of progress. With few columns, whole parts are left out; time and rounds never are."""
    parts = {
        "time": (f"{run.now():6.1f} s", "bold"),
        "phase": (f"{'load' if run.sending else 'drain':5}", "bold"),
        "confirmed": (f"confirmed {run.messages_confirmed:,}", "default"),
        "consumed": (f"consumed {run.messages_consumed:,}", "default"),
        "queued": (f"queued {max(0, run.backlog):,}", "default"),
        "rounds": (f"rounds {len(run.rounds)}/{run.plan.rounds}", "red"),
    }
    line = _GAP.join(Text(text, style) for text, style in parts.values())
    for name in _LEFT_OUT_FIRST:
        if columns is None or line.cell_len <= columns:
            break
        del parts[name]
        line = _GAP.join(Text(text, style) for text, style in parts.values())
    return line


def verdict_rows(verdict: Verdict) -> list[tuple[str, str, bool | None]]:
    """Return name, value, and whether the value is as it must be (None: any value is allowed)."""
    again_flagged = verdict.redelivered.count + verdict.duplicated_flagged.count

    def fault(name: str, count: int) -> tuple[str, str, bool | None]:
        return (name, f"{count:,}", count == 0)

    def fact(name: str, count: int) -> tuple[str, str, bool | None]:
        return (name, f"{count:,}", None)

    return [
        fact("sent", verdict.sent),
        fact("confirmed by the broker", verdict.confirmed),
        fact("in doubt at some time, sent again", verdict.resent.count),
        fact("delivered", verdict.delivered),
        fact("acknowledged", verdict.acknowledged),
        fact("acknowledged, the answer lost with a fault", verdict.acknowledgements_in_doubt),
        fault("lost: confirmed, never delivered", verdict.lost.count),
        fault("vanished: delivered, not acknowledged, gone", verdict.vanished.count),
        fault("transactions torn apart", verdict.torn_transactions.count),
        fault("duplicated, not marked as redelivered", verdict.duplicated_unflagged.count),
        fault("back after a confirmed acknowledgement", verdict.reappeared.count),
        fault("reordered", verdict.reordered.count),
        fault("refused, rolled back or never sent, but delivered", verdict.phantom.count),
        fact("duplicated, marked as redelivered", again_flagged),
        fact("delivered again after a fault, the mark lost with it", verdict.redelivered_after_restart.count),
        fact("delivered again at another node, where the mark does not go", verdict.moved.count),
        fact("copies that exist because a send in doubt was repeated", verdict.resend_duplicates.count),
        fact("dead letters", verdict.dead_lettered),
    ]


def plan_text(findings: Findings) -> str:
    """Return a sentence about what was done."""
    plan = findings.plan
    whose = "embedbroker" if plan.peer.value == "embedbroker" else "Artemis"
    each = ""
    if plan.nodes > 1:
        kind = "brokers" if plan.ha is Ha.NONE else f"pairs of brokers, {plan.ha.value}"
        what, each = f"a cluster of {plan.nodes} {whose} {kind}", " at each node"
    else:
        what = f"one {whose} broker" if plan.ha is Ha.NONE else f"two {whose} brokers, {plan.ha.value}"
    faults = ", ".join(fault.value for fault in plan.faults)
    return (
        f"{what}; {plan.rounds} rounds of {faults}; {plan.producers} producers and {plan.consumers} consumers{each}, "
        f"a third each in transactions and in XA branches; durable messages of {plan.size_bytes:,} bytes; "
        f"{findings.load_s:.1f} s of load and {findings.drain_s:.1f} s to drain the queue; seed {plan.seed}"
    )


def verdict_tables(findings: Findings) -> list[Table]:
    """Return tables with the verdict, the times without service, and what each fault met."""
    verdict = Table(title=plan_text(findings), title_justify="left", show_header=False)
    for name, value, good in verdict_rows(findings.verdict):
        style = "" if good is None else "green" if good else "bold red"
        verdict.add_row(name, Text(value, style=style, justify="right"))
    times = Table(title="Without service, in ms", title_justify="left")
    for heading in ("after", "until", "count", "min", "median", "p99", "max"):
        times.add_column(heading, justify="left" if heading in ("after", "until") else "right")
    for cells in downtime_rows(findings):
        times.add_row(*cells)
    rounds = Table(
        title="Rounds",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=0,  # fits into 80 columns
        caption=ROUNDS_EXPLAINED,
        caption_justify="left",
    )
    for heading in round_headings(findings):
        rounds.add_column(heading, justify="right")
    for cells in round_rows(findings):
        rounds.add_row(*cells)
    return [verdict, *_nodes_tables(findings), times, rounds]


def _nodes_tables(findings: Findings) -> list[Table]:
    """Return a table with what each node did; none for a drill of one node."""
    if not findings.nodes:
        return []
    nodes = Table(title="Nodes", title_justify="left")
    for heading in NODE_HEADINGS:
        nodes.add_column(heading, justify="left" if heading == "node" else "right")
    for cells in node_rows(findings):
        nodes.add_row(*cells)
    return [nodes]


NODE_HEADINGS = ("node", "faults", "confirmed", "delivered", "of these from other nodes")
_UNTIL = {
    "first_confirmed": "first confirmed send",
    "producers": "the same for each producer",
    "first_delivery": "first delivery",
    "joined": "messages go to the node and from it",
    "serving": "broker reports that it serves",
}
ROUNDS_EXPLAINED = (
    "sends, trans., prep.: sends without a confirmation, transactions that were open, and prepared branches, "
    "at the fault; ms until a broker reported its service, the first confirmed send, that of all producers, a delivery"
    ", and in a cluster until messages went to the node and from it"
)


def node_rows(findings: Findings) -> list[tuple[str, ...]]:
    """Return a row for each node of a cluster; see `NODE_HEADINGS`."""
    return [
        (node.name, *(f"{count:,}" for count in (node.faults, node.confirmed, node.delivered, node.arrived)))
        for node in findings.nodes
    ]


def downtime_rows(findings: Findings) -> list[tuple[str, ...]]:
    """Return rows with the beginning and the end of each kind of outage, their number, and the spread in ms."""
    return [
        (
            name,
            _UNTIL[column],
            str(spread.count),
            *map(milliseconds, (spread.min, spread.median, spread.p99, spread.max)),
        )
        for name, columns in findings.downtimes().items()
        for column, spread in columns.items()
    ]


#: A line for each outage of 80 columns: with the columns of a cluster others have no room.
_OF_ONE_NODE = ("queued", "serving")
_OF_A_CLUSTER = ("node", "joined")


def round_headings(findings: Findings) -> tuple[str, ...]:
    """Return the headings of `round_rows`."""
    left_out = _OF_ONE_NODE if findings.nodes else _OF_A_CLUSTER
    return tuple(heading for heading in _ROUND_COLUMNS if heading not in left_out)


def round_rows(findings: Findings) -> list[tuple[str, ...]]:
    """Return a row for each outage; see `round_headings`."""
    columns = [_ROUND_COLUMNS[heading] for heading in round_headings(findings)]
    return [
        tuple(text_of(number, turn, outage) for text_of in columns)
        for number, turn in enumerate(findings.rounds, 1)
        for outage in turn.outages
    ]


_ROUND_COLUMNS: dict[str, Callable[[int, Round, OutageRecord], str]] = {
    "round": lambda number, _turn, _outage: str(number),
    "node": lambda _number, turn, _outage: turn.node,
    "after": lambda _number, _turn, outage: outage.name,
    "at": lambda _number, _turn, outage: f"{outage.at:.1f} s",
    "sends": lambda _number, _turn, outage: str(outage.hit.unconfirmed_sends),
    "trans.": lambda _number, _turn, outage: str(outage.hit.transactions),
    "prep.": lambda _number, _turn, outage: str(outage.hit.prepared_branches),
    "queued": lambda _number, _turn, outage: f"{outage.hit.backlog:,}",
    "serving": lambda _number, _turn, outage: milliseconds(outage.serving_s, "-"),
    "first": lambda _number, _turn, outage: milliseconds(outage.first_confirmed_s),
    "all": lambda _number, _turn, outage: milliseconds(outage.all_confirmed_s),
    "delivery": lambda _number, _turn, outage: milliseconds(outage.first_delivery_s),
    "joined": lambda _number, _turn, outage: milliseconds(outage.joined_s),
}


def as_json(findings: Findings) -> dict[str, object]:
    """Return all figures, for scripts. Times are seconds, those of an outage since its beginning."""
    verdict = findings.verdict
    return {
        "passed": not findings.objections() and not findings.interrupted,
        "interrupted": findings.interrupted,
        "objections": findings.objections(),
        "plan": _plan_json(findings.plan),
        "load_s": round(findings.load_s, 3),
        "drain_s": round(findings.drain_s, 3),
        "sent": verdict.sent,
        "confirmed": verdict.confirmed,
        "delivered": verdict.delivered,
        "acknowledged": verdict.acknowledged,
        "dead_lettered": verdict.dead_lettered,
        "swept": findings.swept,
        "branches_left": findings.branches_left,
        **{name: getattr(verdict, name).count for name in _COUNTED},
        "downtime_s": {
            name: {column: spread.as_json() for column, spread in columns.items()}
            for name, columns in findings.downtimes().items()
        },
        "rounds": [
            {"fault": turn.fault.value, "node": turn.node, "outages": [_outage_json(outage) for outage in turn.outages]}
            for turn in findings.rounds
        ],
        "nodes": [asdict(node) for node in findings.nodes],
        "roles": [[round(change.at, 3), change.broker, change.standing] for change in findings.roles],
    }


def _plan_json(plan: DrillPlan) -> dict[str, object]:
    return {
        "peer": plan.peer.value,
        "nodes": plan.nodes,
        "ha": plan.ha.value,
        "faults": [fault.value for fault in plan.faults],
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "fault_s": plan.fault_s,
        "producers": plan.producers,
        "consumers": plan.consumers,
        "size_bytes": plan.size_bytes,
        "seed": plan.seed,
    }


def _outage_json(outage: OutageRecord) -> dict[str, object]:
    return {
        "after": outage.name,
        "at": round(outage.at, 3),
        **_hit_json(outage.hit),
        "serving_s": _rounded(outage.serving_s),
        "first_confirmed_s": _rounded(outage.first_confirmed_s),
        "first_delivery_s": _rounded(outage.first_delivery_s),
        "joined_s": _rounded(outage.joined_s),
        "producers_s": [_rounded(time) for time in outage.producers_s],
    }


def _hit_json(hit: Hit) -> dict[str, int]:
    return {
        "unconfirmed_sends": hit.unconfirmed_sends,
        "open_transactions": hit.transactions,
        "sends_waiting_outside_transactions": hit.waiting_sends,
        "transactions_before_their_commit": hit.open_transactions,
        "commits_without_answer": hit.requested_commits,
        "prepared_branches": hit.prepared_branches,
    }


def _rounded(time: float | None) -> float | None:
    return None if time is None else round(time, 4)
