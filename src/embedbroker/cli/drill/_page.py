"""The drill's report as one page that needs nothing from outside: verdict, time line, times without service, rounds.

Responsible for words and layout. Refuses to compute anything that the findings do not hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape

from attrs import frozen

from embedbroker.ledger import TimelineBucket

from ._chart import Band, Lane, Series, Stretch, chart
from ._member import MemberState
from ._plan import Findings
from ._tables import ROUND_HEADINGS, ROUNDS_EXPLAINED, as_json, downtime_rows, plan_text, round_rows, verdict_rows

__all__ = ["STYLE", "page_of"]

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --paper: #ffffff; --soft: #667085; --rule: #e4e7ec;
  --one: #2563eb; --two: #0f9d58; --bad: #d92d20; --warn: #f79009; --shade: #d92d2018; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --paper: #12161d; --soft: #98a2b3; --rule: #2a313c;
  --one: #6ea8fe; --two: #4ade80; --bad: #ff7b72; --warn: #fdb022; --shade: #ff7b7222; } }
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
rect.live, i.live { fill: var(--two); background: var(--two); }
rect.backup, i.backup { fill: var(--one); background: var(--one); }
rect.starting, i.starting { fill: var(--rule); background: var(--rule); }
rect.frozen, i.frozen { fill: var(--warn); background: var(--warn); }
rect.down, i.down { fill: var(--bad); background: var(--bad); }
i { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; }
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
        f"<title>embedbroker drill: {word}</title><style>{STYLE}</style></head><body>",
        f'<h1>Broker drill: <span class="{style}">{word}</span></h1>',
        f'<p class="soft">{escape(plan_text(findings))}</p>',
        *(f'<p class="failed">{escape(objection)}</p>' for objection in findings.objections()),
        "<h2>Time line</h2>",
        _time_line(findings),
        '<p class="soft">A red line is a fault, or a way back; shaded is the time until the first confirmed send.</p>',
        _legend_of_standings(),
        "<h2>Verdict</h2>",
        *_verdict(findings),
        "<h2>Without service, in ms</h2>",
        *_table(("after", "until", "count", "min", "median", "p99", "max"), downtime_rows(findings)),
        "<h2>Rounds</h2>",
        f'<p class="soft">{escape(ROUNDS_EXPLAINED)}</p>',
        *_table(ROUND_HEADINGS, round_rows(findings)),
        # A script that finds this page finds all its figures.
        f'<script type="application/json" id="findings">{_embedded(findings)}</script>',
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


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
            outage.at,
            end_s if outage.first_confirmed_s is None else outage.at + outage.first_confirmed_s,
            f"{number}",
            f"round {number}, {outage.name} at {outage.at:.2f} s: {outage.hit.unconfirmed_sends} unconfirmed sends, "
            f"{outage.hit.transactions} open transactions",
        )
        for number, turn in enumerate(findings.rounds, 1)
        for outage in turn.outages
    ]
    return chart(series, bands, _lanes(findings, end_s), end_s, "messages per second")


def _lanes(findings: Findings, end_s: float) -> list[Lane]:
    """What each broker was, over time."""
    changes: dict[str, list[tuple[float, str]]] = {}
    for change in findings.roles:
        changes.setdefault(change.broker, []).append((change.at, change.standing))
    lanes = []
    for broker, points in changes.items():
        ends = [*(at for at, _ in points[1:]), end_s]
        stretches = [
            Stretch(at, min(end, end_s), standing, f"{broker}: {standing} from {at:.2f} s to {end:.2f} s")
            for (at, standing), end in zip(points, ends, strict=True)
            if at < end_s
        ]
        lanes.append(Lane(broker, stretches))
    return lanes


def _legend_of_standings() -> str:
    names = "".join(f'<i class="{standing.value}"></i>{standing.value}' for standing in MemberState)
    return f'<p class="soft">The bars are the brokers: {names}</p>'


def _verdict(findings: Findings) -> Iterable[str]:
    yield "<table>"
    for name, value, good in verdict_rows(findings.verdict):
        style = "" if good is None else ' class="good"' if good else ' class="bad"'
        yield f"<tr><td>{escape(name)}</td><td{style}>{escape(value)}</td></tr>"
    yield "</table>"


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterable[str]:
    yield "<table><tr>" + "".join(f"<th>{escape(heading)}</th>" for heading in headings) + "</tr>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    yield "</table>"
