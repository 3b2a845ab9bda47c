"""Faults of an Artemis broker that must not lose or repeat anything here (core-protocol 12.21, 12.22, 12.24)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from embedclient.agent import AgentState, Call, FailoverCompleted, LocatorSettings, SendRefused, SessionMode
from embedclient.errors import ErrorCode
from embedclient.wire.core import SessionClose, SessionCommit, decode_text
from tests.embedclient.agent.artemis_double import ArtemisDouble
from tests.embedclient.agent.node_pair import NodePair, text_message, text_of

REATTACHING = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=200, confirmation_window_size=1 << 20)


def make_pair(settings: LocatorSettings = REATTACHING, **options: bool) -> tuple[NodePair, ArtemisDouble]:
    broker = ArtemisDouble()
    for name, value in options.items():
        setattr(broker, name, value)
    return NodePair(settings, broker), broker


def texts(broker: ArtemisDouble) -> list[str | None]:
    return [decode_text(message.body) for message in broker.received]


def lose_everything(sender: str, data: bytes) -> bytes:
    return b""


def lose_server(sender: str, data: bytes) -> bytes:
    return b"" if sender == "server" else data


def everything(sender: str, data: bytes) -> bytes:
    return data


@pytest.mark.parametrize("counts_exceptions", [False, True])
def test_reattach_after_exception(counts_exceptions: bool) -> None:
    """1. A request fails and is not counted. 2. A send's reply is lost. 3. The send is not sent a second time."""
    pair, broker = make_pair(counts_exceptions=counts_exceptions)
    session = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    producer = session.create_producer("q")
    failed = session.create_consumer("q", filter="n = = 1")
    assert pair.error_code(failed) == ErrorCode.INVALID_FILTER_EXPRESSION
    pair.finish(producer.send(text_message("one", "q")))
    pair.filter = lose_server
    call = producer.send(text_message("two", "q"))
    pair.settle()
    pair.filter = everything
    pair.cut()
    pair.advance(1)
    pair.finish(call)
    pair.filter = lose_everything
    call = producer.send(text_message("three", "q"))
    pair.settle()
    pair.filter = everything
    pair.cut()
    pair.advance(1)
    pair.finish(call)
    assert texts(broker) == ["one", "two", "three"]
    assert FailoverCompleted(True) in pair.notifications


def test_reattach_after_recreate_lost_send() -> None:
    """1. The session is rebuilt. 2. A send's frame is lost with the connection. 3. It is sent again, not dropped."""
    pair, broker = make_pair()
    session = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    producer = session.create_producer("q")
    consumer = pair.finish(session.create_consumer("q"))
    session.start()
    pair.settle()
    broker.forget_sessions()
    pair.cut()
    pair.advance(1)
    pair.finish(producer.send(text_message("one", "q")))
    pair.filter = lose_everything
    blocking = producer.send(text_message("two", "q"))
    confirmed = producer.send_confirmed(text_message("three", "q"))
    pair.settle()
    pair.filter = everything
    pair.cut()
    pair.advance(1)
    pair.finish(blocking)
    pair.finish(confirmed)
    assert texts(broker) == ["one", "two", "three"]
    assert [notification for notification in pair.notifications if isinstance(notification, FailoverCompleted)] == [
        FailoverCompleted(False),
        FailoverCompleted(True),
    ]
    pair.settle()
    assert consumer.buffered == 3


@pytest.mark.parametrize("counts_exceptions", [False, True])
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_doubtful_count_ends_the_session(counts_exceptions: bool, lost: int) -> None:
    """The history in _recovery: acknowledgements after an exception, some of them lost, then a cut."""
    pair, broker = make_pair(counts_exceptions=counts_exceptions)
    session = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    closes_before: list[int] = []
    session.on_close_in_doubt = lambda: closes_before.append(
        sum(isinstance(packet, SessionClose) for packet in broker.seen)
    )
    producer = session.create_producer("q")
    consumer = pair.finish(session.create_consumer("q"))
    session.start()
    for number in range(6):
        pair.finish(producer.send(text_message(str(number), "q")))
    assert pair.error_code(session.create_consumer("q", filter="n = = 1")) == ErrorCode.INVALID_FILTER_EXPRESSION
    for number in range(3):
        if number == 3 - lost:
            pair.filter = lose_everything
        delivery = consumer.next(pair.now)
        assert delivery is not None
        session.consumed(delivery)
        pair.settle()
    pair.filter = everything
    pair.cut()
    pair.advance(1)
    # A broker that has counted everything that was sent leaves no doubt.
    certain = counts_exceptions and not lost
    assert any(isinstance(packet, SessionClose) for packet in broker.seen) is not certain
    assert closes_before == ([] if certain else [0])  # reported once, and before the request to the broker
    received: list[str | None] = []
    while (delivery := consumer.next(pair.now)) is not None:
        received.append(text_of(delivery))
        session.consumed(delivery)
        pair.settle()
    # Nothing that was not handed out is lost; what was acknowledged without effect comes again.
    assert received == [str(number) for number in range(3 - lost, 6)]
    assert not broker.queues["q"]


