"""Every state that a pair of replicating brokers can reach: it stays safe, and it has a way back to service."""

from __future__ import annotations

from collections import deque

import pytest

from embedbroker.ha.replication import _decisions as decisions
from embedbroker.ha.replication._stages import Event, Stage
from embedbroker.locks import ActivationAttempt, AttemptResult, LeaseActivation
from embedbroker.replication import EndingKind
from tests.embedbroker.ha.replication import pair_model
from tests.embedbroker.ha.replication.pair_model import Pair, broken_rules, successors

pytestmark = pytest.mark.search

Way = tuple[str, ...]
#: What an operator or a fault does, which the way back to service must not need.
HARM = ("crashes", "loses", "stops", "hands over", "gives way", "fails")


def all_states() -> dict[Pair, list[tuple[str, Pair]]]:
    """Return the graph from two brokers that were never started."""
    graph: dict[Pair, list[tuple[str, Pair]]] = {}
    waiting = deque([Pair()])
    while waiting:
        pair = waiting.popleft()
        if pair not in graph:
            graph[pair] = list(successors(pair))
            waiting.extend(following for _what, following in graph[pair])
    return graph


def first_broken() -> tuple[list[str], Way] | None:
    """Return the rules that the nearest unsafe state breaks, and the shortest way to it; None if all are safe."""
    seen: dict[Pair, Way] = {Pair(): ()}
    waiting = deque(seen)
    while waiting:
        pair = waiting.popleft()
        for what, following in successors(pair):
            if following not in seen:
                seen[following] = (*seen[pair], what)
                if broken := broken_rules(following):
                    return broken, seen[following]
                waiting.append(following)
    return None


def test_no_reachable_state_of_a_pair_with_a_lock_manager_is_unsafe() -> None:
    graph = all_states()
    assert len(graph) > 5_000
    assert {pair: broken for pair in graph if (broken := broken_rules(pair))} == {}
    stages = {broker.stage for pair in graph for broker in pair.brokers}
    # Stages in which a broker only passes from one to the next in a step of the model are not among them.
    assert stages == {None, Stage.REQUESTING_LEASE, Stage.BACKUP, Stage.GRANTED, Stage.ACTIVE}


def test_every_reachable_state_has_a_way_back_to_service_without_further_harm() -> None:
    graph = all_states()
    before: dict[Pair, list[Pair]] = {}
    for pair, edges in graph.items():
        for what, following in edges:
            if not any(harm in what for harm in HARM):
                before.setdefault(following, []).append(pair)
    served = [pair for pair in graph if any(broker.confirms for broker in pair.brokers)]
    found, waiting = set(served), deque(served)
    while waiting:
        for pair in before.get(waiting.popleft(), ()):
            if pair not in found:
                found.add(pair)
                waiting.append(pair)
    assert [pair for pair in graph if pair not in found] == []


def test_a_backup_that_takes_over_without_a_lease_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    after_replication = decisions.after_replication

    def hasty(kind: EndingKind, **facts: bool) -> Event:
        event = after_replication(kind, **facts)
        return Event.GRANTED if event is Event.LEASE_NEEDED else event

    monkeypatch.setattr(decisions, "after_replication", hasty)
    assert first_broken() is not None


def test_a_refusal_that_counts_as_a_grant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "after_lease_request", lambda verdict: Event.GRANTED)
    assert first_broken() is not None


def test_an_active_broker_that_goes_on_without_a_new_activation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(self: LeaseActivation, sequence: int, now: float) -> None:
        self.attempt = ActivationAttempt(AttemptResult.GRANTED, sequence)

    monkeypatch.setattr(LeaseActivation, "renew", generous)
    pair_model.lease_request.cache_clear()
    found = first_broken()
    pair_model.lease_request.cache_clear()
    assert found is not None and found[0] == ["a broker confirms without everything that was confirmed before"]
