"""Nothing durable is seen before it is safe, and nothing overtakes it."""

from __future__ import annotations

import pytest

from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import MULTICAST, Stage


@pytest.fixture
def stage() -> Stage:
    """A durable queue on a disk that lags."""
    stage = Stage()
    stage.queue("q")
    stage.store.lags = True
    return stage


def test_a_durable_message_waits_for_its_record(stage: Stage) -> None:
    queue = stage.kernel.address_manager.queues["q"]
    _consumer, taker = stage.consumer(stage.session(), "q")
    _browser, browsed = stage.consumer(stage.session(), "q", browse=True)
    stage.send(letter("m", "q", durable=True))
    stage.run_all()
    assert (taker.got, browsed.got, queue.message_count, queue.waiting_visible) == ([], [], 0, 1)
    stage.store.sync()
    assert stage.kernel.has_work
    stage.run_all()
    assert (taker.got, queue.waiting_visible) == ([("m", 1)], 0)


def test_what_is_not_durable_is_seen_at_once(stage: Stage) -> None:
    stage.queue("soft", durable=False)
    session = stage.session()
    takers = {name: stage.consumer(session, name)[1] for name in ("q", "soft")}
    stage.send(letter("1", "q"), letter("2", "soft", durable=True), letter("3", "soft"))
    assert (takers["q"].texts, takers["soft"].texts) == (["1"], ["2", "3"])


def test_what_is_not_durable_does_not_overtake(stage: Stage) -> None:
    _consumer, taker = stage.consumer(stage.session(), "q")
    stage.send(letter("1", "q", durable=True), letter("2", "q"), letter("3", "q", durable=True), letter("4", "q"))
    stage.run_all()
    assert taker.got == []
    stage.store.sync()
    stage.run_all()
    assert taker.texts == ["1", "2", "3", "4"]


def test_other_queues_do_not_wait(stage: Stage) -> None:
    stage.queue("other")
    _consumer, taker = stage.consumer(stage.session(), "other")
    stage.send(letter("1", "q", durable=True), letter("2", "other"))
    assert taker.texts == ["2"]


def test_each_point_shows_what_it_covers(stage: Stage) -> None:
    _consumer, taker = stage.consumer(stage.session(), "q")
    stage.send(letter("1", "q", durable=True))
    first = stage.store.point()
    stage.send(letter("2", "q", durable=True))
    stage.store.reached = first
    stage.run_all()
    assert taker.texts == ["1"]
    stage.store.sync()
    stage.run_all()
    assert taker.texts == ["1", "2"]


def test_a_topic_with_durable_and_other_subscriptions_waits_for_both(stage: Stage) -> None:
    stage.queue("hard", "t", MULTICAST)
    stage.queue("soft", "t", MULTICAST, durable=False)
    stage.store.sync()
    _one, hard = stage.consumer(stage.session(), "hard")
    _other, soft = stage.consumer(stage.session(), "soft")
    stage.send(letter("m", "t", durable=True))
    stage.run_all()
    assert (hard.got, soft.got) == ([], [])
    stage.store.sync()
    stage.run_all()
    assert (hard.texts, soft.texts) == (["m"], ["m"])


def test_a_commit_becomes_visible_together(stage: Stage) -> None:
    stage.queue("p")
    stage.store.sync()
    session = stage.session(transacted=True)
    takers = [stage.consumer(stage.session(), name)[1] for name in ("p", "q")]
    for number in range(4):
        stage.send(letter(str(number), "pq"[number % 2], durable=number < 3), session=session)
    session.commit()
    before = stage.store.point()
    stage.store.reached = before - 1
    stage.run_all()
    assert [taker.got for taker in takers] == [[], []]
    stage.store.reached = before
    stage.run_all()
    assert [taker.texts for taker in takers] == [["0", "2"], ["1", "3"]]


def test_a_commit_does_not_overtake_sends_before_it(stage: Stage) -> None:
    _consumer, taker = stage.consumer(stage.session(), "q")
    session = stage.session(transacted=True)
    stage.send(letter("in", "q"), session=session)
    stage.send(letter("before", "q", durable=True))
    session.commit()
    stage.run_all()
    assert taker.got == []
    stage.store.sync()
    stage.run_all()
    assert taker.texts == ["before", "in"]


def test_a_marker_does_not_wait_for_the_disk(stage: Stage) -> None:
    queue = stage.kernel.address_manager.queues["q"]
    consumer, taker = stage.consumer(stage.session(), "q")
    stage.send(letter("m", "q", durable=True))
    queue.force_delivery(consumer, 1)
    stage.run_all()
    assert taker.got == [1]
    stage.store.sync()
    queue.force_delivery(consumer, 2)
    stage.run_all()
    assert taker.got == [1, ("m", 1), 2]


@pytest.mark.parametrize("browse", [True, False])
def test_a_marker_waits_for_what_is_safe_and_on_its_way(stage: Stage, browse: bool) -> None:
    queue = stage.kernel.address_manager.queues["q"]
    session = stage.session(transacted=True)
    stage.send(*[letter(str(number), "q", durable=True) for number in range(200)], session=session)
    session.commit()
    stage.store.sync()
    consumer, taker = stage.consumer(stage.session(), "q", browse=browse)
    queue.force_delivery(consumer, 1)
    stage.run_all(budget=30)
    assert taker.got == [*((str(number), 0 if browse else 1) for number in range(200)), 1]


def test_a_queue_deleted_meanwhile_shows_nothing(stage: Stage) -> None:
    stage.queue("x", "t", MULTICAST)
    stage.queue("y", "t", MULTICAST)
    session = stage.session(transacted=True)
    stage.send(letter("1", "t", durable=True))
    stage.send(letter("2", "t", durable=True), session=session, routing_type=MULTICAST)
    session.commit()
    stage.kernel.teardown.delete_queue(stage.kernel.address_manager.queues["x"])
    stage.store.sync()
    stage.run_all()
    assert stage.waiting("y") == ["1", "2"]
    session = stage.session(pre_acknowledge=True)
    stage.consumer(session, "y")
    stage.run_all()
    stage.assert_empty()
