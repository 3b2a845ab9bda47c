"""Which acknowledgements a consumer sends, and when: the frames, as a broker sees them."""

from __future__ import annotations

from embedclient.agent import Consumer, Delivery, LocatorSettings, Session, SessionMode
from embedclient.errors import ConnectionClosedException
from embedclient.wire.core import (
    ACKNOWLEDGE_BODY,
    FRAME_HEADER,
    FRAME_HEADER_SIZE,
    FrameSplitter,
    PacketType,
)
from tests.embedclient.agent.node_pair import NodePair, count_of, open_queue, open_session, text_message


class Acknowledged:
    """The message ids that acknowledgements on the way to the broker name."""

    def __init__(self, pair: NodePair) -> None:
        self.cumulative: list[int] = []
        self.individual: list[int] = []
        self._splitter = FrameSplitter()
        pair.filter = self._read

    def _read(self, sender: str, data: bytes) -> bytes:
        if sender == "client":
            buffer, ends = self._splitter.feed(data)
            for start, _ in zip([0, *ends], ends, strict=False):
                _, packet_type, _ = FRAME_HEADER.unpack_from(buffer, start)
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
    size = text_message("0", "q").size
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
