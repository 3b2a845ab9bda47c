"""Large messages in the agent: what is paid for and when, bodies that end early, uploads that break off."""

from __future__ import annotations

from typing import Any

import pytest

from embedclient.agent import (
    Consumer,
    Delivery,
    FailoverCompleted,
    LargeDelivery,
    LocatorSettings,
    Session,
    SessionMode,
)
from embedclient.errors import ErrorCode, JMSException
from embedclient.wire.core import (
    CoreMessage,
    MessageType,
    SessionConsumerFlowCredit,
    SessionSend,
    SessionSendContinuation,
    SessionSendLarge,
)
from tests.embedclient.agent.large_double import LargeDouble
from tests.embedclient.agent.node_pair import NodePair

CHUNK = 1000
BODY = bytes(range(256)) * 40


def bytes_message(body: bytes, *, priority: int = 4, expiration: int = 0) -> CoreMessage:
    return CoreMessage.build(address="q", type=MessageType.BYTES, body=body, priority=priority, expiration=expiration)


class Stage:
    """An agent, the double, one session, and a queue."""

    def __init__(self, *, mode: SessionMode = SessionMode.AUTO, **settings: Any) -> None:
        self.double = LargeDouble(chunk_bytes=CHUNK)
        self.pair = NodePair(LocatorSettings(min_large_message_size=CHUNK, **settings), self.double)
        self.session: Session = self.pair.finish(self.pair.agent.create_session_for(mode))
        self.pair.finish(self.session.start())
        self.producer = self.session.create_producer("q")

    def consumer(self) -> Consumer:
        return self.pair.finish(self.session.create_consumer("q"))

    def send(self, *bodies: bytes) -> None:
        for body in bodies:
            self.pair.finish(self.producer.send(bytes_message(body)))

    def next(self, consumer: Consumer) -> Delivery | None:
        """receive with a time-out."""
        consumer.want()
        self.pair.settle()
        delivery = consumer.next(self.pair.now)
        self.pair.settle()
        if delivery is None:
            # Loading has begun, or the body before was dropped: what that brings.
            delivery = consumer.next(self.pair.now)
        if delivery is None:
            consumer.give_up()
        else:
            self.session.consumed(delivery)
        self.pair.settle()
        return delivery

    def read(self, delivery: Delivery | None) -> bytes:
        assert isinstance(delivery, LargeDelivery)
        body = bytearray()
        while not delivery.body.exhausted:
            chunk = delivery.body.take()
            assert chunk is not None
            body += chunk
            self.pair.settle()
        return bytes(body)


@pytest.mark.parametrize("window", [0, 1, 1500, 1 << 20, -1])
@pytest.mark.parametrize("loaded", [True, False], ids=["loaded", "read-in-chunks"])
def test_large_and_small_messages_in_turn(window: int, loaded: bool) -> None:
    stage = Stage(consumer_window_size=window, max_large_message_body_size=-1 if loaded else 0)
    stage.send(BODY, b"one", BODY[:5000], BODY[:CHUNK], b"two")
    consumer = stage.consumer()
    for wanted in (BODY, b"one", BODY[:5000], BODY[:CHUNK], b"two"):
        delivery = stage.next(consumer)
        assert delivery is not None
        if isinstance(delivery, LargeDelivery) and not loaded:
            assert stage.read(delivery) == wanted
        else:
            assert bytes(delivery.message.body) == wanted
    assert stage.next(consumer) is None
    stage.pair.finish(consumer.close())
    assert not stage.double.queues["q"]


def test_only_the_window_is_sent_ahead_of_a_reader() -> None:
    stage = Stage(consumer_window_size=2500, max_large_message_body_size=0)
    stage.send(BODY)
    consumer = stage.consumer()
    delivery = stage.next(consumer)
    assert isinstance(delivery, LargeDelivery)
    assert delivery.body.received_bytes == 3 * CHUNK  # 2,500 credits are used up by three chunks and the headers
    assert stage.read(delivery) == BODY


