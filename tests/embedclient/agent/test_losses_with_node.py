"""The agent and a real broker node when connections break, and what is left of the work afterwards."""

from __future__ import annotations

import pytest

from embedclient.agent import (
    AgentState,
    ConnectionFailed,
    FailoverCompleted,
    FailoverFailed,
    FailureDetected,
    LocatorSettings,
    SessionMode,
)
from embedclient.errors import ErrorCode
from tests.embedclient.agent.node_pair import NodePair, count_of, open_queue, open_session, take, text_message, text_of

RECONNECTING = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=200)
REATTACHING = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=200, confirmation_window_size=1 << 20)


def test_without_reconnect_a_lost_connection_closes_everything() -> None:
    pair = NodePair()
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    ended: list[bool] = []
    consumer.on_ready = lambda consumer: ended.append(consumer.closed)
    pair.cut()
    pair.settle()
    assert session.closed
    assert ended == [True]
    assert pair.error_code(producer.send(text_message("one", "q"))) == ErrorCode.NOT_CONNECTED
    assert pair.error_code(session.addressing.query_queue("q")) == ErrorCode.NOT_CONNECTED
    detected, failed = pair.notifications
    assert isinstance(detected, FailureDetected)
    assert isinstance(failed, ConnectionFailed)
    assert not failed.failed_over
    # The factory is as new: the next session makes a new connection.
    again = open_session(pair)
    assert count_of(pair, again) == 0


def test_a_call_in_flight_is_released_when_the_connection_is_lost() -> None:
    pair = NodePair()
    session = open_session(pair)
    producer, _ = open_queue(pair, session)
    call = producer.send(text_message("one", "q"))
    pair.filter = lambda sender, data: b""
    pair.settle()
    pair.cut()
    assert pair.error_code(call) == ErrorCode.UNBLOCKED


def test_a_session_is_rebuilt_after_the_broker_restarted() -> None:
    pair = NodePair(RECONNECTING)
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.finish(session.metadata.add("key", "value"))
    pair.finish(producer.send(text_message("one", "q")))
    pair.restart_node()
    pair.advance(1)
    assert pair.agent.state is AgentState.CONNECTED
    assert [type(notification) for notification in pair.notifications] == [
        FailureDetected,
        FailoverCompleted,
        ConnectionFailed,
    ]
    # Everything in memory is gone, the auto-created queue was made again with its consumer.
    assert consumer.buffered == 0
    pair.finish(producer.send(text_message("two", "q")))
    assert take(pair, session, consumer) == ["two"]
    assert count_of(pair, session) == 0


def test_without_window_a_cut_rebuilds_the_session_and_messages_come_again() -> None:
    pair = NodePair(RECONNECTING)
    session = open_session(pair, SessionMode.CLIENT)
    producer, consumer = open_queue(pair, session)
    pair.finish(producer.send(text_message("one", "q")))
    old = consumer.next(pair.now)
    assert old is not None
    pair.cut()
    pair.advance(1)
    pair.finish(session.acknowledge(old))
    again = consumer.next(pair.now)
    assert again is not None
    assert (text_of(again), again.redelivered) == ("one", True)


def lose_everything(sender: str, data: bytes) -> bytes:
    return b""


def lose_server(sender: str, data: bytes) -> bytes:
    return b"" if sender == "server" else data


def everything(sender: str, data: bytes) -> bytes:
    return data


def test_reattachment_brings_the_lost_reply() -> None:
    """1. The send arrives. 2. Its reply is lost with the connection. 3. The broker replays the reply."""
    pair = NodePair(REATTACHING)
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.filter = lose_server
    call = producer.send(text_message("one", "q"))
    pair.settle()
    assert not call.done
    pair.filter = everything
    pair.cut()
    pair.advance(1)
    pair.finish(call)
    assert FailoverCompleted(True) in pair.notifications
    assert take(pair, session, consumer) == ["one"]
    assert count_of(pair, session) == 0


