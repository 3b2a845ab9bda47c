"""The demo's report as one page that needs nothing from outside: the verdict, the day, the run.

Responsible for words and layout. Refuses to compute anything that the findings do not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from ..drill import STYLE, Band, Lane, MemberState, Series, Stretch, chart
from ._orders import DAY_START_MS, WINDOW_MS, Total
from ._plan import Findings, Moment

__all__ = ["page_of"]

_HOUR_MS = 60 * 60 * 1000


def page_of(findings: Findings, rows: Iterable[tuple[str, str]]) -> str:
    """The page as HTML; ``rows`` are those of the table."""
    passed = not findings.objections
    word, style = ("PASSED", "passed") if passed else ("FAILED", "failed")
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>A day of orders: {word}</title><style>{STYLE}</style></head><body>",
        f'<h1>A day of orders: <span class="{style}">{word}</span></h1>',
        '<p class="soft">A producer, a broker pair and Spark; the live broker was killed in the middle.</p>',
        *(f'<p class="failed">{escape(objection)}</p>' for objection in findings.objections),
        "<h2>The day: orders in ten minutes</h2>",
        _day(findings),
        '<p class="soft">The full line is what was sent, the dashed one what Spark made of it. Shaded is what was '
        "confirmed and not yet read when the live broker died.</p>",
        "<h2>The run: orders per second</h2>",
        _run(findings),
        '<p class="soft">The red line is the kill; shaded is the time until the producer went on. The bars are the '
        f"brokers: {_standings()}</p>",
        "<h2>Figures</h2><table>",
        *(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows),
        "</table><h2>Audit</h2>",
        *(f"<p>{escape(line)}</p>" for line in findings.audited),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _standings() -> str:
    return "".join(f'<i class="{each.value}"></i>{each.value}' for each in MemberState)


def _day(findings: Findings) -> str:
    progress = findings.progress
    series = [
        Series("sent", "one", _orders_by_hour(findings.expected)),
        Series("in Parquet", "two", _orders_by_hour(findings.parquet)),
    ]
    bands = []
    if progress.killed_at is not None:
        start = _hour_of(findings, progress.read_at_kill)
        end = _hour_of(findings, progress.confirmed_at_kill)
        bands.append(Band(start, end, "failover", f"{progress.confirmed_at_kill:,} orders were confirmed"))
    return chart(series, bands, [], 24.0, "orders in ten minutes", x_unit="h")


def _orders_by_hour(totals: Mapping[tuple[int, int], Total]) -> list[tuple[float, float]]:
    sums: dict[int, int] = {}
    for total in totals.values():
        sums[total.window] = sums.get(total.window, 0) + total.orders
    return [((window + WINDOW_MS / 2 - DAY_START_MS) / _HOUR_MS, float(sums[window])) for window in sorted(sums)]


def _hour_of(findings: Findings, count: int) -> float:
    """When the order was made behind which so many had been sent, to the window."""
    before = 0.0
    for hour, orders in _orders_by_hour(findings.expected):
        before += orders
        if before >= count:
            return hour
    return 24.0


def _run(findings: Findings) -> str:
    progress = findings.progress
    moments = [Moment(0.0, 0, 0), *progress.moments]
    series = [
        Series("confirmed", "one", _rates((each.at, each.confirmed) for each in moments)),
        Series("read", "two", _rates((each.at, each.read) for each in moments)),
    ]
    end = progress.ended_at
    bands = []
    if progress.killed_at is not None:
        back = end if progress.producer_gap_s is None else progress.killed_at + progress.producer_gap_s
        bands.append(Band(progress.killed_at, back, "kill -9", f"killed at {progress.killed_at:.1f} s"))
    return chart(series, bands, _lanes(findings), end, "orders per second")


def _rates(points: Iterable[tuple[float, int]]) -> list[tuple[float, float]]:
    """A batch counts when it ends, so its rows are spread over the time since the count before."""
    found: list[tuple[float, float]] = []
    last: tuple[float, int] | None = None
    for at, count in points:
        if last is None:
            last = at, count
        elif count > last[1] and at > last[0]:
            rate = (count - last[1]) / (at - last[0])
            found += [(last[0], rate), (at, rate)]
            last = at, count
    return found


def _lanes(findings: Findings) -> list[Lane]:
    end = findings.progress.ended_at
    changes: dict[str, list[tuple[float, str]]] = {}
    for change in findings.progress.roles:
        changes.setdefault(change.broker, []).append((change.at, change.standing))
    lanes = []
    for broker, points in changes.items():
        ends = [*(at for at, _ in points[1:]), end]
        stretches = [
            Stretch(at, min(until, end), standing, f"{broker}: {standing} from {at:.1f} s to {until:.1f} s")
            for (at, standing), until in zip(points, ends, strict=True)
            if at < min(until, end)
        ]
        lanes.append(Lane(broker, stretches))
    return lanes
