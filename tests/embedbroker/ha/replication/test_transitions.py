"""The tables of stages: complete, with a way out of each stage, and an illegal move stops the broker."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import pytest

from embedbroker.config import ReplicationBackup, ReplicationPrimary, Role
from embedbroker.ha.replication import ReplicationActivation
from embedbroker.ha.replication._stages import ROLES, TRANSITIONS, Event, Stage
from embedbroker.locks import CLAIM_TRANSITIONS, ClaimEvent, ClaimState, state_after
from tests.embedbroker.ha.replication.replicating import Brokers
from tools.activation_figure import FIGURE, figure

Table = Mapping[Enum, Mapping[Enum, Enum]]
TABLES = [
    pytest.param(TRANSITIONS, Stage.NEW, Stage.ACTIVE, Stage.OVER, id="replication"),
    pytest.param(CLAIM_TRANSITIONS, ClaimState.NEW, ClaimState.LIVE, ClaimState.OVER, id="shared-store"),
]


def reachable(table: Table, start: Enum) -> set[Enum]:
    found, waiting = {start}, [start]
    while waiting:
        for following in table[waiting.pop()].values():
            if following not in found:
                found.add(following)
                waiting.append(following)
    return found


@pytest.mark.parametrize(("table", "first", "active", "last"), TABLES)
def test_every_stage_is_reachable_and_has_a_way_out(table: Table, first: Enum, active: Enum, last: Enum) -> None:
    assert set(table) == set(type(first)) == reachable(table, first)
    assert not table[last]
    before_active = {stage for stage in table if stage is not active and active in reachable(table, stage)}
    after_active = reachable(table, active) - {active}
    # No stage is a trap: it leads to being active, or follows from that and leads to the end.
    assert before_active | after_active | {active} == set(table)
    assert all(last in reachable(table, stage) for stage in table)


@pytest.mark.parametrize(("table", "first", "active", "last"), TABLES)
def test_every_event_is_used_and_every_stage_may_end(table: Table, first: Enum, active: Enum, last: Enum) -> None:
    used = {event for row in table.values() for event in row}
    assert used == set(type(next(iter(table[first]))))
    ended = ClaimEvent.ENDED if table[first].get(ClaimEvent.ENDED) else Event.ENDED
    assert all(row.get(ended) is last for stage, row in table.items() if stage is not last)


def test_only_a_recorded_right_makes_a_broker_live() -> None:
    """The right is on the disk before the first message is confirmed."""
    ways = [(stage, event) for stage, row in TRANSITIONS.items() for event in row if row[event] is Stage.ACTIVE]
    assert ways == [(Stage.RECORDING, Event.RECORDED)]
    assert [stage for stage, role in ROLES.items() if role is Role.LIVE] == [Stage.ACTIVE]
    claims = [
        (state, event) for state, row in CLAIM_TRANSITIONS.items() for event in row if row[event] is ClaimState.LIVE
    ]
    assert claims == [(ClaimState.SETTLING, ClaimEvent.RECORDED)]


@pytest.mark.parametrize("stage", list(Stage))
def test_a_move_that_is_not_in_the_table_is_refused(stage: Stage) -> None:
    for event in set(Event) - set(TRANSITIONS[stage]):
        with pytest.raises(AssertionError, match="no way out of"):
            state_after(TRANSITIONS, stage, event)


def test_an_illegal_move_stops_the_broker() -> None:
    """An active broker that is to record itself again is wrong in the code: it must not go on."""
    brokers = Brokers("pq")
    brokers.primary("p", ReplicationPrimary())
    brokers.backup("q", ReplicationBackup())
    brokers.until_in_sync("p")
    activation = brokers.node("p").activation
    assert isinstance(activation, ReplicationActivation)
    with pytest.raises(AssertionError, match=r"no way out of Stage\.ACTIVE by Event\.RECOVERED"):
        activation.settle("node", 1, 1)


def test_the_figure_is_that_of_the_table() -> None:
    assert FIGURE.read_text() == figure(), "run: python -m tools.activation_figure"
