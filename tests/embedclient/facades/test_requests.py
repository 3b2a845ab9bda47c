"""`Connection.send` and `request`: any number of tasks or threads at once, over a bounded pool of sessions."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from embedclient import TextMessage
from embedclient.errors import ConnectionClosedException, IllegalStateException

from .conftest import Client, connected, texts

MANY = 24


async def answer(connection: Any, count: int, *, by_correlation_id: bool = False) -> None:
    async with connection.session() as session, session.create_consumer("upper") as consumer:
        producer = session.create_producer()
        for _ in range(count):
            request = await consumer.receive(timeout=10)
            key = request.correlation_id if by_correlation_id else request.message_id
            await producer.send(TextMessage(request.body.upper(), correlation_id=key), destination=request.reply_to)


async def test_many_tasks_send_and_request_at_once(client: Client, url: str, broker: Any) -> None:
    replies: dict[str, object] = {}
    async with connected(client, url) as connection, connected(client, url) as other:

        async def ask(word: str) -> None:
            reply = await connection.request("upper", word, timeout=10)
            await reply.acknowledge()  # has no effect
            replies[word] = reply.body

        words = [f"word {number}" for number in range(MANY)]
        await client.together(partial(answer, other, MANY), *(partial(ask, word) for word in words))
        assert replies == {word: word.upper() for word in words}

        await client.together(*(partial(connection.send, "q", word) for word in words))
        async with other.session() as session, session.create_consumer("q") as consumer:
            assert sorted(map(str, await texts(consumer, MANY))) == sorted(words)


async def test_a_service_may_reply_with_the_correlation_id(client: Client, url: str) -> None:
    async with connected(client, url) as connection:
        replies: list[object] = []

        async def ask() -> None:
            message = TextMessage("a", correlation_id="mine")
            replies.append((await connection.request("upper", message, timeout=10)).body)

        await client.together(partial(answer, connection, 1, by_correlation_id=True), ask)
        assert replies == ["A"]


async def test_a_request_ends_in_time_and_with_its_connection(client: Client, url: str) -> None:
    async with connected(client, url) as connection:
        with pytest.raises(TimeoutError, match=r"no reply from upper within 0\.05 s"):
            await connection.request("upper", "a", timeout=0.05)
        with pytest.raises(TypeError, match="timeout must be a number"):
            await connection.request("upper", "a", timeout="soon")  # type: ignore[arg-type]
        # A late reply to the first request is dropped, and the next one is not.
        replies: list[object] = []

        async def ask() -> None:
            replies.append((await connection.request("upper", "b", timeout=10)).body)

        await client.together(partial(answer, connection, 2), ask)
        assert replies == ["B"]

        async def forsaken() -> None:
            with pytest.raises(ConnectionClosedException):
                await connection.request("upper", "c")

        async def close() -> None:
            async with connection.session() as session, session.create_consumer("upper") as consumer:
                await consumer.receive(timeout=10)
            await connection.close()

        await client.together(forsaken, close)
    with pytest.raises(ConnectionClosedException):
        await connection.send("q", "d")


async def test_a_session_of_two_tasks_names_what_may_be_shared(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connection.session() as session:
        consumer = await session.create_consumer("q")
        other = await session.create_consumer("r")

        async def wait() -> None:
            assert await consumer.receive(timeout=0.5) is None

        async def intrude() -> None:
            while True:
                try:
                    await other.receive(timeout=0.01)
                except IllegalStateException as error:
                    assert "create a session for each task, or use connection.send()" in str(error)
                    return

        await client.together(wait, intrude)
