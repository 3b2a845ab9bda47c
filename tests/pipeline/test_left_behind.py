"""A primary that died with batches that its backup never got: no client got that they are safe, so they are not lost.
Without Spark, but for the last test."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from embedbroker import BrokerConfig, EmbeddedBroker
from embedbroker.pipeline import audit, write_audit
from embedbroker.pipeline._audit import evidence_of, forks_of
from embedbroker.pipeline._audit_blocks import COLUMNS, SUMMARY_TYPES, joined, summary
from embedbroker.pipeline._audit_verdict import judge
from embedbroker.pipeline._journal_files import JournalSource, journal_sources
from embedbroker.pipeline._journal_records import END, FINDING
from embedbroker.pipeline._journals import SegmentTask, Selection, segment_rows
from embedbroker.storage import RecordArrays, RecordKind, read_records
from embedclient.blocking import ConnectionFactory
from tests.pipeline.journals import crash_image, running, send, take
from tests.pipeline.pairs import pair

Row = dict[str, Any]
HOT = (int(RecordKind.ADD_MESSAGE), int(RecordKind.ACKNOWLEDGE))


def summaries(sources: list[JournalSource], apart: dict[int, int]) -> list[Row]:
    rows: list[Row] = []
    for each in (segment for source in sources for segment in source.segments):
        task = SegmentTask(each.source, each.path, each.member, each.name, each.newest)
        batches = list(segment_rows(task, Selection(COLUMNS)))
        rows += joined(list(summary(batches, apart.get(each.source)))).to_pylist()
    return rows


def verdicts(*places: Path) -> tuple[dict[str, int], dict[int, int]]:
    """Messages by verdict, and the forks by number of the source."""
    sources = journal_sources(places)
    apart = forks_of(sources, [row for row in summaries(sources, {}) if row["kind"] in (END, FINDING)])
    rows = summaries(sources, apart)
    evidence = {sources[0].identity: evidence_of(sources, [r for r in rows if r["kind"] in (END, FINDING)], apart)}
    groups: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] in HOT and not row["transaction_id"]:
            groups[row["queue_id"], row["block"]].append(row)
    found: Counter[str] = Counter()
    for group in groups.values():
        for verdict in judge(pa.Table.from_pylist(group, pa.schema(list(SUMMARY_TYPES.items()))), evidence):
            found[str(verdict["verdict"])] += int(str(verdict["count"]))
    return dict(found), apart


def went_on(directory: Path, *, in_copy: int, alone: int, after: int) -> tuple[Path, Path]:
    """A journal with ``in_copy`` messages in two places: a primary's, with ``alone`` more and two acknowledgements, and
    its backup's, that took over and got ``after`` messages and gave away four."""
    with running(directory / "p") as (_, connection):
        send(connection, "orders", in_copy)
        crash_image(directory / "p", directory / "b")
        send(connection, "orders", alone, first=in_copy)
        take(connection, "orders", 2)
        dead = crash_image(directory / "p", directory / "dead")
    with running(directory / "b") as (_, connection):
        send(connection, "orders", after, first=in_copy)
        take(connection, "orders", 4)
    return dead, directory / "b"


@pytest.mark.parametrize("sizes", [(10, 3, 3), (10, 3, 200), (10, 90, 400), (200, 3, 200)], ids=str)
def test_what_a_dead_primary_alone_had_is_left_behind_and_not_lost(tmp_path: Path, sizes: tuple[int, int, int]) -> None:
    """The copies part in the middle of a segment; the primary, its backup or both went on into others."""
    in_copy, alone, after = sizes
    dead, live = went_on(tmp_path, in_copy=in_copy, alone=alone, after=after)
    expected = {"stored": in_copy + after, "acknowledged": 4, "present": in_copy + after - 4}
    assert verdicts(live) == (expected, {})
    for places in ((dead, live), (live, dead)):
        found, apart = verdicts(*places)
        assert (found, list(apart)) == ({**expected, "left behind": alone}, [places.index(dead)])


def test_a_copy_that_only_ends_earlier_has_left_nothing_behind(tmp_path: Path) -> None:
    with running(tmp_path / "live") as (_, connection):
        send(connection, "orders", 100)
        earlier = crash_image(tmp_path / "live", tmp_path / "earlier")
        send(connection, "orders", 100, first=100)
        take(connection, "orders", 50)
    assert verdicts(earlier, tmp_path / "live") == ({"stored": 200, "acknowledged": 50, "present": 150}, {})


