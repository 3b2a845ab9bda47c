"""What the broker's queues do beyond handing messages out in turn, as each facade of the client meets it."""

from __future__ import annotations

import pytest

from embedclient import Queue, Topic
from embedclient.errors import ErrorCode, JMSException
from tests.embedclient.facades.conftest import Client, connected, texts

SOON = 0.05


async def test_an_exclusive_queue_serves_one_consumer_and_then_the_next(client: Client, url: str) -> None:
    queue = Queue("q?exclusive=true")
    async with connected(client, url) as connection, connection.session() as session, connection.session() as other:
        producer = session.create_producer(queue)
        await producer.send("0")
        async with session.create_consumer(queue) as first, other.create_consumer(queue) as second:
            assert await texts(first, 1) == ["0"]
            for text in "123":
                await producer.send(text)
            assert await texts(first, 3) == ["1", "2", "3"]
            assert await second.receive_nowait() is None
            await first.close()
            await producer.send("4")
            assert await texts(second, 1) == ["4"]


async def test_a_queue_has_no_more_consumers_than_it_may(client: Client, url: str) -> None:
    queue = Queue("q?max-consumers=1")
    async with connected(client, url) as connection, connection.session() as session, connection.session() as other:
        await session.create_producer(queue).send("a")
        async with session.create_consumer(queue) as only:
            with pytest.raises(JMSException) as refused:
                async with other.create_consumer(queue):
                    pass
            assert refused.value.error_code == ErrorCode.MAX_CONSUMER_LIMIT_EXCEEDED
            assert await texts(only, 1) == ["a"]


async def test_a_consumer_of_higher_priority_is_served_first(client: Client, url: str) -> None:
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        connection.session() as other,
        session.create_consumer(Queue("q?consumer-priority=1")) as low,
        other.create_consumer(Queue("q?consumer-priority=5")) as high,
    ):
        producer = session.create_producer("q")
        for text in "012":
            await producer.send(text)
        assert await texts(high, 3) == ["0", "1", "2"]
        assert await low.receive_nowait() is None


async def test_a_queue_and_a_topic_of_one_name_are_two_things(client: Client, url: str) -> None:
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer(Queue("both")) as one,
        session.create_consumer(Topic("both")) as all_,
        session.create_consumer(Topic("both")) as more,
    ):
        await session.create_producer(Queue("both")).send("to one")
        await session.create_producer(Topic("both")).send("to all")
        assert await texts(one, 1) == ["to one"]
        assert await texts(all_, 1) == ["to all"]
        assert await texts(more, 1) == ["to all"]


async def test_the_queues_of_one_address_take_turns(client: Client, url: str) -> None:
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer(Queue("a")) as own,
        session.create_consumer(Queue("a::a.left")) as left,
        session.create_consumer(Queue("a::a.right")) as right,
    ):
        await session.create_producer(Queue("a::a.left")).send("left")
        assert await texts(left, 1) == ["left"]
        producer = session.create_producer("a")
        for text in "123":
            await producer.send(text)
        found = [*await texts(own, 1), *await texts(left, 1), *await texts(right, 1)]
        assert sorted(found, key=str) == ["1", "2", "3"]


async def test_a_message_that_fails_too_often_is_a_dead_letter(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session(transacted=True) as session:
        await session.create_producer("q").send("poison")
        await session.commit()
        async with session.create_consumer("q") as consumer:
            for attempt in range(1, 11):
                message = await consumer.receive(timeout=60)
                assert message is not None
                assert (message.delivery_count, message.redelivered) == (attempt, attempt > 1)
                await session.rollback()
            assert await consumer.receive_nowait() is None
        async with session.create_consumer("DLQ") as consumer:
            message = await consumer.receive(timeout=60)
            assert message is not None and message.body == "poison"
            assert message.properties["_AMQ_ORIG_ADDRESS"] == "q"
            await session.commit()


async def test_a_message_that_expired_is_moved_and_not_shown(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer("q")
        await producer.send("milk", time_to_live=0.001)
        async with session.create_consumer("nothing comes here") as clock:
            assert await clock.receive(timeout=SOON) is None
        await producer.send("honey")
        async with session.create_consumer("q") as consumer, session.create_consumer("ExpiryQueue") as expired:
            assert await texts(consumer, 1) == ["honey"]
            message = await expired.receive(timeout=60)
            assert message is not None and message.body == "milk"
            assert message.properties["_AMQ_ORIG_QUEUE"] == "q"


async def test_what_the_broker_does_not_do_yet_is_refused_in_words(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        with pytest.raises(JMSException, match=r"last-value.* not supported by this broker yet") as refused:
            await session.create_producer(Queue("q?last-value=true")).send("x")
        assert refused.value.error_code == ErrorCode.NOT_IMPLEMTNED_EXCEPTION
        await session.create_producer("after").send("after")
        async with session.create_consumer("after") as consumer:
            assert await texts(consumer, 1) == ["after"]


async def test_a_message_with_a_delay_comes_later_and_has_its_time(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer("q")
        producer.delivery_delay = 0.3
        await producer.send("later")
        await producer.send("now", delivery_delay=0)
        async with session.create_consumer("q") as consumer:
            assert await texts(consumer, 1) == ["now"]
            message = await consumer.receive(timeout=60)
            assert message is not None
            assert (message.body, message.delivery_time) == ("later", message.timestamp + 300)
