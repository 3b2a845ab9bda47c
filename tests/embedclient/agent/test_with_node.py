"""The agent against a real broker node: what a program sees, without sockets."""

from __future__ import annotations

import pytest
from attrs import evolve
from attrs.exceptions import FrozenInstanceError

from embedclient.agent import (
    AgentState,
    LocatorSettings,
    SessionMode,
)
from embedclient.agent.consumer._consumer import FORCED_DELIVERY_PROPERTY
from embedclient.errors import ErrorCode, InvalidDestinationException, JMSException
from embedclient.model import Properties, PropertyValue, RoutingType
from embedclient.wire.core import FRAME_HEADER_SIZE, SEND_TRAILER, CoreMessage, MessageType, encode_text
from tests.embedclient.agent.node_pair import NodePair, count_of, open_queue, open_session, take, text_message, text_of

REATTACHING = LocatorSettings(reconnect_attempts=-1, retry_interval_ms=200, confirmation_window_size=1 << 20)


def test_a_message_goes_through_and_is_acknowledged() -> None:
    pair = NodePair()
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.finish(producer.send(text_message("one", "q")))
    pair.finish(producer.send(text_message("two", "q", durable=False)))
    assert take(pair, session, consumer) == ["one", "two"]
    assert count_of(pair, session) == 0
    pair.finish(pair.agent.close())
    assert pair.agent.state is AgentState.CLOSED
    assert pair.notifications == []


def test_a_consumer_without_a_wait_for_its_answer_takes_deliveries() -> None:
    pair = NodePair()
    session = open_session(pair)
    producer, first = open_queue(pair, session)
    pair.finish(first.close())
    pair.finish(producer.send(text_message("one", "q")))
    consumer, answer = session.open_consumer("q", 10_000)
    assert not answer.done
    assert take(pair, session, consumer) == ["one"]
    assert answer.value()
    _, refused = session.open_consumer("none", 10_000)
    assert pair.error_code(refused) == ErrorCode.QUEUE_DOES_NOT_EXIST
    pair.finish(producer.send(text_message("two", "q")))
    assert take(pair, session, consumer) == ["two"]


def test_statistics_follow_an_agent_and_its_sessions() -> None:
    pair = NodePair()
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.finish(producer.send_confirmed(text_message("hello", "q")))
    found = pair.agent.statistics()
    assert (found.pending_bytes, found.calls) == (0, 0)
    (of_session,) = found.sessions
    assert of_session == session.statistics()
    assert (of_session.name, of_session.consumers, of_session.producers) == (session.name, 1, 1)
    assert (of_session.rebuilds, of_session.branches) == (0, ())
    assert list(of_session.credits) == ["q"] and of_session.credits["q"] > 0
    waiting = session.addressing.query_queue("q")
    assert pair.agent.statistics().pending_bytes > 0
    pair.finish(waiting)
    pair.finish(consumer.close())
    pair.finish(session.close())
    assert pair.agent.statistics().sessions == ()
    with pytest.raises(FrozenInstanceError):
        found.calls = 1  # type: ignore[misc]


def test_nothing_is_given_out_before_the_session_starts() -> None:
    pair = NodePair()
    session = pair.finish(pair.agent.create_session_for(SessionMode.AUTO))
    producer, consumer = open_queue(pair, session)
    pair.finish(producer.send(text_message("one", "q")))
    assert take(pair, session, consumer) == []
    pair.finish(session.start())
    assert take(pair, session, consumer) == ["one"]


def test_a_consumer_hears_of_messages_and_of_its_end() -> None:
    pair = NodePair()
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    heard: list[tuple[int, bool]] = []
    consumer.on_ready = lambda consumer: heard.append((consumer.buffered, consumer.closed))
    pair.finish(producer.send(text_message("one", "q")))
    pair.finish(consumer.close())
    assert heard == [(1, False), (0, True)]


def test_forced_delivery_ends_when_nothing_more_comes() -> None:
    pair = NodePair()
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.finish(consumer.force_delivery())
    assert consumer.next(pair.now) is None
    producer.send(text_message("one", "q", durable=False))
    pair.finish(consumer.force_delivery())
    assert take(pair, session, consumer) == ["one"]


@pytest.mark.parametrize("value", [5, True, "5"])
def test_a_message_that_a_browser_shows_is_no_marker_by_the_name_of_a_property(value: PropertyValue) -> None:
    pair = NodePair()
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.finish(consumer.close())
    properties = Properties({FORCED_DELIVERY_PROPERTY: value, "number": 1})
    message = CoreMessage.build(
        type=MessageType.TEXT, address="q", properties=properties, body=encode_text("shown"), durable=False
    )
    pair.finish(producer.send(message))
    browser = pair.finish(session.create_consumer("q", browse_only=True))
    pair.finish(browser.force_delivery())
    delivery = browser.next(pair.now)
    assert delivery is not None and text_of(delivery) == "shown"


