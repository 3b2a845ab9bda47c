"""Commits and rollbacks whose caller does not wait for the end, and goes on."""

from __future__ import annotations

import pytest

from embedclient.agent import LocatorSettings, Producer, Session, SessionMode
from embedclient.errors import ErrorCode
from tests.embedclient.agent.node_pair import NodePair, count_of, open_queue, open_session, take, text_message

RECONNECTING = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=100)


def transacted(pair: NodePair, *, started: bool = True) -> tuple[Session, Producer]:
    """A session with something in its transaction. One that is not started rolls back without a stop before."""
    session = pair.finish(pair.agent.create_session_for(SessionMode.TRANSACTED))
    producer, _ = open_queue(pair, session)
    if started:
        pair.finish(session.start())
    producer.send(text_message("taken back", "q"))
    pair.settle()
    return session, producer


def left(pair: NodePair) -> list[str | None]:
    """What another session finds in the queue."""
    other = open_session(pair)
    return take(pair, other, open_queue(pair, other)[1])


def test_no_commit_overtakes_a_rollback() -> None:
    pair = NodePair()
    session, _ = transacted(pair)
    rollback, commit = session.rollback(), session.commit()
    pair.finish(rollback)
    pair.finish(commit)
    assert count_of(pair, session) == 0


def test_a_commit_says_that_a_rollback_took_its_work_along() -> None:
    """1. SESS_STOP is on its way, and the program sends. 2. SESS_ROLLBACK follows what it has sent. 3. The commit."""
    pair = NodePair()
    session, producer = transacted(pair)
    rollback = session.rollback()
    producer.send(text_message("too early", "q"))
    commit = session.commit()
    pair.finish(rollback)
    assert pair.error_code(commit) == ErrorCode.TRANSACTION_ROLLED_BACK
    producer.send(text_message("next", "q"))
    pair.finish(session.commit())
    pair.finish(session.close())
    assert left(pair) == ["next"]


def test_what_is_sent_behind_a_rollback_belongs_to_the_next_transaction() -> None:
    pair = NodePair()
    session, producer = transacted(pair, started=False)
    rollback = session.rollback()
    producer.send(text_message("next", "q"))
    commit = session.commit()
    pair.finish(rollback)
    pair.finish(commit)
    pair.finish(session.close())
    assert left(pair) == ["next"]


def test_a_rollback_that_waits_lets_no_commit_pass_that_waits_before_it() -> None:
    pair = NodePair(RECONNECTING)
    session, _ = transacted(pair)
    pair.refuse_dials = True
    pair.cut()
    commit, rollback = session.commit(), session.rollback()
    pair.refuse_dials = False
    pair.advance(1)
    assert pair.error_code(commit) == ErrorCode.TRANSACTION_ROLLED_BACK
    pair.finish(rollback)
    pair.finish(session.commit())
    assert count_of(pair, session) == 0


@pytest.mark.parametrize("started", [True, False], ids=["stopping", "rolling back"])
def test_what_is_lost_with_its_session_during_a_rollback_is_not_committed_in_silence(started: bool) -> None:
    pair = NodePair(RECONNECTING)
    session, producer = transacted(pair, started=started)
    rollback = session.rollback()
    producer.send(text_message("lost", "q"))
    pair.settle()
    pair.restart_node()
    pair.advance(1)
    pair.finish(rollback)
    assert pair.error_code(session.commit()) == ErrorCode.TRANSACTION_ROLLED_BACK
    producer.send(text_message("next", "q"))
    pair.finish(session.commit())
    pair.finish(session.close())
    assert left(pair) == ["next"]


def test_what_is_sent_behind_a_commit_stays_open_when_the_answer_comes() -> None:
    """1. A commit leaves. 2. The next transaction begins. 3. The answer. 4. The session is lost, and 2. with it."""
    pair = NodePair(RECONNECTING)
    session, producer = transacted(pair)
    commit = session.commit()
    producer.send(text_message("lost", "q"))
    pair.finish(commit)
    pair.restart_node()
    pair.advance(1)
    assert pair.error_code(session.commit()) == ErrorCode.TRANSACTION_ROLLED_BACK
    pair.finish(session.commit())


