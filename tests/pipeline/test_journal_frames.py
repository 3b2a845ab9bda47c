"""Journals as frames, against what clients did; and the order of each producer's messages."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from embedbroker.pipeline import journal_frames, producer_order
from embedbroker.runtime._disk import FileDisk
from embedbroker.storage import Finding, journal_rows
from embedclient import TextMessage
from tests.pipeline.journals import crash_image, prepared, running, send, take, transaction


def test_frames_have_every_record_once(spark: SparkSession, tmp_path: Path) -> None:
    with running(tmp_path / "live", segment_size_bytes=256 * 1024) as (broker, connection):
        send(connection, "orders", 60)
        take(connection, "orders", 15)
        transaction(connection, "orders", 4, 3, commit=True)
        transaction(connection, "orders", 5, 2, commit=False)
        prepared(broker.url, "orders", 6)
        image = crash_image(tmp_path / "live", tmp_path / "image")
    frames = journal_frames(spark, [image], contents=True)
    listed = [row for row in journal_rows(FileDisk(image, read_only=True)) if not isinstance(row, Finding)]
    found = (
        frames.records.where("kind not in ('end of segment', 'damage')").select("offset", "batch", "kind").distinct()
    )
    assert {tuple(row) for row in found.collect()} == {(row.offset, row.batch, row.kind) for row in listed}

    states = {row["state"]: row["count"] for row in frames.messages.groupBy("state").count().collect()}
    assert states == {"committed": 64, "rolled back": 5, "in doubt": 6}
    acknowledged = {row["state"]: row["count"] for row in frames.acknowledgements.groupBy("state").count().collect()}
    assert acknowledged["committed"] == 18
    assert {row["state"] for row in frames.transactions.collect()} == {"committed", "rolled back", "in doubt"}
    assert frames.messages.where("queue = 'orders' and key like 'ID:%' and length(digest) = 16").count() == 75


def test_the_order_of_each_producer_is_judged_by_its_own_numbers(spark: SparkSession, tmp_path: Path) -> None:
    with running(tmp_path, segment_size_bytes=256 * 1024) as (_, connection):
        send(connection, "orders", 30, producer="a")
        send(connection, "orders", 10, producer="b", first=5)
        send(connection, "orders", 3, producer="b", first=1)
        send(connection, "orders", 2, producer="a", first=29)
        with connection.session(transacted=True) as session, session.create_producer("orders") as target:
            for number in range(3):
                target.send(TextMessage("late", properties={"producer": "c", "number": number}))
            send(connection, "orders", 1, producer="c", first=3)
            session.commit()
    found = producer_order(spark, [tmp_path], producer="producer", sequence="number").collect()
    rows = {row["producer"]: (row["messages"], row["out_of_order"], row["repeated"]) for row in found}
    assert rows == {"a": (32, 0, 1), "b": (13, 3, 0), "c": (4, 3, 0)}
