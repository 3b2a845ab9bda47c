"""What is sent to a temporary destination that is gone creates nothing, and its sender gets an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from embedclient import Queue, TemporaryQueue, TemporaryTopic, TextMessage
from embedclient.errors import ErrorCode, InvalidDestinationException, TransactionRolledBackException
from tests.embedclient.facades.conftest import Client, connected

Creator = Callable[[Any], Any]

KINDS: dict[str, Creator] = {
    "queue": lambda session: session.create_temporary_queue(),
    "topic": lambda session: session.create_temporary_topic(),
}


@pytest.fixture(params=list(KINDS))
def create(request: pytest.FixtureRequest) -> Creator:
    return KINDS[request.param]


async def names_left(client: Client, url: str, name: str) -> bool:
    """Whether the broker has an address or a queue of this name, as another connection sees it."""
    async with client.server_locator(url).create_session_factory() as factory, factory.create_session() as core:
        address, queue = await core.query_address(name), await core.query_queue(name)
        return bool(address.exists or queue.exists)


async def requester_that_left(client: Client, url: str, create: Creator) -> tuple[Any, str]:
    """The destination that a closed connection made, and its text."""
    async with connected(client, url) as connection, connection.session() as session:
        destination = await create(session)
        await session.create_producer("requests").send(TextMessage("ping", reply_to=destination))
    return destination, str(destination)


async def test_a_late_reply_creates_nothing(client: Client, url: str, create: Creator) -> None:
    _destination, text = await requester_that_left(client, url, create)
    async with connected(client, url) as connection, connection.session() as session:
        request = await (await session.create_consumer("requests")).receive(timeout=60)
        assert request is not None and isinstance(request.reply_to, TemporaryQueue | TemporaryTopic)
        for reply_to in (request.reply_to, str(request.reply_to), text):
            with pytest.raises(InvalidDestinationException, match="temporary destination") as refused:
                await session.create_producer().send("pong", destination=reply_to)
            assert refused.value.error_code == ErrorCode.QUEUE_DOES_NOT_EXIST
            with pytest.raises(InvalidDestinationException, match="temporary destination"):
                await session.create_producer(reply_to).send("pong")
    assert not await names_left(client, url, request.reply_to.name)


async def test_a_producer_from_before_the_deletion_creates_nothing(client: Client, url: str, create: Creator) -> None:
    async with (
        connected(client, url) as owner,
        owner.session() as maker,
        connected(client, url) as connection,
        connection.session() as session,
    ):
        destination = await create(maker)
        fixed, free = session.create_producer(destination), session.create_producer()
        await fixed.send("1")
        await free.send("2", destination=destination)
        await maker.delete_temporary(destination)
        for _ in range(2):
            with pytest.raises(InvalidDestinationException, match="temporary destination"):
                await fixed.send("3")
            with pytest.raises(InvalidDestinationException, match="temporary destination"):
                await free.send("4", destination=destination)
        fixed.send_nowait("5")
        assert not await names_left(client, url, destination.name)


async def test_a_commit_with_a_late_reply_fails_and_the_next_send_says_why(
    client: Client, url: str, create: Creator
) -> None:
    async with (
        connected(client, url) as owner,
        owner.session() as maker,
        connected(client, url) as connection,
        connection.session(transacted=True) as session,
    ):
        destination = await create(maker)
        producer = session.create_producer(destination)
        await producer.send("1")
        await session.commit()
        await maker.delete_temporary(destination)
        await producer.send("2")
        with pytest.raises(TransactionRolledBackException, match="temporary destination"):
            await session.commit()
        with pytest.raises(InvalidDestinationException, match="temporary destination"):
            await producer.send("3")
        assert not await names_left(client, url, destination.name)


async def test_a_broker_that_never_saw_it_creates_nothing(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        producer = session.create_producer()
        for text in ("temp-queue://unheard-of", "temp-topic://unheard-of"):
            with pytest.raises(InvalidDestinationException, match="temporary destination"):
                await producer.send("x", destination=text)
            producer.send_nowait("x", destination=text)
        await session.create_producer("q").send("behind them")
    assert not await names_left(client, url, "unheard-of")


async def test_a_reply_that_is_passed_on_leaves_its_mark_behind(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        replies = await session.create_temporary_queue()
        consumer = await session.create_consumer(replies)
        sent = TextMessage("pong", properties={"n": 1})
        await session.create_producer(replies).send(sent)
        reply = await consumer.receive(timeout=60)
        assert reply is not None and "_AMQ_TEMPORARY" not in set(reply.properties) | set(sent.properties)
        archive = await session.create_consumer(Queue("archive"))
        for message in (reply, sent):
            await session.create_producer("archive").send(message)
            passed = await archive.receive(timeout=60)
            assert passed is not None and "_AMQ_TEMPORARY" not in passed.stored()