def test_a_body_of_exactly_the_limit_is_loaded_and_one_byte_more_is_not() -> None:
    stage = Stage(max_large_message_body_size=5000)
    stage.send(BODY[:5000], BODY[:5001])
    consumer = stage.consumer()
    first, second = stage.next(consumer), stage.next(consumer)
    assert isinstance(first, LargeDelivery) and isinstance(second, LargeDelivery)
    assert (first.loads, bytes(first.message.body)) == (True, BODY[:5000])
    assert (second.loads, bytes(second.message.body)) == (False, b"")
    assert stage.read(second) == BODY[:5001]


def test_without_a_limit_a_body_that_no_message_in_memory_holds_is_read_in_chunks() -> None:
    stage = Stage(max_large_message_body_size=-1, consumer_window_size=2)  # for the headers only
    stage.double.announced = 2**31
    stage.send(BODY)
    consumer = stage.consumer()
    stage.pair.settle()
    delivery = consumer.next(stage.pair.now)
    assert isinstance(delivery, LargeDelivery)
    assert not delivery.loads


def test_the_mark_of_a_forced_delivery_in_the_middle_of_a_body_is_not_the_end() -> None:
    stage = Stage(consumer_window_size=1500)
    stage.send(BODY)
    consumer = stage.consumer()
    assert consumer.next(stage.pair.now) is None
    consumer.want()
    stage.pair.finish(consumer.force_delivery())
    delivery = consumer.next(stage.pair.now)
    assert delivery is not None
    assert bytes(delivery.message.body) == BODY
    # The next request counts its own mark.
    stage.pair.finish(consumer.force_delivery())
    assert consumer.next(stage.pair.now) is None


def test_the_next_receive_drops_the_rest_of_a_body_and_pays_for_it() -> None:
    stage = Stage(consumer_window_size=1500, max_large_message_body_size=0)
    stage.send(BODY, b"small")
    consumer = stage.consumer()
    large = stage.next(consumer)
    assert isinstance(large, LargeDelivery)
    assert large.body.take() is not None
    small = stage.next(consumer)
    assert small is not None and bytes(small.message.body) == b"small"
    assert large.body.take() is None
    assert "dropped" in str(large.body.error)


@pytest.mark.parametrize("window", [0, 1500])
@pytest.mark.parametrize("loaded", [True, False], ids=["loaded", "read-in-chunks"])
def test_a_rollback_in_the_middle_of_a_body(window: int, loaded: bool) -> None:
    stage = Stage(
        mode=SessionMode.TRANSACTED,
        consumer_window_size=window,
        max_large_message_body_size=-1 if loaded else 0,
    )
    stage.producer.send(bytes_message(BODY))
    stage.pair.finish(stage.session.commit())
    consumer = stage.consumer()
    consumer.want()
    stage.pair.settle()
    held = None
    if not loaded:
        held = stage.next(consumer)
        assert isinstance(held, LargeDelivery)
        held.body.take()
    stage.pair.finish(stage.session.rollback())
    if isinstance(held, LargeDelivery):
        assert held.body.error is not None
        assert held.body.error.error_code == ErrorCode.LARGE_MESSAGE_INTERRUPTED
    again = stage.next(consumer)
    assert again is not None
    assert (bytes(again.message.body) if loaded else stage.read(again)) == BODY
    stage.pair.finish(stage.session.commit())
    assert stage.next(consumer) is None


def test_a_browser_goes_on_with_the_message_behind_the_one_that_a_rollback_broke_off() -> None:
    """The broker ends what is under way for every consumer of the session. A browser gets it no second time."""
    stage = Stage(mode=SessionMode.TRANSACTED, consumer_window_size=1500)
    stage.producer.send(bytes_message(BODY))
    stage.producer.send(bytes_message(b"small"))
    stage.pair.finish(stage.session.commit())
    browser = stage.pair.finish(stage.session.create_consumer("q", browse_only=True))
    stage.pair.settle()
    assert browser.next(stage.pair.now) is None
    browser.roll_back()
    assert browser.buffered == 0
    header = CoreMessage.parse_header(bytes_message(b"").header)
    browser.on_large_message(header, 0, 4, 100)
    browser.on_continuation(b"next", False, 100)
    delivery = browser.next(stage.pair.now)
    assert delivery is not None and bytes(delivery.message.body) == b"next"


