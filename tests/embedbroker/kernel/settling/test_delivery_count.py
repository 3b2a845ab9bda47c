"""Deliveries that are recorded before they go out, where that is asked for."""

from __future__ import annotations

import pytest

from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import Stage


@pytest.fixture
def stage() -> Stage:
    stage = Stage(persist_delivery_count_before_delivery=True)
    stage.queue("q")
    return stage


def counts(stage: Stage) -> list[object]:
    """The delivery counts on disk, in the order in which they were written."""
    return [record[-1] for record in stage.store.of_kind("count")]


def test_a_delivery_is_recorded_and_waits_for_its_record(stage: Stage) -> None:
    stage.send(letter("a", "q", durable=True), letter("b", "q", durable=True))
    _consumer, taker = stage.consumer(stage.session(), "q")
    stage.store.lags = True
    stage.run()
    (first, second), queue = taker.messages, stage.kernel.address_manager.queues["q"]
    assert stage.store.of_kind("count") == [("count", each.message_id, queue.id, 1) for each in (first, second)]
    assert taker.points == [stage.store.point() - 1, stage.store.point()]
    assert stage.store.reached < taker.points[0]


def test_by_default_nothing_is_recorded_and_nothing_waits() -> None:
    stage = Stage()
    stage.queue("q")
    stage.send(letter("a", "q", durable=True))
    _consumer, taker = stage.consumer(stage.session(), "q")
    stage.run()
    assert taker.got == [("a", 1)] and taker.points == [] and counts(stage) == []


def test_what_is_not_durable_is_not_recorded_and_stays_in_order(stage: Stage) -> None:
    stage.queue("passing", durable=False)
    session = stage.session()
    _consumer, taker = stage.consumer(session, "q")
    _other, passing = stage.consumer(session, "passing")
    stage.send(letter("a", "q"), letter("b", "passing", durable=True))
    stage.run()
    assert (taker.texts, passing.texts, counts(stage)) == (["a"], ["b"], [])
    # The port decides about order: what waits for nothing stands behind what does. A queue that ends with the broker
    # has nothing in it that does.
    assert taker.points == [0] and passing.points == []


def test_who_only_looks_is_not_counted(stage: Stage) -> None:
    stage.send(letter("a", "q", durable=True))
    _consumer, taker = stage.consumer(stage.session(), "q", browse=True)
    stage.run()
    assert taker.texts == ["a"] and taker.points == [] and counts(stage) == []


def test_who_acknowledges_by_taking_is_counted_for_a_crash_may_come_before_that_is_on_disk(stage: Stage) -> None:
    stage.send(letter("a", "q", durable=True))
    _consumer, taker = stage.consumer(stage.session(pre_acknowledge=True), "q")
    stage.run()
    assert taker.texts == ["a"] and len(taker.points) == 1 and counts(stage) == [1]


def test_what_goes_back_uncounted_is_uncounted_on_disk(stage: Stage) -> None:
    stage.send(letter("a", "q", durable=True))
    session = stage.session()
    stage.consumer(session, "q")
    stage.run()
    session.close(failed=False)
    assert counts(stage) == [1, 0]
    _consumer, again = stage.consumer(stage.session(), "q")
    stage.run()
    assert again.got == [("a", 1)] and counts(stage) == [1, 0, 1]


def test_what_comes_back_counted_goes_out_with_the_next_count(stage: Stage) -> None:
    stage.send(letter("a", "q", durable=True))
    lost = stage.session()
    stage.consumer(lost, "q")
    stage.run()
    lost.close(failed=True)
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q")
    stage.run()
    assert taker.got == [("a", 2)] and counts(stage)[-1] == 2
    assert session.settle(consumer.key, taker.messages[0].message_id) is None
    session.rollback(last_delivered=False)
    stage.run()
    assert taker.got == [("a", 2), ("a", 3)] and counts(stage)[-1] == 3


def test_credit_is_charged_when_a_message_is_handed_over(stage: Stage) -> None:
    stage.send(*[letter(text, "q", durable=True) for text in "abc"])
    stage.store.lags = True
    _consumer, taker = stage.consumer(stage.session(), "q", credit=2)
    stage.run_all()
    assert taker.texts == ["a", "b"]
