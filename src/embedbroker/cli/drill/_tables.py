"""What a drill says in text: the line while it runs, the tables at its end, and the same as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from embedbroker.ledger import Verdict

from ._plan import Findings, KillRecord
from ._stage import Stage

__all__ = ["as_json", "progress_line", "verdict_rows", "verdict_tables"]

_NONE = "none"
_GAP = Text("  ", no_wrap=True)
_LEFT_OUT_FIRST = ("queued", "phase", "consumed", "confirmed")
_COUNTED = (
    *("lost", "vanished", "torn_transactions"),
    *("duplicated_unflagged", "reappeared", "reordered", "phantom", "misrouted", "late"),
    *("in_doubt", "resent", "resend_duplicates"),
    *("redelivered", "duplicated_flagged", "redelivered_after_restart", "returned"),
)


def progress_line(stage: Stage, kills: Sequence[KillRecord], columns: int | None = None) -> Text:
    """One line of progress. Where it has few columns, whole parts are left out; time and kills never are."""
    parts = {
        "time": (f"{stage.now():6.1f} s", "bold"),
        "phase": (f"{'load' if stage.sending else 'drain':5}", "bold"),
        "confirmed": (f"confirmed {stage.messages_confirmed:,}", "default"),
        "consumed": (f"consumed {stage.messages_consumed:,}", "default"),
        "queued": (f"queued {max(0, stage.backlog):,}", "default"),
        "kills": (f"kills {len(kills)}/{stage.plan.kills}", "red"),
    }
    line = _GAP.join(Text(text, style) for text, style in parts.values())
    for name in _LEFT_OUT_FIRST:
        if columns is None or line.cell_len <= columns:
            break
        del parts[name]
        line = _GAP.join(Text(text, style) for text, style in parts.values())
    return line


def verdict_rows(verdict: Verdict) -> list[tuple[str, str, bool | None]]:
    """Name, value, and whether the value is as it must be (None: it need not be anything)."""
    again_flagged = verdict.redelivered.count + verdict.duplicated_flagged.count
    times = verdict.recovery_s
    recovery = _NONE if times is None else " / ".join(f"{seconds * 1000:,.0f}" for seconds in times) + " ms"

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
        fact("acknowledged, the answer lost with a kill", verdict.acknowledgements_in_doubt),
        fault("lost: confirmed, never delivered", verdict.lost.count),
        fault("vanished: delivered, not acknowledged, gone", verdict.vanished.count),
        fault("transactions torn apart", verdict.torn_transactions.count),
        fault("duplicated, not marked as redelivered", verdict.duplicated_unflagged.count),
        fault("back after a confirmed acknowledgement", verdict.reappeared.count),
        fault("reordered", verdict.reordered.count),
        fault("refused, rolled back or never sent, but delivered", verdict.phantom.count),
        fact("duplicated, marked as redelivered", again_flagged),
        fact("delivered again after a kill, the mark lost with it", verdict.redelivered_after_restart.count),
        fact("copies that exist because a send in doubt was repeated", verdict.resend_duplicates.count),
        fact("dead letters", verdict.dead_lettered),
        ("from kill to next delivery: min / median / max", recovery, None),
    ]


def verdict_tables(findings: Findings) -> list[Table]:
    """The verdict, and what each kill met."""
    plan = findings.plan
    title = (
        f"{plan.producers} producers, {plan.consumers} consumers, {plan.size_bytes:,} bytes, "
        f"{findings.load_s:.1f} s of load, {findings.drain_s:.1f} s to drain, seed {plan.seed}"
    )
    verdict = Table(title=title, title_justify="left", show_header=False)
    for name, value, good in verdict_rows(findings.verdict):
        style = "" if good is None else "green" if good else "bold red"
        verdict.add_row(name, Text(value, style=style, justify="right"))
    kills = Table(title="Kills", title_justify="left")
    for heading in ("at", "unconfirmed sends", "open transactions", "queued", "serving again", "next delivery"):
        kills.add_column(heading, justify="right")
    for record, kill in zip(findings.kills, findings.verdict.kills, strict=True):
        kills.add_row(
            f"{kill.at:.2f} s",
            str(kill.unconfirmed_sends),
            str(record.transactions),
            f"{record.backlog:,}",
            _after(kill.at, kill.restarted_at),
            _after(kill.at, kill.next_delivery_at),
        )
    return [verdict, kills]


def _after(start: float, end: float | None) -> str:
    return "never" if end is None else f"{(end - start) * 1000:,.0f} ms"


def as_json(findings: Findings) -> dict[str, object]:
    """All figures, for scripts."""
    verdict, plan = findings.verdict, findings.plan
    times = verdict.recovery_s
    counted = {name: getattr(verdict, name).count for name in _COUNTED}
    return {
        "passed": not findings.objections(),
        "objections": findings.objections(),
        "plan": {
            "seconds": plan.seconds,
            "producers": plan.producers,
            "consumers": plan.consumers,
            "size_bytes": plan.size_bytes,
            "kills": plan.kills,
            "seed": plan.seed,
        },
        "load_s": round(findings.load_s, 3),
        "drain_s": round(findings.drain_s, 3),
        "sent": verdict.sent,
        "confirmed": verdict.confirmed,
        "delivered": verdict.delivered,
        "acknowledged": verdict.acknowledged,
        "dead_lettered": verdict.dead_lettered,
        "swept": findings.swept,
        **counted,
        "kill_to_delivery_s": None if times is None else dict(zip(("min", "median", "max"), times, strict=True)),
        "kills": [
            {
                "at": round(kill.at, 3),
                "unconfirmed_sends": kill.unconfirmed_sends,
                "open_transactions": record.transactions,
                "sends_waiting_outside_transactions": record.waiting_sends,
                "transactions_before_their_commit": record.open_transactions,
                "commits_without_answer": record.asked_commits,
                "restarted_s": None if kill.restarted_at is None else round(kill.restarted_at - kill.at, 3),
                "next_delivery_s": None if kill.recovery_s is None else round(kill.recovery_s, 3),
            }
            for record, kill in zip(findings.kills, verdict.kills, strict=True)
        ],
    }
