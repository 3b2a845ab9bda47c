"""Drivers that die as by kill -9, attempts that others overtake, and drivers that stand still.

A stream reads the queue `orders` and writes the queue `results`. What both hold is compared after every death. The
driver dies once at each of these points, in this order, each time a new driver that goes on from the checkpoint:

| Point | What was done | What the next driver does |
|---|---|---|
| `latest` | the range of the batch is pinned; Spark has not noted it | plans the batch anew |
| `partitions` | Spark has noted the range | reads the same range |
| `reading` | a task has half of its rows | the same |
| `before-write` | a task of the sink has begun | the same |
| `writing` | half of a task's rows are sent, and some of them prepared | the same; what is prepared is rolled back |
| `after-prepare` | all of a task's rows are prepared | the same |
| `before-commit` | all tasks are done | the same |
| `after-commit` | the sink's commit is done; Spark has not noted it | writes the batch again, which changes nothing |
| `next-latest` | Spark has noted the batch; its messages are not acknowledged | acknowledges them |
| `source-commit` | they are acknowledged, and the next batch is noted | reads the next batch |
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

from embedbroker import ThreadedBroker
from embedbroker.pipeline._options import SourceOptions
from embedbroker.pipeline._source_stream import StreamReader
from tests.pipeline.conftest import CLUSTER, ROOT, spark_environment
from tests.pipeline.pairs import free_ports
from tests.pipeline.queues import fill, left_in, numbered
from tests.pipeline.sink_content import prepared
from tests.pipeline.stream_driver import ROWS_PER_TRIGGER

SPARK_HOME = Path(pyspark.__file__).parent
# A driver takes about 10 seconds on a quiet machine.
DRIVER_LIMIT_S = 180
MESSAGES = 100
LOCAL = "local[2,2]"
# Point: how many rows are in `results` when the driver has died there, and how many messages have left `orders`.
DEATHS = {
    "latest": (0, 0),
    "partitions": (0, 0),
    "reading": (0, 0),
    "before-write": (0, 0),
    "writing": (0, 0),
    "after-prepare": (0, 0),
    "before-commit": (0, 0),
    "after-commit": (ROWS_PER_TRIGGER, 0),
    "next-latest": (ROWS_PER_TRIGGER, 0),
    "source-commit": (ROWS_PER_TRIGGER, ROWS_PER_TRIGGER),
}


@pytest.fixture
def folder(broker: ThreadedBroker, tmp_path: Path) -> Path:
    """The queue is full, and no fault is planned."""
    (tmp_path / "faults").mkdir()
    fill(broker.url, "orders", numbered("orders", range(MESSAGES)))
    return tmp_path


def expected(*numbers: int) -> list[bytes]:
    return [str(number).encode() for number in range(*numbers)]


def results(url: str) -> list[bytes]:
    return sorted(left_in(url, "results"), key=int)


def end_group(process: subprocess.Popen[str]) -> None:
    """A driver has a Spark, and a Spark has workers."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def driver(
    url: str, folder: Path, source: Mapping[str, str] | None = None, /, **settings: str
) -> Iterator[subprocess.Popen[str]]:
    """A driver in a separate group; what it prints goes to the file named below."""
    given = {"url": url, "folder": str(folder), "source": source or {}, "settings": settings}
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.stream_driver", json.dumps(given)],
            cwd=ROOT,
            env={**os.environ, **spark_environment()},
            stderr=said,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            end_group(process)


def drive(url: str, folder: Path, source: Mapping[str, str] | None = None, /, **settings: str) -> int:
    """Run a driver to its end; returns its code."""
    with driver(url, folder, source, **settings) as process:
        return process.wait(DRIVER_LIMIT_S)


def said(folder: Path) -> str:
    return (folder / "said").read_text()


def plan(folder: Path, *points: str, word: str = "kill") -> None:
    for point in points:
        (folder / "faults" / point).write_text(word)


def met(folder: Path) -> Sequence[str]:
    return sorted(path.stem for path in (folder / "faults").glob("*.met"))


@pytest.mark.timeout(len(DEATHS) * DRIVER_LIMIT_S)
@pytest.mark.parametrize(
    ("master", "points"),
    [
        pytest.param(LOCAL, ("writing",), id="one-of-them"),  # for every day
        pytest.param(LOCAL, tuple(DEATHS), id="local", marks=pytest.mark.long),
        pytest.param(CLUSTER, tuple(DEATHS), id="cluster", marks=pytest.mark.long),
    ],
)
def test_a_driver_that_dies_at_any_point_of_a_batch_loses_and_doubles_nothing(
    master: str, points: Sequence[str], broker: ThreadedBroker, folder: Path
) -> None:
    for number, point in enumerate(points, start=1):
        written, acknowledged = DEATHS[point]
        plan(folder, point)
        code = drive(broker.url, folder, **{"spark.master": master})
        assert (code, len(met(folder))) == (-signal.SIGKILL, number), (point, said(folder))
        assert (results(broker.url), left_in(broker.url, "orders")) == (
            expected(written),
            expected(acknowledged, MESSAGES),
        ), point
    code = drive(broker.url, folder, **{"spark.master": master})
    assert code == 0, said(folder)
    assert results(broker.url) == expected(MESSAGES)
    assert (left_in(broker.url, "orders"), prepared(broker.url)) == ([], [])


