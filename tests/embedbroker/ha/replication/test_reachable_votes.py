"""Every state of a pair that requires votes, up to eight events from four states: all of them are safe."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedbroker.ha.quorum import VoteGrants, VoteRequest
from embedbroker.replication import ReplicaRecord
from tests.embedbroker.ha.replication import vote_model
from tests.embedbroker.ha.replication.pair_model import broken_rules
from tests.embedbroker.ha.replication.vote_model import Cluster, beginnings, successors

DEPTH = 8


pytestmark = pytest.mark.search


@pytest.fixture(autouse=True)
def fresh_answers() -> Iterator[None]:
    """Voters are asked anew in each test: some have a bug."""
    vote_model.voter_answer.cache_clear()
    yield
    vote_model.voter_answer.cache_clear()


def broken_within(start: Cluster, depth: int = DEPTH) -> tuple[int, list[str], tuple[str, ...]]:
    """Return how many states there are, the rules that the nearest unsafe one breaks, and the way to it."""
    seen: dict[Cluster, tuple[str, ...]] = {start: ()}
    layer = [start]
    for _event in range(depth):
        following_layer = []
        for cluster in layer:
            for what, following in successors(cluster):
                if following not in seen:
                    seen[following] = (*seen[cluster], what)
                    if broken := broken_rules(following.pair):
                        return len(seen), broken, seen[following]
                    following_layer.append(following)
        layer = following_layer
    return len(seen), [], ()


def found_anywhere(starts: dict[str, Cluster]) -> bool:
    return any(broken_within(start)[1] for start in starts.values())


@pytest.mark.parametrize("name", list(beginnings()))
def test_no_state_within_eight_events_is_unsafe(name: str) -> None:
    count, broken, way = broken_within(beginnings()[name])
    assert (broken, way) == ([], ())
    assert count > 5_000


def test_a_voter_that_grants_one_activation_to_two_brokers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(self: VoteGrants, node_id: str, request: VoteRequest) -> bool:
        given = self.given.get(node_id)
        return given is None or given.epoch <= request.epoch

    monkeypatch.setattr(VoteGrants, "may_have", generous)
    assert found_anywhere(beginnings())


def test_less_than_a_majority_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = beginnings()
    monkeypatch.setattr(vote_model, "votes_needed", lambda size: 1)
    assert found_anywhere(starts)


def test_a_broker_that_begins_although_its_partner_has_the_data_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicaRecord, "is_only_one", property(lambda self: self.in_sync and self.quorum > 0))
    assert found_anywhere(beginnings())