@pytest.mark.parametrize("lost", [lose_everything, lose_server])
def test_a_session_in_doubt_gives_nothing_out_until_it_is_made_again(lost: Callable[[str, bytes], bytes]) -> None:
    """1. Its count is in doubt. 2. The close or its answer is lost. 3. The program stops and starts it. 4. A cut."""
    pair, broker = make_pair()
    session = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    producer = session.create_producer("q")
    consumer = pair.finish(session.create_consumer("q"))
    session.start()
    for number in range(4):
        pair.finish(producer.send(text_message(str(number), "q")))
    assert pair.error_code(session.create_consumer("q", filter="n = = 1")) == ErrorCode.INVALID_FILTER_EXPRESSION
    for filter in (everything, lose_everything):
        delivery = consumer.next(pair.now)
        assert delivery is not None
        pair.filter = filter
        session.consumed(delivery)
        pair.settle()

    def lose_close() -> None:
        pair.filter = lost

    session.on_close_in_doubt = lose_close
    pair.filter = everything
    pair.cut()
    pair.advance(1)
    assert pair.filter is lost
    session.stop()
    session.start()
    pair.settle()
    assert consumer.buffered == 2
    assert consumer.next(pair.now) is None
    pair.filter = everything
    session.on_close_in_doubt = None
    pair.cut()
    pair.advance(1)
    assert session.rebuilds == 1
    received: list[str | None] = []
    while (delivery := consumer.next(pair.now)) is not None:
        received.append(text_of(delivery))
        session.consumed(delivery)
        pair.settle()
    assert received == ["1", "2", "3"]
    assert not broker.queues["q"]


def test_a_confirmation_settles_the_doubt_and_the_session_goes_on() -> None:
    pair, broker = make_pair()
    session = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    producer = session.create_producer("q")
    consumer = pair.finish(session.create_consumer("q"))
    session.start()
    assert pair.error_code(session.create_consumer("q", filter="n = = 1")) == ErrorCode.INVALID_FILTER_EXPRESSION
    pair.finish(producer.send(text_message("one", "q")))
    pair.from_node(broker.flush())
    pair.settle()
    delivery = consumer.next(pair.now)
    assert delivery is not None
    pair.filter = lose_everything
    session.consumed(delivery)
    pair.settle()
    pair.filter = everything
    pair.cut()
    pair.advance(1)
    assert FailoverCompleted(True) in pair.notifications
    assert not any(broker.sessions[session.name].delivered.values())


def test_a_reply_that_belongs_to_no_call_releases_none() -> None:
    """1. The broker answers a commit twice, the first time without its id. 2. The commit waits for its own reply."""
    pair, broker = make_pair(stray_reply=True)
    session = pair.finish(pair.agent.create_session_for(SessionMode.CLIENT))
    pair.finish(session.commit())
    pair.finish(session.commit())
    commits = [packet for packet in broker.seen if isinstance(packet, SessionCommit)]
    assert all(packet.correlation_id is not None and packet.correlation_id < -1 for packet in commits)


def test_a_refused_asynchronous_send_fails_its_own_call() -> None:
    pair, broker = make_pair()
    broker.refused_text = "bad"
    session = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    producer = session.create_producer("q")
    good, bad = (producer.send_confirmed(text_message(text, "q")) for text in ("good", "bad"))
    pair.finish(good)
    assert pair.error_code(bad) == ErrorCode.ADDRESS_FULL
    producer.send(text_message("bad", "q", durable=False))
    pair.settle()
    assert isinstance(pair.notifications[-1], SendRefused)


