"""The report of a drill at its end, in text, as JSON and with its exit code, for invented findings."""

from __future__ import annotations

import json
import re

import attrs
import pytest
from click.testing import CliRunner, Result

from embedbroker.cli._commands import commands
from embedbroker.cli.drill import _command
from embedbroker.cli.drill._plan import DrillPlan, Fault, Findings, Hit, OutageRecord, Round
from embedbroker.ledger import Tally, Timeline, Verdict

PLAN = DrillPlan(seconds=3, producers=2, consumers=2, size_bytes=200, rounds=3, seed=7)
GOOD_VERDICT = Verdict(drained=True, sent=9_876, confirmed=9_870, delivered=9_871, acknowledged=9_869)
BAD_VERDICT = attrs.evolve(GOOD_VERDICT, lost=Tally(3, ("p0-1",)), reordered=Tally(12))


def outage(at: float, serving: float | None, delivery: float | None, *producers: float) -> Round:
    return Round(Fault.KILL, OutageRecord("kill", at, Hit(1, 1, 1, 0, 3, 1_250), serving, delivery, producers))


GOOD = Findings(
    plan=PLAN,
    verdict=GOOD_VERDICT,
    timeline=Timeline(0.25, {}),
    rounds=(
        outage(1.0, 0.111, 0.611, 0.511, 0.711),
        outage(2.0, 0.222, 0.622, 0.522, 0.722),
        outage(3.0, 0.444, 0.644, 0.544, 1.744),
    ),
    load_s=3.5,
    drain_s=0.5,
    stop_codes=(0,),
    swept=0,
)
BAD = attrs.evolve(GOOD, verdict=BAD_VERDICT, rounds=(*GOOD.rounds[:2], outage(3.0, None, None, 0.544, 1.744)))


def told(monkeypatch: pytest.MonkeyPatch, findings: Findings, *options: str) -> Result:
    """What the command makes of these findings, on a terminal that is wide enough."""

    async def found(*_drill: object) -> Findings:
        return findings

    monkeypatch.setattr(_command, "conduct", found)
    monkeypatch.setenv("COLUMNS", "150")
    return CliRunner().invoke(commands, ["drill", *options])


def cells(text: str, row: str) -> list[str]:
    """The cells after the one that begins the only row with this text."""
    (line,) = [line for line in text.splitlines() if row in line]
    return re.split(r"[\s│|]+", line.partition(row)[2].strip(" │|"))


def test_a_good_drill_says_passed_and_has_exit_code_0(monkeypatch: pytest.MonkeyPatch) -> None:
    result = told(monkeypatch, GOOD)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "PASSED nothing confirmed was lost"
    assert "FAILED" not in result.stdout
    assert cells(result.stdout, "confirmed by the broker") == ["9,870"]
    assert cells(result.stdout, "lost: confirmed, never delivered") == ["0"]
    assert cells(result.stdout, "reordered  ") == ["0"]


def test_a_bad_drill_says_each_objection_and_has_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    result = told(monkeypatch, BAD)
    assert result.exit_code == 1
    said = ["FAILED 3 lost", "FAILED 12 reordered", "FAILED round 3: nothing was delivered after the kill"]
    assert result.stdout.splitlines()[-3:] == said
    assert "PASSED" not in result.stdout
    assert cells(result.stdout, "lost: confirmed, never delivered") == ["3"]
    assert cells(result.stdout, "reordered  ") == ["12"]


def test_times_without_service_have_their_spread_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(monkeypatch, GOOD).stdout
    headings = ["after", "until", "count", "min", "median", "p99", "max"]
    assert headings in [re.findall(r"\w+", line) for line in text.splitlines()]
    assert cells(text, "│ first confirmed send") == ["3", "511", "522", "544", "544"]
    assert cells(text, "the same for each producer") == ["6", "511", "628", "1,744", "1,744"]
    assert cells(text, "first delivery") == ["3", "611", "622", "644", "644"]
    assert cells(text, "broker reports that it serves") == ["3", "111", "222", "444", "444"]


def test_each_round_has_what_its_fault_met_and_how_long_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(monkeypatch, BAD).stdout
    assert cells(text, "2.0 s")[-4:] == ["222", "522", "722", "622"]
    assert cells(text, "3.0 s")[-4:] == ["-", "544", "1,744", "never"]


def test_the_json_has_the_first_delivery_of_each_outage_and_its_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = (json.loads(told(monkeypatch, findings, "--json").stdout) for findings in (GOOD, BAD))
    spread = {"count": 3, "min": 0.611, "median": 0.622, "p99": 0.644, "max": 0.644}
    assert good["downtime_s"]["kill"]["first_delivery"] == spread
    assert [turn["outages"][0]["first_delivery_s"] for turn in good["rounds"]] == [0.611, 0.622, 0.644]
    assert (good["passed"], good["objections"]) == (True, [])
    assert bad["downtime_s"]["kill"]["first_delivery"]["count"] == 2
    assert bad["rounds"][2]["outages"][0]["first_delivery_s"] is None
    assert (bad["passed"], bad["lost"], bad["reordered"]) == (False, 3, 12)


def test_with_json_too_a_bad_drill_has_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (told(monkeypatch, GOOD, "--json").exit_code, told(monkeypatch, BAD, "--json").exit_code) == (0, 1)
