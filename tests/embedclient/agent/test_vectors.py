"""The agent sends what the Java client sent to a real Artemis broker, given the same answers."""

from __future__ import annotations

import pytest

from embedclient.agent import LocatorSettings, SessionMode
from embedclient.errors import ErrorCode
from embedclient.wire.core import SessionAddMetadataV2, SessionRequestProducerCredits
from tests.embedclient.agent.vector_replay import VectorReplay

REATTACHING = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=200, confirmation_window_size=1 << 20)


def test_consumer_window_0() -> None:
    replay = VectorReplay("consumer-window-0", LocatorSettings(consumer_window_size=0))
    initial, session = replay.open(SessionMode.AUTO)
    producer = replay.open_producer(session, "cw.q")
    for _ in range(4):
        replay.finish(producer.send(replay.message()))
    consumer = replay.finish(session.destinations.open_queue_consumer("cw.q"))
    assert replay.receive_nowait(session, consumer) is not None
    for _ in range(3):
        assert replay.receive(session, consumer) is not None
    assert replay.receive_nowait(session, consumer) is None
    # A timed receive waits first, gives its credit back, and then forces.
    assert replay.receive(session, consumer) is None
    assert replay.receive_nowait(session, consumer) is None
    replay.finish(consumer.close())
    replay.finish(initial.close())
    producer.close()
    replay.finish(session.close())
    replay.end()


@pytest.mark.parametrize("window", [1, 600, -1])
def test_other_consumer_windows(window: int) -> None:
    name = f"consumer-window-{'minus1' if window < 0 else window}"
    replay = VectorReplay(name, LocatorSettings(consumer_window_size=window))
    initial, session = replay.open(SessionMode.AUTO)
    producer = replay.open_producer(session, "cw.q")
    for _ in range(4):
        replay.finish(producer.send(replay.message()))
    consumer = replay.finish(session.destinations.open_queue_consumer("cw.q"))
    if window == 1:
        # The recorded receive asked just before the message arrived.
        replay.finish(consumer.force_delivery())
    assert replay.receive_nowait(session, consumer) is not None
    for _ in range(3):
        assert replay.receive(session, consumer) is not None
    for _ in range(2):
        assert replay.receive_nowait(session, consumer) is None
    replay.finish(consumer.close())
    producer.close()
    replay.close(session, initial)


@pytest.mark.parametrize(("name", "queue"), [("send-async-window", "as.q"), ("send-async-small-window", "as.q")])
def test_asynchronous_sends_with_a_window(name: str, queue: str) -> None:
    window = 500 if "small" in name else 1 << 20
    replay = VectorReplay(name, LocatorSettings(confirmation_window_size=window))
    initial, session = replay.open(SessionMode.AUTO)
    producer = replay.open_producer(session, queue)
    calls = [producer.send_confirmed(replay.message()) for _ in range(5)]
    for call in calls:
        replay.finish(call)
    replay.finish(producer.send(replay.message()))
    producer.close()
    replay.close(session, initial)


def test_producer_credits() -> None:
    replay = VectorReplay("producer-credits", LocatorSettings(producer_window_size=2000))
    initial, session = replay.open(SessionMode.AUTO)
    producer = replay.open_producer(session, "pc.q")
    for _ in range(9):
        replay.finish(producer.send(replay.message()))
    producer.close()
    replay.close(session, initial)


def test_credits_fail() -> None:
    replay = VectorReplay("credits-fail", LocatorSettings(producer_window_size=4000))
    initial, session = replay.open(SessionMode.AUTO)
    producer = replay.open_producer(session, "fail.q")
    messages = [replay.message() for _ in range(7)]
    for message in messages[:6]:
        replay.finish(producer.send(message))
    for _ in range(4):
        call = producer.send(messages[5])
        replay.play()
        assert call.error is not None
        assert call.error.error_code == ErrorCode.ADDRESS_FULL
    consumer = replay.finish(session.destinations.open_queue_consumer("fail.q"))
    for _ in range(6):
        assert replay.receive(session, consumer) is not None
    replay.finish(producer.send(messages[6]))
    replay.finish(consumer.close())
    producer.close()
    replay.close(session, initial)


def test_reattach_sends() -> None:
    """Cut 1 loses a reply, cut 2 loses a send."""
    replay = VectorReplay("reattach-sends", REATTACHING)
    initial, session = replay.open(SessionMode.AUTO)
    # The recording brings the user's session back before the connection's own.
    replay.agent.sessions.reverse()
    producer = replay.open_producer(session, "ra.q")
    while replay.sends_left:
        replay.finish(producer.send(replay.message()))
    consumer = replay.finish(session.destinations.open_queue_consumer("ra.q"))
    while replay.receive_nowait(session, consumer) is not None:
        pass
    replay.finish(consumer.close())
    producer.close()
    replay.close(session, initial)


