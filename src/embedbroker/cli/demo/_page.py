"""The demo's report as one page without external resources: the verdict, the day, the run.

Responsible for the values of the template `demo.html`, all of which come from the findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from embedbroker.report import Band, Chart, Series, lanes_of, page

from ..drill import MemberState
from ._orders import DAY_START_MS, WINDOW_MS, Total
from ._plan import Findings, Moment

__all__ = ["page_of"]

_HOUR_MS = 60 * 60 * 1000


def page_of(findings: Findings, rows: Iterable[tuple[str, str]]) -> str:
    """Return the page as HTML; `rows` are those of the table."""
    return page(
        "demo.html",
        objections=findings.objections,
        day=_day(findings),
        run=_run(findings),
        states=[each.value for each in MemberState],
        rows=rows,
        audited=findings.audited,
    )


def _day(findings: Findings) -> Chart:
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
    return Chart("orders in ten minutes", 24.0, series, bands, x_unit="h")


def _orders_by_hour(totals: Mapping[tuple[int, int], Total]) -> list[tuple[float, float]]:
    sums: dict[int, int] = {}
    for total in totals.values():
        sums[total.window] = sums.get(total.window, 0) + total.orders
    return [((window + WINDOW_MS / 2 - DAY_START_MS) / _HOUR_MS, float(sums[window])) for window in sorted(sums)]


def _hour_of(findings: Findings, count: int) -> float:
    """Return the hour at which the order number ``count`` was made, to the precision of a window."""
    before = 0.0
    for hour, orders in _orders_by_hour(findings.expected):
        before += orders
        if before >= count:
            return hour
    return 24.0


def _run(findings: Findings) -> Chart:
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
    roles = [(change.at, change.broker, change.standing) for change in progress.roles]
    return Chart("orders per second", end, series, bands, lanes_of(roles, end, 1))


def _rates(points: Iterable[tuple[float, int]]) -> list[tuple[float, float]]:
    """Return rates over time.

    A batch counts when it ends, so its rows are spread over the time since the count before.
    """
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