def test_reattachment_sends_the_lost_message_again() -> None:
    """1. The send is lost with the connection. 2. The client replays it. 3. The broker has it once."""
    pair = NodePair(REATTACHING)
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.filter = lose_everything
    blocking = producer.send(text_message("one", "q"))
    confirmed = [producer.send_confirmed(text_message(text, "q")) for text in ("two", "three")]
    pair.settle()
    pair.filter = everything
    pair.cut()
    pair.advance(1)
    pair.finish(blocking)
    for call in confirmed:
        pair.finish(call)
    assert take(pair, session, consumer) == ["one", "two", "three"]
    assert count_of(pair, session) == 0


def test_reattachment_replays_lost_deliveries_and_lost_acknowledgements() -> None:
    pair = NodePair(REATTACHING)
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    other = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    sender = other.create_producer("q")
    pair.finish(producer.send(text_message("one", "q")))
    pair.filter = lose_everything
    assert take(pair, session, consumer) == ["one"]
    pair.filter = lose_server
    call = sender.send(text_message("two", "q"))
    pair.settle()
    pair.filter = everything
    pair.cut()
    pair.advance(1)
    pair.finish(call)
    assert take(pair, session, consumer) == ["two"]
    assert count_of(pair, session) == 0


def test_a_transaction_lost_with_its_session_can_only_be_rolled_back() -> None:
    pair = NodePair(RECONNECTING)
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, consumer = open_queue(pair, session)
    producer.send(text_message("lost", "q"))
    pair.settle()
    pair.cut()
    pair.advance(1)
    producer.send(text_message("half", "q"))
    assert session.rollback_only
    assert pair.error_code(session.commit()) == ErrorCode.TRANSACTION_ROLLED_BACK
    producer.send(text_message("whole", "q"))
    pair.finish(session.commit())
    assert take(pair, session, consumer) == ["whole"]


def test_a_commit_that_waits_for_the_failover_does_not_commit_half_of_the_work() -> None:
    """1. First half sent. 2. Connection lost. 3. Second half and commit wait. 4. The rebuilt session gets neither."""
    pair = NodePair(RECONNECTING)
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, consumer = open_queue(pair, session)
    producer.send(text_message("first half", "q"))
    pair.settle()
    pair.refuse_dials = True
    pair.cut()
    producer.send(text_message("second half", "q"))
    commit = session.commit()
    pair.settle()
    pair.refuse_dials = False
    pair.advance(1)
    assert pair.error_code(commit) == ErrorCode.TRANSACTION_ROLLED_BACK
    pair.finish(session.commit())
    assert take(pair, session, consumer) == []


def test_a_commit_whose_reply_is_lost_has_an_unknown_outcome() -> None:
    pair = NodePair(RECONNECTING)
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, consumer = open_queue(pair, session)
    producer.send(text_message("one", "q"))
    pair.filter = lose_server
    commit = session.commit()
    pair.settle()
    pair.filter = everything
    pair.cut()
    pair.advance(1)
    assert pair.error_code(commit) == ErrorCode.TRANSACTION_OUTCOME_UNKNOWN
    assert take(pair, session, consumer) == ["one"]


def test_with_a_window_the_reply_of_an_interrupted_commit_is_replayed() -> None:
    pair = NodePair(REATTACHING)
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, consumer = open_queue(pair, session)
    producer.send(text_message("one", "q"))
    pair.filter = lose_server
    commit = session.commit()
    pair.settle()
    pair.filter = everything
    pair.cut()
    pair.advance(1)
    pair.finish(commit)
    assert take(pair, session, consumer) == ["one"]


def test_requests_wait_for_the_failover_and_give_up_in_time() -> None:
    settings = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=200, call_failover_timeout_ms=3000)
    pair = NodePair(settings)
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.refuse_dials = True
    pair.cut()
    pair.settle()
    early = producer.send(text_message("early", "q"))
    pair.advance(2)
    late = producer.send(text_message("late", "q", durable=False))
    cancelled = producer.send(text_message("cancelled", "q"))
    assert cancelled.cancel()
    pair.advance(1.5)
    assert pair.error_code(early) == ErrorCode.CONNECTION_TIMEDOUT
    assert not late.done
    pair.refuse_dials = False
    pair.advance(1)
    pair.finish(late)
    assert take(pair, session, consumer) == ["late"]


