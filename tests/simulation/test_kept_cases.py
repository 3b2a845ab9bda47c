"""Scenarios that once found a bug stay in the suite, as the plans that found it and not only as their seeds.

What a seed means changes with every new kind of workload. A kept case is the whole plan, written with
``python -m tests.simulation --first-seed SEED --keep tests/simulation/kept/NAME.json``; the name is what it caught.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.simulation.scenario import ScenarioPlan, draw_plan, plan_of, run_plan, values_of

from .sites import ClusterPlan, run_cluster_plan

KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))
#: Written with ``--cluster``.
KEPT_CLUSTERS = sorted((Path(__file__).parent / "kept" / "clusters").glob("*.json"))


def read(path: Path) -> ScenarioPlan:
    return plan_of(ScenarioPlan, json.loads(path.read_text()))


@pytest.mark.search
@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_what_once_failed_runs_clean(path: Path) -> None:
    result = run_plan(read(path))
    assert result.verdict.clean


@pytest.mark.search
@pytest.mark.parametrize("path", KEPT_CLUSTERS, ids=lambda path: path.stem)
def test_a_cluster_that_once_failed_runs_clean(path: Path) -> None:
    run_cluster_plan(plan_of(ClusterPlan, json.loads(path.read_text())))


@pytest.mark.parametrize("seed", range(1, 30))
def test_a_plan_comes_back_from_its_file_as_it_was(seed: int) -> None:
    plan = draw_plan(seed)
    assert plan_of(ScenarioPlan, json.loads(json.dumps(values_of(plan)))) == plan


def test_a_plan_runs_the_same_from_its_file() -> None:
    plan = draw_plan(4)
    again = plan_of(ScenarioPlan, json.loads(json.dumps(values_of(plan))))
    assert run_plan(again).digest == run_plan(plan).digest


def test_a_plan_with_a_setting_that_does_not_exist_is_not_read() -> None:
    values = values_of(draw_plan(1))
    assert isinstance(values, dict)
    with pytest.raises(KeyError):
        plan_of(ScenarioPlan, {**values, "weather": "fine"})
