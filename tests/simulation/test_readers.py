"""Readers with cursors, in the worlds of ordinary seeds: every message in one range, and each range as it was before."""

from __future__ import annotations

import pytest

from embedbroker.testing import Moment, SeedResult, draw_plan, run_plan
from embedbroker.testing._cursor_readers import read_in_ranges
from embedbroker.testing._draw_group import draw_group_plan
from embedbroker.testing._plan import GroupMode

FIRST_SEED = 1
SEEDS = range(FIRST_SEED, FIRST_SEED + 12)


def run(seed: int, mode: GroupMode | None = None) -> SeedResult:
    """Of four kinds of seeds those whose producers send once only."""
    number = 4 * seed + 3
    return run_plan(read_in_ranges(draw_plan(number) if mode is None else draw_group_plan(number, mode)))


def test_every_message_is_in_one_range_whatever_happens() -> None:
    hits = [0] * len(Moment)
    for seed in SEEDS:
        result = run(seed)
        assert result.verdict.clean
        hits = [before + more for before, more in zip(hits, result.hits, strict=True)]
    for moment in (Moment.RANGE_READ_AGAIN, Moment.LEASE_LOST, Moment.CURSOR_TAKEN_OVER, Moment.CRASH):
        assert hits[moment] >= 5, (moment.name, hits[moment])


@pytest.mark.parametrize("mode", [GroupMode.SHARED_STORE, GroupMode.REPLICATION])
def test_another_broker_goes_on_with_the_same_ranges(mode: GroupMode) -> None:
    failovers = read_again = 0
    for seed in range(FIRST_SEED, FIRST_SEED + 4):
        result = run(seed, mode)
        assert result.verdict.clean
        failovers += result.hits[Moment.FAILOVER]
        read_again += result.hits[Moment.RANGE_READ_AGAIN]
    assert failovers
    assert read_again