def test_an_older_broker_is_offered_lower_versions_until_it_agrees() -> None:
    broker = ArtemisDouble(versions=range(121, 131))
    pair = NodePair(REATTACHING, broker)
    pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    assert pair.agent.server_version == 130


def test_a_broker_without_a_common_version_fails_the_call() -> None:
    pair = NodePair(REATTACHING, ArtemisDouble(versions=range(100, 110)))
    call = pair.agent.create_session_for(SessionMode.AUTO)
    assert pair.error_code(call) == ErrorCode.INCOMPATIBLE_CLIENT_SERVER_VERSIONS


@pytest.mark.search
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("counts_exceptions", [False, True])
def test_no_confirmed_message_is_lost_or_repeated_whatever_the_connection_does(
    seed: int, counts_exceptions: bool
) -> None:
    random = Random(seed)
    pair, broker = make_pair(counts_exceptions=counts_exceptions)
    broker.refused_text = "bad"
    session = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    producer = session.create_producer("q")
    consumer = pair.finish(session.create_consumer("q"))
    session.start()
    calls: list[tuple[str, Call[None]]] = []
    taken: list[str | None] = []
    for number in range(40):
        action = random.random()
        pair.filter = random.choice([everything, everything, everything, lose_server, lose_everything])
        if action < 0.6:
            text = f"{'bad' if random.random() < 0.2 else 'good'}-{number}"
            send = producer.send_confirmed if random.random() < 0.5 else producer.send
            calls.append((text, send(text_message(text, "q"))))
        elif action < 0.8:
            delivery = consumer.next(pair.now)
            if delivery is not None:
                taken.append(text_of(delivery))
                session.consumed(delivery)
        elif action < 0.85:
            broker.forget_sessions()
            pair.cut()
        elif action < 0.9:
            session.create_consumer("q", filter="bad")
        else:
            pair.from_node(broker.flush())
        pair.settle()
        if pair.filter is not everything:
            pair.cut()
            pair.filter = everything
            pair.advance(1)
    pair.advance(1)
    assert all(call.done for _, call in calls)
    arrived = texts(broker)
    for text, call in calls:
        if call.error is None:
            assert arrived.count(text) == 1, text
        else:
            assert arrived.count(text) <= 1, text
    while (delivery := consumer.next(pair.now)) is not None:
        taken.append(text_of(delivery))
        session.consumed(delivery)
        pair.settle()
    assert set(taken) == set(arrived)


def test_sends_wait_while_the_broker_has_too_much_to_confirm() -> None:
    settings = LocatorSettings(confirmation_window_size=1 << 20, resend_bytes_max=1000)
    pair, broker = make_pair(settings)
    session = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    producer = session.create_producer("q")
    sends = [producer.send_confirmed(text_message("x" * 200, "q")) for _ in range(10)]
    pair.settle()
    assert 0 < sum(send.done for send in sends) < 5
    for _ in range(5):
        pair.from_node(broker.flush())
        pair.settle()
    assert all(send.done for send in sends)


def test_a_session_rebuilt_on_a_connection_that_broke_again_counts_as_rebuilt_when_it_is_reattached() -> None:
    """1. The first session is rebuilt. 2. The connection breaks before the second one is back.
    3. On the next connection the first one is reattached: it needs its credits and its consumers all the same."""
    pair, broker = make_pair()
    session = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    producer = session.create_producer("q")
    consumer = pair.finish(session.create_consumer("q"))
    session.start()
    pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    pair.finish(producer.send(text_message("one", "q")))
    broker.forget_sessions()
    pair.cut()
    pair.filter = lambda sender, data: b"" if sender == "server" and session.rebuilds else data
    pair.advance(1)
    assert pair.agent.state is AgentState.RECONNECTING
    pair.filter = everything
    pair.cut()
    pair.advance(1)
    assert (pair.agent.state, session.rebuilds) == (AgentState.CONNECTED, 1)
    assert [each for each in pair.notifications if isinstance(each, FailoverCompleted)] == [FailoverCompleted(False)]
    delivery = consumer.next(pair.now)
    assert delivery is not None and text_of(delivery) == "one"
    pair.finish(producer.send(text_message("x" * 50_000, "q")))
