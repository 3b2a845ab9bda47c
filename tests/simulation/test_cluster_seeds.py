"""Clusters under faults, and their checkers: each bug is put into the broker, and ordinary seeds must find it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from attrs import evolve

from embedbroker.ledger import Ledger
from embedbroker.testing._messages import Letter
from embedbroker.testing._scene import Scene, SimulationFailure
from embedbroker.testing._world import World
from tests.simulation.scenario import Campaign, Moment, plan_of, values_of

from .cluster_bugs import CLUSTER_BUGS
from .hunting import Bug, hunt
from .sites import (
    CLUSTER_MINIMA_PER_1000,
    FAILOVER_MINIMA_PER_1000,
    ClusterPlan,
    draw_cluster_plan,
    form_cluster,
    run_cluster_plan,
    run_cluster_seed,
    run_failover_seed,
)
from .sites.cluster_account import ClusterAccount, ClusterSendBook
from .sites.cluster_plan import QUEUE, NodePlan
from .sites.send_book import Outcome
from .sites.takers import TakeBook, Taken, TakenTogether

pytestmark = [pytest.mark.timeout(900)]


@pytest.mark.search
def test_each_message_is_taken_once_while_nodes_crash() -> None:
    campaign = Campaign.of_sites(CLUSTER_MINIMA_PER_1000)
    for seed in range(1, 4):
        campaign.add(run_cluster_seed(seed))
    assert campaign.passed, campaign.shortcomings()
    hits = campaign.hits
    assert hits[Moment.CLUSTER_FORMED] == 3 * campaign.seeds and hits[Moment.FORWARDED] >= 50
    assert min(hits[Moment.TAKEN_ELSEWHERE], hits[Moment.SENT_IN_FORMED_CLUSTER]) >= 40


def test_nothing_is_lost_or_doubled_while_pairs_fail_over() -> None:
    campaign = Campaign.of_sites(FAILOVER_MINIMA_PER_1000)
    campaign.add(run_failover_seed(2))
    assert campaign.passed and campaign.hits[Moment.TARGET_FAILED_OVER] >= 2


def test_plans_have_clusters_of_all_kinds() -> None:
    plans = [draw_cluster_plan(seed) for seed in range(1, 100)]
    assert {len(plan.nodes) for plan in plans} == {2, 3, 4, 5, 8}
    assert {plan.load_balancing for plan in plans} == {"STRICT", "ON_DEMAND", "OFF", "OFF_WITH_REDISTRIBUTION"}
    assert {plan.direct_only for plan in plans} == {plan.detects_duplicates for plan in plans} == {False, True}
    assert {node.is_pair for plan in plans for node in plan.nodes} == {False, True}
    assert {bool(node.scales_down_to) for plan in plans for node in plan.nodes} == {False, True}
    assert {bool(plan.arbiter) for plan in plans} == {False, True}
    assert {bool(sender.rollback_chance) for plan in plans for sender in plan.senders} == {False, True}
    assert {bool(taker.batch) for plan in plans for taker in plan.takers} == {False, True}
    assert {bool(sender.large_chance) for plan in plans for sender in plan.senders} == {False, True}
    assert {bool(plan.makers) for plan in plans} == {bool(plan.datagram_period_ms) for plan in plans} == {False, True}
    assert any(plan.distance("n0", "n2") == 2 for plan in plans if len(plan.nodes) > 2)


def test_a_plan_comes_back_from_its_file_and_runs_the_same() -> None:
    plan = draw_cluster_plan(1)
    again = plan_of(ClusterPlan, json.loads(json.dumps(values_of(plan))))
    assert again == plan and run_cluster_plan(again).digest == run_cluster_seed(1).digest


def test_distances_in_a_ring_follow_its_direction() -> None:
    names = ("n0", "n1", "n2", "n3")
    nodes = tuple([NodePlan(name, (names[(number + 1) % 4],)) for number, name in enumerate(names)])
    ring = evolve(draw_cluster_plan(1), nodes=nodes, direct_only=True, max_hops=2)
    assert [ring.distance("n1", name) for name in names] == [None, 0, 1, 2]


def test_nodes_that_know_one_of_them_find_each_other() -> None:
    names = [f"n{number}" for number in range(9)]
    nodes = tuple([NodePlan(name, (names[0],) if number else ()) for number, name in enumerate(names)])
    plan = evolve(draw_cluster_plan(1), nodes=nodes, direct_only=False, max_hops=1, senders=(), takers=(), faults=())
    assert form_cluster(plan).virtual_s <= 5.0


# -- the account ------------------------------------------------------------------------------------------------------


def account_of(outcome: Outcome, taken: list[str]) -> ClusterAccount:
    """Return the account of a transaction with two messages for the queue, some of which were taken."""
    letters = [Letter("s0-1", QUEUE), Letter("s0-2", QUEUE)]
    book = ClusterSendBook(
        life_of=lambda node: "1",
        life_that_reaches=lambda node: "1",
        is_leaving=lambda node: False,
        homes={"s0": "n0"},
        has_binding=lambda node, maker: False,
    )
    for letter in letters:
        book.sent("s0", letter)
    book.ended(letters, outcome)
    takes = TakeBook()
    for number, key in enumerate(taken):
        takes.note(QUEUE, key, Taken("n0", number, is_confirmed=True))
    return ClusterAccount(Scene(World(1), Ledger()), draw_cluster_plan(1), book, takes, {}, frozenset())


@pytest.mark.parametrize("outcome", [Outcome.IN_DOUBT, Outcome.ABSENT])
def test_a_part_of_a_transaction_is_a_fault(outcome: Outcome) -> None:
    account_of(outcome, []).check(lives_ended=True)
    with pytest.raises(SimulationFailure, match="s0-"):
        account_of(outcome, ["s0-1"]).check(lives_ended=True)
    if outcome is Outcome.IN_DOUBT:
        account_of(outcome, ["s0-1", "s0-2"]).check(lives_ended=True)


def test_a_transaction_that_took_a_part_is_a_fault() -> None:
    account = account_of(Outcome.COMMITTED, ["s0-1", "s0-2"])
    account.takes.in_doubt.append(TakenTogether(QUEUE, ("s0-1", "s0-2")))
    account.check(lives_ended=True)
    account.takes.taken[(QUEUE, "s0-2")].clear()
    with pytest.raises(SimulationFailure, match="came again"):
        account.check(lives_ended=True)


@pytest.mark.search
@pytest.mark.parametrize("bug", CLUSTER_BUGS)
def test_a_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]) -> None:
    hunt("CLUSTERS", bug, run_cluster_seed, monkeypatch, record_property)
