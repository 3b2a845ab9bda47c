"""What waits while a connection is away, and what must not be left of it in the session that comes back."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from embedbroker.node import Node
from embedclient.agent import BytesReceived, Call, FailoverCompleted, LocatorSettings, SessionMode
from embedclient.errors import ErrorCode
from embedclient.wire.core import (
    HANDSHAKE,
    FrameSplitter,
    ReattachSession,
    SessionConsumerClose,
    SessionQueueQuery,
    SessionRollback,
    SessionStart,
    encode_packet,
)
from tests.embedclient.agent.node_pair import NodePair, count_of, open_queue, open_session, take, text_message, text_of

RECONNECTING = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=200)
REATTACHING = evolve(RECONNECTING, confirmation_window_size=1 << 20)


def test_a_blocking_acknowledgement_that_waits_for_the_failover_is_not_sent_to_a_rebuilt_session() -> None:
    """1. A message is taken, the connection is lost, its acknowledgement waits. 2. The rebuilt session gets it again.
    3. Acknowledged a second time, the broker would not find it, and take all that it had delivered behind it."""
    pair = NodePair(evolve(RECONNECTING, block_on_acknowledge=True))
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    for text in ("one", "two", "three"):
        pair.finish(producer.send(text_message(text, "q")))
    old = consumer.next(pair.now)
    assert old is not None
    pair.refuse_dials = True
    pair.cut()
    acknowledgement = session.consumed(old)
    pair.settle()
    pair.refuse_dials = False
    pair.advance(1)
    assert pair.error_code(acknowledgement) == ErrorCode.UNBLOCKED
    again = consumer.next(pair.now)
    assert again is not None and (text_of(again), again.redelivered) == ("one", True)
    pair.finish(session.consumed(again))
    assert count_of(pair, session) == 2


def test_a_rollback_whose_stop_is_answered_late_shows_no_message_twice() -> None:
    """1. A delivery and the reply to SESS_STOP are lost; the stop times out, the rollback waits for the failover.
    2. The broker repeats the delivery, then takes it back with the rollback and delivers it anew."""
    pair = NodePair(REATTACHING)
    session = open_session(pair, SessionMode.TRANSACTED)
    _, consumer = open_queue(pair, session)
    producer = open_session(pair).create_producer("q")
    pair.settle()
    pair.filter = lambda sender, data: b"" if sender == "server" else data
    producer.send(text_message("one", "q", durable=False))
    pair.settle()
    rollback = session.rollback()
    pair.advance(29)
    pair.filter = lambda sender, data: data
    pair.advance(5)
    pair.finish(rollback)
    assert FailoverCompleted(True) in pair.notifications
    assert take(pair, session, consumer) == ["one"]
    pair.finish(session.commit())
    assert count_of(pair, session) == 0


def test_a_rollback_that_fails_leaves_nothing_to_commit() -> None:
    """1. A rollback gives up waiting for the failover. 2. The session is made again. 3. What the program wanted to take
    back is not committed together with what it does next, which is refused once."""
    pair = NodePair(evolve(REATTACHING, call_failover_timeout_ms=3000))
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, consumer = open_queue(pair, session)
    producer.send(text_message("taken back", "q"))
    pair.settle()
    pair.refuse_dials = True
    pair.cut()
    rollback = session.rollback()
    pair.advance(7)
    assert pair.error_code(rollback) == ErrorCode.CONNECTION_TIMEDOUT
    pair.refuse_dials = False
    pair.advance(1)
    assert FailoverCompleted(False) in pair.notifications
    producer.send(text_message("next", "q"))
    assert pair.error_code(session.commit()) == ErrorCode.TRANSACTION_ROLLED_BACK
    producer.send(text_message("next", "q"))
    pair.finish(session.commit())
    assert take(pair, session, consumer) == ["next"]


def test_what_a_rollback_took_back_that_never_left_comes_again_though_the_session_could_be_reattached() -> None:
    """1. The connection is lost. 2. A rollback empties the buffer and gives up. 3. The broker has kept the session."""
    pair = NodePair(evolve(REATTACHING, call_timeout_ms=1000, call_failover_timeout_ms=1000))
    session = pair.finish(pair.agent.create_session_for(SessionMode.TRANSACTED))
    producer, consumer = open_queue(pair, session)
    for number in range(3):
        producer.send(text_message(str(number), "q"))
    pair.finish(session.commit())
    pair.finish(session.start())
    pair.settle()
    assert consumer.buffered == 3
    pair.refuse_dials = True
    pair.cut()
    rollback = session.rollback()
    pair.advance(3)
    assert pair.error_code(rollback) == ErrorCode.CONNECTION_TIMEDOUT
    pair.refuse_dials = False
    pair.advance(1)
    assert session.rebuilds == 1
    received = []
    for _ in range(3):
        delivery = consumer.next(pair.now)
        assert delivery is not None
        received.append(text_of(delivery))
        pair.finish(session.consumed(delivery))
    assert received == ["0", "1", "2"]


def test_a_rollback_that_waits_behind_too_much_costs_no_connection() -> None:
    pair = NodePair(evolve(REATTACHING, pending_requests_max=1))
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, _ = open_queue(pair, session)
    pair.finish(session.stop())
    producer.send(text_message("taken back", "q"))
    pair.filter = lambda sender, data: b"" if sender == "server" else data
    waiting = [session.create_consumer("q") for _ in range(2)]
    rollback = session.rollback()
    pair.settle()
    assert not rollback.done and not any(call.done for call in waiting)
    assert pair.notifications == []
    assert session.rebuilds == 0


def test_with_window_zero_a_caller_that_waits_in_a_stopped_session_is_sent_a_message_after_the_rebuild() -> None:
    """1. A message arrives, but its session is stopped. 2. The session is rebuilt. 3. It is started again."""
    pair = NodePair(evolve(RECONNECTING, consumer_window_size=0))
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    consumer.want()
    pair.finish(producer.send(text_message("one", "q")))
    pair.finish(session.stop())
    assert consumer.buffered == 1
    pair.cut()
    pair.advance(1)
    pair.finish(session.start())
    assert take(pair, session, consumer) == ["one"]


def test_a_session_started_while_its_stop_waits_for_the_failover_delivers() -> None:
    """1. Connection lost. 2. The stop waits, perhaps for a caller that has gone. 3. The session is started again."""
    pair = NodePair(RECONNECTING)
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.refuse_dials = True
    pair.cut()
    pair.settle()
    stop = session.stop()
    pair.finish(session.start())
    assert stop.error is not None
    pair.refuse_dials = False
    pair.advance(1)
    pair.finish(producer.send(text_message("one", "q")))
    assert take(pair, session, consumer) == ["one"]


def test_a_session_stopped_and_started_behind_a_waiting_rollback_delivers() -> None:
    pair = NodePair(REATTACHING)
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, consumer = open_queue(pair, session)
    producer.send(text_message("one", "q"))
    pair.finish(session.commit())
    pair.finish(session.stop())
    pair.refuse_dials = True
    pair.cut()
    pair.settle()
    rollback = session.rollback()
    pair.finish(session.start())
    session.stop()
    pair.finish(session.start())
    pair.refuse_dials = False
    pair.advance(1)
    pair.finish(rollback)
    assert take(pair, session, consumer) == ["one"]


def sent_kinds(pair: NodePair) -> list[int]:
    """The types of the packets that the client has written since `client_bytes` was cleared."""
    data = b"".join(pair.client_bytes).removeprefix(HANDSHAKE)
    return [packet_type for _length, packet_type, _channel in FrameSplitter().feed(data)[1]]


def test_a_session_started_during_a_rollback_is_started_behind_it() -> None:
    """Started in front of it, the broker would deliver what the rollback takes back, and once more afterwards."""
    pair = NodePair()
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, consumer = open_queue(pair, session)
    producer.send(text_message("one", "q"))
    pair.finish(session.commit())
    pair.finish(session.stop())
    pair.client_bytes.clear()
    session.addressing.query_queue("q")  # the rollback waits behind it
    rollback = session.rollback()
    pair.finish(session.start())
    pair.finish(rollback)
    assert [kind for kind in sent_kinds(pair) if kind in (SessionRollback.TYPE, SessionStart.TYPE)] == [
        SessionRollback.TYPE,
        SessionStart.TYPE,
    ]
    assert take(pair, session, consumer) == ["one"]


def test_a_consumer_closed_during_a_failover_ends_quietly_when_its_session_is_rebuilt() -> None:
    """The rebuilt session never had it: there is nothing to close, and Artemis would answer with EXCEPTION."""
    pair = NodePair(RECONNECTING)
    session = open_session(pair)
    _, consumer = open_queue(pair, session)
    pair.refuse_dials = True
    pair.cut()
    close = consumer.close()
    pair.settle()
    pair.client_bytes.clear()
    pair.refuse_dials = False
    pair.advance(1)
    pair.finish(close)
    assert SessionConsumerClose.TYPE not in sent_kinds(pair)
    assert pair.finish(session.addressing.query_queue("q")).consumer_count == 0


def test_a_consumer_closed_during_a_failover_is_closed_in_a_session_that_is_reattached_late() -> None:
    """1. The close waits longer than a call may. 2. The broker still has the consumer, with its credits.
    3. Left open, it would be sent messages that no program ever sees."""
    pair = NodePair(evolve(REATTACHING, call_failover_timeout_ms=3000))
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.refuse_dials = True
    pair.cut()
    close = consumer.close()
    pair.advance(5)
    pair.finish(close)
    pair.refuse_dials = False
    pair.advance(1)
    assert FailoverCompleted(True) in pair.notifications
    pair.finish(producer.send(text_message("one", "q")))
    other = pair.finish(session.destinations.open_queue_consumer("q"))
    assert take(pair, session, other) == ["one"]


def test_a_session_closed_while_its_reattachment_is_answered_is_closed_at_the_broker() -> None:
    """1. A close waits for the failover. 2. REATTACH_SESSION leaves. 3. The close gives up. 4. The answer comes."""
    pair = NodePair(evolve(REATTACHING, call_failover_timeout_ms=3000))
    session, other = open_session(pair), open_session(pair)
    producer, consumer = open_queue(pair, other)
    pair.refuse_dials = True
    pair.cut()
    close = session.close()
    pair.advance(2.5)
    pair.client_bytes.clear()
    answers: list[bytes] = []

    def hold(sender: str, data: bytes) -> bytes:
        if sender == "client" or ReattachSession.TYPE not in sent_kinds(pair):
            return data
        answers.append(data)
        return b""

    pair.filter = hold
    pair.refuse_dials = False
    pair.advance(1)
    assert close.done and len(answers) == 1
    pair.filter = lambda sender, data: data
    pair.handle(pair.agent.step(BytesReceived(pair.dials[-1].connection, answers[0]), pair.now))
    pair.settle()
    assert isinstance(pair.node, Node)
    assert list(pair.node.core.sessions) == [other.name]
    pair.finish(producer.send(text_message("one", "q")))
    assert take(pair, other, consumer) == ["one"]


@pytest.mark.parametrize("forgotten", [False, True], ids=["reattached", "rebuilt"])
def test_a_session_closed_while_others_come_back_behind_it_is_closed_at_the_broker(forgotten: bool) -> None:
    """1. A session is back, its close waits for the others. 2. It waits longer than a call may, and gives up.
    3. The connection lives on; left open there, the session's consumers would get messages that no program takes."""
    pair = NodePair(evolve(REATTACHING, call_failover_timeout_ms=3000))
    session, other = open_session(pair), open_session(pair)
    producer, _ = open_queue(pair, session)
    pair.refuse_dials = True
    if forgotten:
        pair.restart_node()
    else:
        pair.finish(producer.send(text_message("one", "q")))
        pair.cut()
    close = session.close()
    pair.advance(2.5)
    pair.client_bytes.clear()
    answers: list[bytes] = []

    def hold(sender: str, data: bytes) -> bytes:
        if sender == "client" or sent_kinds(pair).count(ReattachSession.TYPE) < 2:
            return data
        answers.append(data)
        return b""

    pair.filter = hold
    pair.refuse_dials = False
    pair.advance(1)
    assert close.done and answers
    pair.filter = lambda sender, data: data
    for answer in answers:
        pair.handle(pair.agent.step(BytesReceived(pair.dials[-1].connection, answer), pair.now))
    pair.settle()
    assert isinstance(pair.node, Node)
    assert list(pair.node.core.sessions) == [other.name]
    assert pair.finish(other.addressing.query_queue("q")).consumer_count == 0