def spoil(path: Path, message_id: int) -> None:
    """Change a byte in every message and acknowledgement of this id."""
    data = bytearray(path.read_bytes())
    for part in read_records(path.name, len(data), lambda offset, count: bytes(data[offset : offset + count])):
        if isinstance(part, RecordArrays):
            for start in part.starts:
                if part.data[start + 4] in HOT and part.data[start + 8 : start + 16] == message_id.to_bytes(
                    8, "little"
                ):
                    data[part.base + start + 9] ^= 0xFF
    path.write_bytes(data)


def first_acknowledged(path: Path) -> int:
    data = path.read_bytes()
    for part in read_records(path.name, len(data), lambda offset, count: data[offset : offset + count]):
        if isinstance(part, RecordArrays):
            for start in part.starts:
                if part.data[start + 4] == RecordKind.ACKNOWLEDGE:
                    return int.from_bytes(part.data[start + 8 : start + 16], "little")
    raise AssertionError


@pytest.mark.parametrize("goes_on", [False, True], ids=["newest segment", "earlier segment"])
def test_an_acknowledgement_that_damage_took_is_not_called_missing_because_an_earlier_copy_is_sound(
    tmp_path: Path, goes_on: bool
) -> None:
    """The earlier copy has the message, and ends before its acknowledgement."""
    with running(tmp_path / "live", segment_size_bytes=128 * 1024) as (_, connection):
        send(connection, "orders", 10)
        earlier = crash_image(tmp_path / "live", tmp_path / "earlier")
        take(connection, "orders", 4)
        send(connection, "orders", 200 if goes_on else 1, first=10)
        late = crash_image(tmp_path / "live", tmp_path / "late")
    segment = min(late.glob("segment-*"))
    assert (segment != max(late.glob("segment-*"))) is goes_on
    spoil(segment, first_acknowledged(segment))
    found, _ = verdicts(earlier, late)
    assert found["acknowledged"] == 3 and found["unaccounted"] == 1 and "lost" not in found


def test_the_copy_of_a_backup_has_the_same_batches(tmp_path: Path) -> None:
    """Else every backup would look like one that went its own way."""
    with pair("replication", tmp_path) as both:
        with ConnectionFactory(f"{both.primary.url}?blockOnAcknowledge=true").connect() as connection:
            send(connection, "orders", 100)
            take(connection, "orders", 30)
        image = crash_image(tmp_path / "primary", tmp_path / "image")
        both.fail_over()
        with ConnectionFactory(both.backup.url).connect() as connection:
            send(connection, "orders", 50, first=100)
    found, apart = verdicts(image, tmp_path / "backup")
    assert apart == {}
    assert found["stored"] == 150 and "lost" not in found and "unaccounted" not in found


@pytest.mark.parametrize("logged", [False, True], ids=["no log", "a log that confirms them"])
def test_an_audit_names_what_was_left_behind(spark: SparkSession, tmp_path: Path, logged: bool) -> None:
    """It is lost when a log states that it was confirmed."""
    config = BrokerConfig(
        data_directory=str(tmp_path / "p"), audit_directory=str(tmp_path / "logs" / "p") if logged else None
    )
    with (
        EmbeddedBroker.in_thread(config) as broker,
        ConnectionFactory(f"{broker.url}?blockOnAcknowledge=true").connect() as connection,
    ):
        send(connection, "orders", 10)
        crash_image(tmp_path / "p", tmp_path / "b")
        send(connection, "orders", 3, first=10)
        dead = crash_image(tmp_path / "p", tmp_path / "dead")
    with running(tmp_path / "b") as (_, connection):
        send(connection, "orders", 3, first=10)
    result = audit(spark, [dead, tmp_path / "b", *([tmp_path / "logs" / "p"] if logged else [])])
    (row,) = [each for each in result.queues.collect() if each["stored"]]
    assert [row[name] for name in ("stored", "present", "lost", "left_behind")] == [13, 13, 0, 3]
    assert [each["verdict"] for each in result.problems.collect()] == ["left behind"] * 3
    assert any("went on behind batch" in text for text in result.limits())
    assert any("3 left behind" in line for line in result.lines())
    assert "<th>left behind</th>" in write_audit(result, tmp_path / "report").read_text()
    if logged:
        assert result.log is not None
        (log,) = result.log.queues.collect()
        assert log["never_delivered"] == 3
    else:
        assert result.sound
    result.close()
