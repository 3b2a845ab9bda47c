"""One acknowledgement of many messages is carried out over several steps, as if it had been done at once."""

from __future__ import annotations

import pytest

from embedbroker.kernel import Session
from tests.embedbroker.kernel.letters import letter
from tests.embedbroker.kernel.stage import Stage, Taker

MANY = 1000
BUDGET = 100


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.queue("q")
    stage.send(*[letter(str(number), "q", durable=True) for number in range(MANY)])
    stage.store.records.clear()
    return stage


def all_delivered(stage: Stage, session: Session) -> tuple[int, list[int]]:
    """A consumer's key and the ids of everything it was given."""
    consumer, taker = stage.consumer(session, "q")
    stage.run_all()
    assert len(taker.messages) == MANY
    return consumer.key, [message.message_id for message in taker.messages]


def acknowledged(stage: Stage) -> list[object]:
    return [record[1] for record in stage.store.of_kind("acknowledge")]


@pytest.mark.parametrize("last", [MANY - 1, MANY - 300], ids=["all", "most"])
def test_it_is_spread_and_keeps_its_order(stage: Stage, last: int) -> None:
    session = stage.session()
    key, ids = all_delivered(stage, session)
    session.settle(key, ids[last], through=True)
    done = len(acknowledged(stage))
    assert done < BUDGET, "so much in one go"
    while stage.kernel.has_work:
        stage.run(BUDGET)
        before, done = done, len(acknowledged(stage))
        assert done - before <= BUDGET
    assert acknowledged(stage) == ids[: last + 1]
    assert not session.unfinished
    assert stage.kernel.address_manager.queues["q"].message_count == MANY - 1 - last
    session.settle(key, ids[-1], through=True)
    stage.assert_empty()


def test_what_comes_behind_the_acknowledged_is_still_held_by_its_consumer(stage: Stage) -> None:
    session = stage.session()
    key, ids = all_delivered(stage, session)
    session.settle(key, ids[-101], through=True)
    session.close(failed=True)
    _consumer, taker = stage.consumer(stage.session(), "q")
    stage.run_all(BUDGET)
    assert taker.texts == [str(number) for number in range(MANY - 100, MANY)]


def test_a_commit_waits_for_the_acknowledgements_it_commits(stage: Stage) -> None:
    session = stage.session(transacted=True)
    key, ids = all_delivered(stage, session)
    stage.queue("out")
    stage.send(letter("answer", "out", durable=True), session=session)
    session.settle(key, ids[-1], through=True)
    session.commit()
    # The next transaction of the session may not be committed before.
    stage.send(letter("later", "out", durable=True), session=session)
    session.commit()
    assert stage.store.of_kind("commit") == []
    stage.run(BUDGET)
    assert 0 < len(acknowledged(stage)) < MANY and stage.waiting("out") == []
    stage.run_all(BUDGET)
    kinds = [str(record[0]) for record in stage.store.of_kind("acknowledge", "commit")]
    assert kinds == ["acknowledge"] * MANY + ["commit"] * 2
    transactions = [record[3] for record in stage.store.of_kind("acknowledge")]
    assert {stage.store.of_kind("commit")[0][1]} == set(transactions)
    assert stage.waiting("out") == ["answer", "later"]
    assert stage.kernel.address_manager.queues["q"].message_count == 0 and not session.unfinished


@pytest.mark.parametrize("how", ["rollback", "close"])
def test_a_rollback_does_not_wait_and_no_record_of_the_transaction_follows_it(stage: Stage, how: str) -> None:
    session = stage.session(transacted=True)
    key, ids = all_delivered(stage, session)
    session.settle(key, ids[-1], through=True)
    stage.run(BUDGET)
    if how == "rollback":
        session.rollback(last_delivered=False)
    else:
        session.close(failed=True)
    stage.run_all(BUDGET)
    kinds = [str(record[0]) for record in stage.store.of_kind("acknowledge", "rollback")]
    assert kinds[-1] == "rollback" and kinds.count("rollback") == 1 and len(kinds) < MANY
    assert not session.unfinished
    if how == "close":
        taker: Taker = stage.consumer(stage.session(), "q")[1]
        stage.run_all(BUDGET)
        assert taker.got == [(str(number), 2) for number in range(MANY)]


@pytest.mark.parametrize("transacted", [False, True])
def test_its_queue_may_be_deleted_in_the_middle(stage: Stage, transacted: bool) -> None:
    session = stage.session(transacted=transacted)
    key, ids = all_delivered(stage, session)
    session.settle(key, ids[-1], through=True)
    stage.run(BUDGET)
    stage.kernel.teardown.delete_queue(stage.kernel.address_manager.queues["q"])
    at = len(stage.store.records)
    if transacted:
        session.commit()
    stage.run_all(BUDGET)
    assert {str(record[0]) for record in stage.store.records[at:]} <= {"commit"}
    stage.assert_empty()


def test_a_large_transaction_that_is_rolled_back_lets_go_of_its_sends_over_several_steps(stage: Stage) -> None:
    session = stage.session(transacted=True)
    before = stage.kernel.memory.used_bytes
    stage.send(*[letter("x", "q") for _ in range(MANY)], session=session)
    session.rollback(last_delivered=False)
    assert stage.kernel.memory.used_bytes > before
    assert stage.run_all(BUDGET) >= MANY / BUDGET - 1
    assert stage.kernel.memory.used_bytes == before