def test_closing_the_consumer_ends_its_reader() -> None:
    stage = Stage(max_large_message_body_size=0)
    stage.send(BODY)
    consumer = stage.consumer()
    consumer.want()
    stage.pair.settle()
    delivery = consumer.next(stage.pair.now)
    assert isinstance(delivery, LargeDelivery)
    changes: list[None] = []
    delivery.body.on_change = lambda: changes.append(None)
    stage.pair.finish(consumer.close())
    assert isinstance(delivery.body.error, JMSException)
    assert changes == [None]
    assert [bytes(message.body) for message in stage.double.queues["q"]] == [BODY]


@pytest.mark.parametrize("window", [-1, 1 << 20], ids=["rebuilt", "chunks-repeated"])
def test_a_lost_connection_in_the_middle_of_a_body_brings_the_message_again(window: int) -> None:
    """A reattached session would repeat chunks, whose bytes an Artemis broker has overwritten: it is made again."""
    stage = Stage(
        max_large_message_body_size=0,
        reconnect_attempts=-1,
        confirmation_window_size=window,
        consumer_window_size=2500,
    )
    pair = stage.pair
    stage.send(BODY)
    consumer = stage.consumer()
    consumer.want()
    pair.settle()
    delivery = consumer.next(pair.now)
    assert isinstance(delivery, LargeDelivery)
    pair.filter = lambda sender, data: b"" if sender == "server" else data
    while delivery.body.take() is not None:
        pair.settle()  # the broker sends further chunks, which are lost
    pair.filter = lambda sender, data: data
    pair.cut()
    pair.advance(3)
    assert FailoverCompleted(False) in pair.notifications or stage.session.rebuilds == 1
    stage.session.resume() if stage.session.rebuilt else None
    pair.settle()
    assert stage.session.rebuilds == 1
    assert delivery.body.error is not None
    assert delivery.body.error.error_code == ErrorCode.LARGE_MESSAGE_INTERRUPTED
    assert stage.read(stage.next(consumer)) == BODY


@pytest.mark.parametrize("announced", [len(BODY) - 1, len(BODY) + 1])
def test_a_wrong_size_ends_the_connection(announced: int) -> None:
    stage = Stage()
    stage.double.announced = announced
    stage.send(BODY)
    consumer = stage.consumer()
    consumer.next(stage.pair.now)
    stage.pair.settle()
    assert not stage.pair.agent.connected


def test_an_expired_large_message_is_reported_and_dropped() -> None:
    stage = Stage(consumer_window_size=1500)
    soon = stage.pair.now.wall_ms + 1000
    stage.pair.finish(stage.producer.send(bytes_message(BODY, expiration=soon)))
    stage.send(b"small")
    consumer = stage.consumer()
    stage.pair.settle()
    stage.pair.advance(2)
    delivery = stage.next(consumer)
    assert delivery is not None and bytes(delivery.message.body) == b"small"


# --- sending ---


def chunks_sent(stage: Stage) -> list[int]:
    return [len(packet.chunk) for packet in stage.double.seen if isinstance(packet, SessionSendContinuation)]


@pytest.mark.parametrize(("size", "chunks"), [(997, [997]), (CHUNK, [CHUNK, 0]), (CHUNK + 1, [CHUNK, 1])])
def test_bodies_around_the_limit(size: int, chunks: list[int]) -> None:
    stage = Stage()
    stage.send(BODY[:size])
    stage.send(BODY[: CHUNK - 4])
    assert chunks_sent(stage) == chunks
    assert sum(isinstance(packet, SessionSend) for packet in stage.double.seen) == 1
    assert [len(message.body) for message in stage.double.received] == [size, CHUNK - 4]


def test_requests_to_the_broker_itself_are_never_large() -> None:
    stage = Stage()
    request = CoreMessage.build(address="embedbroker.services", body=BODY)
    stage.pair.finish(stage.session.create_producer("embedbroker.services").send(request))
    assert (chunks_sent(stage), len(stage.double.received)) == ([], 1)


