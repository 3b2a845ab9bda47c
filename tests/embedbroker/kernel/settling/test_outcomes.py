"""Every outcome of a delivery, inside and outside a transaction: where the message is, and how it was counted."""

from __future__ import annotations

import pytest

from embedbroker.config import AddressSettings
from embedbroker.kernel import Consumer, Outcome, Session
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import Stage, Taker

MANY = 1000
BUDGET = 100
MOVING = {Outcome.REJECTED: "DLQ", Outcome.EXPIRED: "ExpiryQueue"}
RETURNING = [outcome for outcome in Outcome if outcome not in MOVING and outcome is not Outcome.ACCEPTED]


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.queue("q")
    return stage


def delivered(stage: Stage, texts: str, *, transacted: bool = False) -> tuple[Session, Consumer, list[int]]:
    """A consumer that was given durable messages, and their ids. It has no credit left."""
    stage.send(*[letter(text, "q", durable=True) for text in texts])
    session = stage.session(transacted=transacted)
    consumer, taker = stage.consumer(session, "q", credit=len(texts))
    stage.run_all()
    assert len(taker.messages) == len(texts)
    stage.store.records.clear()
    return session, consumer, [message.message_id for message in taker.messages]


def counts(stage: Stage) -> list[int]:
    return [reference.delivery_count for reference in stage.kernel.address_manager.queues["q"].backlog]


def kinds(stage: Stage) -> list[object]:
    return [record[0] for record in stage.store.records]


def test_accepted_leaves(stage: Stage) -> None:
    session, consumer, ids = delivered(stage, "a")
    assert session.settle(consumer.key, ids[0]) is None
    assert kinds(stage) == ["acknowledge"]
    stage.assert_empty()


@pytest.mark.parametrize("outcome", MOVING)
def test_rejected_and_expired_move_in_one_transaction(stage: Stage, outcome: Outcome) -> None:
    session, consumer, ids = delivered(stage, "ab")
    assert session.settle(consumer.key, ids[0], outcome) is None
    assert stage.waiting(MOVING[outcome]) == ["a"]
    assert kinds(stage) == ["add", "acknowledge", "commit"]
    assert stage.kernel.address_manager.queues["q"].message_count == 1


@pytest.mark.parametrize("outcome", RETURNING)
def test_what_goes_back_is_counted_when_its_delivery_failed(stage: Stage, outcome: Outcome) -> None:
    session, consumer, ids = delivered(stage, "abc")
    assert session.settle(consumer.key, ids[1], outcome) is None
    assert (stage.waiting("q"), counts(stage)) == (["b"], [int(outcome.delivery_failed)])
    assert kinds(stage) == (["count"] if outcome.delivery_failed else [])
    assert list(consumer.unsettled) == [ids[0], ids[2]]


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("here", [False, True])
def test_the_fields_of_modified_name_an_outcome(failed: bool, here: bool) -> None:
    outcome = Outcome.modified(delivery_failed=failed, undeliverable_here=here)
    assert (outcome.delivery_failed, outcome.undeliverable_here) == (failed, here)
    assert outcome in RETURNING


def test_a_failed_delivery_too_many_is_a_dead_letter_and_a_released_one_is_not() -> None:
    for outcome, expected in ((Outcome.FAILED, ["a"]), (Outcome.RELEASED, [])):
        stage = Stage({"#": AddressSettings(max_delivery_attempts=1, dead_letter_address="DLQ")})
        stage.queue("q")
        session, consumer, ids = delivered(stage, "a")
        session.settle(consumer.key, ids[0], outcome)
        assert stage.waiting("DLQ") == expected


def test_without_a_dead_letter_address_what_is_rejected_is_dropped() -> None:
    for transacted in (False, True):
        stage = Stage({"#": AddressSettings()})
        stage.queue("q")
        session, consumer, ids = delivered(stage, "a", transacted=transacted)
        session.settle(consumer.key, ids[0], Outcome.REJECTED)
        session.commit()
        stage.assert_empty()
        assert "acknowledge" in kinds(stage)


