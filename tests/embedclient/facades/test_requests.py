"""`Connection.send` and `request`: any number of tasks or threads at once, over a bounded pool of sessions."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from embedbroker import AddressSettings
from embedbroker.config import AddressFullPolicy
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
        listed: list[str] = []
        await client.aside(lambda: listed.append(broker.management.invoke("broker", "listSessions", "", 1, 100)))
        # Eight for sends, one for replies, and one that each of both connections logs in with.
        (sessions,) = [json.loads(each)["data"] for each in listed]
        assert 3 < len(sessions) <= 8 + 1 + 2, sessions
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
        replies: list[object] = []

        async def ask() -> None:
            replies.append((await connection.request("upper", "b", timeout=10)).body)

        # Afterwards all is there that a request needs, so that the next one leaves within its time.
        await client.together(partial(answer, connection, 1), ask)
        with pytest.raises(TimeoutError, match=r"no reply from upper within 0\.25 s"):
            await connection.request("upper", "a", timeout=0.25)
        with pytest.raises(TypeError, match="timeout must be a number"):
            await connection.request("upper", "a", timeout="soon")  # type: ignore[arg-type]
        # A late reply to that request is dropped, and the next one is not.
        await client.together(partial(answer, connection, 2), ask)
        assert replies == ["B", "B"]

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
        errors: list[str] = []

        async def use(name: str) -> None:
            consumer = consumers[name]
            while not errors:
                try:
                    await consumer.receive(timeout=0.01)
                except IllegalStateException as error:
                    errors.append(str(error))

        consumers = {name: await session.create_consumer(name) for name in ("q", "r")}
        await client.together(partial(use, "q"), partial(use, "r"))
        assert "create a session for each task, or use connection.send()" in errors[0]


async def test_the_time_of_a_request_includes_the_send(client: Client) -> None:
    full = {"full": AddressSettings(max_size_bytes=1_000, address_full_policy=AddressFullPolicy.BLOCK)}
    async with client.broker(address_settings=full) as broker:
        async with connected(client, broker.url) as connection:
            # The last ones find no session: eight sends wait for room at most.
            for _ in range(11):
                with pytest.raises(TimeoutError, match="no reply from full"):
                    await connection.request("full", "x" * 100_000, timeout=0.01)
            with pytest.raises(TimeoutError, match="no reply from q"):
                await connection.request("q", "a", timeout=0.01)
        async with connected(client, f"{broker.url}?reconnectAttempts=-1") as connection:
            await connection.send("q", "a")
            await broker.crash()
            for _ in range(2):
                with pytest.raises(TimeoutError, match="no reply from q"):
                    await connection.request("q", "a", timeout=0.01)


async def test_after_the_loss_of_its_queue_a_request_opens_another_one(client: Client) -> None:
    async with (
        client.broker() as broker,
        connected(client, broker.url) as connection,
        connected(client, broker.url) as other,
    ):

        async def lose_queue() -> None:
            async with other.session() as session, session.create_consumer("upper") as consumer:
                request: Any = await consumer.receive(timeout=10)
                await broker.management.delete_queue(request.reply_to.address, closes_consumers=True)

        async def forsaken() -> None:
            with pytest.raises(ConnectionClosedException, match="the broker closed the consumer"):
                await connection.request("upper", "a", timeout=10)

        await client.together(lose_queue, forsaken)
        replies: list[object] = []

        async def ask(word: str) -> None:
            replies.append((await connection.request("upper", word, timeout=10)).body)

        await client.together(partial(answer, other, 2), partial(ask, "b"), partial(ask, "c"))
        assert sorted(map(str, replies)) == ["B", "C"]


async def test_requests_with_one_correlation_id_do_not_take_replies_from_each_other(client: Client, url: str) -> None:
    async with connected(client, url) as connection, connected(client, url) as other:
        received: list[Any] = []
        replies: list[object] = []

        async def ask() -> None:
            timeout_s = 0.01
            while not received:  # on a slow machine the time may be over before the request is sent
                timeout_s *= 2
                with pytest.raises(TimeoutError):
                    await connection.request("q", TextMessage("late", correlation_id="id"), timeout=timeout_s)
            message = TextMessage("next", correlation_id="id")
            replies.append((await connection.request("q", message, timeout=10)).body)

        async def serve() -> None:
            async with other.session() as session, session.create_consumer("q") as consumer:
                while not received or received[-1].body != "next":
                    received.append(await consumer.receive(timeout=10))
                with pytest.raises(IllegalStateException, match="the correlation id 'id' waits for its reply"):
                    await connection.request("q", TextMessage("refused", correlation_id="id"), timeout=10)
                for request in received:
                    reply = TextMessage(f"reply to {request.body}", correlation_id=request.correlation_id)
                    await other.send(request.reply_to, reply)

        await client.together(ask, serve)
        assert replies == ["reply to next"]
