"""All consumers of one connection, stopped and resumed together, whose cost does not depend on how many there are."""

from __future__ import annotations

import pytest

from embedbroker.kernel import Backpressure, Consumer, Queue, Reference, Schedule, Session
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import Stage, Taker

CONSUMERS = 1000


class Narrow(Taker):
    """A port whose peer takes so many messages and is behind then."""

    def __init__(self, backpressure: Backpressure, room: int) -> None:
        super().__init__()
        self.backpressure = backpressure
        self.room = room

    def deliver(self, consumer: Consumer, reference: Reference) -> int:
        self.room -= 1
        if self.room <= 0:
            self.backpressure.shut()
        return super().deliver(consumer, reference)


def consumers(stage: Stage, port: Narrow, session: Session) -> list[Consumer]:
    """Each with a separate queue."""
    created = []
    for key in range(CONSUMERS):
        stage.queue(f"q{key}")
        consumer = session.create_consumer(key, f"q{key}", None, port, browse=False, priority=4)
        assert isinstance(consumer, Consumer)
        consumer.add_credit(1_000_000)
        created.append(consumer)
    return created


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def wakes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the queues that were woken, in order."""
    woken: list[str] = []
    wake = Schedule.wake

    def counted(schedule: Schedule, queue: Queue) -> None:
        woken.append(queue.name)
        wake(schedule, queue)

    monkeypatch.setattr(Schedule, "wake", counted)
    return woken


def test_opening_asks_only_those_that_wait_and_not_all_at_once(stage: Stage, wakes: list[str]) -> None:
    session = stage.session()
    port = Narrow(session.backpressure, 0)
    consumers(stage, port, session)
    session.backpressure.shut()
    wakes.clear()
    session.backpressure.open()
    stage.run_all()
    assert wakes == [], "nobody waited"
    session.backpressure.shut()
    for number in range(CONSUMERS):
        stage.send(*[letter(str(turn), f"q{number}") for turn in range(3)])
    stage.run_all()
    assert port.got == []
    wakes.clear()
    port.room = 10
    session.backpressure.open()
    stage.run_all()
    assert len(port.got) == 10
    assert len(wakes) <= 64 + 10


def test_in_the_end_everybody_gets_everything_in_turn(stage: Stage) -> None:
    session = stage.session()
    port = Narrow(session.backpressure, 1)
    consumers(stage, port, session)
    for number in range(CONSUMERS):
        stage.send(*[letter(f"{number}-{turn}", f"q{number}") for turn in range(2)])
    rounds = 0
    while len(port.got) < 2 * CONSUMERS:
        stage.run_all()
        port.room = 100
        session.backpressure.open()
        rounds += 1
        assert rounds <= 2 * CONSUMERS
    assert sorted(port.texts) == sorted(f"{number}-{turn}" for number in range(CONSUMERS) for turn in range(2))
    stage.run_all()
    assert not stage.kernel.has_work


def test_who_goes_while_it_waits_is_forgotten(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    resume, resumed = Consumer.resume, list[Consumer]()

    def noted(consumer: Consumer) -> None:
        resumed.append(consumer)
        resume(consumer)

    monkeypatch.setattr(Consumer, "resume", noted)
    session = stage.session()
    port = Narrow(session.backpressure, 1)
    consumer, other, *_rest = consumers(stage, port, session)
    session.backpressure.shut()
    stage.send(letter("x", "q0"), letter("y", "q1"))
    session.close_consumer(consumer.key)
    session.backpressure.open()
    session.backpressure.shut()
    session.backpressure.open()
    stage.run_all()
    assert port.texts == ["y"] and resumed == [other]


def test_a_session_that_moves_takes_its_consumers_along(stage: Stage) -> None:
    session = stage.session()
    port = Narrow(session.backpressure, 1)
    consumers(stage, port, session)
    old, new = session.backpressure, stage.kernel.schedule.make_backpressure()
    old.shut()
    stage.send(letter("x", "q0"))
    assert port.got == []
    session.move(new)
    old.open()
    stage.run_all()
    assert port.texts == ["x"]
    new.shut()
    stage.send(letter("y", "q1"))
    assert port.texts == ["x"]