@pytest.mark.parametrize("window", [0, 1, 600, -1])
def test_every_consumer_window_delivers_everything(window: int) -> None:
    pair = NodePair(LocatorSettings(consumer_window_size=window))
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    texts: list[str | None] = [f"message {number}" for number in range(30)]
    for text in texts:
        producer.send(text_message(str(text), "q", durable=False))
    received: list[str | None] = []
    for _ in range(40):
        consumer.want()
        received += take(pair, session, consumer)
    assert received == texts
    assert count_of(pair, session) == 0


def test_with_window_zero_a_caller_that_gave_up_is_sent_nothing() -> None:
    pair = NodePair(LocatorSettings(consumer_window_size=0))
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    consumer.want()
    pair.settle()
    consumer.give_up()
    pair.settle()
    pair.finish(producer.send(text_message("one", "q")))
    assert consumer.buffered == 0
    consumer.want()
    pair.settle()
    assert consumer.buffered == 1


def test_with_window_zero_a_message_that_crossed_the_giving_up_costs_no_second_one() -> None:
    pair = NodePair(LocatorSettings(consumer_window_size=0))
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    for number in range(3):
        producer.send(text_message(f"message {number}", "q", durable=False))
    consumer.want()
    consumer_outputs = pair.agent.take_outputs(pair.now)
    # The credit has left; the message is on its way when the caller gives up.
    consumer.give_up()
    pair.handle(consumer_outputs)
    pair.settle()
    assert consumer.buffered == 1
    assert take(pair, session, consumer) == ["message 0"]
    assert consumer.buffered == 0


def test_with_window_zero_a_rollback_returns_no_more_credits_than_its_messages_cost() -> None:
    """1. A message crosses the giving up, another one comes for the next caller. 2. Both go back with a rollback.
    3. The broker sends one for the caller that waits, and nothing more until it is asked."""
    pair = NodePair(LocatorSettings(consumer_window_size=0))
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, consumer = open_queue(pair, session)
    for number in range(4):
        producer.send(text_message(f"message {number}", "q"))
    pair.finish(session.commit())
    consumer.want()
    outputs = pair.agent.take_outputs(pair.now)
    consumer.give_up()
    consumer.want()
    pair.handle(outputs)
    pair.settle()
    assert consumer.buffered == 2
    pair.finish(session.rollback())
    received = take(pair, session, consumer)
    assert consumer.buffered == 0
    for _ in range(3):
        consumer.want()
        received += take(pair, session, consumer)
    assert received == [f"message {number}" for number in range(4)]


def test_with_window_zero_a_caller_that_waits_is_sent_another_message_for_one_that_expired_on_the_way() -> None:
    pair = NodePair(LocatorSettings(consumer_window_size=0))
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    consumer.want()
    pair.finish(producer.send(text_message("short-lived", "q", expiration=pair.now.wall_ms + 500)))
    pair.finish(producer.send(text_message("lasting", "q")))
    pair.advance(1)
    assert take(pair, session, consumer) == []
    assert take(pair, session, consumer) == ["lasting"]
    assert count_of(pair, session) == 0


def test_with_window_zero_a_rollback_leaves_no_caller_waiting_in_vain() -> None:
    """1. Two consumers of one session wait, both get a message. 2. The user of the first one rolls back before the
    second one has taken its message. 3. The second one gets it again."""
    pair = NodePair(LocatorSettings(consumer_window_size=0))
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, consumer = open_queue(pair, session)
    other = pair.finish(session.destinations.open_queue_consumer("other"))
    consumer.want()
    other.want()
    producer.send(text_message("one", "q"))
    session.create_producer("other").send(text_message("two", "other"))
    pair.finish(session.commit())
    assert consumer.next(pair.now) is not None
    assert other.buffered == 1
    pair.finish(session.rollback())
    consumer.want()
    assert (take(pair, session, other), take(pair, session, consumer)) == (["two"], ["one"])


def test_priorities_come_first_and_are_acknowledged_one_by_one() -> None:
    pair = NodePair()
    session = open_session(pair, SessionMode.CLIENT)
    producer, consumer = open_queue(pair, session)
    for text, priority in (("low", 0), ("normal", 4), ("high", 9)):
        pair.finish(producer.send(text_message(text, "q", priority=priority)))
    assert take(pair, session, consumer) == ["high", "normal", "low"]
    pair.finish(session.commit())
    assert count_of(pair, session) == 0


