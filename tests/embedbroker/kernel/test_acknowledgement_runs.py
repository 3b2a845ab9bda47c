"""Acknowledgements that come together are settled by one call, as if each had been settled by itself."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from embedbroker.kernel import Session

from .letters import letter
from .stage import Stage

# More than one portion of what a consumer holds, and of what is settled in one go.
MANY = 1200


def given(*, transacted: bool) -> tuple[Stage, Session, int, list[int]]:
    """A session whose consumer holds everything: its key, and the ids."""
    stage = Stage()
    stage.queue("q")
    stage.send(*[letter(str(number), "q", durable=bool(number % 3)) for number in range(MANY)])
    session = stage.session(transacted=transacted)
    consumer, taker = stage.consumer(session, "q")
    stage.run_all()
    stage.store.records.clear()
    return stage, session, consumer.key, [message.message_id for message in taker.messages]


def state(stage: Stage, session: Session) -> tuple[Any, ...]:
    """All that an acknowledgement may change."""
    queue = stage.kernel.address_manager.queues["q"]
    transaction = session.transaction
    held = [reference.message.message_id for reference in session.unsettled]
    taken = [reference.message.message_id for _, reference in transaction.deliveries()] if transaction else []
    counts = (queue.delivering_count, queue.acknowledged_count, stage.kernel.memory.used_bytes, session.unfinished)
    return held, taken, counts, transaction and transaction.failure, list(stage.store.records)


def any_ids(random: Random, ids: list[int]) -> list[int]:
    """Mostly the next ones in order; some are left out, some come again, and some were never given."""
    chosen, at = list[int](), 0
    while at < len(ids):
        kind = random.random()
        if kind < 0.02:
            chosen.append(random.choice(ids))
        elif kind < 0.03:
            chosen.append(10**9)
        elif kind < 0.05:
            at += random.choice((1, 2, 100))
        else:
            chosen += ids[at : at + 20]
            at += 20
    return chosen


@pytest.mark.parametrize("transacted", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_a_run_is_what_its_acknowledgements_are_one_by_one(seed: int, transacted: bool) -> None:
    random = Random(seed)
    (together, session, key, ids), (apart, other, other_key, other_ids) = (given(transacted=transacted) for _ in "ab")
    assert (key, ids) == (other_key, other_ids)
    chosen = any_ids(random, ids)
    while chosen:
        count = random.choice((1, 2, 63, 64, 65, 200))
        run, chosen = chosen[:count], chosen[count:]
        refusals = [other.settle(key, message_id, through=True) for message_id in run]
        assert session.settle_run(key, run) == [refused for refused in refusals if refused is not None]
        assert state(together, session) == state(apart, other)
    for stage in (together, apart):
        stage.run_all()
    assert state(together, session) == state(apart, other)


def test_a_run_that_is_in_order_is_one_decision() -> None:
    _stage, session, key, ids = given(transacted=True)
    assert session.settle_run(key, ids[:40]) == []
    assert session.transaction is not None
    assert [len(references) for _, references, _, _ in session.transaction.acknowledged] == [40]


@pytest.mark.parametrize("transacted", [False, True])
def test_a_run_for_a_consumer_that_is_not_there_is_refused_one_by_one(transacted: bool) -> None:
    _stage, session, key, ids = given(transacted=transacted)
    refusals = session.settle_run(key + 1, ids[:3])
    assert [refused.text for refused in refusals] == [f"session {session.name} has no consumer {key + 1}"] * 3
    assert (session.transaction is not None and session.transaction.failure is not None) == transacted
    assert len(session.unsettled) == MANY


def test_a_run_of_what_was_only_looked_at_settles_nothing() -> None:
    stage = Stage()
    stage.queue("q")
    stage.send(*[letter(str(number), "q") for number in range(5)])
    session = stage.session()
    browser, taker = stage.consumer(session, "q", browse=True)
    stage.run_all()
    assert session.settle_run(browser.key, [message.message_id for message in taker.messages]) == []
    assert stage.kernel.address_manager.queues["q"].message_count == 5


def test_messages_in_any_order_are_accepted_alone() -> None:
    one, session, key, ids = given(transacted=False)
    other, other_session, other_key, _ = given(transacted=False)
    chosen = [ids[5], ids[900], 10**9, *ids[7:200], *reversed(ids[300:400]), ids[5]]
    session.settle_run(key, chosen, through=False)
    for message_id in chosen:
        if message_id in ids and message_id not in (ids[5], 10**9):
            assert other_session.settle(other_key, message_id) is None
    other_session.settle(other_key, ids[5])
    held, _, counts, _, records = state(one, session)
    expected, _, expected_counts, _, expected_records = state(other, other_session)
    assert (held, counts) == (expected, expected_counts) and len(held) == MANY - 295
    assert sorted(map(repr, records)) == sorted(map(repr, expected_records))
    session.settle_run(key + 1, chosen, through=False)
