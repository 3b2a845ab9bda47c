"""Which acknowledgements a consumer sends, and when: the frames, as a broker sees them."""

from __future__ import annotations

import pytest

from embedclient.agent import Consumer, Delivery, LocatorSettings, Received, Session, SessionMode
from embedclient.errors import ConnectionClosedException, TransactionRolledBackException
from embedclient.wire.core import (
    ACKNOWLEDGE_BODY,
    FRAME_HEADER_SIZE,
    FrameSplitter,
    PacketType,
    frame_spans,
)
from tests.embedclient.agent.node_pair import NodePair, count_of, open_queue, open_session, text_message, text_of


class Acknowledged:
    """The message ids that acknowledgements on the way to the broker name."""

    def __init__(self, pair: NodePair) -> None:
        self.cumulative: list[int] = []
        self.individual: list[int] = []
        self._splitter = FrameSplitter()
        pair.filter = self._read

    def _read(self, sender: str, data: bytes) -> bytes:
        if sender == "client":
            buffer, headers = self._splitter.feed(data)
            for (_length, packet_type, _channel), (start, _end) in zip(headers, frame_spans(headers), strict=True):
                if packet_type == PacketType.SESS_ACKNOWLEDGE:
                    self.cumulative.append(_message_id(buffer, start))
                elif packet_type == PacketType.SESS_INDIVIDUAL_ACKNOWLEDGE:
                    self.individual.append(_message_id(buffer, start))
        return data


def _message_id(buffer: bytes | bytearray, start: int) -> int:
    message_id: int = ACKNOWLEDGE_BODY.unpack_from(buffer, start + FRAME_HEADER_SIZE)[1]
    return message_id


def _three_delivered(pair: NodePair, session: Session) -> tuple[Consumer, list[Delivery]]:
    producer, consumer = open_queue(pair, session)
    for number in range(3):
        pair.finish(producer.send(text_message(str(number), "q")))
    pair.settle()
    deliveries = [consumer.next(pair.now) for _ in range(3)]
    return consumer, [delivery for delivery in deliveries if delivery is not None]


def test_acknowledgements_that_leave_together_are_one_packet() -> None:
    pair = NodePair()
    session = open_session(pair)
    _, deliveries = _three_delivered(pair, session)
    seen = Acknowledged(pair)
    for delivery in deliveries:
        assert session.consumed(delivery).done
    pair.settle()
    assert seen.cumulative == [deliveries[2].message.message_id]
    assert count_of(pair, session) == 0


def test_an_acknowledgement_leaves_with_the_next_output() -> None:
    pair = NodePair()
    session = open_session(pair)
    _, deliveries = _three_delivered(pair, session)
    seen = Acknowledged(pair)
    for delivery in deliveries:
        session.consumed(delivery)
        pair.settle()
    assert seen.cumulative == [delivery.message.message_id for delivery in deliveries]


def test_acknowledging_out_of_order_covers_the_newest() -> None:
    pair = NodePair()
    session = open_session(pair)
    _, deliveries = _three_delivered(pair, session)
    seen = Acknowledged(pair)
    for delivery in (deliveries[1], deliveries[0]):
        session.consumed(delivery)
    pair.settle()
    session.consumed(deliveries[0])
    pair.settle()
    assert seen.cumulative == [deliveries[1].message.message_id]
    assert count_of(pair, session) == 1


def test_what_was_consumed_is_acknowledged_in_front_of_a_close() -> None:
    pair = NodePair()
    session = open_session(pair)
    consumer, deliveries = _three_delivered(pair, session)
    for delivery in deliveries[:2]:
        session.consumed(delivery)
    pair.finish(consumer.close())
    assert count_of(pair, session) == 1


def test_a_consumer_that_the_broker_closed_acknowledges_nothing_more() -> None:
    pair = NodePair()
    session = open_session(pair)
    consumer, deliveries = _three_delivered(pair, session)
    seen = Acknowledged(pair)
    session.consumed(deliveries[0])
    consumer.end(ConnectionClosedException("closed"))
    pair.settle()
    assert seen.cumulative == []


def test_acknowledgements_that_block_leave_one_by_one() -> None:
    pair = NodePair(LocatorSettings(block_on_acknowledge=True))
    session = open_session(pair)
    _, deliveries = _three_delivered(pair, session)
    seen = Acknowledged(pair)
    calls = [session.consumed(delivery) for delivery in deliveries]
    assert not any(call.done for call in calls)
    for call in calls:
        pair.finish(call)
    assert seen.cumulative == [delivery.message.message_id for delivery in deliveries]


