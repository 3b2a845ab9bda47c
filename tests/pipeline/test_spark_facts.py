"""What Spark does with a Python data source, as far as the rules of the source rest on it: traced, for this version."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline.traced import Call, TracedSource, calls_in

pytestmark = pytest.mark.facts


@frozen
class Runs:
    """Runs of one query over the traced source."""

    spark: SparkSession
    folder: Path

    def run(self, write: Callable[[DataFrame, int], None]) -> list[Call]:
        """One run; the calls of this run, in order."""
        trace = self.folder / "trace"
        before = len(calls_in(trace))
        self.spark.dataSource.register(TracedSource)
        stream = self.spark.readStream.format("traced").option("trace", str(trace)).load()
        writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(self.folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return calls_in(trace)[before:]


@pytest.fixture
def runs(spark: SparkSession, tmp_path: Path) -> Runs:
    return Runs(spark, tmp_path)


def twice(batch: DataFrame, number: int) -> None:
    batch.collect()
    batch.collect()


def of_planner(calls: list[Call]) -> list[tuple[object, ...]]:
    """The calls of the process that plans, without those that say nothing of the end of a batch."""
    silent = (
        "__init__",
        "initialOffset",
        "read",
        "reportLatestOffset",
        "getDefaultReadLimit",
        "prepareForTriggerAvailableNow",
        "stop",
    )
    return [(call.name, *call.values) for call in calls if call.name not in silent]


def test_the_calls_of_a_new_query_in_their_order(runs: Runs) -> None:
    calls = runs.run(twice)
    assert of_planner(calls) == [
        ("latestOffset", 0, "ReadMaxRows"),
        ("partitions", 0, 2),
        # The end of a batch is the start of the next call: this is where it is known to be in the sink.
        ("latestOffset", 2, "ReadMaxRows"),
        ("commit", 2),
        ("partitions", 2, 4),
        # Of the last batch only this call tells; nobody calls commit for it.
        ("latestOffset", 4, "ReadMaxRows"),
    ]
    names = [call.name for call in calls]
    assert names.index("prepareForTriggerAvailableNow") < names.index("latestOffset")
    assert names.index("initialOffset") < names.index("latestOffset")


def test_each_action_of_a_batch_reads_it_again_in_another_process(runs: Runs) -> None:
    calls = runs.run(twice)
    assert [call.values for call in calls if call.name == "read"] == [(0, 2), (0, 2), (2, 4), (2, 4)]
    planners = {call.pid for call in calls if call.name in ("initialOffset", "latestOffset", "partitions", "commit")}
    readers = {call.pid for call in calls if call.name == "read"}
    assert len(planners) == 1
    assert planners.isdisjoint(readers)
    # The reader whose `read` runs in workers is made in a third process, and none of its other methods is called.
    made = {call.pid for call in calls if call.name == "__init__"}
    assert len(made - planners) >= 1
    assert made.isdisjoint(readers)


def test_a_finished_query_begins_again_with_its_last_end(runs: Runs) -> None:
    runs.run(twice)
    calls = runs.run(twice)
    assert of_planner(calls) == [("latestOffset", 4, "ReadMaxRows")]


def test_a_batch_that_failed_is_planned_again_before_anything_else(runs: Runs) -> None:
    def fail(batch: DataFrame, number: int) -> None:
        batch.collect()
        raise RuntimeError("the sink fails")

    with pytest.raises(Exception, match="the sink fails"):
        runs.run(fail)
    calls = runs.run(twice)
    assert of_planner(calls)[:3] == [("partitions", 0, 2), ("latestOffset", 2, "ReadMaxRows"), ("commit", 2)]
    # While batch 0 is not done its start is asked for again: an initial offset must not have an effect.
    names = [call.name for call in calls]
    assert names.index("initialOffset") < names.index("partitions")


def test_a_terminals_ctrl_c_reaches_the_driver_only(runs: Runs) -> None:
    calls = runs.run(twice)
    # It goes to the group in front. The daemons that fork workers have groups of their own: Spark lets workers take it.
    # The process that plans has no daemon, and ignores it as its Java does.
    assert {call.name for call in calls} >= {"__init__", "latestOffset", "read"}
    assert [call for call in calls if call.group == os.getpgid(0) and not call.ignores_ctrl_c] == []