def test_when_all_attempts_fail_the_sessions_end_and_listeners_hear_it() -> None:
    pair = NodePair(LocatorSettings(reconnect_attempts=3, retry_interval_ms=1000, max_retry_interval_ms=1000))
    session = open_session(pair)
    pair.refuse_dials = True
    pair.cut()
    waiting = session.addressing.query_queue("q")
    pair.advance(10)
    assert len(pair.dials) == 1 + 3
    assert pair.error_code(waiting) == ErrorCode.NOT_CONNECTED
    assert session.closed
    assert [type(notification) for notification in pair.notifications] == [
        FailureDetected,
        FailoverFailed,
        ConnectionFailed,
    ]
    assert pair.agent.state is AgentState.IDLE


def test_a_connection_that_breaks_while_sessions_return_is_replaced() -> None:
    pair = NodePair(REATTACHING)
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    for number in range(5):
        pair.filter = lose_everything
        call = producer.send(text_message(f"message {number}", "q"))
        pair.settle()
        pair.filter = lose_server
        pair.cut()
        pair.settle()
        pair.filter = everything
        pair.cut()
        pair.advance(1)
        pair.finish(call)
    assert take(pair, session, consumer) == [f"message {number}" for number in range(5)]


def test_a_new_session_waits_for_the_failover() -> None:
    pair = NodePair(RECONNECTING)
    open_session(pair)
    pair.refuse_dials = True
    pair.cut()
    pair.settle()
    call = pair.agent.create_session_for(SessionMode.AUTO)
    pair.advance(1)
    assert not call.done
    pair.refuse_dials = False
    pair.advance(1)
    assert pair.finish(call) in pair.agent.sessions


def test_a_broker_that_falls_silent_is_noticed_by_the_pings() -> None:
    settings = LocatorSettings(client_failure_check_period_ms=500, connection_ttl_ms=1500)
    pair = NodePair(settings)
    session = open_session(pair)
    pair.advance(10)
    assert pair.agent.state is AgentState.CONNECTED
    pair.filter = lose_everything
    pair.advance(5)
    assert session.closed


@pytest.mark.parametrize("period_ms", [30_000, -1, 1_500])
def test_a_quiet_connection_lasts_whatever_the_check_period(period_ms: int) -> None:
    """Pings come twice in a time to live, also where the check period is longer, or off."""
    pair = NodePair(LocatorSettings(client_failure_check_period_ms=period_ms, connection_ttl_ms=1500))
    session = open_session(pair)
    pair.advance(60)
    assert not session.closed
    assert pair.agent.state is AgentState.CONNECTED


def test_an_orderly_stop_of_the_broker_is_reported_as_disconnected() -> None:
    pair = NodePair()
    open_session(pair)
    pair.stop_node()
    pair.settle()
    failed = pair.notifications[-1]
    assert isinstance(failed, ConnectionFailed)
    assert failed.error.error_code == ErrorCode.DISCONNECTED


def test_closing_the_agent_during_a_failover_ends_everything() -> None:
    pair = NodePair(RECONNECTING)
    session = open_session(pair)
    pair.refuse_dials = True
    pair.cut()
    waiting = session.addressing.query_queue("q")
    pair.settle()
    pair.finish(pair.agent.close())
    assert session.closed
    assert pair.error_code(waiting) == ErrorCode.OBJECT_CLOSED
    pair.advance(60)
    assert pair.agent.next_deadline() is None


def test_a_connection_that_breaks_while_the_agent_is_closed_is_the_end() -> None:
    pair = NodePair(RECONNECTING)
    session = open_session(pair)
    producer, _ = open_queue(pair, session)
    pair.filter = lose_server
    send = producer.send(text_message("in flight", "q"))
    pair.settle()
    closing = pair.agent.close()
    pair.settle()
    assert not closing.done
    dials = len(pair.dials)
    pair.refuse_dials = True
    pair.cut()
    pair.finish(closing)
    assert (pair.agent.state, session.closed) == (AgentState.CLOSED, True)
    assert pair.error_code(send) == ErrorCode.UNBLOCKED
    assert len(pair.dials) == dials
    assert pair.agent.next_deadline() is None


