"""Large messages: the agent sends what the Java client sent to a real Artemis broker, given the same answers."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from embedclient.agent import Delivery, LargeDelivery, LocatorSettings, SessionMode
from embedclient.errors import JMSException
from embedclient.wire.core import SessionAddMetadataV2, SessionSendContinuation
from tests.embedclient.agent.vector_replay import VectorReplay

CHUNK = 10240
READ_IN_CHUNKS = 0


def settings(**more: Any) -> LocatorSettings:
    return LocatorSettings(min_large_message_size=CHUNK, **more)


def read(replay: VectorReplay, delivery: Delivery | None) -> bytes:
    """The body of a large message that is read in chunks."""
    assert isinstance(delivery, LargeDelivery)
    read = bytearray()
    while not delivery.body.exhausted:
        chunk = delivery.body.take()
        replay.play()
        if chunk is None:
            assert delivery.body.error is None
            assert not replay.through
        else:
            read += chunk
    assert delivery.body.take() is None
    return bytes(read)


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded", "read-in-chunks"])
def test_a_body_of_exactly_two_chunks_and_a_text(loaded: bool) -> None:
    more = {} if loaded else {"max_large_message_body_size": READ_IN_CHUNKS}
    replay = VectorReplay("large-bytes-exact", settings(**more))
    initial, session = replay.open(SessionMode.AUTO)
    producer = replay.open_producer(session, "lg.b")
    sent = [replay.message(), replay.message()]
    assert [len(message.body) for message in sent] == [2 * CHUNK, 24005]
    replay.finish(producer.send(sent[0]))
    consumer = replay.finish(session.destinations.open_queue_consumer("lg.b"))
    for number, message in enumerate(sent):
        if number == 1:
            replay.finish(producer.send(message))
        got = replay.receive(session, consumer)
        assert got is not None
        assert (bytes(got.message.body) if loaded else read(replay, got)) == bytes(message.body)
    replay.finish(initial.close())
    replay.finish(consumer.close())
    producer.close()
    replay.close(session)


def test_a_body_from_a_stream_is_fed_in_chunks() -> None:
    replay = VectorReplay("large-stream", settings())
    initial, session = replay.open(SessionMode.AUTO)
    producer = replay.open_producer(session, "lg.s")
    whole = replay.message()
    upload = producer.open_upload(whole.with_body(b""))
    chunks = [bytes(whole.body[at : at + CHUNK]) for at in range(0, len(whole.body), CHUNK)]
    for number, chunk in enumerate(chunks):
        replay.finish(upload.room())
        upload.put((chunk, number == len(chunks) - 1), CHUNK * number + len(chunk))
    replay.finish(upload.call)
    consumer = replay.finish(session.destinations.open_queue_consumer("lg.s"))
    got = replay.receive(session, consumer)
    assert got is not None
    assert got.message.body == whole.body
    assert got.message.property("_AMQ_LARGE_SIZE") == len(whole.body)
    replay.finish(consumer.close())
    producer.close()
    replay.close(session, initial)


def test_with_a_confirmation_window_every_chunk_is_answered() -> None:
    replay = VectorReplay("large-bytes-window", settings(confirmation_window_size=1 << 20))
    initial, session = replay.open(SessionMode.AUTO)
    producer = replay.open_producer(session, "lg.w")
    replay.finish(producer.send(replay.message()))
    replay.finish(producer.send_confirmed(replay.message()))
    producer.close()
    replay.close(session, initial)


def test_compressed_bodies() -> None:
    """One stays large, three are short enough for one packet once they are compressed."""
    replay = VectorReplay("large-compressed", settings(compress_large_message=True))
    initial, session = replay.open(SessionMode.AUTO)
    producer = replay.open_producer(session, "lg.c")
    bodies = []
    for _ in range(4):
        compressed = replay.message()
        bodies.append(zlib.decompress(compressed.body))
        of_the_body = ("_AMQ_LARGE_COMPRESSED", "_AMQ_LARGE_SIZE")
        plain = compressed.copy_for(compressed.address, changes={}, removals=of_the_body, expiration=0)
        replay.finish(producer.send(plain.with_body(bodies[-1])))
    consumer = replay.finish(session.destinations.open_queue_consumer("lg.c"))
    for body in bodies:
        got = replay.receive(session, consumer)
        assert got is not None
        assert zlib.decompress(got.message.body) == body
    replay.finish(consumer.close())
    producer.close()
    replay.close(session, initial)


def test_a_transaction_with_a_large_message_is_rolled_back_and_it_comes_again() -> None:
    replay = VectorReplay("large-tx-rollback", settings())
    initial, session = replay.open(SessionMode.TRANSACTED)
    producer = replay.open_producer(session, "lg.tx")
    sent = replay.message()
    producer.send(sent)
    replay.finish(session.commit())
    consumer = replay.finish(session.destinations.open_queue_consumer("lg.tx"))
    assert replay.receive(session, consumer) is not None
    replay.finish(session.rollback())
    again = replay.receive(session, consumer)
    assert again is not None
    assert (again.delivery_count, again.message.body) == (2, sent.body)
    replay.finish(session.commit())
    replay.finish(consumer.close())
    producer.close()
    replay.close(session, initial)


def test_a_cut_in_the_middle_of_a_send_is_mended_by_a_reattachment() -> None:
    replay = VectorReplay(
        "reattach-large",
        settings(reconnect_attempts=-1, retry_interval_ms=200, confirmation_window_size=1 << 20),
    )
    initial, session = replay.open(SessionMode.AUTO)
    replay.agent.sessions.reverse()
    producer = replay.open_producer(session, "ra.lg")
    sent = replay.message()
    assert len(sent.body) == 25000
    replay.finish(producer.send(sent))
    consumer = replay.finish(session.destinations.open_queue_consumer("ra.lg"))
    got = replay.receive(session, consumer)
    assert got is not None
    assert got.message.body == sent.body
    replay.finish(consumer.close())
    producer.close()
    replay.finish(session.close())
    replay.finish(initial.close())
    replay.forgive(SessionAddMetadataV2("jms-session", "", False))
    # Here the last chunk left before the cut, too, and was sent again.
    replay.forgive(SessionSendContinuation(bytes(sent.body[2 * CHUNK :]), False, 25000, True, -7, 1))
    replay.end()


def test_a_body_that_is_not_read_is_dropped_and_paid_for_by_the_next_receive() -> None:
    replay = VectorReplay(
        "large-not-read", settings(consumer_window_size=5000, max_large_message_body_size=READ_IN_CHUNKS)
    )
    initial, session = replay.open(SessionMode.AUTO)
    producer = replay.open_producer(session, "lg.nr")
    for _ in range(2):
        replay.finish(producer.send(replay.message()))
    consumer = replay.finish(session.destinations.open_queue_consumer("lg.nr"))
    large = replay.receive(session, consumer)
    small = replay.receive(session, consumer)
    assert isinstance(large, LargeDelivery)
    assert not isinstance(small, LargeDelivery)
    assert isinstance(large.body.error, JMSException)
    replay.finish(consumer.close())
    producer.close()
    replay.close(session, initial)


def test_a_window_below_a_chunk() -> None:
    replay = VectorReplay(
        "large-consumer-window",
        settings(consumer_window_size=5000, max_large_message_body_size=READ_IN_CHUNKS),
        only=[1],
    )
    initial, session = replay.open(SessionMode.AUTO)
    producer = replay.open_producer(session, "lg.cw")
    for _ in range(2):
        replay.finish(producer.send(replay.message()))
    consumer = replay.finish(session.destinations.open_queue_consumer("lg.cw"))
    assert len(read(replay, replay.receive(session, consumer))) == 15000
    replay.finish(consumer.close())
    producer.close()
    replay.close(initial, session)


def test_window_0_pays_chunk_by_chunk() -> None:
    replay = VectorReplay(
        "large-consumer-window", settings(consumer_window_size=0, max_large_message_body_size=READ_IN_CHUNKS), only=[2]
    )
    initial, session = replay.open(SessionMode.AUTO)
    consumer = replay.finish(session.destinations.open_queue_consumer("lg.cw"))
    assert len(read(replay, replay.receive(session, consumer))) == 15000
    # The recorded client pays for the last chunk a moment later.
    assert replay.receive(session, consumer) is None
    assert replay.receive_nowait(session, consumer) is None
    replay.finish(initial.close())
    replay.finish(consumer.close())
    replay.close(session)