def test_a_commit_that_waits_for_another_one_fails_when_their_session_is_lost() -> None:
    pair = NodePair(RECONNECTING)
    session, producer = transacted(pair)
    pair.filter = lambda sender, data: b""
    first = session.commit()
    producer.send(text_message("lost", "q"))
    second = session.commit()
    pair.settle()
    pair.filter = lambda sender, data: data
    pair.restart_node()
    pair.advance(1)
    assert pair.error_code(first) == ErrorCode.TRANSACTION_OUTCOME_UNKNOWN
    assert pair.error_code(second) == ErrorCode.TRANSACTION_ROLLED_BACK
    pair.finish(session.commit())
    assert count_of(pair, session) == 0


def test_a_commit_that_waits_takes_no_half_of_the_next_transaction_along() -> None:
    """1. A commit is on its way, and another one waits for it. 2. More is sent, and is at the broker before that."""
    pair = NodePair()
    session, producer = transacted(pair)
    first = session.commit()
    producer.send(text_message("second", "q"))
    second = session.commit()
    producer.send(text_message("third", "q"))
    third = session.commit()
    pair.finish(first)
    assert pair.error_code(second) == ErrorCode.TRANSACTION_ROLLED_BACK
    assert pair.error_code(third) == ErrorCode.TRANSACTION_ROLLED_BACK
    pair.finish(session.commit())
    pair.finish(session.close())
    assert left(pair) == ["taken back"]


def test_a_commit_that_waits_over_a_rebuild_is_rolled_back() -> None:
    pair = NodePair(RECONNECTING)
    session, _ = transacted(pair)
    pair.refuse_dials = True
    pair.restart_node()
    commit = session.commit()
    pair.refuse_dials = False
    pair.advance(1)
    assert pair.error_code(commit) == ErrorCode.TRANSACTION_ROLLED_BACK


def test_a_commit_that_waits_for_its_turn_can_be_taken_back() -> None:
    pair = NodePair()
    session, producer = transacted(pair, started=False)
    rollback = session.rollback()
    producer.send(text_message("next", "q"))
    commit = session.commit()
    assert commit.cancel()
    producer.send(text_message("next but one", "q"))
    pair.finish(rollback)
    assert count_of(pair, session) == 0
    pair.finish(session.commit())
    pair.finish(session.close())
    assert left(pair) == ["next", "next but one"]


def test_a_close_lets_the_ending_under_way_end_and_none_that_waits() -> None:
    pair = NodePair()
    session, producer = transacted(pair)
    first = session.commit()
    producer.send(text_message("given up", "q"))
    second, close = session.commit(), session.close()
    pair.finish(first)
    pair.finish(close)
    assert second.error is not None
    assert left(pair) == ["taken back"]


def test_a_close_ends_a_rollback_that_waits_for_its_stop() -> None:
    pair = NodePair()
    session, _ = transacted(pair)
    rollback, close = session.rollback(), session.close()
    pair.finish(close)
    assert rollback.error is not None
    assert session.closed
    assert left(pair) == []


@pytest.mark.parametrize("mode", [SessionMode.CLIENT, SessionMode.TRANSACTED])
def test_what_is_acknowledged_during_a_rollback_is_not_committed_in_silence(mode: SessionMode) -> None:
    pair = NodePair()
    sender = open_session(pair)
    producer, spare = open_queue(pair, sender)
    pair.finish(spare.close())
    pair.finish(producer.send(text_message("one", "q")))
    session = open_session(pair, mode)
    _, consumer = open_queue(pair, session)
    pair.settle()
    delivery = consumer.next(pair.now)
    assert delivery is not None
    rollback = session.rollback()
    session.consumed(delivery)
    commit = session.commit()
    pair.finish(rollback)
    assert pair.error_code(commit) == ErrorCode.TRANSACTION_ROLLED_BACK
    assert take(pair, session, consumer) == ["one"]
    pair.finish(session.commit())
    assert count_of(pair, session) == 0


def test_not_more_endings_wait_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedclient.agent.session._transaction.ENDINGS_MAX", 2)
    pair = NodePair()
    session, _ = transacted(pair)
    first, second, third, commit, close = (
        session.rollback(),
        session.rollback(),
        session.rollback(),
        session.commit(),
        session.close(),
    )
    assert third.error is not None and commit.error is not None and first.error is second.error is None
    pair.finish(close)
    assert left(pair) == []
