"""Users with few rights among the others, under faults, and the checker of permissions.

Each bug is put into the broker, and ordinary seeds that have such users must find it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice

import pytest

from tests.simulation.scenario import Campaign, Moment, draw_plan, plan_of, run_seed, values_of
from tests.simulation.scenario.plan import GroupMode, ScenarioPlan
from tests.simulation.scenario.scenario import run_group_seed

from .hunting import Bug, hunt
from .permission_bugs import PERMISSION_BUGS

pytestmark = [pytest.mark.timeout(900)]


@cache
def _has_visitors(seed: int) -> bool:
    return bool(draw_plan(seed).visitors)


def _seeds() -> Iterator[int]:
    return filter(_has_visitors, range(1, 2_400))


def seed_with_visitors(number: int) -> int:
    """Return one of the seeds whose brokers have permissions, and users that lack them."""
    return next(islice(_seeds(), number - 1, None))


@pytest.mark.search
def test_some_seeds_have_permissions_in_the_configuration_or_the_journal() -> None:
    seeds = list(_seeds())
    assert 150 <= len(seeds) <= 280
    brokers = [draw_plan(seed).broker for seed in seeds[:40]]
    assert all(broker.secured for broker in brokers)
    assert {broker.permissions_are_managed for broker in brokers} == {False, True}


def test_a_plan_with_visitors_is_read_back() -> None:
    plan = draw_plan(seed_with_visitors(1))
    assert plan_of(ScenarioPlan, values_of(plan)) == plan


@pytest.mark.search
def test_what_is_forbidden_has_no_effect_while_brokers_crash() -> None:
    campaign = Campaign()
    for number in range(1, 7):
        campaign.add(run_seed(seed_with_visitors(number)))
    assert campaign.passed, campaign.shortcomings()
    assert campaign.hits[Moment.FORBIDDEN_REFUSED] >= 100
    assert campaign.hits[Moment.PERMITTED_PASSED] >= 40
    assert campaign.hits[Moment.CRASH] >= 3


@pytest.mark.search
@pytest.mark.parametrize("mode", GroupMode)
def test_permissions_hold_over_failovers(mode: GroupMode) -> None:
    result = run_group_seed(seed_with_visitors(2), mode)
    assert min(result.hits[each] for each in (Moment.FORBIDDEN_REFUSED, Moment.PERMITTED_PASSED)) >= 5


@pytest.mark.search
@pytest.mark.parametrize("bug", PERMISSION_BUGS)
def test_a_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]) -> None:
    hunt("PERMISSIONS", bug, lambda number: run_seed(seed_with_visitors(number)), monkeypatch, record_property)
