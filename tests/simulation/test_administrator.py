"""An administrator that changes a broker while users work, under faults, and the checkers of its orders.

Each bug is put into the broker, and ordinary seeds that have an administrator must find it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.simulation.scenario import Campaign, Moment, draw_plan, plan_of, run_seed, values_of
from tests.simulation.scenario.administrator import with_administrator
from tests.simulation.scenario.plan import GroupMode, ScenarioPlan
from tests.simulation.scenario.scenario import run_group_seed

from .administration_bugs import ADMINISTRATION_BUGS
from .hunting import Bug, hunt

pytestmark = [pytest.mark.timeout(900)]


def test_a_plan_with_an_administrator_is_read_back() -> None:
    plan = with_administrator(draw_plan(1))
    assert plan.administrator is not None
    assert plan_of(ScenarioPlan, values_of(plan)) == plan


def test_half_of_the_plans_have_a_clerk_and_delayed_redeliveries() -> None:
    plans = [with_administrator(draw_plan(seed)) for seed in range(1, 61)]
    assert 15 <= sum(plan.broker.has_clerk for plan in plans) <= 40
    assert 25 <= sum(bool(plan.broker.redelivery_delay_ms) for plan in plans) <= 45
    assert all(plan.broker.secured for plan in plans if plan.broker.has_clerk)


@pytest.mark.search
def test_orders_hold_while_brokers_crash() -> None:
    campaign = Campaign()
    for seed in range(1, 7):
        campaign.add(run_seed(seed, administrator=True))
    assert campaign.passed, campaign.shortcomings()
    assert campaign.hits[Moment.QUEUE_PAUSED] >= 40
    assert campaign.hits[Moment.PURGED] >= 3
    for moment in (Moment.QUEUE_UPDATED, Moment.ADDRESS_BLOCKED, Moment.SETTINGS_CHANGED, Moment.GRANT_CHANGED):
        assert campaign.hits[moment] >= 10, moment.name
    for moment in (Moment.REMOVED_BY_FILTER, Moment.SHARING_CHANGED, Moment.ROUTING_CHANGED, Moment.CAME_BACK):
        assert campaign.hits[moment] >= 3, moment.name
    assert campaign.hits[Moment.UPDATE_REFUSED] >= 1


@pytest.mark.search
@pytest.mark.parametrize("mode", GroupMode)
def test_orders_hold_over_failovers(mode: GroupMode) -> None:
    result = run_group_seed(2, mode, administrator=True)
    assert result.hits[Moment.QUEUE_PAUSED] >= 3


@pytest.mark.search
@pytest.mark.parametrize("bug", ADMINISTRATION_BUGS)
def test_a_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]) -> None:
    hunt("ADMINISTRATION", bug, partial(run_seed, administrator=True), monkeypatch, record_property)
