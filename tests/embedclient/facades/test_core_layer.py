"""The core layer through every facade: addresses, queues and messages without JMS."""

from __future__ import annotations

import pytest

from embedclient import ClientMessage, RoutingType
from embedclient.errors import InvalidDestinationException, InvalidSelectorException
from embedclient.model import Properties
from tests.embedclient.facades.conftest import Client


async def test_a_message_goes_through_a_queue(client: Client, url: str) -> None:
    async with client.server_locator(url).create_session_factory() as factory, factory.create_session() as session:
        await session.create_queue("address", "queue")
        state = await session.query_queue("queue")
        assert (state.exists, state.address, state.durable) == (True, "address", True)
        assert (await session.query_address("address")).queue_names == ("queue",)
        properties = Properties()
        properties["n"] = 1
        message = session.create_message(b"body", durable=False, properties=properties)
        message.priority = 6
        await session.create_producer("address").send(message)
        await session.start()
        async with session.create_consumer("queue") as consumer:
            received = await consumer.receive(timeout=60)
            assert received is not None
            assert (received.body, received.priority, received.durable) == (b"body", 6, False)
            assert (received.properties["n"], received.delivery_count) == (1, 1)
            await received.acknowledge()
            assert await consumer.receive_nowait() is None
        await session.delete_queue("queue")
        assert not (await session.query_queue("queue")).exists


async def test_unacknowledged_messages_come_again(client: Client, url: str) -> None:
    async with client.server_locator(url).create_session_factory() as factory, factory.create_session() as session:
        await session.create_queue("q")
        await session.start()
        producer = session.create_producer()
        for body in (b"1", b"2", b"3"):
            await producer.send(ClientMessage(body), address="q")
        async with session.create_consumer("q") as consumer:
            assert await consumer.receive(timeout=60) is not None
            received = await consumer.receive(timeout=60)
            assert received is not None
            await received.acknowledge_individually()
        async with session.create_consumer("q") as consumer:
            bodies = []
            async for received in consumer:
                bodies.append(received.body)
                await received.acknowledge()
                if len(bodies) == 2:
                    await consumer.close()
        assert bodies == [b"1", b"3"]


async def test_a_transacted_core_session_commits_and_rolls_back(client: Client, url: str) -> None:
    async with (
        client.server_locator(url).create_session_factory() as factory,
        factory.create_session(auto_commit_sends=False, auto_commit_acks=False) as session,
    ):
        await session.create_address("t", [RoutingType.MULTICAST])
        await session.create_queue("t", "s", RoutingType.MULTICAST)
        producer = session.create_producer("t")
        await producer.send(session.create_message(b"dropped"))
        await session.rollback()
        await producer.send(session.create_message(b"kept"))
        await session.commit()
        await session.start()
        async with session.create_consumer("s") as consumer:
            received = await consumer.receive(timeout=60)
            assert received is not None and received.body == b"kept"
            assert await consumer.receive_nowait() is None


async def test_a_queue_that_does_not_exist_is_refused(client: Client, url: str) -> None:
    async with client.server_locator(url).create_session_factory() as factory, factory.create_session() as session:
        with pytest.raises(InvalidDestinationException):
            await session.create_consumer("missing")
        with pytest.raises(InvalidDestinationException, match="address"):
            await session.create_producer().send(session.create_message(b"x"))


async def test_a_filter_that_is_no_text_is_refused(client: Client, url: str) -> None:
    async with client.server_locator(url).create_session_factory() as factory, factory.create_session() as session:
        with pytest.raises(InvalidSelectorException, match=r"a selector is a str .*, not 5"):
            await session.create_queue("q", filter=5)  # type: ignore[arg-type]  # wrong on purpose
        await session.create_queue("q")
        with pytest.raises(InvalidSelectorException, match="not b'a = 1'"):
            await session.create_consumer("q", filter=b"a = 1")  # type: ignore[arg-type]  # wrong on purpose