@contextmanager
def cluster_of_two_hosts(folder: Path) -> Iterator[str]:
    """A standalone master and a worker on each of two hosts: Spark runs no second attempt on the host of the first."""
    (port,) = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for host in ("127.0.0.1", "127.0.0.2"):
        work = ["--work-dir", str(folder / host), "-c", "1", "-m", "1g", "--webui-port", "0"]
        commands.append([f"{deploy}.worker.Worker", "--host", host, *work, master])
    with ExitStack() as stack:
        for number, command in enumerate(commands):
            log = stack.enter_context((folder / f"{number}.log").open("w"))
            process = subprocess.Popen(
                [str(SPARK_HOME / "bin" / "spark-class"), *command],
                env={**os.environ, **spark_environment()},
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
            stack.callback(end_group, process)
        yield master


@pytest.mark.long
@pytest.mark.timeout(3 * DRIVER_LIMIT_S)
def test_an_attempt_that_another_one_overtakes_leaves_nothing(broker: ThreadedBroker, folder: Path) -> None:
    """The first attempt at a partition prepares its rows and never comes back; another one is begun meanwhile."""
    plan(folder, "after-prepare-of-1", word="hold")
    with cluster_of_two_hosts(folder) as master:
        code = drive(
            broker.url,
            folder,
            **{
                "spark.master": master,
                "spark.speculation": "true",
                "spark.speculation.interval": "100ms",
                "spark.speculation.multiplier": "1.1",
                "spark.speculation.quantile": "0.5",
            },
        )
    assert (code, met(folder)) == (0, ["after-prepare-of-1"]), said(folder)
    assert results(broker.url) == expected(MESSAGES)
    # An attempt of the last batch that was killed at the wrong moment is left to the next run.
    fill(broker.url, "orders", numbered("orders", [MESSAGES]))
    assert drive(broker.url, folder) == 0, said(folder)
    assert results(broker.url) == expected(MESSAGES + 1)
    assert (left_in(broker.url, "orders"), prepared(broker.url)) == ([], [])


LEASE = {"leaseMs": "1000"}


def take(url: str, count: int) -> list[bytes]:
    """Another reader of the same queue: waits until the lease is over, and takes its part for good."""
    options = SourceOptions.parse({"url": url, "queue": "orders", "maxRowsPerTrigger": str(count), **LEASE})
    reader = StreamReader(options, pa.schema([("body", pa.binary())]))
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    reader.commit(end)
    reader.stop()
    return [bytes(row["body"]).strip() for batch in batches for row in batch.to_pylist()]


def wait_stopped(process: subprocess.Popen[str], folder: Path, point: str) -> None:
    """Until the driver, with all that belongs to it, stands still at a point."""
    while point not in met(folder):
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), said(folder)


@pytest.mark.long
@pytest.mark.timeout(4 * DRIVER_LIMIT_S)
@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_driver_that_stood_still_beyond_its_lease_finds_that_messages_are_gone(
    fails: str, broker: ThreadedBroker, folder: Path
) -> None:
    """Between two batches. The other reader takes what is in the sink and not acknowledged, and ten messages more."""
    plan(folder, "next-latest", word="stop")
    lost = ROWS_PER_TRIGGER + 10
    with driver(broker.url, folder, {**LEASE, "failOnDataLoss": fails}) as process:
        wait_stopped(process, folder, "next-latest")
        assert take(broker.url, lost) == expected(lost)
        os.killpg(process.pid, signal.SIGCONT)
        code = process.wait(DRIVER_LIMIT_S)
    if fails == "true":
        assert code != 0
        assert "queue 'orders': " in said(folder) and "failOnDataLoss=false goes on" in said(folder)
        assert results(broker.url) == expected(ROWS_PER_TRIGGER)
        assert left_in(broker.url, "orders") == expected(lost, MESSAGES)
        code = drive(broker.url, folder, {**LEASE, "failOnDataLoss": "false"})
    assert code == 0, said(folder)
    assert results(broker.url) == [*expected(ROWS_PER_TRIGGER), *expected(lost, MESSAGES)]
    assert (left_in(broker.url, "orders"), prepared(broker.url)) == ([], [])


@pytest.mark.long
@pytest.mark.timeout(4 * DRIVER_LIMIT_S)
def test_a_driver_that_stood_still_in_the_middle_of_a_batch_fails_and_can_go_on(
    broker: ThreadedBroker, folder: Path
) -> None:
    """The batch was planned, and was taken before a task could read it. No batch has other rows than it
    was planned with, so this run fails whatever `failOnDataLoss` is; the next one does what that requests."""
    # The next reader takes the whole of what is pinned.
    taken = ROWS_PER_TRIGGER
    plan(folder, "partitions", word="stop")
    with driver(broker.url, folder, {**LEASE, "failOnDataLoss": "false"}) as process:
        wait_stopped(process, folder, "partitions")
        assert take(broker.url, 10) == expected(taken)
        os.killpg(process.pid, signal.SIGCONT)
        assert process.wait(DRIVER_LIMIT_S) != 0
    assert "not-pinned" in said(folder)
    assert (results(broker.url), left_in(broker.url, "orders")) == ([], expected(taken, MESSAGES))
    assert drive(broker.url, folder, LEASE) != 0
    assert "queue 'orders': " in said(folder) and "failOnDataLoss=false goes on" in said(folder)
    assert (results(broker.url), left_in(broker.url, "orders")) == ([], expected(taken, MESSAGES))
    assert drive(broker.url, folder, {**LEASE, "failOnDataLoss": "false"}) == 0, said(folder)
    assert results(broker.url) == expected(taken, MESSAGES)
    assert (left_in(broker.url, "orders"), prepared(broker.url)) == ([], [])
