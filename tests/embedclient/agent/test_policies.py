"""Load-balancing policies and the order of attempts."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from embedclient.agent import (
    FirstElementPolicy,
    LocatorSettings,
    RandomPolicy,
    RandomStickyPolicy,
    RoundRobinPolicy,
)
from embedclient.agent._connect_attempts import first_attempts, reconnect_attempts
from embedclient.model import TransportConfiguration
from tests.embedclient.agent.node_pair import SeededEntropy


def connector(name: str, port: int) -> TransportConfiguration:
    return TransportConfiguration(name, parameters={"host": "h", "port": port})


A, B, C = connector("a", 1), connector("b", 2), connector("c", 3)


def test_round_robin_starts_anywhere_and_takes_turns() -> None:
    starts = set()
    for seed in range(20):
        policy = RoundRobinPolicy(SeededEntropy(seed))
        chosen = [policy(3) for _ in range(6)]
        starts.add(chosen[0])
        assert chosen == [(chosen[0] + step) % 3 for step in range(6)]
        assert 0 <= policy(2) < 2
    assert starts == {0, 1, 2}


def test_random_policies_differ_in_whether_they_stay() -> None:
    restless = RandomPolicy(SeededEntropy(1))
    assert {restless(3) for _ in range(50)} == {0, 1, 2}
    sticky = RandomStickyPolicy(SeededEntropy(1))
    assert len({sticky(3) for _ in range(50)}) == 1
    assert {RandomStickyPolicy(SeededEntropy(seed))(3) for seed in range(30)} == {0, 1, 2}


def test_first_element_never_moves() -> None:
    assert [FirstElementPolicy()(3) for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("index", [2, -1, "0"])
def test_a_choice_that_is_no_index_is_refused_with_the_number_of_connectors(index: Any) -> None:
    for attempts in (
        first_attempts(LocatorSettings(), [A, B], lambda count: index),
        reconnect_attempts(LocatorSettings(failover_attempts=1), list, lambda: [A, B], lambda count: index),
    ):
        with pytest.raises(ValueError, match=f"chose {index!r} of 2 connectors"):
            next(attempts)


def test_a_first_connection_is_tried_so_many_times_per_connector() -> None:
    settings = LocatorSettings(initial_connect_attempts=2, retry_interval_ms=500)
    turns = iter([0, 1, 0, 1])
    attempts = list(first_attempts(settings, [A, B], lambda count: next(turns)))
    assert [attempt.connector.name for attempt in attempts] == ["a", "b", "a", "b"]
    assert [attempt.pause_s for attempt in attempts] == [0, 0, 0.5, 0]


def test_a_first_connection_pauses_in_front_of_a_server_that_was_just_tried() -> None:
    settings = LocatorSettings(initial_connect_attempts=2, retry_interval_ms=500)
    turns = iter([0, 0, 1, 1])
    attempts = list(first_attempts(settings, [A, B], lambda count: next(turns)))
    assert [(attempt.connector.name, attempt.pause_s) for attempt in attempts] == [
        ("a", 0),
        ("a", 0.5),
        ("b", 0),
        ("b", 0.5),
    ]


def test_a_policy_that_chooses_a_dead_member_again_gets_the_next_one() -> None:
    members = [A, B, C]
    attempts = first_attempts(LocatorSettings(), [A], lambda count: 0, members=lambda: members)
    assert [attempt.connector for attempt in attempts] == [A, B, C]


def test_members_come_first_as_they_are_then_and_the_named_connectors_that_are_left() -> None:
    settings = LocatorSettings(initial_connect_attempts=2, retry_interval_ms=500)
    members = [C, A]
    turns = iter([0, 1, 0, 0, 0, 1])
    attempts = first_attempts(settings, [A, B], lambda count: next(turns), members=lambda: members)
    tried = [next(attempts) for _ in range(3)]
    members.remove(A)
    tried += attempts
    assert [attempt.connector.name for attempt in tried] == ["c", "a", "b", "c", "a", "b"]
    assert [attempt.pause_s for attempt in tried] == [0, 0, 0, 0.5, 0, 0]


def test_the_other_server_of_a_pair_is_tried_at_once() -> None:
    settings = LocatorSettings(initial_connect_attempts=2, retry_interval_ms=500)
    attempts = list(first_attempts(settings, [A], FirstElementPolicy(), lambda connector: B))
    assert [(attempt.connector.name, attempt.pause_s) for attempt in attempts] == [
        ("a", 0),
        ("b", 0),
        ("a", 0.5),
        ("b", 0),
    ]


def test_zero_attempts_count_as_one_and_minus_one_as_unlimited() -> None:
    once = list(first_attempts(LocatorSettings(initial_connect_attempts=0), [A], FirstElementPolicy()))
    assert len(once) == 1
    endless = first_attempts(LocatorSettings(initial_connect_attempts=-1), [A], FirstElementPolicy())
    assert len(list(islice(endless, 100))) == 100


def test_a_reconnect_goes_round_the_near_servers_and_then_everywhere() -> None:
    settings = LocatorSettings(
        reconnect_attempts=2,
        failover_attempts=1,
        retry_interval_ms=100,
        retry_interval_multiplier=2.0,
        max_retry_interval_ms=150,
    )
    turns = iter([2, 0, 1])
    attempts = list(reconnect_attempts(settings, lambda: [A, B], lambda: [A, B, C], lambda count: next(turns)))
    assert [attempt.connector.name for attempt in attempts] == ["a", "b", "a", "b", "c", "a", "b"]
    assert [attempt.pause_s for attempt in attempts] == [0, 0, 0.1, 0, 0.15, 0, 0]


def test_a_round_everywhere_ends_with_the_named_connectors() -> None:
    settings = LocatorSettings(failover_attempts=1)
    attempts = reconnect_attempts(settings, list, lambda: [A], FirstElementPolicy(), lambda: [A, B])
    assert [attempt.connector.name for attempt in attempts] == ["a", "b"]


def test_pauses_grow_to_their_limit_and_no_further() -> None:
    settings = LocatorSettings(
        reconnect_attempts=-1, retry_interval_ms=10, retry_interval_multiplier=10.0, max_retry_interval_ms=2000
    )
    attempts = islice(reconnect_attempts(settings, lambda: [A], lambda: [A], FirstElementPolicy()), 1000)
    pauses = [attempt.pause_s for attempt in attempts]
    assert pauses[:5] == [0, 0.01, 0.1, 1, 2]
    assert pauses[-1] == 2
