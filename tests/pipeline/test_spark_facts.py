"""What Spark does with a Python data source, as far as the rules of source and sink rest on it: for this version."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from embedbroker.pipeline._sink import BATCH_ID, QUERY_ID, RUN
from tests.pipeline.traced import PROPERTIES, Call, TracedSource, calls_in

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
        self._finish(self._stream().writeStream.foreachBatch(write))
        return calls_in(trace)[before:]

    def run_into_sink(self, failing: str = "") -> list[Call]:
        """One run of another query, which writes to the traced sink in two tasks; the calls of its writers."""
        before = len(self.calls_of_sink())
        writer = self._stream().repartition(2).writeStream.format("traced")
        self._finish(writer.options(trace=str(self._sink), failing=failing))
        return self.calls_of_sink()[before:]

    def write_batch(self, failing: str) -> None:
        """The same, not a stream."""
        self.spark.dataSource.register(TracedSource)
        writer = self.spark.range(4).repartition(2).write.format("traced")
        writer.options(trace=str(self._sink), failing=failing).mode("append").save()

    def calls_of_sink(self) -> list[Call]:
        """Those of all runs, also of ones that failed."""
        return calls_in(self._sink)

    def read_batch(self, condition: str, **options: str) -> list[int]:
        """The numbers of a batch for which a condition holds, by Spark."""
        self.spark.dataSource.register(TracedSource)
        reader = self.spark.read.format("traced").options(trace=str(self.folder / "trace"), **options)
        return [row["number"] for row in reader.load().where(condition).collect()]

    def calls_of_batch(self) -> list[Call]:
        """The calls of its reader."""
        return calls_in(self.folder / "trace")

    @property
    def _sink(self) -> Path:
        return self.folder / "sink"

    def _stream(self) -> DataFrame:
        self.spark.dataSource.register(TracedSource)
        return self.spark.readStream.format("traced").option("trace", str(self.folder / "trace")).load()

    def _finish(self, writer: DataStreamWriter) -> None:
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()


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
        # Of the last batch only this call reports; commit is not called for it.
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


# The sink: the values of `write` are the maker of the writer, partition, attempt, and Spark's query, batch, run;
# those of `commit` and `abort` their maker, the messages of the tasks, and the batch of a stream.


def pids(calls: list[Call], name: str) -> set[int]:
    return {call.pid for call in calls if call.name == name}


def ends_of(runs: Runs) -> list[tuple[object, ...]]:
    """How batches ended, without the makers of the writers."""
    ends = [call for call in runs.calls_of_sink() if call.name in ("commit", "abort")]
    return [(call.name, *call.values[1:]) for call in ends]


@pytest.mark.long
def test_a_streams_writer_is_made_for_the_tasks_of_a_batch_and_anew_for_its_end(runs: Runs) -> None:
    calls = runs.run_into_sink(failing="once")
    # A batch begins when the one before is committed.
    assert [name for name, _ in groupby(call.name for call in calls)] == ["__init__", "write", "__init__", "commit"] * 2
    ends = [call for call in calls if call.name == "commit"]
    assert [call.values[0] for call in ends] == [call.pid for call in ends]
    assert pids(calls, "write").isdisjoint(pids(calls, "__init__"))
    # In the order of the partitions, not of what was done first; of an attempt that failed there is nothing.
    assert [call.values[1:] for call in ends] == [([[0, 1], [1, 0]], 0), ([[0, 1], [1, 0]], 1)]


@pytest.mark.long
def test_a_batch_whose_commit_spark_did_not_note_is_written_and_committed_again_by_its_names(runs: Runs) -> None:
    assert PROPERTIES == (QUERY_ID, BATCH_ID, RUN)
    first = runs.run_into_sink()
    # As after a driver that died between the sink's commit and Spark's note of it.
    commits = runs.folder / "checkpoint" / "commits"
    (commits / "1").unlink()
    (commits / ".1.crc").unlink()
    again = runs.run_into_sink()
    assert [call.values[1:] for call in again if call.name == "commit"] == [([[0, 0], [1, 0]], 1)]
    names, names_again = ({call.values[3:] for call in calls if call.name == "write"} for calls in (first, again))
    query = json.loads((runs.folder / "checkpoint" / "metadata").read_text())["id"]
    (run,) = {run for _, _, run in names}
    (run_again,) = {run for _, _, run in names_again}
    assert names == {(query, "0", run), (query, "1", run)}
    assert names_again == {(query, "1", run_again)}
    assert None not in (run, run_again)
    assert run != run_again


@pytest.mark.long
def test_a_batch_of_a_stream_whose_task_fails_for_good_is_aborted_without_its_message(runs: Runs) -> None:
    with pytest.raises(Exception, match="planned: write"):
        runs.run_into_sink(failing="always")
    # The other task was done by then, or was ended.
    assert ends_of(runs) in ([("abort", [None, [1, 0]], 0)], [("abort", [None, None], 0)])


@pytest.mark.long
def test_a_commit_of_a_stream_that_fails_is_aborted_with_all_messages(runs: Runs) -> None:
    with pytest.raises(Exception, match="planned: commit"):
        runs.run_into_sink(failing="commit")
    assert ends_of(runs) == [("commit", [[0, 0], [1, 0]], 0), ("abort", [[0, 0], [1, 0]], 0)]


@pytest.mark.long
def test_the_writer_of_a_batch_write_is_made_once_and_travels_to_tasks_and_to_its_end(runs: Runs) -> None:
    runs.write_batch("once")
    calls = runs.calls_of_sink()
    (made,) = (call for call in calls if call.name == "__init__")
    assert {call.values[0] for call in calls if call.name != "__init__"} == {made.pid}
    assert made.pid not in pids(calls, "write") | pids(calls, "commit")
    assert pids(calls, "write").isdisjoint(pids(calls, "commit"))
    assert ends_of(runs) == [("commit", [[0, 1], [1, 0]])]


@pytest.mark.long
@pytest.mark.parametrize("failing", ["always", "commit"])
def test_a_batch_write_that_fails_is_aborted(runs: Runs, failing: str) -> None:
    with pytest.raises(Exception, match="planned: "):
        runs.write_batch(failing)
    if failing == "commit":
        assert ends_of(runs) == [("commit", [[0, 0], [1, 0]]), ("abort", [[0, 0], [1, 0]])]
    else:
        assert ends_of(runs) in ([("abort", [None, [1, 0]])], [("abort", [None, None])])


# The reader of a batch


@pytest.mark.usefixtures("pushing")
def test_filters_that_a_reader_takes_are_its_own_and_those_it_gives_back_are_sparks(runs: Runs) -> None:
    # Nothing is left out by the traced reader: Spark believes a source that claims a filter.
    assert runs.read_batch("number > 1 and number < 3", pushing="true") == [0, 1, 2]
    calls = runs.calls_of_batch()
    # It has what it took before partitions are requested, and in the tasks.
    assert [(call.name, *call.values) for call in calls] == [
        ("__init__",),
        ("pushFilters",),
        ("partitions", "number > 1"),
        ("read", 4, "number > 1"),
    ]
    assert len({call.pid for call in calls if call.name != "read"}) == 1
    assert pids(calls, "read").isdisjoint(pids(calls, "partitions"))


def test_a_reader_that_takes_filters_is_refused_where_sparks_own_option_is_off(runs: Runs) -> None:
    with pytest.raises(Exception, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        runs.read_batch("number > 1", pushing="true")
    assert [call.name for call in runs.calls_of_batch()] == ["__init__"]


def test_an_empty_list_of_partitions_is_read_as_one_without_a_value(runs: Runs) -> None:
    assert runs.read_batch("true", partitions="none") == []
    assert [(call.name, *call.values) for call in runs.calls_of_batch()][1:] == [("partitions",), ("read", None)]
