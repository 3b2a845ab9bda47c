"""Acknowledging, returning and transactions: what is gone, what comes back and with which delivery count."""

from __future__ import annotations

from functools import partial

import pytest

from embedbroker.kernel import Refused
from embedclient.errors import ErrorCode
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import ANYCAST, MULTICAST, Stage, Taker


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.queue("q")
    return stage


def send_all(stage: Stage, texts: str, *, durable: bool = False) -> None:
    stage.send(*[letter(text, "q", durable=durable) for text in texts])


def id_of(taker: Taker, index: int) -> int:
    return taker.messages[index].message_id


def code(refused: Refused | None) -> int | None:
    return None if refused is None else refused.code


def test_a_cumulative_acknowledgement_takes_everything_before_it(stage: Stage) -> None:
    send_all(stage, "abcd")
    session = stage.session()
    consumer, taker = stage.consumer(session, "q")
    stage.run()
    assert session.settle(consumer.key, id_of(taker, 2), through=True) is None
    session.close(failed=False)
    assert stage.waiting("q") == ["d"]


def test_an_individual_acknowledgement_takes_one(stage: Stage) -> None:
    send_all(stage, "abc")
    session = stage.session()
    consumer, taker = stage.consumer(session, "q")
    stage.run()
    assert session.settle(consumer.key, id_of(taker, 1)) is None
    session.close(failed=False)
    assert stage.waiting("q") == ["a", "c"]


@pytest.mark.parametrize("individually", [False, True])
def test_unknown_messages_and_consumers_are_refused(stage: Stage, individually: bool) -> None:
    send_all(stage, "a")
    session = stage.session()
    consumer, taker = stage.consumer(session, "q")
    stage.run()
    acknowledge = partial(session.settle, through=not individually)
    assert code(acknowledge(consumer.key, 999_999)) == ErrorCode.ILLEGAL_STATE
    assert code(acknowledge(77, id_of(taker, 0))) == ErrorCode.ILLEGAL_STATE
    assert acknowledge(consumer.key, id_of(taker, 0)) is None
    assert code(acknowledge(consumer.key, id_of(taker, 0))) == ErrorCode.ILLEGAL_STATE
    stage.assert_empty()


def test_messages_of_another_consumer_cannot_be_acknowledged(stage: Stage) -> None:
    send_all(stage, "ab")
    session = stage.session()
    one, first = stage.consumer(session, "q")
    other, _second = stage.consumer(session, "q")
    stage.run()
    assert code(session.settle(other.key, id_of(first, 0), through=True)) == ErrorCode.ILLEGAL_STATE
    assert len(one.unsettled) == len(other.unsettled) == 1


def test_browsers_acknowledge_nothing(stage: Stage) -> None:
    """Artemis' QueueBrowserTest.testConsumerBrowserMessageAckDoesNothing."""
    send_all(stage, "a")
    session = stage.session()
    browser, taker = stage.consumer(session, "q", browse=True)
    stage.run()
    assert session.settle(browser.key, id_of(taker, 0), through=True) is None
    assert stage.waiting("q") == ["a"]


def test_an_orderly_close_undoes_the_delivery_count_and_a_lost_connection_does_not(stage: Stage) -> None:
    """Artemis' RedeliveryConsumerTest.testRedeliveryMessageSimpleCancel."""
    send_all(stage, "a")
    for failed, expected in ((False, 1), (True, 1), (False, 2), (True, 2)):
        session = stage.session()
        _consumer, taker = stage.consumer(session, "q")
        stage.run()
        assert taker.got == [("a", expected)]
        session.close(failed=failed)
    assert [reference.delivery_count for reference in stage.kernel.address_manager.queues["q"].backlog] == [2]


def test_returned_messages_of_several_consumers_stand_in_order_again(stage: Stage) -> None:
    send_all(stage, "abcdef")
    sessions = [stage.session() for _ in range(3)]
    for session in sessions:
        stage.consumer(session, "q")
    stage.run()
    send_all(stage, "g")
    for session in reversed(sessions):
        for consumer in session.consumers.values():
            consumer.add_credit(0)
    for session in reversed(sessions):
        session.close(failed=False)
    assert stage.waiting("q") == list("abcdefg")