# -- in a transaction -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", Outcome)
def test_in_a_transaction_nothing_happens_before_the_commit(stage: Stage, outcome: Outcome) -> None:
    session, consumer, ids = delivered(stage, "abc", transacted=True)
    queue = stage.kernel.address_manager.queues["q"]
    session.transaction = transaction = stage.kernel.transactions.begin()
    stage.kernel.settlement.settle(queue, (consumer.unsettled.pop(ids[1]),), outcome, transaction, consumer=consumer)
    stage.run_all()
    assert queue.delivering_count == 3
    assert [stage.waiting(name) for name in ("q", "DLQ", "ExpiryQueue")] == [[], [], []]
    assert session.commit() is None
    stage.run_all()
    where = MOVING.get(outcome, "q")
    assert stage.waiting(where) == ([] if outcome is Outcome.ACCEPTED else ["b"])
    assert queue.delivering_count == 2
    if outcome in RETURNING:
        assert counts(stage) == [int(outcome.delivery_failed)]


@pytest.mark.parametrize("outcome", Outcome)
def test_a_rollback_takes_every_outcome_back_as_a_failed_delivery(stage: Stage, outcome: Outcome) -> None:
    session, consumer, ids = delivered(stage, "ab", transacted=True)
    session.transaction = transaction = stage.kernel.transactions.begin()
    stage.kernel.settlement.settle(
        consumer.queue, (consumer.unsettled.pop(ids[0]),), outcome, transaction, consumer=consumer
    )
    session.rollback(last_delivered=False)
    stage.run_all()
    assert (stage.waiting("q"), counts(stage)) == (["a", "b"], [1, 0])
    assert [stage.waiting(name) for name in ("DLQ", "ExpiryQueue")] == [[], []]
    consumer.add_credit(2)
    stage.run_all()
    assert len(consumer.unsettled) == 2, "undeliverable here, although that was rolled back"


def test_a_rejection_is_part_of_its_transaction(stage: Stage) -> None:
    session, consumer, ids = delivered(stage, "ab", transacted=True)
    session.settle(consumer.key, ids[0], Outcome.REJECTED)
    session.settle(consumer.key, ids[1])
    session.commit()
    assert kinds(stage) == ["add", "acknowledge", "acknowledge", "commit"]
    first = stage.store.records[0]
    transaction_id = first[2]
    assert [record[3] for record in stage.store.of_kind("acknowledge")] == [transaction_id] * 2
    assert stage.store.of_kind("commit")[0][1] == transaction_id
    assert stage.waiting("DLQ") == ["a"]


def test_what_a_client_found_expired_goes_whatever_its_transaction_does(stage: Stage) -> None:
    session, consumer, ids = delivered(stage, "a", transacted=True)
    session.settle(consumer.key, ids[0], Outcome.EXPIRED)
    assert stage.waiting("ExpiryQueue") == ["a"]
    session.rollback(last_delivered=True)
    assert (stage.waiting("ExpiryQueue"), stage.waiting("q")) == (["a"], [])


def test_an_expiry_of_something_unknown_leaves_the_transaction_alone(stage: Stage) -> None:
    session, consumer, ids = delivered(stage, "a", transacted=True)
    assert session.settle(consumer.key, 4711, Outcome.EXPIRED) is not None
    assert session.settle(77, ids[0], Outcome.EXPIRED) is not None
    session.settle(consumer.key, ids[0])
    assert session.commit() is None
    stage.assert_empty()


# -- undeliverable here -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [Outcome.UNDELIVERABLE_HERE, Outcome.FAILED_UNDELIVERABLE_HERE])
@pytest.mark.parametrize("transacted", [False, True])
def test_undeliverable_here_goes_to_everybody_else(stage: Stage, outcome: Outcome, transacted: bool) -> None:
    session, consumer, ids = delivered(stage, "ab", transacted=transacted)
    session.settle(consumer.key, ids[0], outcome)
    session.commit()
    consumer.add_credit(10)
    stage.send(letter("c", "q"))
    stage.run_all()
    taken = [text for text in "abc" if text not in stage.waiting("q")]
    assert taken == ["b", "c"], "what is behind it comes"
    _other, taker = stage.consumer(stage.session(), "q")
    stage.run_all()
    assert taker.got == [("a", 1 + outcome.delivery_failed)]


