"""The verdicts of an audit on a few messages, by the rows of its summaries. Without Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from embedbroker.pipeline._audit_blocks import CAME, SUMMARY_TYPES, WENT, summary
from embedbroker.pipeline._audit_log import judged_from_of
from embedbroker.pipeline._audit_log_records import LOG_TYPES, LogKind, packed_numbers
from embedbroker.pipeline._audit_log_verdict import LogEvidence, judge_log
from embedbroker.pipeline._audit_page import charts_of
from embedbroker.pipeline._audit_verdict import JournalEvidence, judge
from embedbroker.report import load_templates
from embedbroker.storage import RecordKind

Row = dict[str, Any]
ADD, ACKNOWLEDGE = int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE)
PLACE = {"journal": 1, "source": 0, "queue_id": 7, "block": 0, "transaction_id": 0}


def low(*ids: int) -> bytes:
    return bytes(np.array(ids, "<u2").tobytes())


def row(kind: int, *numbers: int, **more: object) -> Row:
    common = {"generation": 3, "written": True, "left_behind": False}
    return {**PLACE, **common, "kind": kind, "ids": low(*numbers), **more}


def counted(verdicts: Any) -> dict[str, int]:
    return {each["verdict"]: each["count"] for each in verdicts}


def of_journal(*rows: Row) -> dict[str, int]:
    table = pa.Table.from_pylist(list(rows), pa.schema(list(SUMMARY_TYPES.items())))
    return counted(judge(table, {1: JournalEvidence(0, 1, None)}))


def test_two_transactions_of_one_segment_that_acknowledge_the_same_message() -> None:
    """Their commits stand in the next segment, so that each has a separate row."""
    found = of_journal(row(ADD, 5, 6), row(ACKNOWLEDGE, 5), row(ACKNOWLEDGE, 5, 6))
    assert found == {"stored": 2, "acknowledged": 2, "acknowledged twice": 1}


def test_the_same_segment_in_two_copies_acknowledges_once() -> None:
    found = of_journal(row(ADD, 5), row(ACKNOWLEDGE, 5), row(ADD, 5, source=1), row(ACKNOWLEDGE, 5, source=1))
    assert found == {"stored": 1, "acknowledged": 1}


def by_second(*rows: Row) -> list[tuple[str, int, int]]:
    table = pa.Table.from_pylist(list(rows), pa.schema(list(SUMMARY_TYPES.items())))
    found = [each for each in judge(table, {1: JournalEvidence(0, 1, None)}) if "second" in each]
    return [(each["verdict"], each["second"], each["count"]) for each in found]  # type: ignore[misc]


def test_what_went_without_having_come_takes_nothing_from_the_backlog() -> None:
    """Compaction has taken messages 1 to 4, and not their acknowledgements."""
    found = by_second(
        row(ADD, 5, 6, 7),
        row(CAME, 5, 6, second=10),
        row(CAME, 7, second=11),
        row(ACKNOWLEDGE, 1, 2, 3, 4, 5),
        row(WENT, 1, 2, second=9),
        row(WENT, 3, 4, 5, second=12),
    )
    assert found == [("came and went", 10, 1), ("came and stayed", 10, 1), ("came and stayed", 11, 1), ("went", 12, 1)]


def test_what_no_transaction_committed_has_neither_come_nor_gone() -> None:
    found = by_second(row(ADD, 5, 6), row(CAME, 5, 6, 7, second=10), row(ACKNOWLEDGE, 5), row(WENT, 5, 6, second=11))
    assert found == [("came and went", 10, 1), ("came and stayed", 10, 1), ("went", 11, 1)]


def test_a_message_comes_once_and_goes_once() -> None:
    """Whatever records there are twice; a bitmap means the same as numbers."""
    every = bytes(np.packbits(np.arange(1 << 16) < 5_000).tobytes())
    found = by_second(
        row(ADD, ids=every), row(CAME, ids=every, second=10), row(CAME, 3, 4, second=11), row(ACKNOWLEDGE, 3),
        row(WENT, 3, second=12), row(WENT, 3, second=14),
    )  # fmt: skip
    assert found == [("came and went", 10, 1), ("came and stayed", 10, 4_999), ("went", 12, 1)]


def test_a_summary_has_each_second_of_each_block() -> None:
    ids, seconds = [5, 5, 6, (1 << 16) + 5, 7], [10, 10, 10, 10, 11]
    count = len(ids)
    columns = {
        **{name: [0] * count for name in ("transaction_id", "batch_ms", "batch", "offset", "source", "queue_id")},
        "journal": [1] * count,
        "generation": [3] * count,
        "written": [True] * count,
        "kind": [ADD] * count,
        "message_id": ids,
        "wall_ms": [second * 1000 + 7 for second in seconds],
        "size": [100] * count,
        "text": pa.nulls(count, pa.string()),
    }
    moved = [each for each in summary([pa.RecordBatch.from_pydict(columns)]) if each["kind"] == CAME]
    assert [(each["second"], each["block"], each["ids"], each["count"], each["bytes"]) for each in moved] == [
        (10, 0, low(5, 6), 3, 300),
        (10, 1, low(5), 1, 100),
        (11, 0, low(7), 1, 100),
    ]


def test_the_drawing_ends_at_what_is_present_and_is_never_below_nothing() -> None:
    records = [{"second": at, "sum(messages)": 4, "sum(acknowledgements)": 9} for at in (100, 101, 103)]
    moved = [
        {"second": at, "sum(came)": came, "sum(went)": went}
        for at, came, went in ((100, 0, 1), (101, 8, 0), (103, 0, 2))
    ]
    _, present = charts_of(records, moved)
    page = load_templates().from_string("{% from 'chart.svg' import draw %}{{ draw(chart) }}").render(chart=present)
    assert 'aria-label="messages present, 5 at the end"' in page
    [points] = re.findall(r'<polyline class="one" points="([^"]+)"', page)
    heights = [float(point.split(",")[1]) for point in points.split()]
    bottom = heights[0]
    assert [round((bottom - each) / (bottom - heights[1]) * 7) for each in heights] == [0, 7, 7, 5]
    assert "NaN" not in page


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
    # It has no send at all, so the age of its records is unknown.
    assert judged_from_of(map(dict, read(2, 1, 4) + read(0, 1, 1)), first)[1] > 1 << 60