def test_a_commit_makes_sends_visible_together_and_in_order(stage: Stage) -> None:
    session = stage.session(transacted=True)
    _consumer, taker = stage.consumer(stage.session(), "q")
    stage.send(letter("a", "q"), session=session)
    send_all(stage, "b")
    stage.send(letter("c", "q"), session=session)
    stage.run()
    assert taker.texts == ["b"]
    assert session.commit() is None
    stage.run()
    assert taker.texts == ["b", "a", "c"]


def test_committed_messages_stand_behind_what_became_visible_before(stage: Stage) -> None:
    session = stage.session(transacted=True)
    stage.send(letter("a", "q"), session=session)
    send_all(stage, "b")
    session.commit()
    assert stage.waiting("q") == ["b", "a"]


def test_a_rollback_forgets_sends_and_returns_acknowledged_messages_as_redelivered(stage: Stage) -> None:
    send_all(stage, "abc")
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q", credit=3)
    stage.run()
    stage.send(letter("sent", "q"), session=session)
    session.settle(consumer.key, id_of(taker, 0), through=True)
    session.rollback(last_delivered=False)
    consumer.add_credit(10)
    stage.run()
    assert taker.got[3:] == [("a", 2), ("b", 1), ("c", 1)]


def test_with_last_delivered_the_first_message_not_acknowledged_counts(stage: Stage) -> None:
    send_all(stage, "abcd")
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q", credit=4)
    stage.run()
    session.settle(consumer.key, id_of(taker, 0), through=True)
    session.rollback(last_delivered=True)
    consumer.add_credit(10)
    stage.run()
    assert taker.got[4:] == [("a", 2), ("b", 2), ("c", 1), ("d", 1)]


def test_priority_comes_before_the_old_order_after_a_rollback(stage: Stage) -> None:
    for text, priority in (("0", 4), ("1", 9), ("2", 4), ("3", 9), ("10", 9)):
        stage.send(letter(text, "q", priority=priority))
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q", credit=5)
    stage.run()
    session.settle(consumer.key, id_of(taker, 4), through=True)
    session.rollback(last_delivered=False)
    assert stage.waiting("q") == ["1", "3", "10", "0", "2"]


def test_a_failed_acknowledgement_leaves_only_rollback(stage: Stage) -> None:
    send_all(stage, "a")
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q", credit=1)
    stage.run()
    stage.send(letter("sent", "q"), session=session)
    assert session.settle(consumer.key, id_of(taker, 0), through=True) is None
    assert code(session.settle(consumer.key, 4711, through=True)) == ErrorCode.ILLEGAL_STATE
    refused = session.commit()
    assert refused is not None and refused.code == ErrorCode.TRANSACTION_ROLLED_BACK and "4711" in refused.text
    assert stage.waiting("q") == ["a"]
    assert session.commit() is None


def test_a_commit_without_transaction_is_fine(stage: Stage) -> None:
    assert stage.session(transacted=True).commit() is None
    assert stage.session().commit() is None
    stage.session().rollback(last_delivered=False)
    assert stage.store.of_kind("commit", "rollback") == []


def test_acknowledgements_alone_may_be_transacted(stage: Stage) -> None:
    send_all(stage, "ab")
    session = stage.session(client=True)
    consumer, taker = stage.consumer(session, "q", credit=2)
    stage.run()
    stage.send(letter("c", "q"), session=session)
    session.settle(consumer.key, id_of(taker, 1), through=True)
    assert stage.waiting("q") == ["c"]
    session.rollback(last_delivered=True)
    assert stage.waiting("q") == ["a", "b", "c"]


def test_closing_a_session_rolls_back(stage: Stage) -> None:
    send_all(stage, "a")
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q", credit=1)
    stage.run()
    session.settle(consumer.key, id_of(taker, 0), through=True)
    stage.send(letter("b", "q"), session=session)
    session.close(failed=False)
    session.close(failed=True)
    assert stage.waiting("q") == ["a"]
    assert [reference.delivery_count for reference in stage.kernel.address_manager.queues["q"].backlog] == [1]


def test_a_message_in_several_queues_is_settled_in_each(stage: Stage) -> None:
    for name in ("x", "y"):
        stage.queue(name, "t", MULTICAST)
    stage.send(letter("m", "t"))
    for name in ("x", "y"):
        session = stage.session()
        consumer, taker = stage.consumer(session, name)
        stage.run()
        assert session.settle(consumer.key, id_of(taker, 0), through=True) is None
    stage.assert_empty()


