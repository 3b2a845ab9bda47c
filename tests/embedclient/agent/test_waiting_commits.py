"""Acknowledgements made while the end of the transaction before them waits in the line."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedclient.agent import Consumer, LocatorSettings, Session, SessionMode
from embedclient.errors import ErrorCode
from embedclient.model import XaCode
from tests.embedclient.agent.node_pair import NodePair, count_of, open_queue, open_session, take, text_message, text_of
from tests.embedclient.agent.test_xa_with_node import code_of, open_xa_session, xid_of

REATTACHING = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=100, confirmation_window_size=1 << 20)
# With a priority of their own, messages are acknowledged one by one.
PRIORITIES = pytest.mark.parametrize("priority", [4, 5], ids=["cumulative", "alone"])


def feed(pair: NodePair, *texts: str, priority: int = 4) -> None:
    producer = open_session(pair).create_producer("q")
    for text in texts:
        pair.finish(producer.send(text_message(text, "q", priority=priority)))


def receive(pair: NodePair, session: Session, consumer: Consumer) -> str | None:
    delivery = consumer.next(pair.now)
    assert delivery is not None
    session.consumed(delivery)
    pair.settle()
    return text_of(delivery)


def lose_connection(pair: NodePair) -> None:
    pair.refuse_dials = True
    pair.cut()
    pair.settle()


def find_connection(pair: NodePair) -> None:
    pair.refuse_dials = False
    pair.advance(1)


@PRIORITIES
@pytest.mark.parametrize("mode", [SessionMode.TRANSACTED, SessionMode.CLIENT])
def test_a_commit_that_waits_for_the_failover_takes_nothing_of_the_next_transaction_along(
    mode: SessionMode, priority: int
) -> None:
    pair = NodePair(evolve(REATTACHING, ack_batch_size=0, transaction_batch_size=0))
    session = open_session(pair, mode)
    _, consumer = open_queue(pair, session)
    feed(pair, "one", "two", "three", priority=priority)
    receive(pair, session, consumer)
    lose_connection(pair)
    commit = session.commit()
    assert receive(pair, session, consumer) == "two"
    find_connection(pair)
    pair.finish(commit)
    assert session.rebuilds == 0
    pair.finish(session.rollback())
    assert take(pair, session, consumer) == ["two", "three"]
    pair.finish(session.commit())
    assert count_of(pair, session) == 0


@PRIORITIES
def test_a_commit_behind_a_send_without_credits_takes_nothing_of_the_next_transaction_along(priority: int) -> None:
    pair = NodePair(evolve(REATTACHING, transaction_batch_size=0))
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, consumer = open_queue(pair, session)
    feed(pair, "one", "two", priority=priority)
    receive(pair, session, consumer)
    credits = producer.credits
    assert credits is not None
    balance, credits.balance, credits.arriving = credits.balance, 0, 1 << 20
    producer.send(text_message("sent", "q"))
    commit = session.commit()
    assert receive(pair, session, consumer) == "two"
    assert not commit.done
    credits.balance = balance
    session.channel.pump()
    pair.finish(commit)
    pair.finish(session.rollback())
    assert take(pair, session, consumer) == ["two", "sent"]


def test_what_is_acknowledged_behind_a_commit_that_waits_is_lost_with_its_session_and_the_next_commit_says_so() -> None:
    pair = NodePair(evolve(REATTACHING, confirmation_window_size=-1, transaction_batch_size=0))
    session = open_session(pair, SessionMode.TRANSACTED)
    _, consumer = open_queue(pair, session)
    feed(pair, "one", "two")
    receive(pair, session, consumer)
    lose_connection(pair)
    commit = session.commit()
    receive(pair, session, consumer)
    find_connection(pair)
    assert pair.error_code(commit) == ErrorCode.TRANSACTION_ROLLED_BACK
    assert pair.error_code(session.commit()) == ErrorCode.TRANSACTION_ROLLED_BACK
    assert take(pair, session, consumer) == ["one", "two"]


def test_what_was_acknowledged_behind_a_commit_that_waits_comes_again_flagged_after_the_close() -> None:
    pair = NodePair(evolve(REATTACHING, transaction_batch_size=0))
    session = open_session(pair, SessionMode.TRANSACTED)
    _, consumer = open_queue(pair, session)
    feed(pair, "one")
    pair.filter = lambda sender, data: b"" if sender == "server" else data
    session.addressing.query_queue("q")
    commit = session.commit()
    receive(pair, session, consumer)
    close = session.close()
    pair.settle()
    pair.filter = lambda sender, data: data
    pair.cut()
    pair.advance(1)
    pair.finish(close)
    assert commit.error is not None
    _, other = open_queue(pair, open_session(pair))
    pair.settle()
    delivery = other.next(pair.now)
    assert delivery is not None and delivery.redelivered


@PRIORITIES
@pytest.mark.parametrize("started", [True, False], ids=["delivering", "stopped"])
def test_a_branch_whose_end_waits_is_lost_when_something_is_acknowledged_behind_it(
    started: bool, priority: int
) -> None:
    """In no branch it would be acknowledged for good, whatever becomes of the branch that the program begins next."""
    pair = NodePair(evolve(REATTACHING, transaction_batch_size=0))
    plain = open_session(pair)
    pair.finish(open_queue(pair, plain)[1].close())
    session, xa = open_xa_session(pair)
    _, consumer = open_queue(pair, session)
    feed(pair, "one", "two", priority=priority)
    pair.finish(xa.start(xid_of(1)))
    receive(pair, session, consumer)
    delivery = consumer.next(pair.now)
    assert delivery is not None
    if not started:
        pair.finish(session.stop())
    lose_connection(pair)
    end = xa.end(xid_of(1))
    session.consumed(delivery)
    find_connection(pair)
    assert code_of(pair, end) == XaCode.XAER_RMFAIL
    assert session.rebuilds == 0
    pair.finish(session.start())
    pair.settle()
    assert code_of(pair, xa.start(xid_of(2))) == XaCode.XA_OK
    assert take(pair, session, consumer) == ["one", "two"]
    assert code_of(pair, xa.rollback(xid_of(1))) in (XaCode.XA_OK, XaCode.XAER_NOTA)
    assert code_of(pair, xa.end(xid_of(2))) == XaCode.XA_OK
    assert code_of(pair, xa.commit(xid_of(2), True)) == XaCode.XA_OK
    assert count_of(pair, plain) == 0


def test_a_branch_whose_end_waits_for_its_turn_is_lost_when_something_is_done_behind_it() -> None:
    pair = NodePair(evolve(REATTACHING, transaction_batch_size=0))
    session, xa = open_xa_session(pair)
    producer, _ = open_queue(pair, session)
    pair.settle()
    start = xa.start(xid_of(1))
    end = xa.end(xid_of(1))
    producer.send(text_message("too early", "q"))
    assert code_of(pair, start) == XaCode.XA_OK
    assert code_of(pair, end) == XaCode.XAER_RMFAIL
    assert code_of(pair, xa.rollback(xid_of(1))) in (XaCode.XA_OK, XaCode.XAER_NOTA)
    assert count_of(pair, session) == 0
