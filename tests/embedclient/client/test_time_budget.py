"""Seconds that many waits share."""

from __future__ import annotations

from embedclient._client import TimeBudget


def test_waits_one_after_another_share_the_seconds() -> None:
    budget = TimeBudget(5.0)
    assert budget.begin(100.0) == 5.0
    budget.end(103.0)
    assert budget.begin(103.0) == 2.0
    budget.end(105.0)
    assert budget.begin(105.0) == 0.0


def test_waits_at_the_same_time_spend_their_seconds_together() -> None:
    budget = TimeBudget(5.0)
    assert budget.begin(0.0) == 5.0
    assert budget.begin(1.0) == 4.0
    budget.end(2.0)
    assert budget.begin(2.0) == 3.0
    budget.end(4.0)
    budget.end(4.0)
    assert budget.begin(4.0) == 1.0


def test_seconds_without_a_wait_come_back_and_no_more_than_there_were() -> None:
    budget = TimeBudget(5.0)
    budget.begin(0.0)
    budget.end(5.0)
    assert budget.begin(6.5) == 1.5
    budget.end(8.0)
    assert budget.begin(1_000.0) == 5.0


def test_a_budget_below_zero_is_none() -> None:
    assert TimeBudget(-0.001).begin(7.0) == 0.0
