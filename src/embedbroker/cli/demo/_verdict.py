"""Judges the demo: compares the Parquet files and the queue of results with the generator's totals, and adds the audit.

Does not depend on how the rows came there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ._orders import Total, totals_of
from ._plan import DemoPlan, Findings, Progress
from ._producer import QUEUE
from ._queries import Queries
from ._query import RESULTS

if TYPE_CHECKING:
    from embedbroker.pipeline import Audit

__all__ = ["differences", "judge"]

_SHOWN_MAX = 3
_QUEUES = f"{QUEUE}: ", f"{RESULTS}: "
Totals = Mapping[tuple[int, int], Total]


def judge(
    plan: DemoPlan, progress: Progress, queries: Queries, results: tuple[Sequence[str], int], records: Sequence[Path]
) -> Findings:
    """Return the findings. The brokers must have stopped; ``records`` are their journals and audit logs."""
    from embedbroker.pipeline import audit

    bodies, left = results
    expected = totals_of(plan.orders.chunks())
    rows = queries.totals()
    objections = [
        *differences("Parquet", expected, rows),
        *differences("the queue of results", expected, [Total(**json.loads(body)) for body in bodies]),
    ]
    if progress.read != plan.orders.count + 1:
        objections.append(f"Spark read {progress.read:,} rows of {plan.orders.count + 1:,}")
    if left:
        objections.append(f"{left:,} orders are still in their queue")
    if progress.killed_at is None:
        objections.append("there was no failover")
    audited = audit(queries.spark, records)
    try:
        # Requests to the broker are messages, too, in queues that lived for a moment.
        lines = tuple(line for line in audited.lines() if ": log: " not in line or line.startswith(_QUEUES))
        objections += _audited(audited, plan)
    finally:
        audited.close()
    return Findings(plan, progress, expected, {row[:2]: row for row in rows}, lines, tuple(objections))


def _audited(audited: Audit, plan: DemoPlan) -> Iterator[str]:
    if not audited.sound:
        yield "the audit found something wrong"
    if audited.log is None:
        yield "the audit found no audit log"
        return
    queues = audited.log.queues.where(f"queue = '{QUEUE}'").collect()
    delivered = sum(row["delivered"] for row in queues)
    if delivered != plan.orders.count + 1:
        yield f"the audit logs say that {delivered:,} orders of {plan.orders.count + 1:,} were delivered"


def differences(where: str, expected: Totals, found: Iterable[Total]) -> Iterator[str]:
    """Yield a sentence for each row that exists twice, has a wrong value, or is missing."""
    seen: dict[tuple[int, int], Total] = {}
    twice, wrong = [], []
    for total in found:
        key = total.window, total.product
        if key in seen:
            twice.append(key)
        elif total != expected.get(key):
            wrong.append(key)
        seen[key] = total
    missing = [key for key in expected if key not in seen]
    for keys, text in ((twice, "twice"), (wrong, "not what the orders add up to"), (missing, "missing")):
        if keys:
            names = ", ".join(f"product {product} at {window}" for window, product in sorted(keys)[:_SHOWN_MAX])
            yield f"{where}: {len(keys):,} totals are {text}, such as {names}"
