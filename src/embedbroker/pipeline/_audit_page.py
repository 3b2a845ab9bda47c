"""An audit as Parquet and as one self-contained page: verdict, tables, events over time.

Responsible for the Parquet files and the values of the template `audit.html`. The audit has judged before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedbroker.report import Chart, Series, page

from ._audit import Audit
from ._audit_log import LogAudit

if TYPE_CHECKING:
    pass

__all__ = ["charts_of", "write_audit"]

# Rows of a table on the page; the Parquet files have all of them.
_ROWS_MAX = 1000
_POINTS_MAX = 600
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


def write_audit(audit: Audit, directory: str | PathLike[str]) -> Path:
    """Write an audit as Parquet folders and a page; return the path of the page.

    The folders are `queues`, `problems`, `transactions`, `traffic` and `segments`, the page is ``report.html``. With
    the properties of producers there is also `producers`; with an audit log `log_queues`, `log_problems`,
    `log_latencies` and `log_lives`.

    Spark writes the Parquet folders, which may lie on any of its file systems; the page lies on the driver's file
    system.

    Args:
        audit: the result of `audit`.
        directory: the new folder; one with an earlier audit is refused.

    Raises:
        AnalysisException: one of the folders exists already.
    """
    for name in ("queues", "problems", "transactions", "traffic", "segments"):
        getattr(audit, name).write.parquet(f"{directory}/{name}")
    if audit.producers is not None:
        audit.producers.write.parquet(f"{directory}/producers")
    for name in ("queues", "problems", "latencies", "lives") if audit.log is not None else ():
        getattr(audit.log, name).write.parquet(f"{directory}/log_{name}")
    path = Path(directory) / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_page(audit), encoding="utf-8")
    return path


def _page(audit: Audit) -> str:
    return page(
        "audit.html",
        sound=audit.sound,
        limits=audit.limits(),
        mebibytes=audit.bytes_read / 2**20,
        segments=sum(len(source.segments) for source in audit.sources),
        journals=[_source_row(source) for source in audit.sources],
        damage=[
            {"journal": each.source, "offset": each.offset, "found": each.text, "torn tail": "yes" if each.torn else ""}
            for each in audit.findings
        ],
        queue_columns=_QUEUE_COLUMNS,
        queues=_rows(audit.queues),
        producer_columns=_PRODUCER_COLUMNS,
        producers=None if audit.producers is None else _rows(audit.producers),
        charts=charts_of(_rows(_per_second(audit), _POINTS_MAX * 1000), _rows(_moved(audit), _POINTS_MAX * 1000)),
        log_columns=_LOG_COLUMNS,
        log=None if audit.log is None else _log(audit.log),
        transactions=_rows(audit.transactions),
        problems=_rows(audit.problems),
        bad=_BAD,
        rows_max=_ROWS_MAX,
    )


def _log(log: LogAudit) -> dict[str, object]:
    """Return the contents of the audit logs."""
    latencies = log.latencies.groupBy("milliseconds").sum("messages").orderBy("milliseconds")
    return {
        "lives": _rows(log.lives.withColumn("ended", log.lives.ended.cast("string"))),
        "queues": _rows(log.queues),
        "charts": _latency_charts(_rows(latencies, _POINTS_MAX * 1000)),
        "problems": _rows(log.problems),
    }


def _latency_charts(rows: Sequence[Row]) -> list[Chart]:
    """Chart the share of the messages that was acknowledged within a time after the send, if there are any."""
    total = sum(row["sum(messages)"] for row in rows)
    every = max(1, len(rows) // _POINTS_MAX)
    points, done = [(0.0, 0.0)], 0
    for number, row in enumerate(rows):
        done += row["sum(messages)"]
        if number % every == 0 or number == len(rows) - 1:
            points.append((row["milliseconds"] / 1000, 100 * done / total))
    if len(points) == 1:
        return []
    return [_chart("percent of messages acknowledged within", [Series("all queues", "one", points)])]


def _rows(frame: Any, limit: int = _ROWS_MAX) -> list[Row]:
    return [row.asDict() for row in frame.limit(limit).collect()]


def _source_row(source: Any) -> Row:
    return {"number": source.number, "journal": source.name, "segments": len(source.segments)}


def _per_second(audit: Audit) -> Any:
    return audit.traffic.groupBy("second").sum("messages", "acknowledgements").orderBy("second")


def _moved(audit: Audit) -> Any:
    return audit.backlog.groupBy("second").sum("came", "went").orderBy("second")


def charts_of(rows: Sequence[Row], moved: Sequence[Row]) -> list[Chart]:
    """Chart the records in each stretch of time, and the messages present; `moved` has the ones that count."""
    if not rows:
        return []
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
    records = [Series("messages", "one", stored), Series("acknowledgements", "two", gone)]
    present = [Series("present", "one", backlog)]
    return [_chart("records per second", records), _chart(f"messages present, {left:,} at the end", present)]


def _chart(unit: str, series: Sequence[Series]) -> Chart:
    return Chart(unit, max(x for line in series for x, _ in line.points) or 1, series)