def test_recreate_after_restart() -> None:
    replay = VectorReplay("recreate-after-restart", REATTACHING)
    initial, session = replay.open(SessionMode.AUTO)
    # The recording brings the user's session back before the connection's own.
    replay.agent.sessions.reverse()
    producer = replay.open_producer(session, "rc.q")
    replay.finish(producer.send(replay.message()))
    consumer = replay.finish(session.destinations.open_queue_consumer("rc.q"))
    assert replay.receive(session, consumer) is not None
    assert replay.receive_nowait(session, consumer) is None
    # The recorded client requests credits while it waits for the failover, and again after it.
    replay.leave_out(SessionRequestProducerCredits(32768, "rc.q"))
    for _ in range(3):
        replay.finish(producer.send(replay.message()))
        assert replay.receive(session, consumer) is not None
    assert replay.receive_nowait(session, consumer) is None
    replay.finish(consumer.close())
    producer.close()
    replay.close(session, initial)


def test_rollback_and_redelivery() -> None:
    replay = VectorReplay("tx-rollback-redelivery", LocatorSettings())
    initial, session = replay.open(SessionMode.TRANSACTED)
    producer = replay.open_producer(session, "tx.q2")
    producer.send(replay.message())
    replay.finish(session.rollback())
    for _ in range(2):
        producer.send(replay.message())
    replay.finish(session.commit())
    consumer = replay.finish(session.destinations.open_queue_consumer("tx.q2"))
    assert replay.receive(session, consumer) is not None
    replay.finish(session.rollback())
    for _ in range(2):
        assert replay.receive(session, consumer) is not None
    replay.finish(session.rollback())
    assert replay.receive(session, consumer) is not None
    replay.finish(consumer.close())
    producer.close()
    replay.finish(session.close())
    second = replay.finish(replay.agent.create_session_for(SessionMode.TRANSACTED))
    replay.finish(second.start())
    consumer = replay.finish(second.destinations.open_queue_consumer("tx.q2"))
    for _ in range(2):
        assert replay.receive(second, consumer) is not None
    replay.finish(second.commit())
    replay.finish(initial.close())
    replay.finish(consumer.close())
    replay.finish(second.close())
    replay.end()


def test_reattach_async_sends() -> None:
    replay = VectorReplay("reattach-async-sends", REATTACHING)
    initial, session = replay.open(SessionMode.AUTO)
    replay.agent.sessions.reverse()
    producer = replay.open_producer(session, "ra.as")
    calls = [producer.send_confirmed(replay.message()) for _ in range(6)]
    for call in calls:
        replay.finish(call)
    producer.close()
    # The recorded connection closes before its metadata are repeated.
    replay.finish(session.close())
    replay.finish(initial.close())
    replay.forgive(SessionAddMetadataV2("jms-session", "", False))
    replay.end()


def test_acknowledgements_in_batches() -> None:
    replay = VectorReplay("ack-dups-ok", LocatorSettings())
    initial, session = replay.open(SessionMode.DUPS_OK)
    producer = replay.open_producer(session, "ack.q")
    for _ in range(3):
        replay.finish(producer.send(replay.message()))
    consumer = replay.finish(session.destinations.open_queue_consumer("ack.q"))
    for _ in range(3):
        assert replay.receive(session, consumer) is not None
    replay.finish(consumer.close())
    replay.finish(initial.close())
    producer.close()
    replay.close(session)


def test_priorities_are_acknowledged_one_by_one() -> None:
    replay = VectorReplay("priority", LocatorSettings())
    initial, session = replay.open(SessionMode.AUTO)
    producer = replay.open_producer(session, "pr.q")
    for _ in range(4):
        replay.finish(producer.send(replay.message()))
    consumer = replay.finish(session.destinations.open_queue_consumer("pr.q"))
    received = [replay.receive(session, consumer) for _ in range(4)]
    assert [delivery and delivery.message.priority for delivery in received] == [9, 7, 4, 0]
    replay.finish(consumer.close())
    producer.close()
    replay.close(session, initial)


def test_a_consumer_that_the_broker_closes_says_so_and_closes() -> None:
    replay = VectorReplay("consumer-killed-by-management", LocatorSettings())
    _, session = replay.open(SessionMode.AUTO)
    replay.finish(session.addressing.query_queue("kc.q"))
    for _ in range(2):
        consumer = replay.finish(session.destinations.open_queue_consumer("kc.q"))
        replay.play()
        assert consumer.closed
        assert consumer not in session.consumers.values()
    replay.finish(session.addressing.query_queue("kc.q3"))
    consumer = replay.finish(session.destinations.open_queue_consumer("kc.q3"))
    replay.end()
    assert consumer.closed
    assert session.closed
