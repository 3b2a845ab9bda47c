"""What the records of a block of message ids prove, by the algebra of sets.

Responsible for the verdicts on messages of one queue. Does not depend on the origin of the records, or on Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import Factory, define, frozen

from embedbroker.storage import RecordKind

from ._audit_blocks import AGAIN, CAME, WENT, IdSet

__all__ = [
    "CAME_AND_STAYED",
    "CAME_AND_WENT",
    "PROBLEMS",
    "VERDICT_TYPES",
    "WENT_AGAIN",
    "JournalEvidence",
    "Verdicts",
    "judge",
]

VERDICT_TYPES = {
    "journal": pa.int64(),
    "queue_id": pa.int64(),
    "block": pa.int64(),
    "verdict": pa.string(),
    "count": pa.int64(),
    "ids": pa.binary(),
    # The second, in verdicts by second.
    "second": pa.int64(),
}
# Verdicts whose messages are listed one by one.
PROBLEMS = ("lost", "unaccounted", "acknowledged twice", "left behind")
# Verdicts by second: messages that are present or whose end is in the present journal; and those ends.
CAME_AND_WENT, CAME_AND_STAYED, WENT_AGAIN = "came and went", "came and stayed", "went"
_ADD, _ACKNOWLEDGE = int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE)
_BITS = 1 << 16
Array = Any


@frozen
class JournalEvidence:
    """Hold the facts about a journal as a whole.

    ``current`` is the longest source. From ``complete_from`` on every generation is there as it was written, without
    damage: records missing after it were never written. ``limited`` is the reason for an incomplete journal, or None.
    """

    current: int
    complete_from: int
    limited: str | None


@define(eq=False)
class Verdicts:
    """Hold the sets of one queue and block. A stored message is acknowledged, present, lost or unaccounted for.

    ``lost``: stored, not acknowledged, not present, and every record since is there. ``unaccounted``: the same, but
    compaction or damage removed records that may hold the acknowledgement. ``left_behind`` is separate from all of
    these: a copy had the message on its disk when it died, and the copy that took over did not. So the message was
    never confirmed.
    """

    stored: IdSet = Factory(IdSet.none)
    acknowledged: IdSet = Factory(IdSet.none)
    current: IdSet = Factory(IdSet.none)
    provable: IdSet = Factory(IdSet.none)
    twice: IdSet = Factory(IdSet.none)
    left_behind: IdSet = Factory(IdSet.none)

    def named(self) -> dict[str, IdSet]:
        """Return the sets by the names of verdicts."""
        open_ = self.stored.bits & ~self.acknowledged.bits
        missing = open_ & ~self.current.bits
        return {
            "stored": self.stored,
            "acknowledged": IdSet(self.stored.bits & self.acknowledged.bits),
            "present": IdSet(open_ & self.current.bits),
            "lost": IdSet(missing & self.provable.bits),
            "unaccounted": IdSet(missing & ~self.provable.bits),
            "acknowledged twice": self.twice,
            "left behind": self.left_behind,
            "acknowledged, not stored": IdSet(self.acknowledged.bits & ~self.stored.bits),
        }


def judge(table: pa.Table, evidence: Mapping[int, JournalEvidence]) -> Iterator[dict[str, object]]:
    """Yield the verdicts on one block of one queue: rows with `VERDICT_TYPES`. Takes rows of summaries of segments.

    Arrivals and departures are rows of the longest source. The same segment may be in several sources: there an
    acknowledgement counts once. Records that compaction wrote are compared within their source alone.
    """
    key = {name: table.column(name)[0].as_py() for name in ("journal", "queue_id", "block")}
    is_moving = pc.is_in(table.column("kind"), value_set=pa.array([CAME, WENT], table.column("kind").type))
    verdicts = _judged(table.filter(pc.invert(is_moving)).to_pylist(), evidence[key["journal"]])
    for name, found in verdicts.named().items():
        if found.count:
            packed = found.packed if name in PROBLEMS else None
            yield {**key, "verdict": name, "count": found.count, "ids": packed}
    for row in _by_second(table.filter(is_moving), verdicts):
        yield {**key, **row}


def _judged(rows: list[dict[str, Any]], known: JournalEvidence) -> Verdicts:
    verdicts = Verdicts()
    # By generation as written, of whatever source; and by source and segment.
    written: dict[int, IdSet] = {}
    of_source: dict[int, dict[int, IdSet]] = {}
    for row in rows:
        ids = IdSet.of(row["ids"])
        if row["left_behind"]:
            # Its ids may be those of other messages where the journal went on.
            if row["kind"] == _ADD:
                verdicts.left_behind.bits |= ids.bits
            continue
        if row["kind"] == AGAIN:
            verdicts.twice.bits |= ids.bits
            continue
        if row["kind"] == _ADD:
            verdicts.stored.bits |= ids.bits
            if row["source"] == known.current:
                verdicts.current.bits |= ids.bits
            if row["written"] and row["generation"] >= known.complete_from:
                verdicts.provable.bits |= ids.bits
            continue
        verdicts.acknowledged.bits |= ids.bits
        own = of_source.setdefault(row["source"], {}).setdefault(row["generation"], IdSet.none())
        # A segment has one row for the acknowledgements that it settles itself, and one for each transaction that ends
        # in another segment.
        verdicts.twice.bits |= own.bits & ids.bits
        own.bits |= ids.bits
        if row["written"]:
            written.setdefault(row["generation"], IdSet.none()).bits |= ids.bits
    for group in (written, *of_source.values()):
        seen = IdSet.none()
        for each in group.values():
            verdicts.twice.bits |= seen.bits & each.bits
            seen.bits |= each.bits
    return verdicts


def _by_second(moves: pa.Table, verdicts: Verdicts) -> Iterator[dict[str, object]]:
    """Yield the number of messages that came and went in each second.

    An acknowledgement is left out if compaction removed its message, or more messages would go than came.
    """
    came, went = (_seconds(moves.filter(pc.equal(moves.column("kind"), kind))) for kind in (CAME, WENT))
    over = (came >= 0) & (went >= 0) & verdicts.current.bits & verdicts.acknowledged.bits
    present = (came >= 0) & verdicts.named()["present"].bits
    for name, at, chosen in (
        (CAME_AND_WENT, came, over),
        (CAME_AND_STAYED, came, present),
        (WENT_AGAIN, went, over),
    ):
        seconds, counts = np.unique(at[chosen], return_counts=True)
        for second, count in zip(seconds.tolist(), counts.tolist(), strict=True):
            yield {"verdict": name, "second": second, "count": count}


def _seconds(moves: pa.Table) -> Array:
    """Return by message the second of its first record; -1 without one."""
    at: Array = np.full(_BITS, -1, np.int64)
    order = pc.sort_indices(moves, sort_keys=[("second", "descending")])
    moves = moves.select(["ids", "second"]).take(order)
    for ids, second in zip(moves.column("ids").to_pylist(), moves.column("second").to_pylist(), strict=True):
        at[IdSet.low(ids)] = second
    return at
