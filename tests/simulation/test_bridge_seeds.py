"""Bridges under faults, and their checkers: each bug is put into the broker, and ordinary seeds must find it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from embedbroker.testing._messages import Letter
from embedclient.model import RoutingType
from tests.simulation.scenario import Campaign, Moment, plan_of, values_of

from .bridge_bugs import BRIDGE_BUGS
from .hunting import Bug, hunt
from .sites import BRIDGE_MINIMA_PER_1000, BridgeScenarioPlan, draw_bridge_plan, run_bridge_plan, run_bridge_seed
from .sites.bridge_plan import BridgePlan
from .sites.bridge_routes import BridgeRoutes
from .sites.send_book import Entry

pytestmark = [pytest.mark.timeout(900)]


@pytest.mark.search
def test_messages_arrive_while_brokers_crash() -> None:
    campaign = Campaign.of_sites(BRIDGE_MINIMA_PER_1000)
    for seed in range(1, 6):
        campaign.add(run_bridge_seed(seed))
    assert campaign.passed, campaign.shortcomings()
    hits = campaign.hits
    assert hits[Moment.BRIDGED] >= 300 and hits[Moment.BRIDGED_LARGE] >= 30
    assert min(hits[Moment.SOURCE_CRASHED], hits[Moment.TARGET_CRASHED], hits[Moment.DISTURBED_WITH_SENDS]) >= 1


def test_plans_have_bridges_of_all_kinds() -> None:
    plans = [draw_bridge_plan(seed) for seed in range(1, 100)]
    bridges = [bridge for plan in plans for bridge in plan.bridges]
    shapes = {(len(plan.sites), len(plan.bridges), any(site.is_pair for site in plan.sites)) for plan in plans}
    assert shapes == {(2, 1, False), (2, 2, False), (3, 2, False), (2, 1, True)}
    for of_kind in (
        lambda bridge: bridge.forwarding_address is None,
        lambda bridge: bridge.color is None,
        lambda bridge: bridge.concurrency == 1,
        lambda bridge: bridge.detects_duplicates,
        lambda bridge: bridge.adds_property,
    ):
        assert {bool(of_kind(bridge)) for bridge in bridges} == {False, True}
    assert {bridge.routing_type for bridge in bridges} == {"PASS", "STRIP", "ANYCAST", "MULTICAST"}


def test_a_plan_comes_back_from_its_file_and_runs_the_same() -> None:
    plan = draw_bridge_plan(4)
    again = plan_of(BridgeScenarioPlan, json.loads(json.dumps(values_of(plan))))
    assert again == plan and run_bridge_plan(again).digest == run_bridge_seed(4).digest


# -- the model --------------------------------------------------------------------------------------------------------


def plan_with_a_chain() -> BridgeScenarioPlan:
    """Return a plan with a chain whose bridges promise everything, and a filter in its first bridge."""
    values = values_of(draw_bridge_plan(1))
    assert isinstance(values, dict)
    values["sites"] = [{"name": name} for name in "abc"]
    values["senders"] = []
    values["places"] = [
        {"site": "a", "address": "out", "anycast": [{"name": "out"}]},
        {"site": "b", "address": "middle", "anycast": [{"name": "middle"}]},
        {
            "site": "c",
            "address": "in",
            "anycast": [{"name": "in"}],
            "multicast": [{"name": "all"}, {"name": "red", "color": "red"}],
        },
    ]
    bridges = [
        BridgePlan("first", "a", "out", "b", "middle", color="!blue", routing_type="ANYCAST", concurrency=2),
        BridgePlan("second", "b", "middle", "c", "in", routing_type="MULTICAST", detects_duplicates=False),
    ]
    values["bridges"] = [values_of(bridge) for bridge in bridges]
    return plan_of(BridgeScenarioPlan, values)


@pytest.mark.parametrize(
    ("color", "queues"),
    [("red", [("c", "all"), ("c", "red")]), ("green", [("c", "all")]), ("blue", [("a", "out")])],
)
def test_queues_that_the_model_names(color: str, queues: list[tuple[str, str]]) -> None:
    routes = BridgeRoutes(plan_with_a_chain())
    entry = Entry(Letter("key", "out", color=color, routing_type=RoutingType.ANYCAST), "sender", 0)
    arrivals = routes.of(entry, "a", "out")
    assert [(each.site, each.queue) for each in arrivals] == queues
    promised = {(each.in_order, each.once) for each in arrivals}
    assert promised == ({(False, False)} if color != "blue" else {(True, True)})


@pytest.mark.search
@pytest.mark.parametrize("bug", BRIDGE_BUGS)
def test_a_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]) -> None:
    hunt("BRIDGES", bug, run_bridge_seed, monkeypatch, record_property)
