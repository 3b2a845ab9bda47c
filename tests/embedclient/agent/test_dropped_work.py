"""Work of a transaction that never reached the broker: no commit reports that it was done."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedclient.agent import Consumer, LocatorSettings, Session, SessionMode
from embedclient.errors import ErrorCode
from embedclient.model import XaCode
from embedclient.wire.core import DisconnectConsumer, encode_packet
from tests.embedclient.agent.node_pair import NodePair, count_of, open_queue, open_session, text_message
from tests.embedclient.agent.test_xa_with_node import code_of, open_xa_session, xid_of

REATTACHING = LocatorSettings(
    reconnect_attempts=-1, retry_interval_ms=100, confirmation_window_size=1 << 20, call_failover_timeout_ms=1000
)


def lose_connection(pair: NodePair) -> None:
    pair.refuse_dials = True
    pair.cut()
    pair.settle()


def find_connection(pair: NodePair) -> None:
    pair.refuse_dials = False
    pair.advance(1)


@pytest.mark.parametrize("waits", [False, True], ids=["commit afterwards", "commit waits"])
def test_no_commit_succeeds_without_a_message_that_waited_too_long_for_the_failover(waits: bool) -> None:
    pair = NodePair(REATTACHING)
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, _ = open_queue(pair, session)
    pair.finish(producer.send_confirmed(text_message("sent", "q")))
    lose_connection(pair)
    dropped = producer.send_confirmed(text_message("dropped", "q"))
    pair.advance(0.5)
    commit = session.commit() if waits else None
    pair.advance(0.7)
    assert pair.error_code(dropped) == ErrorCode.CONNECTION_TIMEDOUT
    find_connection(pair)
    assert session.rebuilds == 0
    assert pair.error_code(commit or session.commit()) == ErrorCode.TRANSACTION_ROLLED_BACK
    pair.finish(producer.send_confirmed(text_message("next", "q")))
    pair.finish(session.commit())
    assert count_of(pair, session) == 1


def test_no_commit_succeeds_without_a_message_that_the_address_had_no_room_for() -> None:
    pair = NodePair(REATTACHING)
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, _ = open_queue(pair, session)
    credits = producer.credits
    assert credits is not None
    balance, credits.balance, credits.arriving = credits.balance, 0, 1 << 20
    dropped = producer.send_confirmed(text_message("dropped", "q"))
    commit = session.commit()
    credits.on_refused(balance)
    session.channel.pump()
    assert pair.error_code(dropped) == ErrorCode.ADDRESS_FULL
    assert pair.error_code(commit) == ErrorCode.TRANSACTION_ROLLED_BACK


def test_no_commit_succeeds_without_a_message_that_was_too_many() -> None:
    pair = NodePair(evolve(REATTACHING, pending_requests_max=1))
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, _ = open_queue(pair, session)
    lose_connection(pair)
    producer.send_confirmed(text_message("waits", "q"))
    assert pair.error_code(producer.send_confirmed(text_message("dropped", "q"))) == ErrorCode.GENERIC_EXCEPTION
    find_connection(pair)
    assert pair.error_code(session.commit()) == ErrorCode.TRANSACTION_ROLLED_BACK


def test_a_message_that_was_awaited_and_did_not_leave_costs_no_transaction() -> None:
    """Its program has the error, and may send it once more."""
    pair = NodePair(REATTACHING)
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, _ = open_queue(pair, session)
    lose_connection(pair)
    awaited = producer.send(text_message("one", "q"))
    pair.advance(1.5)
    assert pair.error_code(awaited) == ErrorCode.CONNECTION_TIMEDOUT
    find_connection(pair)
    producer.send(text_message("one", "q"))
    pair.finish(session.commit())
    assert count_of(pair, session) == 1


@pytest.mark.parametrize("waits", [False, True], ids=["end afterwards", "end waits"])
def test_a_branch_without_a_message_that_waited_too_long_is_not_prepared(waits: bool) -> None:
    pair = NodePair(REATTACHING)
    session, xa = open_xa_session(pair)
    producer, _ = open_queue(pair, session)
    pair.finish(xa.start(xid_of(1)))
    pair.finish(producer.send_confirmed(text_message("sent", "q")))
    lose_connection(pair)
    producer.send_confirmed(text_message("dropped", "q"))
    pair.advance(0.5)
    end = xa.end(xid_of(1)) if waits else None
    pair.advance(0.7)
    find_connection(pair)
    assert session.rebuilds == 0
    assert code_of(pair, end or xa.end(xid_of(1))) == XaCode.XAER_RMFAIL
    assert code_of(pair, xa.prepare(xid_of(1))) == XaCode.XAER_RMFAIL
    assert code_of(pair, xa.rollback(xid_of(1))) in (XaCode.XA_OK, XaCode.XAER_NOTA)
    pair.finish(xa.start(xid_of(2)))
    pair.finish(producer.send_confirmed(text_message("next", "q")))
    assert code_of(pair, xa.end(xid_of(2))) == XaCode.XA_OK
    assert code_of(pair, xa.commit(xid_of(2), True)) == XaCode.XA_OK
    assert count_of(pair, session) == 1


def disconnect(session: Session, consumer: Consumer) -> None:
    """What the broker sends to a consumer whose close it requested, and which it keeps until then."""
    packet = DisconnectConsumer(consumer.consumer_id)
    frame = encode_packet(packet, session.channel_id, session.channel.version)
    session.receive(frame, 0, len(frame), packet.TYPE)


def test_what_was_acknowledged_before_the_broker_closes_the_consumer_is_committed() -> None:
    pair = NodePair()
    session = open_session(pair, SessionMode.TRANSACTED)
    _, consumer = open_queue(pair, session)
    pair.finish(open_session(pair).create_producer("q").send(text_message("one", "q")))
    delivery = consumer.next(pair.now)
    assert delivery is not None
    session.consumed(delivery)
    disconnect(session, consumer)
    assert consumer.closed
    pair.finish(session.commit())
    assert count_of(pair, session) == 0


@pytest.mark.parametrize("individually", [False, True])
def test_what_is_acknowledged_behind_the_close_of_its_consumer_is_not_committed(individually: bool) -> None:
    """It is back in its queue by then; not every broker reports that for an acknowledgement without an answer."""
    pair = NodePair()
    session = open_session(pair, SessionMode.TRANSACTED)
    _, consumer = open_queue(pair, session)
    pair.finish(open_session(pair).create_producer("q").send(text_message("one", "q")))
    delivery = consumer.next(pair.now)
    assert delivery is not None
    pair.finish(consumer.close())
    if individually:
        consumer.acknowledgements.acknowledge_individually(delivery)
    else:
        consumer.acknowledgements.acknowledge(delivery)
    assert session.rollback_only
    assert pair.error_code(session.commit()) == ErrorCode.TRANSACTION_ROLLED_BACK
    assert count_of(pair, session) == 1


def test_what_was_acknowledged_before_the_close_may_be_acknowledged_once_more() -> None:
    pair = NodePair()
    session = open_session(pair, SessionMode.TRANSACTED)
    _, consumer = open_queue(pair, session)
    pair.finish(open_session(pair).create_producer("q").send(text_message("one", "q")))
    delivery = consumer.next(pair.now)
    assert delivery is not None
    consumer.acknowledgements.acknowledge(delivery)
    pair.finish(consumer.close())
    consumer.acknowledgements.acknowledge(delivery)
    pair.finish(session.commit())
    assert count_of(pair, session) == 0