def test_an_expired_message_is_not_given_out_and_leaves_the_queue() -> None:
    """Artemis' MessageExpirationTest.testMessageExpirationOnClient."""
    pair = NodePair()
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    pair.finish(producer.send(text_message("late", "q", expiration=pair.now.wall_ms + 50)))
    pair.finish(producer.send(text_message("timely", "q")))
    assert consumer.buffered == 2
    pair.advance(0.1)
    assert take(pair, session, consumer) == ["timely"]
    assert count_of(pair, session) == 0


def test_a_rollback_brings_messages_back_marked_as_redelivered() -> None:
    pair = NodePair()
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, consumer = open_queue(pair, session)
    for text in ("one", "two"):
        producer.send(text_message(text, "q"))
    pair.finish(session.commit())
    pair.settle()
    delivery = consumer.next(pair.now)
    assert delivery is not None
    session.consumed(delivery)
    producer.send(text_message("never", "q"))
    pair.finish(session.rollback())
    pair.settle()
    again = consumer.next(pair.now)
    assert again is not None
    assert (text_of(again), again.redelivered) == ("one", True)
    late = consumer.acknowledgements.acknowledge(delivery)
    assert late.done, "an acknowledgement from before the rollback has no effect"
    session.consumed(again)
    assert take(pair, session, consumer) == ["two"]
    pair.finish(session.commit())
    assert count_of(pair, session) == 0


def test_client_acknowledge_commits_what_was_received() -> None:
    pair = NodePair()
    session = open_session(pair, SessionMode.CLIENT)
    producer, consumer = open_queue(pair, session)
    pair.finish(producer.send(text_message("one", "q")))
    delivery = consumer.next(pair.now)
    assert delivery is not None
    session.consumed(delivery)
    pair.finish(session.acknowledge(delivery))
    assert count_of(pair, session) == 0


def test_individual_acknowledge_leaves_the_others() -> None:
    pair = NodePair()
    session = open_session(pair, SessionMode.INDIVIDUAL)
    producer, consumer = open_queue(pair, session)
    for text in ("one", "two", "three"):
        pair.finish(producer.send(text_message(text, "q")))
    deliveries = [consumer.next(pair.now) for _ in range(3)]
    middle = deliveries[1]
    assert middle is not None
    session.consumed(middle)
    pair.finish(session.acknowledge(middle))
    pair.finish(consumer.close())
    assert count_of(pair, session) == 2


def test_subscribers_of_a_topic_each_get_every_message() -> None:
    pair = NodePair()
    session = open_session(pair)
    one = pair.finish(session.destinations.open_topic_consumer("t"))
    other = pair.finish(session.destinations.open_topic_consumer("t"))
    durable = pair.finish(session.destinations.open_topic_consumer("t", queue="sub", durable=True))
    pair.finish(session.destinations.prepare_destination("t", RoutingType.MULTICAST))
    pair.finish(session.create_producer("t").send(text_message("news", "t")))
    assert [take(pair, session, consumer) for consumer in (one, other, durable)] == [["news"]] * 3
    queue = one.queue
    pair.finish(one.close())
    assert not pair.finish(session.addressing.query_queue(queue)).exists
    assert pair.error_code(session.destinations.unsubscribe("sub")) == ErrorCode.ILLEGAL_STATE
    pair.finish(durable.close())
    pair.finish(session.destinations.unsubscribe("sub"))
    call = session.destinations.unsubscribe("sub")
    pair.settle()
    assert isinstance(call.error, InvalidDestinationException)


def test_temporary_destinations_come_and_go() -> None:
    pair = NodePair()
    session = open_session(pair)
    queue = pair.finish(session.destinations.create_temporary_queue())
    topic = pair.finish(session.destinations.create_temporary_topic())
    consumer = pair.finish(session.create_consumer(queue))
    subscriber = pair.finish(session.destinations.open_topic_consumer(topic))
    pair.finish(session.create_producer(queue).send(text_message("to queue", queue)))
    pair.finish(session.create_producer(topic).send(text_message("to topic", topic)))
    assert take(pair, session, consumer) == ["to queue"]
    assert take(pair, session, subscriber) == ["to topic"]
    assert pair.error_code(session.destinations.delete_temporary(queue)) == ErrorCode.ILLEGAL_STATE
    pair.finish(consumer.close())
    pair.finish(subscriber.close())
    pair.finish(session.destinations.delete_temporary(queue))
    pair.finish(session.destinations.delete_temporary(topic))
    assert not pair.finish(session.addressing.query_queue(queue)).exists


def test_of_two_deletions_at_a_time_the_second_finds_no_temporary_destination() -> None:
    pair = NodePair()
    first, second = open_session(pair), open_session(pair)
    queue = pair.finish(first.destinations.create_temporary_queue())
    calls = [each.destinations.delete_temporary(queue) for each in (first, second)]
    pair.settle()
    assert calls[0].error is None and str(calls[1].error) == f"there is no temporary destination {queue!r}"


