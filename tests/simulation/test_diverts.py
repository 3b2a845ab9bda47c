"""Diverts and wildcard subscriptions under faults, and their checkers.

Each bug is put into the broker, and ordinary seeds that have diverts must find it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice

import pytest
from attrs import evolve

from embedbroker.testing._routing_model import ModelDivert, RoutingModel
from embedbroker.testing._scene import Topic
from tests.simulation.scenario import Campaign, Moment, draw_plan, plan_of, run_seed, values_of
from tests.simulation.scenario.plan import GroupMode, ScenarioPlan
from tests.simulation.scenario.scenario import run_group_seed, run_plan

from .divert_bugs import DIVERT_BUGS
from .hunting import Bug, hunt

pytestmark = [pytest.mark.timeout(900)]


@cache
def _has_diverts(seed: int) -> bool:
    return bool(draw_plan(seed).diverts)


def _seeds() -> Iterator[int]:
    return filter(_has_diverts, range(1, 2_000))


def seed_with_diverts(number: int) -> int:
    """Return one of the seeds whose scenarios have diverts and wildcard subscriptions."""
    return next(islice(_seeds(), number - 1, None))


@pytest.mark.search
def test_some_seeds_have_diverts_and_wildcards_of_all_kinds() -> None:
    seeds = list(_seeds())
    assert 200 <= len(seeds) <= 350
    diverts = [divert for seed in seeds[:40] for divert in draw_plan(seed).diverts]
    for of_kind in (
        lambda divert: divert.exclusive,
        lambda divert: divert.color,
        lambda divert: divert.tag,
        lambda divert: divert.managed,
        lambda divert: "*" in divert.address,
        lambda divert: len(divert.forwarding) > 1,
    ):
        assert {bool(of_kind(divert)) for divert in diverts} == {False, True}


def test_a_plan_with_diverts_is_read_back() -> None:
    plan = draw_plan(seed_with_diverts(1))
    assert plan_of(ScenarioPlan, values_of(plan)) == plan


@pytest.mark.search
def test_messages_are_diverted_and_match_wildcards_while_brokers_crash() -> None:
    campaign = Campaign()
    for number in range(1, 7):
        campaign.add(run_seed(seed_with_diverts(number)))
    assert campaign.passed, campaign.shortcomings()
    assert min(campaign.hits[each] for each in (Moment.DIVERTED, Moment.WILDCARD_DELIVERED)) >= 100
    assert campaign.hits[Moment.CRASH] >= 3


@pytest.mark.search
@pytest.mark.parametrize("mode", GroupMode)
def test_diverts_hold_over_failovers(mode: GroupMode) -> None:
    result = run_group_seed(seed_with_diverts(2), mode)
    assert result.hits[Moment.DIVERTED] >= 20


@pytest.mark.search
def test_a_send_is_stored_with_all_of_its_copies() -> None:
    """A crash came between the id of a message and its copies: the second attempt was dropped as a duplicate."""
    assert run_seed(107).hits[Moment.SENT_AGAIN_WITH_ID]


@pytest.mark.search
def test_a_short_plan_with_diverts_goes_on_until_it_counts() -> None:
    plan = draw_plan(seed_with_diverts(1))
    one = evolve(plan.producers[0], plan=evolve(plan.producers[0].plan, count=1))
    assert run_plan(evolve(plan, producers=(one,))).verdict.clean


# -- the model --------------------------------------------------------------------------------------------------------


class Message(dict[str, str]):
    def property(self, name: str) -> object:
        return self.get(name)


def model() -> RoutingModel:
    diverts = [
        ModelDivert("take", "in", ("a.b",), exclusive=True, color="red", tag="taken"),
        ModelDivert("copy", "a.*", ("trail",)),
    ]
    topics = [
        Topic("in", False, {"in": None}),
        Topic("a.b", True, {"own": "red"}),
        Topic("a.#", True, {"wild": None}),
        Topic("trail", False, {"trail": None}),
    ]
    return RoutingModel(diverts, topics)


@pytest.mark.parametrize(
    ("address", "color", "queues"),
    [
        ("in", "blue", ["in"]),
        ("in", "red", ["own", "trail", "wild"]),
        ("a.b", "blue", ["trail", "wild"]),
        ("a.#", "red", ["wild"]),
        ("a.b.c", "red", ["wild"]),
        ("other", "red", []),
    ],
)
def test_queues_that_the_model_names(address: str, color: str, queues: list[str]) -> None:
    assert sorted(model().reached(address, color)) == queues


def test_properties_that_the_model_demands() -> None:
    carried = Message(color="red", _AMQ_ORIG_ADDRESS="a.b", _AMQ_ORIG_QUEUE="copy", via="taken")
    assert model().complaint("trail", carried) is None
    for wrong in ({"via": "other"}, {"_AMQ_ORIG_QUEUE": "take"}, {"_AMQ_ORIG_ADDRESS": "in"}):
        assert model().complaint("trail", Message({**carried, **wrong})) is not None


@pytest.mark.search
@pytest.mark.parametrize("bug", DIVERT_BUGS)
def test_a_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]) -> None:
    hunt("DIVERTS", bug, lambda number: run_seed(seed_with_diverts(number)), monkeypatch, record_property)
