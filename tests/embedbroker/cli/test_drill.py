"""The drill of one broker: a short one passes, what it must notice is noticed, and nothing stays behind."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import attrs
import pytest
import trio
import trio.testing
from click.testing import CliRunner

from embedbroker.cli._commands import commands
from embedbroker.cli.drill import BrokerFile, write_files
from embedbroker.cli.drill._page import page_of
from embedbroker.cli.drill._plan import DrillPlan, Fault, Findings, Hit, OutageRecord, RoleChange, Round
from embedbroker.cli.drill._run import BACKLOG_MAX, QUEUE, STANDSTILL_S, Run
from embedbroker.cli.drill._stage import Stage
from embedbroker.cli.drill._tables import progress_line
from embedbroker.cli.drill._transaction import Outcome, run_transaction
from embedbroker.ledger import Tally, Timeline, TimelineBucket, Verdict
from embedbroker.runtime._lock import LOCK_FILE
from tests.embedbroker.cli.command_processes import started

PLAN = DrillPlan(seconds=3, producers=2, consumers=2, size_bytes=200, rounds=1, seed=7)
HIT = Hit(1, 1, 1, 0, 3, 0)
OUTAGE = OutageRecord("kill", 1.0, HIT, 0.4, 0.6, (0.5, 0.7))
GOOD = Findings(
    plan=PLAN,
    verdict=Verdict(drained=True, sent=9, confirmed=9, delivered=9),
    timeline=Timeline(0.25, {0: TimelineBucket(4, 4, 4, 4), 6: TimelineBucket(5, 5, 5, 5)}),
    rounds=(Round(Fault.KILL, OUTAGE),),
    load_s=3.0,
    drain_s=0.5,
    stop_codes=(0,),
    swept=0,
    roles=(RoleChange(0.0, "broker", "starting"), RoleChange(0.2, "broker", "live"), RoleChange(1.0, "broker", "down")),
)


def test_two_kills_lose_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    options = ["--seconds", "3", "--rounds", "2", "--size", "100", "--seed", "11", "--json", "--report", str(report)]
    result = CliRunner().invoke(commands, ["drill", *options])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["passed"] is True
    assert figures["confirmed"] > 100
    assert [figures[name] for name in ("lost", "vanished", "duplicated_unflagged", "reordered", "phantom")] == [0] * 5
    assert len(figures["rounds"]) == 2
    for turn in figures["rounds"]:
        (outage,) = turn["outages"]
        assert outage["after"] == "kill"
        assert outage["sends_waiting_outside_transactions"] > 0
        assert outage["transactions_before_their_commit"] > 0
        assert len(outage["producers_s"]) == 4
        assert 0 < outage["serving_s"] < outage["first_confirmed_s"] < outage["producers_s"][-1]
        assert outage["first_delivery_s"] > 0
    assert figures["downtime_s"]["kill"]["first_confirmed"]["count"] == 2
    assert figures["downtime_s"]["kill"]["first_delivery"]["count"] == 2
    # Without a terminal progress is whole lines.
    assert re.fullmatch(r"broker at tcp://\S+, in \S+\n( +\d+\.\d s  (load|drain) .*\n)*", result.stderr), result.stderr
    page = report.read_text()
    assert "PASSED" in page
    assert page.count('class="outage"') == 2


@pytest.mark.search
def test_a_broker_that_forgets_fails_the_drill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept, forgotten = (f"<persistence-enabled>{value}</persistence-enabled>" for value in ("true", "false"))

    def write_forgetful(*arguments: Any, **options: Any) -> list[BrokerFile]:
        files = write_files(*arguments, **options)
        for file in files:
            text = file.path.read_text()
            assert kept in text
            file.path.write_text(text.replace(kept, forgotten))
        return files

    monkeypatch.setattr("embedbroker.cli.drill._scene.write_files", write_forgetful)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # One consumer is behind so many producers: a kill finds confirmed messages in the queue or in its transaction.
    clients = ["--producers", "8", "--consumers", "1", "--size", "200"]
    options = ["--seconds", "3", "--rounds", "2", "--seed", "7", "--json", *clients]
    result = CliRunner().invoke(commands, ["drill", *options])
    assert result.exit_code == 1, result.output
    figures = json.loads(result.stdout)
    assert figures["passed"] is False
    assert figures["lost"] + figures["vanished"] > 0
    assert any(re.search("lost|vanished", objection) for objection in figures["objections"])
    # The brokers' output is kept for an examination.
    place = re.search(r"what the brokers wrote is in (\S+)", result.stderr)
    assert place is not None and list(Path(place[1]).rglob("*.log"))


@pytest.mark.search
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_drill_that_is_stopped_leaves_no_broker_behind(number: signal.Signals) -> None:
    with started("drill", "--seconds", "60", "--rounds", "1") as process:
        found = re.search(r"tcp://(.+):(\d+), in (\S+)", process.error_line())
        assert found is not None
        place, directory = (found[1], int(found[2])), Path(found[3])
        pid = int((directory / "store" / "journal" / LOCK_FILE).read_text().split()[0])
        broker = os.pidfd_open(pid)
        with socket.create_connection(place) as seen:
            process.send(number)
            # The broker closes it when it ends; with a reset, if it had no time to accept it.
            with suppress(ConnectionResetError):
                while seen.recv(1024):
                    pass
        assert process.exit_code() == (128 + number if number is signal.SIGINT else -number)
        assert "Traceback" not in process.rest_of_errors()
        assert ("INTERRUPTED after 0 of 1 rounds" in process.rest_of_output()) == (number is signal.SIGINT)
    select.select([broker], [], [])  # it has ended
    os.close(broker)
    assert directory.exists() == (number is signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)


def test_a_report_that_cannot_be_written_is_refused_before_the_drill(tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere" / "report.html", tmp_path, ""):
        result = CliRunner().invoke(commands, ["drill", "--seconds", "600", "--report", str(place)])
        assert result.exit_code == 2
        assert "--report" in result.stderr


def objections(**changes: object) -> list[str]:
    return attrs.evolve(GOOD, **changes).objections()  # type: ignore[arg-type]  # names of fields, checked by attrs


def with_outage(**changes: object) -> dict[str, object]:
    changed = attrs.evolve(OUTAGE, **changes)  # type: ignore[arg-type]  # as above
    return {"rounds": (Round(Fault.KILL, changed),)}


def test_a_good_run_has_no_objections() -> None:
    assert objections() == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"verdict": attrs.evolve(GOOD.verdict, lost=Tally(1, ("p0-1",)))}, "1 lost"),
        ({"verdict": attrs.evolve(GOOD.verdict, vanished=Tally(2))}, "2 vanished"),
        ({"verdict": attrs.evolve(GOOD.verdict, duplicated_unflagged=Tally(1))}, "1 duplicated unflagged"),
        ({"verdict": attrs.evolve(GOOD.verdict, confirmed=0)}, "nothing was confirmed"),
        (with_outage(hit=attrs.evolve(HIT, waiting_sends=0)), "round 1: the kill met no unconfirmed send"),
        (with_outage(hit=attrs.evolve(HIT, open_transactions=0)), "or no open transaction"),
        (with_outage(first_delivery_s=None), "round 1: nothing was delivered after the kill"),
        (with_outage(producers_s=(0.5,)), "round 1: 1 producers were not served after the kill"),
        ({"rounds": ()}, "only 0 of 1 rounds"),
        ({"stop_codes": (0, -9)}, "exit code -9"),
        ({"branches_left": 2}, "2 prepared branches are left"),
    ],
)
def test_what_must_not_be_is_an_objection(changes: dict[str, object], said: str) -> None:
    (objection,) = objections(**changes)
    assert said in objection


def test_the_page_needs_nothing_from_outside_and_its_drawing_is_whole() -> None:
    page = page_of(GOOD)
    assert not re.search(r"(src|href)=|@import|url\(", page)
    drawing = re.search(r"<svg.*</svg>", page, re.DOTALL)
    assert drawing is not None
    svg = ElementTree.fromstring(drawing.group())
    lines = svg.findall("polyline")
    assert [line.get("class") for line in lines] == ["one", "two"]
    assert all(len((line.get("points") or "").split()) == 7 for line in lines)
    (lane,) = (each for each in svg.findall("rect") if each.get("class") == "down")
    assert float(lane.get("x") or 0) > 0
    left, top, width, height = map(float, (svg.get("viewBox") or "").split())
    for x, y in (point.split(",") for line in lines for point in (line.get("points") or "").split()):
        assert left <= float(x) <= width
        assert top <= float(y) <= height
    embedded = re.search(r'<script type="application/json" id="findings">(.*?)</script>', page)
    assert embedded is not None
    assert json.loads(embedded.group(1))["passed"] is True


def test_a_failed_run_says_so_on_its_page() -> None:
    page = page_of(attrs.evolve(GOOD, verdict=attrs.evolve(GOOD.verdict, lost=Tally(3, ("<b>",)))))
    assert '<span class="failed">FAILED</span>' in page
    assert '<p class="failed">3 lost</p>' in page


async def test_a_fault_waits_for_a_send_and_a_transaction_at_the_same_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    stage = Stage(Run(PLAN))
    hit: list[tuple[int, int]] = []

    async def kill() -> None:
        await stage.moment()
        hit.append((stage.waiting_sends, len(stage.open_transactions)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(kill)
        await trio.testing.wait_all_tasks_blocked()
        stage.waiting_sends = 1
        stage.look()
        await trio.testing.wait_all_tasks_blocked()
        assert hit == []
        stage.open_transactions.update(("p1#1", "c0#1"))
        stage.look()
        stage.waiting_sends = 0  # answered before any client could act on it
        await trio.testing.wait_all_tasks_blocked()
        assert hit == []
        stage.waiting_sends = 1
        stage.look()
    assert hit == [(1, 2)]


async def test_a_fault_may_wait_for_a_prepared_branch_too(autojump_clock: trio.testing.MockClock) -> None:
    stage = Stage(Run(PLAN))
    stage.waiting_sends = 1
    stage.open_transactions.add("p1#1")
    with trio.move_on_after(1) as patience:
        await stage.moment(prepared=True)
    assert patience.cancelled_caught
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(stage.moment, prepared=True))
        await trio.testing.wait_all_tasks_blocked()
        stage.prepared_branches = 1
        stage.look()


@pytest.mark.parametrize("transacted", [True, False])
async def test_only_a_transaction_with_work_in_it_counts_as_one(transacted: bool) -> None:
    stage = Stage(Run(PLAN))
    seen: list[tuple[int, int]] = []

    def look() -> None:
        seen.append((len(stage.open_transactions), stage.requested_commits))

    async def work(worked: Callable[[], None]) -> None:
        look()
        worked()
        look()

    async def commit() -> None:
        look()

    outcome = await run_transaction(stage, "c#1", work, commit, commit, transacted=transacted)
    look()
    assert outcome is Outcome.COMMITTED
    assert seen == ([(0, 0), (1, 0), (0, 1), (0, 0)] if transacted else [(0, 0)] * 4)


async def test_producers_wait_while_consumers_are_far_behind(autojump_clock: trio.testing.MockClock) -> None:
    run = Run(PLAN)
    run.confirmed(BACKLOG_MAX)
    with trio.move_on_after(1) as patience:
        await run.room()
    assert patience.cancelled_caught
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(run.room)
        await trio.testing.wait_all_tasks_blocked()
        run.consumed(BACKLOG_MAX // 2 + 1)
    assert trio.current_time() < 1 + STANDSTILL_S


async def test_producers_do_not_wait_for_consumers_that_get_nothing(autojump_clock: trio.testing.MockClock) -> None:
    run = Run(PLAN)
    run.confirmed(BACKLOG_MAX)
    began = trio.current_time()
    await run.room()
    assert trio.current_time() - began == STANDSTILL_S


async def test_after_a_fault_the_ledger_tells_the_backlog() -> None:
    run = Run(PLAN)
    for number in range(3):
        run.ledger.sent(f"m{number}", QUEUE, 0.0)
        run.ledger.confirmed(f"m{number}", 0.0)
    run.confirmed(17)
    run.recount()
    assert run.backlog == 3


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (None, "   0.0 s  load   confirmed 27,061  consumed 26,900  queued 161  rounds 1/5"),
        (80, "   0.0 s  load   confirmed 27,061  consumed 26,900  queued 161  rounds 1/5"),
        (70, "   0.0 s  load   confirmed 27,061  consumed 26,900  rounds 1/5"),
        (55, "   0.0 s  confirmed 27,061  consumed 26,900  rounds 1/5"),
        (40, "   0.0 s  confirmed 27,061  rounds 1/5"),
        (20, "   0.0 s  rounds 1/5"),
        (5, "   0.0 s  rounds 1/5"),
    ],
)
async def test_a_narrow_terminal_still_shows_the_rounds(
    columns: int | None, line: str, autojump_clock: trio.testing.MockClock
) -> None:
    run = Run(attrs.evolve(PLAN, rounds=5))
    run.messages_confirmed, run.messages_consumed, run.backlog = 27_061, 26_900, 161
    run.rounds.extend(GOOD.rounds)
    assert progress_line(run, columns).plain == line
