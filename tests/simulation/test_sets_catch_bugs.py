"""The checkers of commit sets can fail: each bug is put into the broker, and ordinary seeds must find it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.scenario import Campaign, Moment, draw_plan, run_seed

from .hunting import Bug, hunt
from .set_bugs import SET_BUGS

pytestmark = [pytest.mark.search, pytest.mark.timeout(900)]


def seed_with_sets(number: int) -> int:
    """The seeds whose transactions are commit sets; not all of them have any."""
    return 8 * number - 4


def test_one_seed_of_eight_has_commit_sets() -> None:
    def has_sets(seed: int) -> bool:
        return any(role.plan.sets for role in draw_plan(seed).producers)

    assert sum(has_sets(seed) for seed in range(1, 81)) >= 5
    assert not any(has_sets(seed) for seed in range(1, 81) if seed % 8 != 4)


def test_sets_are_committed_doubted_and_asked_for_again() -> None:
    campaign = Campaign()
    for number in range(1, 9):
        campaign.add(run_seed(seed_with_sets(number)))
    assert min(campaign.hits[each] for each in (Moment.SET_COMMITTED, Moment.SET_REPLAYED, Moment.SET_IN_DOUBT)) >= 3
    assert campaign.passed, campaign.shortcomings()


@pytest.mark.parametrize("bug", SET_BUGS)
def test_a_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]) -> None:
    hunt("COMMIT_SETS", bug, lambda number: run_seed(seed_with_sets(number)), monkeypatch, record_property)