def test_records_of_durable_work_carry_transaction_and_positions(stage: Stage) -> None:
    stage.store.records.clear()
    queue = stage.kernel.address_manager.queues["q"]
    send_all(stage, "a", durable=True)
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q", credit=1)
    stage.run()
    session.settle(consumer.key, id_of(taker, 0), through=True)
    stage.send(letter("b", "q", durable=True), session=session)
    session.commit()
    message_id = id_of(taker, 0)
    add, acknowledge, add_in, commit = stage.store.of_kind("add", "acknowledge", "commit")
    assert add == ("add", "a", 0, [(queue.id, message_id)])
    transaction_id = acknowledge[3]
    assert acknowledge == ("acknowledge", message_id, queue.id, transaction_id) and transaction_id
    assert add_in == ("add", "b", transaction_id, [(queue.id, 0)])
    positions = commit[2]
    assert commit == ("commit", transaction_id, positions)
    assert isinstance(positions, list) and positions[0][0] == queue.id and positions[0][1] > message_id


def test_nothing_is_recorded_for_what_is_not_durable(stage: Stage) -> None:
    stage.queue("soft", durable=False)
    stage.store.records.clear()
    session = stage.session(transacted=True)
    for message, queue in ((letter("a", "q"), "q"), (letter("b", "soft", durable=True), "soft")):
        stage.send(message, session=session)
        session.commit()
        consumer, taker = stage.consumer(session, queue)
        stage.run()
        session.settle(consumer.key, id_of(taker, 0), through=True)
        session.rollback(last_delivered=False)
        stage.run()
        session.settle(consumer.key, id_of(taker, 1), through=True)
        session.commit()
    assert stage.store.records == []
    stage.assert_empty()


def test_a_rollback_of_durable_work_is_recorded_with_the_counts(stage: Stage) -> None:
    send_all(stage, "ab", durable=True)
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q", credit=2)
    stage.run()
    session.settle(consumer.key, id_of(taker, 0), through=True)
    stage.store.records.clear()
    session.rollback(last_delivered=False)
    assert [record[0] for record in stage.store.records] == ["rollback", "count"]
    assert stage.store.records[1][1::2] == (id_of(taker, 0), 1)


def test_work_on_a_queue_that_was_deleted_meanwhile_is_dropped(stage: Stage) -> None:
    stage.queue("x", "t", MULTICAST)
    stage.queue("y", "t", MULTICAST)
    session = stage.session(transacted=True)
    stage.send(letter("m", "t", durable=True), session=session, routing_type=MULTICAST)
    stage.kernel.teardown.delete_queue(stage.kernel.address_manager.queues["x"])
    assert session.commit() is None
    assert stage.waiting("y") == ["m"]
    kept = stage.kernel.address_manager.queues["y"].id
    commit = stage.store.of_kind("commit")[-1]
    assert isinstance(commit[2], list) and [queue_id for queue_id, _first in commit[2]] == [kept]


@pytest.mark.parametrize("commit", [True, False])
def test_acknowledgements_on_a_queue_that_was_deleted_meanwhile_leave_nothing(stage: Stage, commit: bool) -> None:
    send_all(stage, "abc", durable=True)
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q", credit=2)
    stage.run()
    session.settle(consumer.key, id_of(taker, 0), through=True)
    stage.kernel.teardown.delete_queue(stage.kernel.address_manager.queues["q"])
    assert taker.closed == [consumer.key]
    if commit:
        session.commit()
    else:
        session.rollback(last_delivered=True)
    session.close(failed=True)
    stage.assert_empty()


def test_messages_to_a_type_without_queue_leave_no_transaction_behind(stage: Stage) -> None:
    session = stage.session(transacted=True)
    stage.send(letter("m", "nowhere"), session=session)
    session.commit()
    stage.send(letter("m", "q", durable=True), session=session, routing_type=ANYCAST)
    session.rollback(last_delivered=False)
    stage.assert_empty()


@pytest.mark.parametrize("individually", [False, True])
def test_a_transaction_does_not_commit_without_an_acknowledgement_of_a_closed_consumer(
    stage: Stage, individually: bool
) -> None:
    session = stage.session(transacted=True)
    consumer, taker = stage.consumer(session, "q")
    send_all(stage, "a")
    stage.run_all()
    session.close_consumer(consumer.key)
    acknowledge = partial(session.settle, through=not individually)
    assert code(acknowledge(consumer.key, id_of(taker, 0))) == ErrorCode.ILLEGAL_STATE
    assert code(session.commit()) == ErrorCode.TRANSACTION_ROLLED_BACK
    assert stage.waiting("q") == ["a"]
