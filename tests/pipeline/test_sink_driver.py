"""Drivers and executors that die as by kill -9, and attempts that others overtake, with drivers of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark
import pytest

from embedbroker import ThreadedBroker
from tests.pipeline.conftest import spark_environment
from tests.pipeline.sink_content import content, free_ports, prepared

SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]
# A driver takes about 15 seconds on a quiet machine.
DRIVER_LIMIT_S = 180
FILES = [[f"file {number} line {line}" for line in range(50)] for number in range(6)]
FIRST_BATCH = sorted(line for lines in FILES[:2] for line in lines)
ALL = sorted(line for lines in FILES for line in lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three batches of two files."""
    for name in ("in", "faults"):
        (tmp_path / name).mkdir()
    for number, lines in enumerate(FILES):
        file = tmp_path / "in" / f"{number}.txt"
        file.write_text("\n".join(lines))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    return tmp_path


def environment() -> dict[str, str]:
    own = {**os.environ, **spark_environment(), "SPARK_HOME": str(SPARK_HOME)}
    return {**own, "PYTHONPATH": os.pathsep.join([str(ROOT), own["PYTHONPATH"]])}


def end_group(process: subprocess.Popen[str]) -> None:
    """A driver has a Spark, and a Spark has workers."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def drive(broker: ThreadedBroker, folder: Path, **settings: str) -> tuple[int, str]:
    """Run a driver to its end; returns its code and what it said."""
    given = json.dumps({"url": broker.url, "folder": str(folder), "settings": settings})
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.sink_driver", given],
            cwd=ROOT,
            env=environment(),
            stderr=said,
            text=True,
            start_new_session=True,
        )
        try:
            code = process.wait(DRIVER_LIMIT_S)
        finally:
            end_group(process)
        said.seek(0)
        return code, said.read()


def plan(folder: Path, *points: str, word: str = "kill") -> None:
    for point in points:
        (folder / "faults" / point).write_text(word)


def met(folder: Path) -> Sequence[str]:
    return sorted(path.stem for path in (folder / "faults").glob("*.met"))


@pytest.mark.long
@pytest.mark.timeout(5 * DRIVER_LIMIT_S)
def test_a_driver_that_dies_at_any_point_of_a_batch_loses_and_doubles_nothing(
    broker: ThreadedBroker, folder: Path
) -> None:
    """Each driver goes on from the checkpoint of the one before, and most write the first batch again."""
    points = {"before-write": [], "after-prepare": [], "before-commit": [], "after-commit": FIRST_BATCH}
    for number, (point, expected) in enumerate(points.items(), start=1):
        plan(folder, point)
        code, said = drive(broker, folder)
        assert (code, len(met(folder))) == (-signal.SIGKILL, number), said
        assert sorted(content(broker.url, "q")) == expected
    code, said = drive(broker, folder)
    assert code == 0, said
    assert (sorted(content(broker.url, "q")), prepared(broker.url)) == (ALL, [])


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
                env=environment(),
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
    plan(folder, "after-prepare-1", word="hold")
    with cluster_of_two_hosts(folder) as master:
        code, said = drive(
            broker,
            folder,
            **{
                "spark.master": master,
                "spark.speculation": "true",
                "spark.speculation.interval": "100ms",
                "spark.speculation.multiplier": "1.1",
                "spark.speculation.quantile": "0.5",
                "spark.executor.memory": "512m",
            },
        )
    assert (code, met(folder)) == (0, ["after-prepare-1"]), said
    assert sorted(content(broker.url, "q")) == ALL
    # An attempt of the last batch that was killed at the wrong moment is left to the next run.
    (folder / "in" / "last.txt").write_text("last")
    code, said = drive(broker, folder)
    assert code == 0, said
    assert (sorted(content(broker.url, "q")), prepared(broker.url)) == (sorted([*ALL, "last"]), [])


@pytest.mark.long
@pytest.mark.timeout(2 * DRIVER_LIMIT_S)
def test_an_executor_that_dies_with_what_it_has_prepared_loses_and_doubles_nothing(
    broker: ThreadedBroker, folder: Path
) -> None:
    plan(folder, "after-prepare-1", word="executor")
    code, said = drive(broker, folder, **{"spark.master": "local-cluster[2,1,1024]"})
    assert (code, met(folder)) == (0, ["after-prepare-1"]), said
    assert (sorted(content(broker.url, "q")), prepared(broker.url)) == (ALL, [])