def test_a_consumer_with_a_filter_keeps_it_when_something_is_undeliverable_to_it(stage: Stage) -> None:
    stage.send(*[letter(text, "q", colour=colour) for text, colour in (("a", "red"), ("b", "red"), ("c", "blue"))])
    session = stage.session()
    consumer, taker = stage.consumer(session, "q", filter="colour = 'red'", credit=1)
    stage.run_all()
    session.settle(consumer.key, taker.messages[0].message_id, Outcome.UNDELIVERABLE_HERE)
    consumer.add_credit(10)
    stage.run_all()
    assert taker.texts == ["a", "b"]
    assert stage.waiting("q") == ["a", "c"]


def test_what_was_declined_is_forgotten_with_the_message_and_with_the_consumer(stage: Stage) -> None:
    session, consumer, ids = delivered(stage, "abc")
    for message_id in ids:
        session.settle(consumer.key, message_id, Outcome.UNDELIVERABLE_HERE)
    queue = stage.kernel.address_manager.queues["q"]
    assert len(consumer.declined) == 3
    other_session = stage.session()
    other, taker = stage.consumer(other_session, "q")
    stage.run_all()
    other_session.settle(other.key, ids[0])
    other_session.settle(other.key, ids[1], Outcome.REJECTED)
    assert consumer.declined == {ids[2]}
    session.close_consumer(consumer.key)
    assert not queue.decliners
    # A later consumer is treated like every other.
    other_session.close(failed=False)
    _again, taker = stage.consumer(session, "q")
    stage.run_all()
    assert taker.texts == ["c"]


def test_a_consumer_that_closed_before_the_commit_declines_nothing(stage: Stage) -> None:
    session, consumer, ids = delivered(stage, "a", transacted=True)
    session.settle(consumer.key, ids[0], Outcome.UNDELIVERABLE_HERE)
    session.close_consumer(consumer.key)
    session.commit()
    assert stage.waiting("q") == ["a"]
    assert not stage.kernel.address_manager.queues["q"].decliners


# -- many -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transacted", [False, True])
@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.EXPIRED])
def test_many_are_settled_over_several_steps_in_order(stage: Stage, outcome: Outcome, transacted: bool) -> None:
    stage.send(*[letter(str(number), "q") for number in range(MANY)])
    session = stage.session(transacted=transacted)
    consumer, taker = stage.consumer(session, "q", credit=MANY)
    stage.run_all()
    session.settle(consumer.key, taker.messages[-1].message_id, outcome, through=True)
    session.commit()
    if outcome is not Outcome.ACCEPTED:
        assert len(stage.waiting(MOVING.get(outcome, "q"))) < BUDGET, "so much in one go"
    _other, later = stage.consumer(stage.session(pre_acknowledge=True), "q")
    assert stage.run_all(BUDGET) >= MANY / BUDGET - 1
    texts = [str(number) for number in range(MANY)]
    assert not session.unfinished
    if outcome in RETURNING:
        assert later.got == [(text, 1 + outcome.delivery_failed) for text in texts]
        stage.assert_empty()
    elif outcome in MOVING:
        assert (stage.waiting("DLQ"), later.got) == (texts, [])
    else:
        stage.assert_empty()


def test_many_rejections_that_are_rolled_back_half_way_move_nothing(stage: Stage) -> None:
    stage.send(*[letter(str(number), "q", durable=True) for number in range(MANY)])
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q", credit=MANY)
    stage.run_all()
    session.settle(consumer.key, taker.messages[-1].message_id, Outcome.REJECTED, through=True)
    stage.run(BUDGET)
    session.rollback(last_delivered=False)
    stage.run_all(BUDGET)
    assert not session.unfinished
    assert stage.waiting("DLQ") == []
    assert stage.waiting("q") == [str(number) for number in range(MANY)]
    again: Taker = stage.consumer(stage.session(pre_acknowledge=True), "q")[1]
    stage.run_all(BUDGET)
    assert [entry[1] for entry in again.got if isinstance(entry, tuple)] == [2] * MANY
    stage.assert_empty()
