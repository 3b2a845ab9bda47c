"""However much one request causes, a step does a bounded part of it, and others get their turn in between."""

from __future__ import annotations

import pytest

from embedbroker.kernel.settling._move import MOVE_COST

from .letters import letter
from .stage import Stage, Taker

MANY = 3000
BUDGET = 100


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.queue("q")
    stage.queue("other")
    return stage


def texts(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def send_many(stage: Stage, count: int = MANY) -> None:
    stage.send(*[letter(text, "q") for text in texts(count)])


def steps_with_traffic(stage: Stage) -> int:
    """Steps until the work is done. In each of them another queue's message, which needs a dispatch, gets its turn; one
    that comes behind a queue which uses the step up gets it in the next."""
    consumer, taker = stage.consumer(stage.session(pre_acknowledge=True), "other", credit=0)
    steps = 0
    while stage.kernel.has_work:
        stage.send(letter(str(steps), "other"))
        consumer.add_credit(1)
        stage.run(BUDGET)
        steps += 1
        assert len(taker.texts) >= steps - 1, "the other queue had no turn"
        assert steps < 10 * MANY
    return steps


def test_a_large_commit_is_spread(stage: Stage) -> None:
    session = stage.session(transacted=True)
    stage.send(*[letter(text, "q") for text in texts(MANY)], session=session)
    session.commit()
    assert steps_with_traffic(stage) > MANY / BUDGET
    assert stage.waiting("q") == texts(MANY)


def test_a_large_commit_keeps_its_order_with_what_is_sent_after_it(stage: Stage) -> None:
    _consumer, taker = stage.consumer(stage.session(pre_acknowledge=True), "q")
    session = stage.session(transacted=True)
    stage.send(*[letter(text, "q") for text in texts(200)], session=session)
    session.commit()
    stage.run(BUDGET)
    stage.send(letter("after", "q"))
    stage.run_all(BUDGET)
    assert taker.texts == [*texts(200), "after"]


def test_large_acknowledgements_are_spread(stage: Stage) -> None:
    send_many(stage)
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q")
    stage.run_all()
    session.settle(consumer.key, taker.messages[-1].message_id, through=True)
    session.commit()
    assert steps_with_traffic(stage) > MANY / BUDGET
    stage.assert_empty()


@pytest.mark.parametrize("how", ["rollback acknowledged", "rollback delivered", "close", "lose"])
def test_large_returns_are_spread_and_keep_their_order(stage: Stage, how: str) -> None:
    send_many(stage)
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q", credit=MANY)
    stage.run_all()
    if how == "rollback acknowledged":
        session.settle(consumer.key, taker.messages[-1].message_id, through=True)
    if how.startswith("rollback"):
        session.rollback(last_delivered=True)
    else:
        session.close(failed=how == "lose")
    _consumer, again = stage.consumer(stage.session(), "q")
    assert steps_with_traffic(stage) > MANY / BUDGET
    assert again.texts == texts(MANY)
    expected = {
        "rollback acknowledged": {2},
        "rollback delivered": {1, 2},
        "close": {1},
        "lose": {2},
    }[how]
    assert {entry[1] for entry in again.got if isinstance(entry, tuple)} == expected


def test_deleting_a_long_queue_is_spread(stage: Stage) -> None:
    send_many(stage)
    stage.kernel.teardown.delete_queue(stage.kernel.address_manager.queues["q"])
    assert "q" not in stage.kernel.address_manager.queues
    assert steps_with_traffic(stage) > MANY / BUDGET
    stage.assert_empty()


def test_a_queue_created_again_while_the_old_one_goes_is_a_new_one(stage: Stage) -> None:
    send_many(stage, 300)
    stage.kernel.teardown.delete_queue(stage.kernel.address_manager.queues["q"])
    stage.queue("q")
    stage.send(letter("new", "q"))
    stage.run_all(BUDGET)
    assert stage.waiting("q") == ["new"]


def test_delivering_and_browsing_a_long_queue_is_spread(stage: Stage) -> None:
    send_many(stage)
    takers: list[Taker] = []
    for browse in (True, False):
        takers.append(stage.consumer(stage.session(), "q", browse=browse)[1])
    stage.run(BUDGET)
    assert sum(len(taker.texts) for taker in takers) <= BUDGET
    stage.run_all(BUDGET)
    assert takers[1].texts == texts(MANY)


def test_a_filter_that_matches_nothing_is_spread(stage: Stage) -> None:
    send_many(stage)
    _consumer, taker = stage.consumer(stage.session(), "q", filter="colour = 'red'")
    assert stage.run_all(BUDGET) >= MANY / BUDGET - 1
    assert taker.texts == []


def test_many_expired_messages_are_moved_over_several_steps() -> None:
    stage = Stage()
    stage.queue("q")
    stage.send(*[letter(text, "q", expiration=stage.kernel.now_ms + 1) for text in texts(700)])
    stage.kernel.now_ms += 2
    stage.consumer(stage.session(), "q")
    stage.run(2_000)
    assert len(stage.waiting("ExpiryQueue")) == 2_000 // MOVE_COST
    stage.run_all(2_000)
    assert stage.waiting("ExpiryQueue") == texts(700)


@pytest.mark.parametrize("budget", [1, 2, 3])
def test_the_smallest_budget_gets_everything_done(stage: Stage, budget: int) -> None:
    session = stage.session(transacted=True)
    stage.send(*[letter(text, "q") for text in texts(100)], session=session)
    session.commit()
    consumer, taker = stage.consumer(stage.session(), "q")
    consumer.queue.force_delivery(consumer, 1)
    stage.run_all(budget)
    assert taker.got[-1] == 1 and taker.texts == texts(100)


def test_scans_of_many_queues_are_spread_also_when_all_are_empty() -> None:
    stage = Stage()
    for number in range(1000):
        stage.queue(f"q{number}", auto_created=True)
    housekeeping = stage.kernel.housekeeping
    steps = 0
    while housekeeping.next_deadline(30.0) <= 30.0:
        housekeeping.run(30.0)
        steps += 1
    assert steps >= 2 * 1000 // 250
