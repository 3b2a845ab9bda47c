"""What journal and audit log together prove about a block of message ids, by the algebra of sets.

Responsible for the verdicts on messages of one queue. Does not depend on the origin of rows, or on Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import Factory, define, frozen

from embedbroker.storage import RecordKind

from ._audit_blocks import IdSet
from ._audit_log_records import LogKind, unpacked_numbers

__all__ = ["LOG_PROBLEMS", "LOG_VERDICT_TYPES", "LogEvidence", "judge_log"]

LOG_VERDICT_TYPES = {
    "journal": pa.int64(),
    "queue_id": pa.int64(),
    "block": pa.int64(),
    "verdict": pa.string(),
    "count": pa.int64(),
    "milliseconds": pa.int64(),
    "ids": pa.binary(),
}
# Verdicts whose messages are listed one by one.
LOG_PROBLEMS = ("never delivered", "delivered twice", "never acknowledged", "not logged")
_ADD, _ACKNOWLEDGE = int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE)
_LEAVINGS = ("acknowledged", "rejected", "expired", "removed", "read")
_BITS = 1 << 16
Array = Any
Row = dict[str, Any]


@frozen
class LogEvidence:
    """Hold the facts about the log of one journal as a whole.

    Args:
        confirmed: by source and life, the last confirmation before the journal was read. Newer messages are not judged,
            because the journal may have been read before they came.
        current: the journal's source that decides which messages are present; None without a journal.
        first: the first id that was logged.
        gone: queues that were removed.
        judged_from: the first id to judge. The fate of smaller ids may have been in the beginning of another broker's
            log, which retention removed.
    """

    confirmed: Mapping[tuple[int, int], int]
    current: int | None
    first: int
    gone: frozenset[int]
    judged_from: int = 0


@define(eq=False)
class _Sets:
    sent: IdSet = Factory(IdSet.none)
    confirmed: IdSet = Factory(IdSet.none)
    kept: IdSet = Factory(IdSet.none)
    delivered: IdSet = Factory(IdSet.none)
    twice: IdSet = Factory(IdSet.none)
    again: IdSet = Factory(IdSet.none)
    left: dict[int, IdSet] = Factory(dict)
    stored: IdSet = Factory(IdSet.none)
    current: IdSet = Factory(IdSet.none)
    settled: IdSet = Factory(IdSet.none)


def judge_log(table: pa.Table, evidence: Mapping[int, LogEvidence]) -> Iterator[Row]:
    """Yield the verdicts on one block of one queue: rows with `LOG_VERDICT_TYPES`.

    Takes rows of summaries of the journal's segments and of the log's, of any number of brokers with this journal.
    """
    rows: list[Row] = table.to_pylist()
    journal, queue_id, block = rows[0]["journal"], rows[0]["queue_id"], rows[0]["block"]
    known = evidence[journal]
    key = {"journal": journal, "queue_id": queue_id, "block": block, "milliseconds": None, "ids": None}
    sent_at: Array = np.zeros(_BITS, np.int64)
    left_at: Array = np.zeros(_BITS, np.int64)
    sets = _gathered(rows, known, sent_at, left_at)
    for name, found in _named(sets, known, queue_id, block).items():
        if found.count:
            packed = found.packed if name in LOG_PROBLEMS else None
            yield {**key, "verdict": name, "count": found.count, "ids": packed}
    both = (sent_at > 0) & (left_at > 0)
    times, counts = np.unique(left_at[both] - sent_at[both], return_counts=True)
    for time, count in zip(times.tolist(), counts.tolist(), strict=True):
        yield {**key, "verdict": "latency", "count": count, "milliseconds": max(time, 0)}


def _gathered(rows: Sequence[Row], known: LogEvidence, sent_at: Array, left_at: Array) -> _Sets:
    sets = _Sets()
    lives: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        kind = row["kind"]
        if kind == _ADD:
            sets.stored.bits |= IdSet.of(row["ids"]).bits
            if row["source"] == known.current:
                sets.current.bits |= IdSet.of(row["ids"]).bits
        elif kind == _ACKNOWLEDGE:
            sets.settled.bits |= IdSet.of(row["ids"]).bits
        elif kind == LogKind.SENT:
            low = np.frombuffer(row["ids"], "<u2")
            sent_at[low] = unpacked_numbers(row["walls"])
            sets.sent.bits[low] = True
            through = known.confirmed.get((row["source"], row["life"]), 0)
            # The number of a commit that stands in another segment.
            late = row["number"]
            needs = unpacked_numbers(row["needs"]) if late is None else np.full(len(low), late)
            sets.confirmed.bits[low[needs <= through]] = True
            if row["flags"]:
                sets.kept.bits[low] = True
            else:
                sets.confirmed.bits[low] = True
        elif kind == LogKind.LEFT:
            low = np.frombuffer(row["ids"], "<u2")
            sets.left.setdefault(row["flags"], IdSet.none()).bits[low] = True
            if _LEAVINGS[row["flags"]] in ("acknowledged", "read"):
                left_at[low] = np.maximum(left_at[low], unpacked_numbers(row["walls"]))
        elif kind in (LogKind.DELIVERED, LogKind.TOUCHED, LogKind.FIRST, LogKind.LAST, LogKind.TWICE):
            lives.setdefault((row["source"], row["life"]), []).append(row)
    for _, life in sorted(lives.items()):
        _follow(life, sets)
    return sets


def _follow(rows: Sequence[Row], sets: _Sets) -> None:
    """Add the deliveries of one life, segment after segment; no flag reports deliveries of an earlier life."""
    before = sets.delivered.bits.copy()
    out = IdSet.none()
    by_segment: dict[int, dict[int, IdSet]] = {}
    for row in rows:
        by_segment.setdefault(row["generation"], {})[row["kind"]] = _plain(row["ids"])
    for _, found in sorted(by_segment.items()):
        touched, first, last = (
            found.get(kind, IdSet.none()).bits for kind in (LogKind.TOUCHED, LogKind.FIRST, LogKind.LAST)
        )
        sets.twice.bits |= (out.bits & first) | found.get(LogKind.TWICE, IdSet.none()).bits
        sets.again.bits |= before & first
        out.bits = (out.bits & ~touched) | last
        sets.delivered.bits |= found.get(LogKind.DELIVERED, IdSet.none()).bits


def _plain(packed: bytes) -> IdSet:
    found = IdSet.none()
    found.bits[np.frombuffer(packed, "<u2")] = True
    return found


def _named(sets: _Sets, known: LogEvidence, queue_id: int, block: int) -> dict[str, IdSet]:
    """Return the sets by the names of verdicts.

    Without a journal it is unknown which messages are present: those count as outstanding.
    """
    left = IdSet.none().bits
    for each in sets.left.values():
        left |= each.bits
    acknowledged = sets.left.get(0, IdSet.none()).bits
    present = sets.current.bits & ~sets.settled.bits
    confirmed, delivered = sets.confirmed.bits, sets.delivered.bits
    durable = sets.kept.bits & confirmed
    open_ = durable & ~left & ~present
    gone = queue_id in known.gone
    seen = delivered | sets.left.get(_LEAVINGS.index("read"), IdSet.none()).bits
    nothing = IdSet.none().bits
    # Acknowledged in the journal, or stored there, with an id that was assigned while there was a log.
    ids: Array = (block << 16) + np.arange(_BITS)
    known_whole = ids >= known.judged_from
    not_logged = ((sets.stored.bits & ~sets.sent.bits) | (sets.sent.bits & sets.settled.bits & ~left)) & (
        (ids >= known.first) & known_whole
    )
    ungiven = sets.sent.bits & acknowledged & ~delivered & known_whole
    never = (open_ & ~delivered & ~not_logged & known_whole) | ungiven
    waiting = open_ & delivered & ~not_logged & known_whole
    unknown = known.current is None
    named = {
        "sent": sets.sent.bits,
        "confirmed": confirmed,
        "delivered": seen & sets.sent.bits,
        **{name: sets.left.get(code, IdSet.none()).bits for code, name in enumerate(_LEAVINGS)},
        "present": present & sets.sent.bits,
        "outstanding": open_ if unknown else nothing,
        "never delivered": ungiven if unknown or gone else never,
        "never acknowledged": nothing if unknown or gone else waiting,
        "delivered twice": sets.twice.bits,
        "delivered again": sets.again.bits,
        "not logged": nothing if unknown else not_logged,
    }
    return {name: IdSet(bits) for name, bits in named.items()}
