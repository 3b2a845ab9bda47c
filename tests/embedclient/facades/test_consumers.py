"""Receiving through every facade: waiting, iterating, listening, browsing, subscribing."""

from __future__ import annotations

from typing import Any

import pytest

from embedclient import Message, Queue, TemporaryQueue, Topic
from embedclient.errors import (
    ConnectionClosedException,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    MessageFormatException,
)
from tests.embedclient.facades.conftest import Client, connected


async def test_receive_gives_none_when_nothing_comes_in_time(client: Client, url: str) -> None:
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer("q") as consumer,
    ):
        assert await consumer.receive(timeout=0.01) is None
        assert await consumer.receive(timeout=0) is None
        assert await consumer.receive_nowait() is None


async def test_bodies_are_received_by_their_type(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer("q")
        bodies: list[Any] = ["text", b"bytes", {"a": 1}, [1, "two"]]
        for body in bodies:
            await producer.send(body)
        async with session.create_consumer("q") as consumer:
            for body in bodies[:2]:
                assert await consumer.receive_body(type(body), timeout=60) == body
            for body in bodies[2:]:
                assert await consumer.receive_body_nowait(type(body)) == body
            assert await consumer.receive_body(str, timeout=0.01) is None
            assert await consumer.receive_body_nowait(str) is None
        async with session.create_consumer("q") as consumer:  # they were acknowledged
            assert await consumer.receive_nowait() is None


@pytest.mark.parametrize("window", [-1, 0, 4096])
async def test_a_body_of_another_type_stays_for_the_next_receive(client: Client, url: str, window: int) -> None:
    async with (
        connected(client, f"{url}?consumerWindowSize={window}") as connection,
        connection.session() as session,
        session.create_consumer("q") as consumer,
    ):
        producer = session.create_producer("q")
        await producer.send("one")
        await producer.send("two")
        for _ in range(2):
            with pytest.raises(MessageFormatException, match="the body is str, not bytes"):
                await consumer.receive_body(bytes, timeout=60)
            with pytest.raises(MessageFormatException, match="the body is str, not dict"):
                await consumer.receive_body_nowait(dict)
        message = await consumer.receive(timeout=60)
        assert message is not None and (message.body, message.redelivered) == ("one", False)
        assert await consumer.receive_body(str, timeout=60) == "two"
        for number in range(100):  # no credit was paid back twice or lost
            await producer.send(f"{number}" * 100)
            assert await consumer.receive_body(str, timeout=60) == f"{number}" * 100


async def test_a_body_that_is_not_there_is_an_error_and_no_none(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        await session.create_producer("q").send(Message())
        consumer = await session.create_consumer("q")
        with pytest.raises(MessageFormatException, match="the message has no body"):
            await consumer.receive_body(str, timeout=60)
        assert isinstance(await consumer.receive(timeout=60), Message)


async def test_in_a_transaction_a_body_of_another_type_counts_as_received(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session(transacted=True) as session:
        producer = session.create_producer("q")
        await producer.send("one")
        await producer.send("two")
        await session.commit()
        consumer = await session.create_consumer("q")
        with pytest.raises(MessageFormatException):
            await consumer.receive_body(bytes, timeout=60)
        assert await consumer.receive_body(str, timeout=60) == "two"
        await session.rollback()
        assert [await consumer.receive_body(str, timeout=60) for _ in range(2)] == ["one", "two"]
        await session.commit()
        assert await consumer.receive_nowait() is None


async def test_a_waiting_receive_gets_what_comes_later(client: Client, url: str) -> None:
    async with connected(client, url) as connection:

        async def receive() -> None:
            async with connection.session() as session, session.create_consumer("q") as consumer:
                message = await consumer.receive()
                assert message.body == "later"

        async def send() -> None:
            async with connection.session() as session:
                await session.create_producer("q").send("later")

        await client.together(receive, send)


async def test_iteration_ends_when_the_consumer_closes(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer("q")
        for body in ("1", "2"):
            await producer.send(body)
        consumer = await session.create_consumer("q")
        seen = []
        async for message in consumer:
            seen.append(message.body)
            if len(seen) == 2:
                await consumer.close()
        assert seen == ["1", "2"]
        assert consumer.closed


async def test_a_closed_consumer_refuses_to_receive(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        consumer = await session.create_consumer("q")
        await consumer.close()
        await consumer.close()
        with pytest.raises(ConnectionClosedException):
            await consumer.receive()


async def test_closing_a_consumer_ends_its_waiting_receive(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        consumer = await session.create_consumer("q")
        other_is_waiting = client.event()

        async def receive() -> None:
            other_is_waiting.set()
            with pytest.raises(ConnectionClosedException, match="closed while it waited"):
                await consumer.receive()

        async def close() -> None:
            await other_is_waiting.wait()
            async with connection.session() as helper:  # a round trip gives the receive the time to begin
                await helper.create_producer("elsewhere").send("x")
            await consumer.close()

        await client.together(receive, close)


async def test_a_message_of_a_closed_consumer_goes_to_the_next(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session(transacted=True) as session:
        await session.create_producer("q").send("x")
        await session.commit()
        async with session.create_consumer("q") as consumer:
            assert await consumer.receive(timeout=60) is not None
        await session.rollback()
        async with session.create_consumer("q") as consumer:
            message = await consumer.receive(timeout=60)
            assert message is not None and message.redelivered


async def test_a_listener_hears_every_message_and_one_it_failed_on_again(
    client: Client, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[tuple[object, int]] = []
    done = client.event()

    def listen(message: Message) -> None:
        heard.append((message.body, message.delivery_count))
        if len(heard) == 1:
            raise ValueError("not this time")
        if len(heard) == 4:
            done.set()

    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer("q") as consumer,
    ):
        consumer.set_message_listener(listen)
        assert [consumer.message_listener] == [listen]
        with pytest.raises(IllegalStateException, match="message listener"):
            await consumer.receive()
        async with connection.session() as other:
            producer = other.create_producer("q")
            for body in ("1", "2", "3"):
                await producer.send(body)
        await done.wait()
        consumer.set_message_listener(None)
        assert [consumer.message_listener] == [None]
        assert await consumer.receive_nowait() is None
    assert heard == [("1", 1), ("1", 2), ("2", 1), ("3", 1)]
    assert "not this time" in caplog.text


async def test_a_browser_shows_the_queue_and_takes_nothing(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer("q")
        for body in ("1", "2", "3"):
            await producer.send(body)
        async with session.create_browser("q") as browser:
            for _ in range(2):  # each iteration is a fresh look
                assert [message.body async for message in browser] == ["1", "2", "3"]
            async for _ in browser:
                break  # in the middle of a look, after which a new iteration begins at the front again
            assert [message.body async for message in browser] == ["1", "2", "3"]
            assert [(await browser.next_message()).body for _ in range(2)] == ["1", "2"]  # type: ignore[union-attr]
            await browser.start_over()
            assert [(await browser.next_message()).body for _ in range(2)] == ["1", "2"]  # type: ignore[union-attr]
        consumer = await session.create_consumer("q")
        assert [(await consumer.receive(timeout=60)).body for _ in range(3)] == ["1", "2", "3"]  # type: ignore[union-attr]


async def test_selectors_choose(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer("q")
        await producer.send("low", priority=1)
        await producer.send("high", priority=8)
        async with session.create_consumer("q", "JMSPriority > 5") as consumer:
            assert consumer.selector == "JMSPriority > 5"
            message = await consumer.receive(timeout=60)
            assert message is not None and message.body == "high"
            assert await consumer.receive_nowait() is None


async def test_a_wrong_selector_is_refused_and_the_session_goes_on(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        with pytest.raises(InvalidSelectorException):
            await session.create_consumer("q", "a = ")
        await session.create_producer("q").send("x")


async def test_every_subscriber_of_a_topic_gets_every_message(client: Client, url: str) -> None:
    topic = Topic("t")
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer(topic) as one,
        session.create_consumer(topic) as other,
    ):
        await session.create_producer(topic).send("x")
        for consumer in (one, other):
            message = await consumer.receive(timeout=60)
            assert message is not None and message.body == "x"
            assert message.destination == topic


async def test_no_local_leaves_out_what_the_connection_sends_itself(client: Client, url: str) -> None:
    topic = Topic("t")
    async with (
        connected(client, url) as connection,
        connected(client, url) as other_connection,
        connection.session() as session,
        other_connection.session() as other,
        session.create_consumer(topic, no_local=True) as consumer,
    ):
        await session.create_producer(topic).send("mine")
        await other.create_producer(topic).send("theirs")
        message = await consumer.receive(timeout=60)
        assert message is not None and message.body == "theirs"
        assert await consumer.receive_nowait() is None


async def test_a_durable_subscription_keeps_messages_until_it_is_unsubscribed(client: Client, url: str) -> None:
    topic = Topic("t")
    async with connected(client, url, client_id="me") as connection, connection.session() as session:
        await (await session.create_durable_consumer(topic, "s")).close()
        await session.create_producer(topic).send("kept")
        async with session.create_durable_consumer(topic, "s") as consumer:
            message = await consumer.receive(timeout=60)
            assert message is not None and message.body == "kept"
        await session.unsubscribe("s")
        with pytest.raises(InvalidDestinationException):
            await session.unsubscribe("s")


@pytest.mark.parametrize("topic", ["queue://q", Queue("q"), "", "topic://", Topic("")])
async def test_only_topics_with_a_name_have_subscriptions(client: Client, url: str, topic: Any) -> None:
    async with connected(client, url, client_id="me") as connection, connection.session() as session:
        for subscribe in (
            session.create_durable_consumer,
            session.create_shared_consumer,
            session.create_shared_durable_consumer,
        ):
            with pytest.raises(InvalidDestinationException):
                await subscribe(topic, "s")


async def test_a_text_without_a_prefix_is_a_topic_where_only_topics_will_do(client: Client, url: str) -> None:
    async with connected(client, url, client_id="me") as connection, connection.session() as session:
        for topic in ("prices", "topic://prices"):
            async with session.create_durable_consumer(topic, "s") as consumer:
                assert consumer.destination == Topic("prices")


async def test_a_durable_subscription_needs_a_client_id(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        with pytest.raises(IllegalStateException, match="client id"):
            await session.create_durable_consumer(Topic("t"), "s")


@pytest.mark.parametrize("durable", [True, False])
async def test_a_shared_subscription_gives_each_message_to_one_consumer(
    client: Client, url: str, durable: bool
) -> None:
    topic = Topic("t")
    async with connected(client, url) as connection, connection.session() as session:
        subscribe = session.create_shared_durable_consumer if durable else session.create_shared_consumer
        async with subscribe(topic, "s") as one, subscribe(topic, "s") as other:
            producer = session.create_producer(topic)
            for body in ("1", "2"):
                await producer.send(body)
            got = [await consumer.receive(timeout=60) for consumer in (one, other)]
            assert sorted(str(message.body) for message in got if message is not None) == ["1", "2"]


async def test_temporary_destinations_live_as_long_as_the_connection(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        queue = await session.create_temporary_queue()
        topic = await session.create_temporary_topic()
        for destination in (queue, topic):
            async with session.create_consumer(destination) as consumer:
                await session.create_producer(destination).send("x")
                message = await consumer.receive(timeout=60)
                assert message is not None and message.destination == destination
        await session.delete_temporary(queue)
        await session.delete_temporary(topic)


async def test_a_temporary_destination_is_consumed_by_its_own_connection_only(client: Client, url: str) -> None:
    async with (
        connected(client, url) as owner,
        owner.session() as maker,
        owner.session() as mate,
        connected(client, url) as stranger,
        stranger.session() as session,
    ):
        queue, topic = await maker.create_temporary_queue(), await maker.create_temporary_topic()
        for destination in (queue, topic, str(queue)):
            with pytest.raises(InvalidDestinationException, match="no temporary destination of this connection"):
                async with session.create_consumer(destination):
                    pass
        with pytest.raises(InvalidDestinationException, match="no temporary destination of this connection"):
            async with session.create_shared_consumer(str(topic), "shared"):
                pass
        async with mate.create_consumer(queue) as consumer:
            await session.create_producer(queue).send("from a stranger")
            message = await consumer.receive(timeout=60)
            assert message is not None and message.body == "from a stranger"
        await mate.delete_temporary(queue)
        with pytest.raises(InvalidDestinationException):
            async with maker.create_consumer(queue):
                pass


async def test_a_reply_comes_back_through_a_temporary_queue(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        reply_to = await session.create_temporary_queue()
        from embedclient import TextMessage

        await session.create_producer("requests").send(TextMessage("ping", reply_to=reply_to))
        request = await (await session.create_consumer("requests")).receive(timeout=60)
        assert request is not None and isinstance(request.reply_to, TemporaryQueue)
        await session.create_producer().send("pong", destination=request.reply_to)
        reply = await (await session.create_consumer(reply_to)).receive(timeout=60)
        assert reply is not None and reply.body == "pong"


async def test_a_fully_qualified_name_reaches_its_queue(client: Client, url: str) -> None:
    async with (
        connected(client, url) as connection,
        connection.session() as session,
        session.create_consumer(Queue("address::queue")) as consumer,
    ):
        await session.create_producer(Queue("address::queue")).send("x")
        assert await consumer.receive(timeout=60) is not None


@pytest.mark.parametrize("name", ["", "q?max-consumer=1", "q?exclusive=perhaps"])
async def test_a_destination_that_means_nothing_is_refused(client: Client, url: str, name: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        with pytest.raises(InvalidDestinationException):
            await session.create_consumer(Queue(name))


async def test_two_tasks_cannot_use_one_session_at_once(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        consumer = await session.create_consumer("q")
        errors: list[JMSException] = []

        async def receive() -> None:
            try:
                await consumer.receive(timeout=60)
            except JMSException as error:
                errors.append(error)
            await consumer.close()

        await client.together(receive, receive)
        assert [type(error) for error in errors] == [IllegalStateException]
