"""Messages through every facade: kinds, headers, properties, and what a plain value becomes."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from embedclient import BytesMessage, DeliveryMode, MapMessage, Queue, StreamMessage, TextMessage, Topic
from embedclient.errors import ConnectionClosedException, JMSException, MessageFormatException
from tests.embedclient.facades.conftest import Client, connected


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("hello", TextMessage),
        (b"\x00\xff", BytesMessage),
        ({"a": 1, "b": "two"}, MapMessage),
        ([1, "two", 3.0], StreamMessage),
    ],
)
async def test_a_plain_value_becomes_a_message_and_comes_back(
    client: Client, url: str, value: Any, kind: type[object]
) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        await session.create_producer("q").send(value)
        async with session.create_consumer("q") as consumer:
            message = await consumer.receive(timeout=60)
            assert message is not None and message.body == value
            assert isinstance(message, kind)


async def test_what_cannot_be_sent_is_refused(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        with pytest.raises(MessageFormatException, match="object cannot be sent"):
            await session.create_producer("q").send(object())  # type: ignore[arg-type]


async def test_headers_and_properties_arrive(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer(Queue("q"))
        sent = TextMessage("x", properties={"n": 1, "s": "text"}, correlation_id="c", reply_to=Topic("t"), type="kind")
        await producer.send(sent, priority=7, delivery_mode=DeliveryMode.NON_PERSISTENT, time_to_live=60)
        received = await (await session.create_consumer("q")).receive(timeout=60)
        assert received is not None
        assert received.message_id == sent.message_id
        assert received.message_id is not None and received.message_id.startswith("ID:")
        assert received.destination == Queue("q")
        assert (received.priority, received.delivery_mode) == (7, DeliveryMode.NON_PERSISTENT)
        assert received.expiration == received.timestamp + 60_000
        assert (received.correlation_id, received.reply_to, received.type) == ("c", Topic("t"), "kind")
        assert (received.properties["n"], received.properties["s"]) == (1, "text")
        assert not received.redelivered


@pytest.mark.parametrize("mode", [0, 3, -1, True, "PERSISTENT", 1.5, 2.0])
async def test_what_is_no_delivery_mode_is_refused(client: Client, url: str, mode: Any) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer("q")
        with pytest.raises(JMSException, match="is no delivery mode; PERSISTENT is 2, NON_PERSISTENT 1") as refused:
            await producer.send("x", delivery_mode=mode)
        assert str(refused.value).startswith(repr(mode))
        producer.delivery_mode = mode
        with pytest.raises(JMSException, match="is no delivery mode"):
            await producer.send("x")
        await producer.send("y", delivery_mode=DeliveryMode.NON_PERSISTENT)
        assert (await (await session.create_consumer("q")).receive(timeout=60)).body == "y"  # type: ignore[union-attr]


async def test_a_producer_can_leave_id_and_timestamp_out(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer("q")
        producer.disable_message_id = producer.disable_message_timestamp = True
        await producer.send("x")
        received = await (await session.create_consumer("q")).receive(timeout=60)
        assert received is not None
        assert (received.message_id, received.timestamp) == (None, 0)


async def test_higher_priorities_come_first(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer("q")
        for priority in (1, 9, 4):
            await producer.send(str(priority), priority=priority)
        consumer = await session.create_consumer("q")
        assert [(await consumer.receive(timeout=60)).body for _ in range(3)] == ["9", "4", "1"]  # type: ignore[union-attr]


async def test_a_producer_without_destination_takes_one_per_send(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer()
        await producer.send("one", destination="a")
        await producer.send("two", destination=Queue("b"))
        for name, body in (("a", "one"), ("b", "two")):
            received = await (await session.create_consumer(name)).receive(timeout=60)
            assert received is not None and received.body == body


async def test_receipts_end_when_the_broker_has_the_message(client: Client, url: str) -> None:
    async with (
        connected(client, f"{url}?confirmationWindowSize=1048576") as connection,
        connection.session() as session,
    ):
        producer = session.create_producer("q")
        receipts = [producer.send_nowait(str(index)) for index in range(50)]
        for receipt in receipts:
            await receipt
            assert receipt.done
        consumer = await session.create_consumer("q")
        assert [(await consumer.receive(timeout=60)).body for _ in range(50)] == [str(index) for index in range(50)]  # type: ignore[union-attr]


async def test_a_closed_producer_refuses_to_send(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer("q")
        await producer.close()
        await producer.close()
        assert producer.closed
        with pytest.raises(ConnectionClosedException):
            await producer.send("x")


async def test_thousands_of_messages_keep_their_order(client: Client, url: str) -> None:
    count = 2_000
    async with connected(client, url) as connection:

        async def send() -> None:
            async with connection.session() as session:
                producer = session.create_producer("q")
                producer.delivery_mode = DeliveryMode.NON_PERSISTENT
                for index in range(count):
                    await producer.send(str(index))

        async def receive() -> None:
            async with connection.session() as session, session.create_consumer("q") as consumer:
                for index in range(count):
                    message = await consumer.receive(timeout=60)
                    assert message is not None and message.body == str(index)

        await client.together(send, receive)


async def test_a_time_that_is_none_is_refused(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer("q")
        for seconds in (-1, math.nan, math.inf, 1e300, "5", True):
            with pytest.raises(JMSException, match=re.escape(f"{seconds!r} is no lifetime or delay")):
                await producer.send("x", time_to_live=seconds)  # type: ignore[arg-type]  # wrong on purpose
        producer.delivery_delay = -0.5
        with pytest.raises(JMSException, match=r"-0\.5 is no lifetime or delay"):
            producer.send_nowait("x")
        async with session.create_browser("q") as browser:
            assert await browser.next_message() is None


async def test_the_shortest_lifetime_is_a_millisecond(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        for seconds in (1e-9, 0.0005, 0.001):
            message = TextMessage("x")
            await session.create_producer("q").send(message, time_to_live=seconds)
            assert message.expiration - message.timestamp == 1


async def test_a_lifetime_begins_with_the_send_and_not_with_a_delivery_that_is_delayed(
    client: Client, url: str
) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        message = TextMessage("x")
        await session.create_producer("q").send(message, time_to_live=60, delivery_delay=5)
        assert message.expiration - message.timestamp == 60_000
        assert message.delivery_time - message.timestamp == 5_000


async def test_a_priority_that_is_none_is_refused(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer("q")
        for priority in (-1, 10, 4.5, "4", True):
            with pytest.raises(JMSException, match=f"{priority!r} is no priority"):
                await producer.send("x", priority=priority)  # type: ignore[arg-type]  # wrong on purpose
