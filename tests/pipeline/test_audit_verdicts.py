"""What an audit says of a few messages, by the rows of its summaries. Without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from embedbroker.pipeline._audit_blocks import SUMMARY_TYPES
from embedbroker.pipeline._audit_log import judged_from_of
from embedbroker.pipeline._audit_log_records import LOG_TYPES, LogKind, packed_numbers
from embedbroker.pipeline._audit_log_verdict import LogEvidence, judge_log
from embedbroker.pipeline._audit_verdict import JournalEvidence, judge
from embedbroker.storage import RecordKind

Row = dict[str, Any]
ADD, ACKNOWLEDGE = int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE)
PLACE = {"journal": 1, "source": 0, "queue_id": 7, "block": 0, "transaction_id": 0}


def low(*ids: int) -> bytes:
    return bytes(np.array(ids, "<u2").tobytes())


def row(kind: int, *ids: int, **more: object) -> Row:
    common = {"generation": 3, "written": True, "left_behind": False}
    return {**PLACE, **common, "kind": kind, "ids": low(*ids), **more}


def counted(verdicts: Any) -> dict[str, int]:
    return {each["verdict"]: each["count"] for each in verdicts}


def of_journal(*rows: Row) -> dict[str, int]:
    table = pa.Table.from_pylist(list(rows), pa.schema(list(SUMMARY_TYPES.items())))
    return counted(judge(table, {1: JournalEvidence(0, 1, None)}))


def test_two_transactions_of_one_segment_that_acknowledge_the_same_message() -> None:
    """Their commits stand in the next segment, so that each has a row of its own."""
    found = of_journal(row(ADD, 5, 6), row(ACKNOWLEDGE, 5), row(ACKNOWLEDGE, 5, 6))
    assert found == {"stored": 2, "acknowledged": 2, "acknowledged twice": 1}


def test_the_same_segment_in_two_copies_acknowledges_once() -> None:
    found = of_journal(row(ADD, 5), row(ACKNOWLEDGE, 5), row(ADD, 5, source=1), row(ACKNOWLEDGE, 5, source=1))
    assert found == {"stored": 1, "acknowledged": 1}


def of_log(rows: list[Row], judged_from: int) -> dict[str, int]:
    types = {**SUMMARY_TYPES, **LOG_TYPES}
    evidence = LogEvidence({(1, 1): 100, (2, 9): 100}, 0, 10, frozenset(), judged_from)
    return counted(judge_log(pa.Table.from_pylist(rows, pa.schema(list(types.items()))), {1: evidence}))


def sent(source: int, life: int, *ids: int) -> Row:
    numbers = packed_numbers(np.array(ids))
    return row(LogKind.SENT, *ids, source=source, life=life, flags=1, walls=numbers, needs=numbers)


def test_what_may_stand_in_the_lost_beginning_of_another_log_is_not_judged() -> None:
    """A primary took 10 to 13. Its backup gave 10 and 11 away, then took 20 to 22, of which it lost 22; retention then
    took its log up to 20. It took 14 before that, too, which is present, and was given away 12."""
    rows = [sent(1, 1, 10, 11, 12, 13), sent(2, 9, 20, 21, 22), row(ADD, 13, 14, 20, 21)]
    rows.append(row(LogKind.LEFT, 12, source=2, life=9, flags=0, walls=packed_numbers(np.array([1]))))
    assert of_log(rows, 20)["never delivered"] == 1
    assert "not logged" not in of_log(rows, 20)
    assert of_log(rows, 0)["never delivered"] == 4
    assert of_log(rows, 0)["not logged"] == 1


def test_from_which_message_on_logs_lack_nothing() -> None:
    def read(source: int, journal: int, *segments: int) -> list[Mapping[str, int]]:
        return [{"source": source, "journal": journal, "generation": number} for number in segments]

    first = {(0, 1): 10, (1, 1): 20}
    assert judged_from_of(map(dict, read(0, 1, 1, 2) + read(1, 1, 1)), first) == {}
    assert judged_from_of(map(dict, read(0, 1, 3, 2) + read(1, 1, 1)), first) == {1: 10}
    assert judged_from_of(map(dict, read(0, 1, 2) + read(1, 1, 5, 4)), first) == {1: 20}
    # The segments before are those of a journal that stood in the directory earlier.
    assert judged_from_of(map(dict, read(0, 8, 1) + read(0, 1, 2)), first) == {}
    # It has no send at all, so nobody knows how old what it did is.
    assert judged_from_of(map(dict, read(2, 1, 4) + read(0, 1, 1)), first)[1] > 1 << 60