def test_a_request_that_is_never_answered_does_not_keep_those_behind_it_waiting_for_ever() -> None:
    """1. A query is lost on its way, over and over. 2. Its caller gives up; the session is reattached and repeats it.
    3. Everything else of the session waits for the reply."""
    pair = NodePair(REATTACHING)
    session = open_session(pair)
    query = encode_packet(SessionQueueQuery("lost"), session.channel_id, 136)

    def lose(sender: str, data: bytes) -> bytes:
        return data.replace(query, b"") if sender == "client" else data

    pair.filter = lose
    first, second = session.addressing.query_queue("lost"), session.addressing.query_queue("other")
    pair.advance(31)
    assert pair.error_code(first) == ErrorCode.CONNECTION_TIMEDOUT
    assert FailoverCompleted(True) in pair.notifications and not second.done
    pair.advance(31)
    assert not pair.finish(second).exists
    assert session.rebuilds == 1


@pytest.mark.parametrize("timeout_ms", [-1, 2_000])
def test_a_call_that_begins_during_a_failover_waits_for_it_as_long_as_the_setting_allows(timeout_ms: int) -> None:
    """1. The connection is lost. 2. A request of a session, and a new session, wait. 3. With -1 they go on waiting."""
    pair = NodePair(evolve(RECONNECTING, call_failover_timeout_ms=timeout_ms, call_timeout_ms=500))
    session = open_session(pair)
    open_queue(pair, session)
    pair.refuse_dials = True
    pair.cut()
    calls: list[Call[Any]] = [session.addressing.query_queue("q"), pair.agent.create_session_for(SessionMode.AUTO)]
    # The time-out of calls counts from the moment they are sent.
    pair.advance(1.9)
    assert not any(call.done for call in calls)
    pair.advance(0.2 if timeout_ms > 0 else 120)
    if timeout_ms > 0:
        assert [pair.error_code(call) for call in calls] == [ErrorCode.CONNECTION_TIMEDOUT] * 2
    else:
        assert not any(call.done for call in calls)
    pair.refuse_dials = False
    pair.advance(1)
    if timeout_ms < 0:
        for call in calls:
            pair.finish(call)
    assert count_of(pair, session) == 0
