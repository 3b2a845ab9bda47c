"""Large messages under faults, and their checkers: each bug is put into the broker, and ordinary seeds must find it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from embedbroker.testing._messages import Letter, key_of
from tests.simulation.scenario import draw_plan, run_seed
from tests.simulation.scenario.large_bodies import with_large_bodies
from tests.simulation.scenario.plan import GroupMode
from tests.simulation.scenario.scenario import run_group_seed

from .body_bugs import BODY_BUGS
from .hunting import Bug, hunt

pytestmark = [pytest.mark.timeout(900)]


def test_plans_have_large_messages_in_chunks() -> None:
    plan = with_large_bodies(draw_plan(1))
    assert all(role.plan.large_chance > 0 for role in plan.producers)
    limits = [host.settings.min_large_message_size for host in plan.hosts]
    assert all(2 * limit < role.plan.large_size_max for limit in limits for role in plan.producers)


def test_body_that_is_cut_short_is_noticed() -> None:
    message = Letter("key", "q", size=1_000).build(0)
    assert key_of(message) == "key"
    message.raw[:] = Letter("key", "q", size=999).build(0).raw[:1003] + message.raw[1004:]
    cut = type(message).parse(message.raw)
    with pytest.raises(AssertionError, match="999 of 1000 bytes"):
        key_of(cut)


@pytest.mark.search
@pytest.mark.parametrize("seed", range(1, 5))
def test_one_broker(seed: int) -> None:
    run_seed(seed, large_bodies=True)


@pytest.mark.search
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("mode", [GroupMode.REPLICATION, GroupMode.SHARED_STORE])
def test_groups(mode: GroupMode, seed: int) -> None:
    run_group_seed(seed, mode, large_bodies=True)


@pytest.mark.search
@pytest.mark.parametrize("bug", BODY_BUGS)
def test_a_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]) -> None:
    hunt("LARGE_BODIES", bug, partial(run_seed, large_bodies=True), monkeypatch, record_property)