def test_a_rollback_that_waits_for_the_failover_takes_back_the_sends_in_front_of_it() -> None:
    """1. Connection lost. 2. A send and the rollback wait. 3. The rebuilt session delivers nothing in between."""
    pair = NodePair(RECONNECTING)
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, consumer = open_queue(pair, session)
    other = open_session(pair)
    pair.finish(other.create_producer("q").send(text_message("kept", "q")))
    pair.refuse_dials = True
    pair.cut()
    producer.send(text_message("taken back", "q"))
    rollback = session.rollback()
    pair.settle()
    pair.refuse_dials = False
    pair.advance(1)
    pair.finish(rollback)
    pair.finish(session.commit())
    assert take(pair, session, consumer) == ["kept"]
    pair.finish(session.commit())
    assert count_of(pair, other) == 0


def test_listeners_hear_of_a_failover_before_its_messages_are_given_out() -> None:
    pair = NodePair(RECONNECTING)
    session = open_session(pair, SessionMode.CLIENT)
    producer, consumer = open_queue(pair, session)
    pair.finish(producer.send(text_message("one", "q")))
    others = [open_session(pair) for _ in range(3)]
    heard: list[object] = []
    consumer.on_ready = lambda consumer: heard.append(consumer.next(pair.now) is not None)
    pair.agent.on_notification = heard.append
    pair.cut()
    pair.advance(1)
    kinds = [what if isinstance(what, bool) else type(what) for what in heard]
    assert kinds == [FailureDetected, FailoverCompleted, ConnectionFailed, True]
    assert [each.rebuilds for each in (session, *others)] == [1] * 4


def test_a_session_stopped_and_started_during_a_failover_gives_nothing_out_before_its_end() -> None:
    """1. The rebuilt session has its message again, others are still to come. 2. The program stops it and starts it.
    3. A caller that was given the message now would take it for lost at the failover, and wait for ever."""
    pair = NodePair(RECONNECTING)
    session = open_session(pair, SessionMode.INDIVIDUAL)
    producer, consumer = open_queue(pair, session)
    pair.finish(producer.send(text_message("one", "q")))
    others = [open_session(pair) for _ in range(3)]
    missing: list[int] = []

    def stop_and_start(sender: str, data: bytes) -> bytes:
        if session.rebuilds and consumer.buffered and pair.agent.state is AgentState.RECONNECTING and not missing:
            missing.append(sum(not other.rebuilds for other in others))
            session.stop()
            session.start()
        return data

    heard: list[object] = []
    consumer.on_ready = lambda consumer: heard.append(consumer.next(pair.now) is not None)
    pair.agent.on_notification = heard.append
    pair.filter = stop_and_start
    pair.cut()
    pair.advance(1)
    assert missing > [0]
    kinds = [what if isinstance(what, bool) else type(what) for what in heard]
    assert kinds == [FailureDetected, FailoverCompleted, ConnectionFailed, True]


def test_with_window_zero_a_message_that_comes_for_a_caller_who_gave_up_is_not_paid_for_twice() -> None:
    """1. A message is on its way when its caller gives up; the next caller requests one. 2. It arrives, late.
    3. Paid for once more, the broker would send messages without a request, and wait for their price for ever."""
    pair = NodePair(
        LocatorSettings(
            reconnect_attempts=-1, retry_interval_ms=200, confirmation_window_size=1 << 20, consumer_window_size=0
        )
    )
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.settle()
    consumer.want()
    pair.settle()
    pair.filter = lose_server
    for size in (1, 1000, 2000, 3000):
        producer.send(text_message("x" * size, "q", durable=False))
    pair.settle()
    consumer.give_up()
    consumer.want()
    pair.settle()
    pair.filter = everything
    pair.cut()
    pair.advance(1)
    sizes = []
    for _ in range(4):
        consumer.want()
        sizes += [len(text or "") for text in take(pair, session, consumer)]
        assert consumer.buffered <= 1
    assert sizes == [1, 1000, 2000, 3000]
    assert count_of(pair, session) == 0
