"""The drill's report as one page without external resources: verdict, time line, times without service, rounds.

Responsible for the values of the template `drill.html`, all of which come from the findings.
"""

from __future__ import annotations

import json

from attrs import frozen

from embedbroker.ledger import TimelineBucket
from embedbroker.report import Band, Chart, Series, lanes_of, page

from ._member import MemberState
from ._plan import Findings, OutageRecord, Round
from ._tables import (
    NODE_HEADINGS,
    ROUNDS_EXPLAINED,
    as_json,
    downtime_rows,
    node_rows,
    plan_text,
    round_headings,
    round_rows,
    verdict_rows,
)

__all__ = ["page_of"]


@frozen
class _Line:
    name: str
    style: str
    of: str


_LINES = (_Line("confirmed", "one", "confirmed"), _Line("delivered", "two", "delivered"))


def page_of(findings: Findings) -> str:
    """Return the page as HTML."""
    return page(
        "drill.html",
        objections=findings.objections(),
        plan=plan_text(findings),
        chart=_time_line(findings),
        states=[each.value for each in MemberState],
        verdict=verdict_rows(findings.verdict),
        downtime=downtime_rows(findings),
        explained=ROUNDS_EXPLAINED,
        headings=round_headings(findings),
        node_headings=NODE_HEADINGS,
        nodes=node_rows(findings),
        word=_word(findings),
        rounds=round_rows(findings),
        findings=json.dumps(as_json(findings)).replace("<", "\\u003c"),
    )


def _word(findings: Findings) -> str:
    if findings.objections():
        return "FAILED"
    return "INTERRUPTED" if findings.interrupted else "PASSED"


def _time_line(findings: Findings) -> Chart:
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
        _band(number, turn, outage, end_s) for number, turn in enumerate(findings.rounds, 1) for outage in turn.outages
    ]
    roles = [(change.at, change.broker, change.standing) for change in findings.roles]
    return Chart("messages per second", end_s, series, bands, lanes_of(roles, end_s, 2))


def _band(number: int, turn: Round, outage: OutageRecord, end_s: float) -> Band:
    of_node = f" of {turn.node}" if turn.node else ""
    return Band(
        outage.at,
        end_s if outage.first_confirmed_s is None else outage.at + outage.first_confirmed_s,
        f"{number} {turn.node}".rstrip(),
        f"round {number}, {outage.name}{of_node} at {outage.at:.2f} s: "
        f"{outage.hit.unconfirmed_sends} unconfirmed sends, {outage.hit.transactions} open transactions",
    )