def test_batches_leave_when_they_are_large_enough() -> None:
    size = text_message("0", "q").encoded_size
    pair = NodePair(LocatorSettings(dups_ok_batch_size=2 * size))
    session = open_session(pair, SessionMode.DUPS_OK)
    _, deliveries = _three_delivered(pair, session)
    seen = Acknowledged(pair)
    for delivery in deliveries:
        session.consumed(delivery)
        pair.settle()
    assert seen.cumulative == [deliveries[1].message.message_id]
    pair.finish(session.close())
    assert seen.cumulative == [deliveries[1].message.message_id, deliveries[2].message.message_id]


def _five_of_two_priorities(pair: NodePair, session: Session) -> tuple[Received, list[Delivery]]:
    """Two are received before the first one of another priority comes, which is given out first then."""
    _, consumer = open_queue(pair, session)
    producer = open_session(pair).create_producer("q")
    received, deliveries = Received(consumer), list[Delivery]()

    def take(count: int) -> None:
        pair.settle()
        for _ in range(count):
            delivery = consumer.next(pair.now)
            assert delivery is not None
            received.note([delivery])
            deliveries.append(delivery)

    for text in ("0", "1"):
        pair.finish(producer.send(text_message(text, "q")))
    take(2)
    for text, priority in (("2", 4), ("3", 9), ("4", 4)):
        pair.finish(producer.send(text_message(text, "q", priority=priority)))
    take(3)
    assert [text_of(delivery) for delivery in deliveries] == ["0", "1", "3", "2", "4"]
    return received, deliveries


def ids_of(deliveries: list[Delivery]) -> list[int]:
    return [delivery.message.message_id for delivery in deliveries]


@pytest.mark.parametrize("blocks", [False, True])
def test_one_acknowledgement_covers_what_came_before_priorities_were_mixed_and_one_each_of_the_others(
    blocks: bool,
) -> None:
    pair = NodePair(LocatorSettings(block_on_acknowledge=blocks))
    session = open_session(pair, SessionMode.TRANSACTED)
    received, deliveries = _five_of_two_priorities(pair, session)
    seen = Acknowledged(pair)
    call = received.acknowledge(deliveries[3])
    assert call.done is not blocks
    pair.finish(call)
    assert (seen.cumulative, seen.individual) == (ids_of(deliveries[1:2]), ids_of(deliveries[2:4]))
    pair.finish(received.acknowledge(deliveries[3]))
    pair.finish(received.acknowledge_all())
    assert (seen.cumulative, seen.individual) == (ids_of(deliveries[1:2]), ids_of(deliveries[2:]))
    pair.finish(received.acknowledge_all())
    pair.finish(session.commit())
    assert len(seen.individual) == 3
    assert count_of(pair, session) == 0


def test_an_acknowledgement_of_what_came_before_priorities_were_mixed_covers_what_came_before_it() -> None:
    pair = NodePair()
    session = open_session(pair, SessionMode.TRANSACTED)
    received, deliveries = _five_of_two_priorities(pair, session)
    seen = Acknowledged(pair)
    pair.finish(received.acknowledge(deliveries[1]))
    pair.finish(received.acknowledge_individually(deliveries[3]))
    assert (seen.cumulative, seen.individual) == (ids_of(deliveries[1:2]), ids_of(deliveries[3:4]))
    pair.finish(received.acknowledge(deliveries[4]))
    assert (seen.cumulative, seen.individual) == (
        ids_of(deliveries[1:2]),
        ids_of([deliveries[index] for index in (3, 2, 4)]),
    )
    pair.finish(session.commit())
    assert count_of(pair, session) == 0


def test_what_went_back_with_its_session_is_not_acknowledged_with_what_came_since() -> None:
    pair = NodePair(LocatorSettings(reconnect_attempts=-1, retry_interval_ms=100))
    session = open_session(pair, SessionMode.TRANSACTED)
    received, deliveries = _five_of_two_priorities(pair, session)
    (consumer,) = session.consumers.values()
    pair.cut()
    pair.advance(1)
    assert session.rebuilds == 1
    seen = Acknowledged(pair)
    again = consumer.next(pair.now)
    assert again is not None
    received.note([again])
    pair.finish(received.acknowledge_all())
    assert (seen.cumulative, seen.individual) == ([], ids_of([again]))
    pair.finish(session.commit())
    assert count_of(pair, session) == 4
    pair.finish(received.acknowledge(deliveries[4]))
    with pytest.raises(TransactionRolledBackException):
        pair.finish(session.commit())
    assert count_of(pair, session) == 4
