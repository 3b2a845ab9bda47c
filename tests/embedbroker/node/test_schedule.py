"""The schedule of a step: which parts a node has, in which order they work, and which of them traffic concerns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from embedbroker.node._connection_checks import ConnectionChecks
from embedbroker.node._current_step import CurrentStep
from embedbroker.node._node_state import BEFORE, ROLES, SERVING, TRANSITIONS, NodeEvent, NodeState, NodeStateMachine
from embedbroker.node._part import Part
from embedbroker.node._schedule import StepSchedule, make_schedule
from embedclient.model import Instant

from .scripted import Stage


class Recorded(Part):
    """Notes that it ran; ``due`` is its deadline."""

    def __init__(self, name: str, ran: list[str], *, timed_only: bool = False) -> None:
        self.name = name
        self.ran = ran
        self.timed_only = timed_only

    def run(self, step: CurrentStep) -> None:
        self.ran.append(self.name)


class Timed(Recorded):
    due: float | None = None

    def next_deadline(self, now: Instant) -> float | None:
        return self.due


class Working(Recorded):
    works = False

    def next_deadline(self, now: Instant) -> float | None:
        return now.monotonic if self.works else None


def step_at(seconds: float, *, timely: bool) -> CurrentStep:
    step = CurrentStep()
    step.now = Instant(seconds, 0)
    step.timely = timely
    return step


def test_parts_run_in_their_order_and_traffic_spares_the_timed_ones() -> None:
    ran: list[str] = []
    schedule = StepSchedule((Recorded("a", ran), None, Recorded("b", ran, timed_only=True), Recorded("c", ran)))
    schedule.run(step_at(1, timely=True))
    schedule.run(step_at(1, timely=False))
    assert ran == ["a", "b", "c", "a", "c"]


def test_the_earliest_deadline_counts_and_work_that_is_left_counts_before_it() -> None:
    now = Instant(7.0, 0)
    early, late, working = Timed("early", []), Timed("late", []), Working("working", [])
    schedule = StepSchedule((late, working, early))
    assert (schedule.next_deadline(now), schedule.due) == (None, float("inf"))
    early.due, late.due = 8.0, 9.0
    assert (schedule.next_deadline(now), schedule.due) == (8.0, 8.0)
    working.works, early.due = True, 10.0
    assert schedule.next_deadline(now) == 7.0
    assert schedule.due == 8.0, "work that is left does not put off what is due"


def test_a_part_with_nothing_waiting_does_not_run_on_traffic() -> None:
    ran: list[str] = []
    part = Recorded("a", ran)
    waiting: list[object] = []
    part.waiting = waiting
    schedule = StepSchedule((part, Recorded("b", ran)))
    schedule.run(step_at(1, timely=False))
    assert ran == ["b"]
    waiting.append("something")
    schedule.run(step_at(1, timely=False))
    assert ran == ["b", "a", "b"]
    waiting.clear()
    schedule.run(step_at(1, timely=True))
    assert ran == ["b", "a", "b", "a", "b"], "timely steps run every part"


def test_traffic_leaves_the_deadlines_of_timed_parts_as_they_are() -> None:
    now = Instant(7.0, 0)
    timed, always = Timed("timed", [], timed_only=True), Timed("always", [])
    working = Working("working", [], timed_only=True)
    schedule = StepSchedule((timed, working, always))
    timed.due = 9.0
    assert schedule.next_deadline(now) == 9.0
    always.due = 8.0
    schedule.run(step_at(7, timely=False))
    assert schedule.next_deadline(now) == 8.0
    timed.due = 7.5
    schedule.run(step_at(7, timely=True))
    assert schedule.next_deadline(now) == 7.5
    working.works = True
    schedule.run(step_at(7, timely=True))
    assert (schedule.next_deadline(now), schedule.next_deadline(now)) == (7.0, 7.0)
    working.works = False
    schedule.run(step_at(7, timely=True))
    assert schedule.next_deadline(now) == 7.5


def test_a_broker_has_only_the_parts_of_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[StepSchedule]()

    def noted(*arguments: Any) -> StepSchedule:
        made.append(make_schedule(*arguments))
        return made[-1]

    def parts_of(stage: Stage) -> list[str]:
        (schedule,) = made
        made.clear()
        assert stage.node.next_deadline() == schedule.next_deadline(stage.now)
        return [type(part).__name__ for part in schedule.parts]

    monkeypatch.setattr("embedbroker.node._node.make_schedule", noted)
    alone = parts_of(Stage())
    assert alone == [
        "ConnectionChecks", "KernelWork", "Recovery", "OrderlyStopEnd", "OwnerRequests", "HostTasks", "Connections",
        "End",
    ]  # fmt: skip
    durable = parts_of(Stage(durable=True))
    assert durable == [
        "ConnectionChecks", "KernelWork", "Recovery", "JournalProgress", "OrderlyStopEnd", "OwnerRequests", "HostTasks",
        "Connections", "JournalWork", "End",
    ]  # fmt: skip


def test_traffic_runs_timed_parts_from_their_deadline_on(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[float] = []
    monkeypatch.setattr(ConnectionChecks, "run", lambda self, step: ran.append(step.now.monotonic))
    stage = Stage()
    peer = stage.connect().open_session()
    peer.create_queue()
    due = stage.node.next_deadline()
    assert due is not None and due > stage.now.monotonic
    ran.clear()
    peer.post("before")
    assert ran == []
    stage.seconds = due
    peer.post("from then on")
    assert set(ran) == {due}


# -- the states of a node --------------------------------------------------------------------------------------------


def transitions() -> Iterator[tuple[NodeState, NodeEvent, NodeState]]:
    for state, row in TRANSITIONS.items():
        for event, following in row.items():
            yield state, event, following


def test_each_state_has_a_row_and_a_role() -> None:
    assert set(TRANSITIONS) == set(ROLES) == set(NodeState)
    assert not set(BEFORE) & set(SERVING)


def test_each_state_can_be_reached_and_leads_to_the_end() -> None:
    following = {state: set(row.values()) for state, row in TRANSITIONS.items()}

    def reached(state: NodeState) -> set[NodeState]:
        found, waiting = {state}, [state]
        while waiting:
            new = following[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    assert reached(NodeState.NEW) == set(NodeState)
    assert all(NodeState.STOPPED in reached(state) for state in NodeState)
    assert TRANSITIONS[NodeState.STOPPED] == {}


def test_a_state_is_never_entered_twice() -> None:
    order = [NodeState.NEW, NodeState.WAITING, NodeState.RECOVERING, NodeState.RUNNING, NodeState.STOPPING]
    rank = {state: place for place, state in enumerate([*order, NodeState.STOPPED])}
    assert all(rank[state] < rank[following] for state, _, following in transitions())


@pytest.mark.parametrize("state", NodeState)
@pytest.mark.parametrize("event", NodeEvent)
def test_what_is_not_in_the_table_is_refused(state: NodeState, event: NodeEvent) -> None:
    machine = NodeStateMachine()
    machine.state = state
    if event in TRANSITIONS[state]:
        machine.move(event)
        assert machine.state is TRANSITIONS[state][event]
    else:
        with pytest.raises(AssertionError, match=f"a node that is {state.value} must not {event.value}"):
            machine.move(event)
        assert machine.state is state
