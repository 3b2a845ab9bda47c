"""Seeds of the simulator with an audit log at every broker, and what the audit reports on them, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from embedbroker.pipeline._audit_blocks import COLUMNS, SUMMARY_TYPES, IdSet, joined, summary
from embedbroker.pipeline._audit_log_files import LogFolder, log_sources, segment_rows_of
from embedbroker.pipeline._audit_log_records import LOG_TYPES, LogKind, unpacked_numbers
from embedbroker.pipeline._audit_log_verdict import LogEvidence, judge_log
from embedbroker.pipeline._journal_files import journal_sources
from embedbroker.pipeline._journals import SegmentTask, Selection, segment_rows
from embedbroker.storage import RecordKind
from embedbroker.testing._audit_files import AuditFiles, contents
from embedbroker.testing._node_host import NodeHost

__all__ = ["audited", "verdicts"]

Row = dict[str, Any]
_ADD, _ACKNOWLEDGE = int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE)
_COMMITS = (int(RecordKind.COMMIT), int(RecordKind.COMMIT_SET))


@contextmanager
def audited(patch: pytest.MonkeyPatch) -> Iterator[list[NodeHost]]:
    """Every broker that begins inside writes an audit log; they are in the list."""
    hosts: list[NodeHost] = []
    begin: Callable[..., None] = NodeHost.__init__

    def with_audit(self: NodeHost, *arguments: Any) -> None:
        begin(self, *arguments)
        self.audit = AuditFiles.of(self.config)
        hosts.append(self)

    with patch.context() as inner:
        inner.setattr(NodeHost, "__init__", with_audit)
        yield hosts


def verdicts(hosts: list[NodeHost], directory: Path) -> dict[str, set[tuple[int, int]]]:
    """(queue id, message id) of each verdict that names messages, and of every other verdict (queue id, count)."""
    journals: list[Path] = []
    logs: list[Path] = []
    # The journal of the live broker shows what is present; a stopped broker alone is examined all the same.
    for number, host in enumerate(sorted(hosts, key=lambda host: not host.ready)):
        assert host.audit is not None
        for kind, files in (("journal", contents(host.disk)), ("audit", host.audit.files())):
            place = directory / f"{kind}-{number}"
            place.mkdir(parents=True)
            for name, data in files.items():
                (place / name).write_bytes(data)
            if files:
                (journals if kind == "journal" else logs).append(place)
    return _judged(_journal_rows(journals[:1]), _log_rows(logs))


def _journal_rows(places: list[Path]) -> list[Row]:
    """Rows of what counts: outside transactions, or in a committed one."""
    rows: list[Row] = []
    for source in journal_sources(places):
        for each in source.segments:
            task = SegmentTask(each.source, each.path, each.member, each.name, each.newest)
            rows += joined(list(summary(list(segment_rows(task, Selection(COLUMNS)))))).to_pylist()
    committed = {row["transaction_id"] for row in rows if row["kind"] in _COMMITS}
    hot = [row for row in rows if row["kind"] in (_ADD, _ACKNOWLEDGE)]
    return [row for row in hot if not row["transaction_id"] or row["transaction_id"] in committed]


def _log_rows(places: list[Path]) -> list[Row]:
    rows: list[Row] = []
    for source in log_sources([LogFolder(str(place)) for place in places]):
        assert not source.gaps()
        for number, _ in source.segments:
            rows += segment_rows_of(source.number, source.folder, number, newest=False)
    rows = [{**dict.fromkeys(LOG_TYPES), **row} for row in rows]
    assert [row for row in rows if row["kind"] == LogKind.DAMAGED] == []
    return rows


def _judged(journal: list[Row], log: list[Row]) -> dict[str, set[tuple[int, int]]]:
    confirmed: dict[tuple[int, int], int] = {}
    committed: dict[int, Row] = {}
    for row in log:
        if row["kind"] == LogKind.CONFIRMED:
            key = (row["source"], row["life"])
            confirmed[key] = max(confirmed.get(key, 0), row["number"])
        elif row["kind"] == LogKind.COMMITTED:
            pairs = zip(unpacked_numbers(row["ids"]).tolist(), unpacked_numbers(row["needs"]).tolist(), strict=True)
            committed |= {transaction: {**row, "number": number} for transaction, number in pairs}
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in [*journal, *log]:
        if row["block"] is None:
            continue
        row = {**row, "number": None}
        if row["kind"] in (LogKind.SENT, LogKind.LEFT) and row["transaction_id"]:
            commit = committed.get(row["transaction_id"])
            if commit is None:
                continue
            row |= {name: commit[name] for name in ("source", "life", "number")}
        groups.setdefault((row["queue_id"], row["block"]), []).append(row)
    identity = {row["journal"] for row in log}.pop()
    gone = frozenset(row["queue_id"] for row in log if row["kind"] == LogKind.GONE)
    known = {identity: LogEvidence(confirmed, 0, 1, gone)}
    found: dict[str, set[tuple[int, int]]] = {}
    names = [*dict.fromkeys([*SUMMARY_TYPES, *LOG_TYPES])]
    types = {**SUMMARY_TYPES, **LOG_TYPES}
    for (queue_id, block), rows in groups.items():
        arrays = [pa.array([row.get(name) for row in rows], types[name]) for name in names]
        for row in judge_log(pa.Table.from_arrays(arrays, names=names), known):
            entry = found.setdefault(row["verdict"], set())
            if row["ids"] is None:
                entry.add((queue_id, row["count"]))
            else:
                entry |= {(queue_id, message) for message in IdSet.of(row["ids"]).ids(block)}
    return found
