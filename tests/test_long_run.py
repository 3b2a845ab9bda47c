"""A long run of drills: what it does next, that it goes on where it was, and what it leaves when it is stopped."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import reliability
from benchmarks.long_run import NoVerdict, Task, alone, drilled, next_task, run_until
from tests.embedbroker.cli.command_processes import started

RUN: dict[str, Any] = next(run for run in reliability.load() if run["plan"]["peer"] == "embedbroker")
KILLS = {("shared-store", "kill"): 20, ("replication", "kill"): 15}


def run_of(task: Task, *, passed: bool = True) -> dict[str, Any]:
    plan = {**RUN["plan"], "ha": task.ha, "faults": [task.fault], "rounds": task.rounds, "seed": task.seed}
    outage = {**RUN["rounds"][0]["outages"][0], "producers_s": [0.2]}
    rounds = [{"fault": task.fault, "outages": [outage]}] * task.rounds
    objections = [] if passed else ["1 lost"]
    return {**RUN, "plan": plan, "rounds": rounds, "passed": passed, "objections": objections}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of results, with nothing in it."""
    for name in ("DATA", "PAGE"):
        monkeypatch.setattr(reliability, name, tmp_path / name)
    (tmp_path / "DATA").write_text("[]")
    return tmp_path


def test_the_kind_that_lacks_most_comes_next_and_no_seed_comes_twice() -> None:
    runs: list[dict[str, Any]] = []
    tasks = []
    while (task := next_task(runs, KILLS)) is not None:
        tasks.append((task.ha, task.rounds, task.seed))
        runs.append(run_of(task))
    assert tasks == [
        ("shared-store", 10, 1),
        ("replication", 10, 1),
        ("shared-store", 10, 2),
        ("replication", 5, 2),
    ]


def test_drills_of_artemis_and_of_other_faults_do_not_count() -> None:
    runs = [run_of(Task("replication", "freeze", 15, 1))]
    runs.append(run_of(Task("replication", "kill", 15, 1)))
    runs[-1]["plan"]["peer"] = "artemis"
    assert next_task(runs, {("replication", "kill"): 15}) == Task("replication", "kill", 10, 1)


def test_a_run_that_was_stopped_goes_on_where_it_was(kept: Path) -> None:
    done: list[Task] = []

    def drill(task: Task, folder: Path) -> dict[str, Any]:
        folder.mkdir(parents=True)
        done.append(task)
        if len(done) == 2:
            raise KeyboardInterrupt
        return run_of(task)

    with pytest.raises(KeyboardInterrupt):
        run_until({("replication", "kill"): 25}, "", kept / "first", drill)
    assert [run["plan"]["seed"] for run in reliability.load()] == [1]
    assert run_until({("replication", "kill"): 25}, "quiet", kept / "second", drill) == []
    assert [task.seed for task in done] == [1, 2, 2, 3]
    assert [run["note"] for run in reliability.load()] == ["", "quiet", "quiet"]
    assert (kept / "PAGE").read_text() == reliability.page_of(reliability.load())


def test_a_drill_that_is_not_passed_ends_the_run_and_is_told(kept: Path) -> None:
    def drill(task: Task, folder: Path) -> dict[str, Any]:
        folder.mkdir(parents=True)
        return run_of(task, passed=False)

    lost, where = run_until(KILLS, "", kept / "evidence", drill)
    assert lost == "1 lost"
    assert (kept / "evidence" / "shared-store-kill-1").is_dir()
    assert where.endswith("shared-store-kill-1")
    assert "seed 1: 1 lost" in (kept / "PAGE").read_text()


def test_a_drill_without_a_verdict_says_its_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys; print('two', 'lines', sep='\\n', file=sys.stderr); sys.exit(3)"
    monkeypatch.setattr(Task, "command", lambda _: [sys.executable, "-c", program])
    with pytest.raises(NoVerdict, match=r"exit code 3.*lines"):
        drilled(Task("replication", "kill", 1, 1), tmp_path)


def test_one_long_run_at_a_time(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(NoVerdict, match="another long run"), alone(tmp_path):
        raise AssertionError("it was let in")


def test_one_that_is_asked_to_stop_takes_its_drill_with_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.long_run", "--ha", "replication", "--kills", "100000"]
    with started("--evidence", tmp_path, command=command) as process:
        assert process.process.stdout is not None
        said = process.process.stdout.readline()
        assert re.match(r"replication, 10 times kill, seed \d+", said)
        process.send(signal.SIGTERM)
        assert process.exit_code() == 130
        assert process.rest_of_errors() == ""
    assert list(tmp_path.rglob("embedbroker-drill-*")) == []
