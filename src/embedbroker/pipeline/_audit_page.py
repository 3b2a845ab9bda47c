"""An audit as Parquet and as one page that needs nothing from outside: verdict, tables, what happened over time.

Responsible for words and drawings. Refuses to judge: the audit has done that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from ._audit import Audit
from ._audit_log import LogAudit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["write_audit"]

# Rows of a table on the page; the Parquet files have all of them.
_ROWS_MAX = 1000
_POINTS_MAX = 600
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 1000, 260, 76, 16, 28, 34
_STYLE = """
:root { --ink: #1b2733; --soft: #66788a; --line: #d9e0e7; --good: #1d7a46; --bad: #b3261e; --a: #2563a8; --b: #c2711b; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 1080px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; margin: .5em 0 1.5em; }
th, td { padding: .25em .6em; text-align: left; }
th { border-bottom: 2px solid var(--line); } td { border-bottom: 1px solid var(--line); }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.bad { color: var(--bad); } .good { color: var(--good); }
svg { width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12px; } line.grid { stroke: var(--line); }
polyline { fill: none; stroke-width: 1.6; } .a { stroke: var(--a); } .b { stroke: var(--b); }
p.soft { color: var(--soft); }
"""
_QUEUE_COLUMNS = ("queue", "present", "stored", "acknowledged", "removed_with_queue", "lost", "unaccounted",
                  "acknowledged_twice", "acknowledged_not_stored", "left_behind")  # fmt: skip
_PRODUCER_COLUMNS = ("queue", "producer", "present", "stored", "acknowledged", "removed_with_queue", "lost",
                     "unaccounted", "acknowledged_twice", "out_of_order", "repeated")  # fmt: skip
_LOG_COLUMNS = ("queue", "present", "sent", "confirmed", "delivered", "acknowledged", "rejected", "expired", "removed",
                "read", "outstanding", "never_delivered", "delivered_twice", "never_acknowledged", "delivered_again",
                "not_logged", "p50_ms", "p90_ms", "p99_ms", "max_ms")  # fmt: skip
_BAD = (
    "lost",
    "acknowledged_twice",
    "out_of_order",
    "never_delivered",
    "delivered_twice",
    "never_acknowledged",
    "not_logged",
)
Row = dict[str, Any]


@frozen
class _Line:
    name: str
    style: str
    points: Sequence[tuple[float, float]]


def write_audit(audit: Audit, directory: str | PathLike[str]) -> Path:
    """Write `queues`, `problems`, `transactions`, `traffic` and `segments` as Parquet, and ``report.html``; its path.

    With the properties of producers, `producers`, too; with an audit log, `log_queues`, `log_problems`,
    `log_latencies` and `log_lives`.

    The Parquet folders are written by Spark and may lie on any of its file systems; the page lies where the driver
    runs.

    Raises:
        AnalysisException: one of the folders is there already.
    """
    for name in ("queues", "problems", "transactions", "traffic", "segments"):
        getattr(audit, name).write.parquet(f"{directory}/{name}")
    if audit.producers is not None:
        audit.producers.write.parquet(f"{directory}/producers")
    for name in ("queues", "problems", "latencies", "lives") if audit.log is not None else ():
        getattr(audit.log, name).write.parquet(f"{directory}/log_{name}")
    page = Path(directory) / "report.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(_page(audit), encoding="utf-8")
    return page


def _page(audit: Audit) -> str:
    queues = _rows(audit.queues)
    sound = audit.sound
    verdict = "Nothing is lost, acknowledged twice or damaged" if sound else "Something is wrong"
    parts = [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Journal audit</title><style>{_STYLE}</style>",
        f"<h1>Journal audit</h1><p class='{'good' if sound else 'bad'}'><b>{verdict}</b>, as far as this proves:</p>",
        "<ul>",
        *(f"<li>{escape(text)}</li>" for text in audit.limits()),
        f"</ul><h2>Journals</h2><p>{audit.bytes_read / 2**20:,.1f} MiB of records in "
        f"{sum(len(source.segments) for source in audit.sources):,} segments.</p>",
        *_table(("number", "journal", "segments"), [_source_row(source) for source in audit.sources]),
        *_damage(audit),
        "<h2>Queues</h2>",
        *_table(_QUEUE_COLUMNS, queues),
        *(_producers(audit.producers) if audit.producers is not None else ()),
        "<h2>Over time</h2>",
        *_drawings(_rows(_per_second(audit), _POINTS_MAX * 1000), _rows(_moved(audit), _POINTS_MAX * 1000)),
        *(_log(audit.log) if audit.log is not None else ()),
        "<h2>Transactions that are not over</h2>",
        *_table(("transaction_id", "branch", "state", "sent", "acknowledged"), _rows(audit.transactions)),
        "<h2>Messages</h2>",
        *_table(("queue", "message_id", "verdict"), _rows(audit.problems)),
        "</html>",
    ]
    return "\n".join(parts)


def _producers(producers: DataFrame) -> Iterator[str]:
    yield "<h2>Producers</h2>"
    yield from _table(_PRODUCER_COLUMNS, _rows(producers))


def _log(log: LogAudit) -> Iterator[str]:
    """What the audit logs say."""
    yield "<h2>Confirmed, delivered, acknowledged: the audit logs</h2>"
    yield from _table(
        ("broker", "life", "ended", "log"), _rows(log.lives.withColumn("ended", log.lives.ended.cast("string")))
    )
    yield from _table(_LOG_COLUMNS, _rows(log.queues))
    yield from _latency_drawing(
        _rows(log.latencies.groupBy("milliseconds").sum("messages").orderBy("milliseconds"), _POINTS_MAX * 1000)
    )
    yield "<h3>Messages</h3>"
    yield from _table(("queue", "message_id", "verdict"), _rows(log.problems))


def _latency_drawing(rows: Sequence[Row]) -> Iterator[str]:
    """Which share of the messages was acknowledged how soon after it was sent."""
    total = sum(row["sum(messages)"] for row in rows)
    every = max(1, len(rows) // _POINTS_MAX)
    points, done = [(0.0, 0.0)], 0
    for number, row in enumerate(rows):
        done += row["sum(messages)"]
        if number % every == 0 or number == len(rows) - 1:
            points.append((row["milliseconds"] / 1000, 100 * done / total))
    if len(points) > 1:
        yield from _drawing("percent of messages acknowledged within", [_Line("all queues", "a", points)])


def _rows(frame: Any, limit: int = _ROWS_MAX) -> list[Row]:
    return [row.asDict() for row in frame.limit(limit).collect()]


def _source_row(source: Any) -> Row:
    return {"number": source.number, "journal": source.name, "segments": len(source.segments)}


def _damage(audit: Audit) -> Iterator[str]:
    rows = [
        {"journal": each.source, "offset": each.offset, "found": each.text, "torn tail": "yes" if each.torn else ""}
        for each in audit.findings
    ]
    yield "<h2>Damage</h2>"
    yield from _table(("journal", "offset", "found", "torn tail"), rows)


def _table(columns: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        yield "<p class='soft'>None.</p>"
        return
    yield "<table><tr>" + "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in columns) + "</tr>"
    for row in rows:
        yield "<tr>" + "".join(_cell(name, row[name]) for name in columns) + "</tr>"
    yield "</table>"
    if len(rows) == _ROWS_MAX:
        yield f"<p class='soft'>The first {_ROWS_MAX:,}; the Parquet files have all.</p>"


def _cell(name: str, value: object) -> str:
    if isinstance(value, float):
        return f"<td class='number'>{value:,.0f}</td>"
    if isinstance(value, int):
        bad = " bad" if value and name in _BAD else ""
        return f"<td class='number{bad}'>{value:,}</td>"
    return f"<td>{escape('' if value is None else str(value))}</td>"


def _per_second(audit: Audit) -> Any:
    return audit.traffic.groupBy("second").sum("messages", "acknowledgements").orderBy("second")


def _moved(audit: Audit) -> Any:
    return audit.backlog.groupBy("second").sum("came", "went").orderBy("second")


def _drawings(rows: Sequence[Row], moved: Sequence[Row]) -> Iterator[str]:
    """The records in each stretch of time, and how many messages were there; `moved` has those that count."""
    if not rows:
        yield "<p class='soft'>Nothing happened.</p>"
        return
    first, last = rows[0]["second"], rows[-1]["second"]
    width = max(1, math.ceil((last - first + 1) / _POINTS_MAX))
    sums: dict[int, list[int]] = {at: [0, 0] for at in range((last - first) // width + 1)}
    for row in rows:
        entry = sums[(row["second"] - first) // width]
        entry[0] += row["sum(messages)"]
        entry[1] += row["sum(acknowledgements)"]
    stored = [(at * width, each[0] / width) for at, each in sums.items()]
    gone = [(at * width, each[1] / width) for at, each in sums.items()]
    changes: dict[int, int] = dict.fromkeys(sums, 0)
    for row in moved:
        changes[(row["second"] - first) // width] += row["sum(came)"] - row["sum(went)"]
    left, backlog = 0, []
    for at, change in changes.items():
        left += change
        # Two brokers have two clocks: an acknowledgement may be older than its message.
        backlog.append((at * width, float(max(left, 0))))
    yield from _drawing("records per second", [_Line("messages", "a", stored), _Line("acknowledgements", "b", gone)])
    yield from _drawing(f"messages present, {left:,} at the end", [_Line("present", "a", backlog)])
    yield (
        "<p class='soft'>The second drawing counts messages whose records were read. Those that compaction took are "
        "not in it, nor are their acknowledgements.</p>"
    )


def _drawing(unit: str, lines: Sequence[_Line]) -> Iterator[str]:
    end = max(max(x for x, _ in line.points) for line in lines) or 1
    low = min(0.0, min(y for line in lines for _, y in line.points))
    step = _round_step((max(1.0, max(y for line in lines for _, y in line.points)) - low) / 5)
    low, high = math.floor(low / step) * step, 0.0
    high = max(step, math.ceil(max(y for line in lines for _, y in line.points) / step) * step)

    def x_of(value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / end

    def y_of(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (value - low) / (high - low)

    yield f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(unit)}">'
    for number in range(round((high - low) / step) + 1):
        y = y_of(low + number * step)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{low + number * step:,g}</text>'
    for at in _ticks(end):
        yield f'<text x="{x_of(at):.1f}" y="{_HEIGHT - 12}" text-anchor="middle">{at:g} s</text>'
    for line in lines:
        points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in line.points)
        yield f'<polyline class="{line.style}" points="{points}"/>'
    yield f'<text x="{_LEFT}" y="16">{escape(unit)}</text>'
    for number, line in enumerate(lines):
        x = _WIDTH - _RIGHT - 150 * (len(lines) - number)
        yield f'<line class="{line.style}" x1="{x}" y1="12" x2="{x + 24}" y2="12"/>'
        yield f'<text x="{x + 30}" y="16">{line.name}</text>'
    yield "</svg>"


def _ticks(end: float) -> Iterable[float]:
    step = _round_step(end / 10)
    return (number * step for number in range(int(end / step) + 1))


def _round_step(rough: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= rough * 0.999)