def test_producer_credits_bound_what_is_under_way() -> None:
    stage = Stage(producer_window_size=4000)
    pair = stage.pair
    call = stage.producer.send(bytes_message(BODY * 10))
    under_way = 0
    while not call.done:
        pair.handle(pair.agent.take_outputs(pair.now))
        under_way = max(under_way, sum(map(len, pair.client_bytes)))
        pair.client_bytes.clear()
        pair.settle()
    assert call.error is None
    assert under_way < 4 * CHUNK
    assert bytes(stage.double.received[0].body) == BODY * 10


def test_headers_that_do_not_fit_are_refused_here() -> None:
    stage = Stage()
    message = bytes_message(BODY).with_body(BODY, {"long": "x" * CHUNK})
    call = stage.producer.send(message)
    assert call.error is not None
    assert call.error.error_code == ErrorCode.ILLEGAL_STATE
    assert "minLargeMessageSize=1,000" in str(call.error)
    # Without a long body the same properties are no obstacle.
    stage.pair.finish(stage.producer.send(message.with_body(b"x")))


def test_an_upload_that_breaks_off_leaves_the_session_usable() -> None:
    stage = Stage()
    upload = stage.producer.open_upload(bytes_message(b""))
    upload.put((BODY[:CHUNK], False), CHUNK)
    waiting = stage.producer.send(bytes_message(b"behind"))
    stage.pair.settle()
    assert not waiting.done
    upload.abort(JMSException("no more"))
    stage.pair.finish(waiting)
    assert str(upload.call.error) == "no more"
    assert upload.room().error is upload.call.error
    stage.send(BODY)
    assert [bytes(message.body) for message in stage.double.received] == [b"behind", BODY]


@pytest.mark.parametrize("window", [-1, 1 << 20], ids=["rebuilt", "reattached"])
def test_a_body_in_memory_survives_a_lost_connection(window: int) -> None:
    stage = Stage(reconnect_attempts=-1, confirmation_window_size=window, producer_window_size=4000)
    pair = stage.pair
    call = stage.producer.send(bytes_message(BODY))
    pair.handle(pair.agent.take_outputs(pair.now))
    pair.filter = lambda sender, data: b""
    pair.settle()
    pair.cut()
    pair.filter = lambda sender, data: data
    pair.advance(3)
    pair.finish(call)
    assert [bytes(message.body) for message in stage.double.received] == [BODY]
    starts = sum(isinstance(packet, SessionSendLarge) for packet in stage.double.seen)
    assert starts == 1


def test_a_fed_body_is_not_sent_again_after_a_lost_session() -> None:
    stage = Stage(reconnect_attempts=-1)
    upload = stage.producer.open_upload(bytes_message(b""))
    upload.put((BODY[:CHUNK], False), CHUNK)
    stage.pair.settle()
    stage.pair.cut()
    stage.pair.advance(3)
    assert upload.call.error is not None
    assert upload.call.error.error_code == ErrorCode.LARGE_MESSAGE_INTERRUPTED
    assert stage.double.received == []
    stage.send(BODY)


def test_a_chunk_that_the_broker_refuses_ends_the_message() -> None:
    stage = Stage(confirmation_window_size=1 << 20)
    stage.double.refused_chunk = 2
    call = stage.producer.send(bytes_message(BODY * 30))
    stage.pair.settle()
    assert call.error is not None
    assert "the disk is full" in str(call.error)
    stage.double.refused_chunk = -1
    stage.send(b"small")


def test_closing_the_session_ends_an_upload() -> None:
    stage = Stage()
    upload = stage.producer.open_upload(bytes_message(b""))
    upload.put((BODY[:CHUNK], False), CHUNK)
    stage.pair.settle()
    stage.pair.finish(stage.session.close())
    assert isinstance(upload.call.error, JMSException)


def test_messages_that_are_not_large_grant_as_before() -> None:
    stage = Stage(consumer_window_size=200)
    stage.send(*[b"x" * 100] * 5)
    consumer = stage.consumer()
    while stage.next(consumer) is not None:
        pass
    granted = [packet.credits for packet in stage.double.seen if isinstance(packet, SessionConsumerFlowCredit)]
    assert granted[0] == 200
    assert len(granted) == 6
