"""The sink under a Spark: batch writes and streams, tasks that fail, batches that come again, and bad rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from embedbroker import ThreadedBroker
from embedbroker.pipeline._options import ConnectionOptions
from embedbroker.pipeline._sink_services import markers_of
from tests.pipeline.faults import FaultyDataSource
from tests.pipeline.sink_content import content, prepared

LINES = [f"line {number}" for number in range(500)]


def add_files(folder: Path, *files: Sequence[str]) -> None:
    """Files that a stream reads in this order."""
    folder.mkdir(exist_ok=True)
    for lines in files:
        number = len(list(folder.iterdir()))
        (folder / f"{number:03}.txt").write_text("\n".join(lines))


def run(spark: SparkSession, tmp_path: Path, form: str = "embedbroker", **options: str) -> None:
    """The stream of all files, two in a batch, until none is left."""
    lines = spark.readStream.option("maxFilesPerTrigger", "2").text(str(tmp_path / "in"))
    query = (
        lines.withColumnRenamed("value", "body")
        .writeStream.format(form)
        .options(queue="q", bodyType="bytes", **options)
        # Both reach the sink among its own options.
        .queryName("lines to a queue")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


def frame(spark: SparkSession, bodies: Sequence[str], partitions: int = 1) -> DataFrame:
    made = spark.createDataFrame([(body,) for body in bodies], "body string")
    return made.coalesce(1) if partitions == 1 else made.repartition(partitions)


def save(frame: DataFrame, url: str, form: str = "embedbroker", **options: str) -> None:
    given = {"queue": "q", "bodyType": "bytes", **options}
    frame.write.format(form).options(url=url, **given).mode("append").save()


def markers(url: str, checkpoint: Path) -> list[int | None]:
    query = re.findall(r'"id":"([^"]+)"', (checkpoint / "metadata").read_text())
    with markers_of(ConnectionOptions(url)) as found:
        return [found.get(f"spark/sink/{each}") for each in query]


@pytest.fixture
def faulty(spark: SparkSession) -> str:
    spark.dataSource.register(FaultyDataSource)
    return "faulty"


@pytest.mark.parametrize("guarantee", ["exactly-once", "deduplication"])
def test_a_frame_is_written(spark: SparkSession, broker: ThreadedBroker, guarantee: str) -> None:
    save(frame(spark, LINES), broker.url, guarantee=guarantee)
    assert (content(broker.url, "q"), prepared(broker.url)) == (LINES, [])
    save(frame(spark, LINES, 3), broker.url, queue="other", guarantee=guarantee)
    assert sorted(content(broker.url, "other")) == sorted(LINES)


def test_rows_name_their_destinations(spark: SparkSession, broker: ThreadedBroker) -> None:
    made = spark.createDataFrame([("a", "1"), ("queue://b", "2"), ("a", "3")], "destination string, body string")
    made.coalesce(1).write.format("embedbroker").options(url=broker.url, bodyType="bytes").mode("append").save()
    assert (content(broker.url, "a"), content(broker.url, "b")) == (["1", "3"], ["2"])


@pytest.mark.facts
def test_what_was_read_from_a_queue_can_be_written(spark: SparkSession, broker: ThreadedBroker) -> None:
    rows = frame(spark, LINES).selectExpr(
        "body",
        "if(length(body) = 8, 'text', 'bytes') as bodyType",
        "map('n', substr(body, 6), 'text', body, 'none', null) as properties",
        "map('n', 'long') as propertyTypes",
        "cast(length(body) as int) as priority",
        "body as correlationId",
        "'queue://answers' as replyTo",
        "timestamp'2024-01-01 00:00:00' as timestamp",
        "cast(body as binary) as duplicateId",
    )
    rows.write.format("embedbroker").options(url=broker.url, queue="q").mode("append").save()
    read = load(spark, broker.url, "q")
    read.write.format("embedbroker").options(url=broker.url, queue="copy").mode("append").save()
    kept = [name for name in read.columns if name not in ("queue", "address", "sequenceId", "position")]
    expected = read.select(*kept).collect()
    assert len(expected) == len(LINES)
    assert load(spark, broker.url, "copy").select(*kept).collect() == expected


def load(spark: SparkSession, url: str, queue: str) -> DataFrame:
    return spark.read.format("embedbroker").options(url=url, queue=queue).load()


@pytest.mark.parametrize("guarantee", ["exactly-once", "deduplication"])
def test_a_task_that_fails_is_tried_again_and_its_rows_are_there_once(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path, faulty: str, guarantee: str
) -> None:
    (tmp_path / "after-prepare-1-0").write_text("fail")
    save(frame(spark, LINES, 2), broker.url, faulty, faults=str(tmp_path), guarantee=guarantee)
    assert (tmp_path / "after-prepare-1-0.met").exists()
    assert (sorted(content(broker.url, "q")), prepared(broker.url)) == (sorted(LINES), [])


def test_a_write_that_fails_leaves_nothing(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path, faulty: str
) -> None:
    for attempt in range(2):
        (tmp_path / f"after-prepare-1-{attempt}").write_text("fail")
    with pytest.raises(Exception, match="planned: after-prepare-1-1"):
        save(frame(spark, LINES, 2), broker.url, faulty, faults=str(tmp_path))
    assert (content(broker.url, "q"), prepared(broker.url)) == ([], [])


def test_a_write_with_a_name_counts_once(spark: SparkSession, broker: ThreadedBroker) -> None:
    for _ in range(2):
        save(frame(spark, LINES), broker.url, writeId="daily", writeVersion="20240101")
    assert (content(broker.url, "q"), prepared(broker.url)) == (LINES, [])
    save(frame(spark, ["next"]), broker.url, writeId="daily", writeVersion="20240102")
    assert content(broker.url, "q") == [*LINES, "next"]


def test_a_bad_row_fails_the_write_and_is_named(spark: SparkSession, broker: ThreadedBroker) -> None:
    rows = [(f"row {number}", 4 if number != 77 else 11) for number in range(100)]
    made = spark.createDataFrame(rows, "body string, priority int").coalesce(1)
    with pytest.raises(Exception, match="partition 0, row 77, column 'priority': a priority is from 0 to 9, not 11"):
        save(made, broker.url)
    assert (content(broker.url, "q"), prepared(broker.url)) == ([], [])


def test_replacing_what_a_queue_holds_is_refused(spark: SparkSession, broker: ThreadedBroker) -> None:
    with pytest.raises(Exception, match="messages are added to a queue, never replaced"):
        frame(spark, LINES).write.format("embedbroker").options(url=broker.url, queue="q").mode("overwrite").save()


@pytest.mark.facts
@pytest.mark.parametrize("guarantee", ["exactly-once", "deduplication"])
def test_a_stream_goes_on_where_it_ended(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path, guarantee: str
) -> None:
    options = {"url": broker.url, "guarantee": guarantee}
    add_files(tmp_path / "in", LINES[:100], LINES[100:200], LINES[200:300])
    run(spark, tmp_path, **options)
    assert sorted(content(broker.url, "q")) == sorted(LINES[:300])
    add_files(tmp_path / "in", LINES[300:])
    run(spark, tmp_path, **options)
    assert sorted(content(broker.url, "q")) == sorted(LINES)
    assert prepared(broker.url) == []
    if guarantee == "exactly-once":
        assert markers(broker.url, tmp_path / "checkpoint") == [2]


@pytest.mark.parametrize("guarantee", ["exactly-once", "deduplication"])
def test_a_batch_that_spark_does_not_remember_is_written_once(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path, guarantee: str
) -> None:
    """As after a driver that died between the sink's commit and Spark's note of it."""
    add_files(tmp_path / "in", LINES[:100], LINES[100:200], LINES[200:])
    run(spark, tmp_path, url=broker.url, guarantee=guarantee)
    commits = tmp_path / "checkpoint" / "commits"
    (commits / "1").unlink()
    (commits / ".1.crc").unlink()
    add_files(tmp_path / "in", ["one more"])
    run(spark, tmp_path, url=broker.url, guarantee=guarantee)
    assert (sorted(content(broker.url, "q")), prepared(broker.url)) == (sorted([*LINES, "one more"]), [])


def test_a_stream_whose_batch_fails_leaves_nothing_of_it_and_goes_on(
    spark: SparkSession, broker: ThreadedBroker, tmp_path: Path, faulty: str
) -> None:
    faults = tmp_path / "faults"
    faults.mkdir()
    (faults / "before-commit").write_text("fail")
    add_files(tmp_path / "in", LINES[:250], LINES[250:])
    with pytest.raises(Exception, match="planned: before-commit"):
        run(spark, tmp_path, faulty, url=broker.url, faults=str(faults))
    assert (content(broker.url, "q"), prepared(broker.url)) == ([], [])
    run(spark, tmp_path, faulty, url=broker.url, faults=str(faults))
    assert (sorted(content(broker.url, "q")), prepared(broker.url)) == (sorted(LINES), [])
