"""Faults strike at their time, and the agenda shows when all of them have healed; some wait for their moment."""

from __future__ import annotations

from embedbroker.testing._world import World
from tests.simulation.scenario.crashes import Trap
from tests.simulation.scenario.fault_kinds import FaultKind
from tests.simulation.scenario.fault_schedule import FaultSchedule


def test_a_fault_strikes_at_its_time_and_is_over_when_it_has_healed() -> None:
    world = World(1)
    told: list[tuple[float, str]] = []

    def strike(kind: FaultKind) -> None:
        told.append((world.now, kind.name))
        schedule.later(2.0, lambda: told.append((world.now, "healed")))

    schedule = FaultSchedule(world, strike)
    schedule.schedule([(FaultKind.CRASH, 1.0)])
    assert not schedule.over
    world.run(2.9)
    before = schedule.over, schedule.struck, list(told)
    world.run(4.0)
    assert before == (False, 1, [(1.0, "CRASH")])
    assert told[1:] == [(3.0, "healed")] and schedule.over


def test_a_fault_that_leaves_nothing_to_undo_heals_at_once() -> None:
    world = World(1)
    schedule = FaultSchedule(world, lambda kind: schedule.healed())
    schedule.schedule([(FaultKind.CUT_ALL, 0.5), (FaultKind.CUT_ALL, 1.0)])
    world.run(0.7)
    assert not schedule.over
    world.run(1.5)
    assert schedule.over


def test_an_appointment_heals_nothing() -> None:
    world = World(1)
    told: list[float] = []
    schedule = FaultSchedule(world, lambda kind: schedule.appoint(1.0, lambda: told.append(world.now)))
    schedule.schedule([(FaultKind.CRASH, 0.0)])
    world.run(5.0)
    assert told == [1.0] and not schedule.over


def test_whoever_is_concerned_hears_of_everything_on_the_agenda_first() -> None:
    world = World(1)
    told: list[str] = []

    def strike(kind: FaultKind) -> None:
        told.append("strikes")
        schedule.later(1.0, lambda: told.append("heals"))

    schedule = FaultSchedule(world, strike, lambda: told.append("disturbed"))
    schedule.schedule([(FaultKind.CRASH, 0.0)])
    world.run(5.0)
    assert told == ["disturbed", "strikes", "disturbed", "heals"]


def test_a_trap_that_was_sprung_is_not_given_up() -> None:
    trap = Trap()
    number = trap.lay()
    trap.spring()
    assert not trap.give_up(number) and not trap.is_set


def test_a_trap_that_was_laid_again_is_given_up_by_its_last_number_only() -> None:
    trap = Trap()
    first, second = trap.lay(), trap.lay()
    assert not trap.give_up(first) and trap.is_set
    assert trap.give_up(second) and not trap.is_set