def test_a_bad_filter_fails_the_call_and_nothing_else() -> None:
    pair = NodePair(REATTACHING)
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    bad = session.create_consumer("q", filter="n = = 1")
    assert pair.error_code(bad) == ErrorCode.INVALID_FILTER_EXPRESSION
    pair.finish(producer.send(text_message("one", "q")))
    assert take(pair, session, consumer) == ["one"]


@pytest.mark.parametrize("version", [126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136])
def test_every_version_sends_receives_commits_and_reattaches(version: int) -> None:
    settings = LocatorSettings(
        client_version=version, reconnect_attempts=-1, retry_interval_ms=200, confirmation_window_size=1 << 20
    )
    pair = NodePair(settings)
    session = open_session(pair, SessionMode.TRANSACTED)
    producer, consumer = open_queue(pair, session)
    producer.send(text_message("one", "q"))
    pair.finish(session.commit())
    auto = open_session(pair)
    sender = auto.create_producer("q")
    pair.filter = lambda sender, data: b"" if sender == "server" else data
    blocking = sender.send(text_message("two", "q"))
    confirmed = sender.send_confirmed(text_message("three", "q"))
    pair.settle()
    pair.filter = lambda sender, data: data
    pair.cut()
    pair.advance(1)
    pair.finish(blocking)
    # Before version 130 nothing but a confirmation shows that an asynchronous send has arrived.
    pair.advance(5)
    pair.finish(confirmed)
    assert take(pair, session, consumer) == ["one", "two", "three"]
    pair.finish(session.commit())
    assert count_of(pair, auto) == 0


def test_a_producer_and_a_consumer_with_a_rate_take_their_time() -> None:
    pair = NodePair(LocatorSettings(producer_max_rate=10, consumer_max_rate=5))
    session = open_session(pair)
    producer, consumer = open_queue(pair, session)
    sends = [producer.send(text_message(f"message {number}", "q", durable=False)) for number in range(25)]
    received: list[int] = []
    woken: list[float] = []
    consumer.on_ready = lambda consumer: woken.append(pair.seconds)
    for _ in range(6):
        pair.settle()
        received.append(len(take(pair, session, consumer)))
        pair.advance(1)
    assert [send.done for send in sends] == [True] * 25
    assert received == [5, 5, 5, 5, 5, 0]
    assert len(woken) >= 5


def test_after_a_pause_the_rate_counts_from_the_send() -> None:
    """Counted from the last step, the second would be over a moment later, and twice as many would leave."""
    pair = NodePair(LocatorSettings(producer_max_rate=10))
    producer, _ = open_queue(pair, open_session(pair))
    pair.settle()
    pair.seconds += 0.9  # nothing happens meanwhile, so the agent is not stepped
    sends = [producer.send(text_message(f"message {number}", "q", durable=False)) for number in range(20)]
    done = []
    for pause in (0.0, 0.5, 0.5):
        pair.advance(pause)
        done.append(sum(send.done for send in sends))
    assert done == [10, 10, 20]


def filled(size_bytes: int, *, durable: bool) -> CoreMessage:
    """A message that takes just so many bytes."""
    empty = CoreMessage.build(address="q", durable=durable).encoded_size
    return CoreMessage.build(address="q", durable=durable, body=b"x" * (size_bytes - empty))


@pytest.mark.parametrize("durable", [True, False])
def test_a_message_that_no_packet_holds_is_refused_here_and_the_largest_arrives(durable: bool) -> None:
    """On the wire it would end the connection, and each connection after it on which it is repeated."""
    pair = NodePair(evolve(REATTACHING, frame_size_bytes_max=4096))
    session = open_session(pair, SessionMode.TRANSACTED)
    _, consumer = open_queue(pair, session)
    largest = filled(4096 - FRAME_HEADER_SIZE - SEND_TRAILER.size, durable=durable)
    too_large = filled(largest.encoded_size + 1, durable=durable)
    for sender in (session, open_session(pair)):  # blocking and not
        producer = sender.create_producer("q")
        for send in (producer.send, producer.send_confirmed):
            with pytest.raises(JMSException, match=r"it takes 4,071 bytes, and 4,070 is .*\(frame_size_bytes_max\)"):
                pair.finish(send(too_large))
        pair.finish(producer.send(largest))
    pair.finish(session.commit())
    pair.settle()
    sizes = []
    while (delivery := consumer.next(pair.now)) is not None:
        sizes.append(delivery.message.encoded_size)
    assert sizes == [largest.encoded_size] * 2
    assert pair.agent.state is AgentState.CONNECTED and pair.notifications == []
