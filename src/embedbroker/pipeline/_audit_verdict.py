"""What the records of a block of message ids prove, by the algebra of sets.

Responsible for the verdicts on messages of one queue. Refuses to know where the records come from, and Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from attrs import Factory, define, frozen

from embedbroker.storage import RecordKind

from ._audit_blocks import AGAIN, IdSet

__all__ = ["PROBLEMS", "VERDICT_TYPES", "JournalEvidence", "Verdicts", "judge"]

VERDICT_TYPES = {
    "journal": pa.int64(),
    "queue_id": pa.int64(),
    "block": pa.int64(),
    "verdict": pa.string(),
    "count": pa.int64(),
    "ids": pa.binary(),
}
# Verdicts whose messages are named one by one.
PROBLEMS = ("lost", "unaccounted", "acknowledged twice", "left behind")
_ADD, _ACKNOWLEDGE = int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE)


@frozen
class JournalEvidence:
    """What is known of a journal as a whole.

    ``current`` is the source that goes furthest. From ``complete_from`` on every generation is there as it was written,
    without damage: what is missing behind it was never written. ``limited`` is why that is not all of it, or None.
    """

    current: int
    complete_from: int
    limited: str | None


@define(eq=False)
class Verdicts:
    """Sets of one queue and block. What is stored is acknowledged, present, lost or unaccounted for.

    ``lost``: stored, not acknowledged, not present, and every record since is there. ``unaccounted``: the same, but
    compaction or damage took records that may hold the acknowledgement. ``left_behind`` stands apart from all of these:
    a copy had it on its disk when it died, and the one that took over did not, so nobody was told that it is safe.
    """

    stored: IdSet = Factory(IdSet.none)
    acknowledged: IdSet = Factory(IdSet.none)
    current: IdSet = Factory(IdSet.none)
    provable: IdSet = Factory(IdSet.none)
    twice: IdSet = Factory(IdSet.none)
    left_behind: IdSet = Factory(IdSet.none)

    def named(self) -> dict[str, IdSet]:
        """The sets by the names of verdicts."""
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
    """The verdicts on one block of one queue: rows with `VERDICT_TYPES`. Takes rows of summaries of segments.

    The same segment may stand in several sources: there an acknowledgement counts once. What compaction wrote is
    compared within its source alone.
    """
    rows = table.to_pylist()
    journal, queue_id, block = rows[0]["journal"], rows[0]["queue_id"], rows[0]["block"]
    known = evidence[journal]
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
        # A segment has one row for what it settles itself, and one for each transaction that ends in another segment.
        verdicts.twice.bits |= own.bits & ids.bits
        own.bits |= ids.bits
        if row["written"]:
            written.setdefault(row["generation"], IdSet.none()).bits |= ids.bits
    for group in (written, *of_source.values()):
        seen = IdSet.none()
        for each in group.values():
            verdicts.twice.bits |= seen.bits & each.bits
            seen.bits |= each.bits
    for name, found in verdicts.named().items():
        if found.count:
            packed = found.packed if name in PROBLEMS else None
            yield {"journal": journal, "queue_id": queue_id, "block": block, "verdict": name, "count": found.count,
                   "ids": packed}  # fmt: skip
