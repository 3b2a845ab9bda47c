"""The drill's report as one page that needs nothing from outside: verdict, time line, kills.

Responsible for words and layout. Refuses to compute anything that the findings do not hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape

from attrs import frozen

from embedbroker.ledger import TimelineBucket

from ._chart import Band, Series, chart
from ._plan import Findings
from ._tables import as_json, verdict_rows

__all__ = ["page_of"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --paper: #ffffff; --soft: #667085; --rule: #e4e7ec;
  --one: #2563eb; --two: #0f9d58; --bad: #d92d20; --shade: #d92d2018; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --paper: #12161d; --soft: #98a2b3; --rule: #2a313c;
  --one: #6ea8fe; --two: #4ade80; --bad: #ff7b72; --shade: #ff7b7222; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 1040px; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); }
.passed { color: var(--two); } .failed { color: var(--bad); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { border-bottom: 1px solid var(--rule); padding: .25rem .9rem .25rem 0; text-align: right; font-weight: normal; }
th { color: var(--soft); } td:first-child, th:first-child { text-align: left; }
td.good { color: var(--two); } td.bad { color: var(--bad); font-weight: bold; }
svg { width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--rule); } .outage { fill: var(--shade); }
line.kill { stroke: var(--bad); stroke-width: 1.5; } svg text.kill { fill: var(--bad); }
.one, .two { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .one { stroke: var(--one); }
.two { stroke: var(--two); stroke-dasharray: 6 3; }
"""


@frozen
class _Line:
    name: str
    style: str
    of: str


_LINES = (_Line("confirmed", "one", "confirmed"), _Line("delivered", "two", "delivered"))


def page_of(findings: Findings) -> str:
    """The page as HTML."""
    passed = not findings.objections()
    word, style = ("PASSED", "passed") if passed else ("FAILED", "failed")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>embedbroker drill: {word}</title><style>{_STYLE}</style></head><body>",
        f'<h1>Broker drill: <span class="{style}">{word}</span></h1>',
        f'<p class="soft">{escape(_plan_text(findings))}</p>',
        *(f'<p class="failed">{escape(objection)}</p>' for objection in findings.objections()),
        "<h2>Time line</h2>",
        _time_line(findings),
        '<p class="soft">A red line is a SIGKILL; shaded is the time until the next delivery.</p>',
        "<h2>Verdict</h2>",
        *_verdict(findings),
        "<h2>Kills</h2>",
        *_kills(findings),
        # A script that finds this page finds all its figures.
        f'<script type="application/json" id="findings">{_embedded(findings)}</script>',
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _plan_text(findings: Findings) -> str:
    plan = findings.plan
    return (
        f"{plan.producers} producers and {plan.consumers} consumers, half of them in transactions; durable messages of "
        f"{plan.size_bytes:,} bytes; {findings.load_s:.1f} s of load and {findings.drain_s:.1f} s to drain the queue; "
        f"seed {plan.seed}"
    )


def _embedded(findings: Findings) -> str:
    return json.dumps(as_json(findings)).replace("<", "\\u003c")


def _time_line(findings: Findings) -> str:
    timeline = findings.timeline
    last = max(timeline.buckets, default=0)
    nothing = TimelineBucket(0, 0, 0, 0)
    series = []
    for line in _LINES:
        points = []
        for slot in range(last + 1):
            count: int = getattr(timeline.buckets.get(slot, nothing), line.of)
            points.append(((slot + 0.5) * timeline.bucket_s, count / timeline.bucket_s))
        series.append(Series(line.name, line.style, points))
    end_s = (last + 1) * timeline.bucket_s
    bands = [
        Band(
            kill.at,
            end_s if kill.next_delivery_at is None else kill.next_delivery_at,
            f"{number}",
            f"kill {number} at {kill.at:.2f} s: {kill.unconfirmed_sends} unconfirmed sends, "
            f"{record.transactions} open transactions",
        )
        for number, (record, kill) in enumerate(zip(findings.kills, findings.verdict.kills, strict=True), 1)
    ]
    return chart(series, bands, end_s, "messages per second")


def _verdict(findings: Findings) -> Iterable[str]:
    yield "<table>"
    for name, value, good in verdict_rows(findings.verdict):
        style = "" if good is None else ' class="good"' if good else ' class="bad"'
        yield f"<tr><td>{escape(name)}</td><td{style}>{escape(value)}</td></tr>"
    yield "</table>"


def _kills(findings: Findings) -> Iterable[str]:
    yield "<table><tr><th>kill</th><th>at</th><th>unconfirmed sends</th><th>open transactions</th>"
    yield "<th>of them with their commit asked for</th><th>queued</th><th>serving again</th><th>next delivery</th></tr>"
    for number, (record, kill) in enumerate(zip(findings.kills, findings.verdict.kills, strict=True), 1):
        cells = (
            f"{kill.at:.2f} s",
            f"{kill.unconfirmed_sends}",
            f"{record.transactions}",
            f"{record.asked_commits}",
            f"{record.backlog:,}",
            _after(kill.at, kill.restarted_at),
            _after(kill.at, kill.next_delivery_at),
        )
        yield f"<tr><td>{number}</td>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    yield "</table>"


def _after(start: float, end: float | None) -> str:
    return "never" if end is None else f"{(end - start) * 1000:,.0f} ms"
