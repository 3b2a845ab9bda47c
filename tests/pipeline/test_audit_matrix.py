"""What an audit makes of crashed, compacted and reused journals, against what a broker recovers from them: the same
messages in the same queues, in every case. Without Spark, which only carries the summaries."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

from embedbroker.pipeline._audit_blocks import COLUMNS, SUMMARY_TYPES, IdSet, summary
from embedbroker.pipeline._audit_verdict import JournalEvidence, judge
from embedbroker.pipeline._journal_files import journal_sources
from embedbroker.pipeline._journals import SegmentTask, Selection, segment_rows
from embedbroker.storage import ListFiles, Read, RecordKind
from embedbroker.testing._disk import SimulatedDisk
from tests.embedbroker.storage.journal_lives import live
from tests.embedbroker.storage.journal_model import recover

pytestmark = pytest.mark.search

CASES = 60
ADD, ACKNOWLEDGE = int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE)
COMMITS = (RecordKind.COMMIT, RecordKind.COMMIT_SET)


def write_files(disk: SimulatedDisk, directory: Path) -> None:
    directory.mkdir()
    (names,) = disk.run((ListFiles(),))
    assert isinstance(names, tuple)
    for name in names:
        (data,) = disk.run((Read(name, 0, 1 << 30),))
        assert isinstance(data, bytes)
        (directory / name).write_bytes(data)


def summed(directory: Path, hits: Counter[str]) -> list[dict[str, object]]:
    """The summaries of all segments, with transactions resolved as the audit does it."""
    [source] = journal_sources([directory])
    rows: list[dict[str, object]] = []
    for each in source.segments:
        task = SegmentTask(0, each.path, each.member, each.name, each.newest)
        rows += summary(list(segment_rows(task, Selection(COLUMNS))))
        hits["compacted"] += each.header.compacted
    committed = {row["transaction_id"] for row in rows if row["kind"] in COMMITS}
    hits["across segments"] += any(
        row["transaction_id"] in committed for row in rows if row["kind"] in (ADD, ACKNOWLEDGE)
    )
    hits["set of commits"] += any(row["kind"] == RecordKind.COMMIT_SET for row in rows)
    hots = [row for row in rows if row["kind"] in (ADD, ACKNOWLEDGE)]
    return [row for row in hots if row["transaction_id"] == 0 or row["transaction_id"] in committed]


def ids(rows: list[dict[str, object]], kind: int) -> set[tuple[int, int]]:
    found = set()
    for row in rows:
        if row["kind"] == kind:
            packed, block, queue_id = row["ids"], row["block"], row["queue_id"]
            assert isinstance(packed, bytes) and isinstance(block, int) and isinstance(queue_id, int)
            found |= {(queue_id, each) for each in IdSet.of(packed).ids(block)}
    return found


def judged(rows: list[dict[str, object]]) -> Counter[tuple[int, str]]:
    """Counts by queue and verdict."""
    groups: dict[tuple[object, object], list[dict[str, object]]] = defaultdict(list)
    for row in rows:
        groups[row["queue_id"], row["block"]].append(row)
    counts: Counter[tuple[int, str]] = Counter()
    for group in groups.values():
        whole = [{name: row.get(name) for name in SUMMARY_TYPES} for row in group]
        table = pa.Table.from_pylist(whole, pa.schema(list(SUMMARY_TYPES.items())))
        journal = group[0]["journal"]
        assert isinstance(journal, int)
        for verdict in judge(table, {journal: JournalEvidence(0, 1, None)}):
            assert isinstance(verdict["queue_id"], int) and isinstance(verdict["count"], int)
            counts[verdict["queue_id"], str(verdict["verdict"])] += verdict["count"]
    return counts


def test_an_audit_finds_what_a_broker_recovers(tmp_path: Path) -> None:
    hits: Counter[str] = Counter()
    for seed in range(7000, 7000 + CASES):
        disk = SimulatedDisk()
        live(seed, disk, marks=True)
        write_files(disk, tmp_path / str(seed))
        rows = summed(tmp_path / str(seed), hits)
        recovered = recover(disk).recovered
        assert recovered is not None
        queues = {queue.id for queue in recovered.queues}
        expected = {
            (queue_id, message.message_id)
            for message in recovered.take_messages(1 << 20)
            for queue_id, _, _ in message.references
        }
        present = {pair for pair in ids(rows, ADD) - ids(rows, ACKNOWLEDGE) if pair[0] in queues}
        assert present == expected, seed
        counts = judged(rows)
        by_queue = Counter(queue_id for queue_id, _ in expected)
        assert {queue: counts[queue, "present"] for queue in queues} == {queue: by_queue[queue] for queue in queues}, (
            seed
        )
        assert not [key for key in counts if key[1] in ("lost", "unaccounted", "acknowledged twice")], seed
        hits["messages"] += len(expected)
    assert (
        hits["messages"] > 1000 and min(hits[name] for name in ("compacted", "across segments", "set of commits")) > 3
    ), hits
