"""Requests of many tasks on one connection, beside one session that has as many requests under way.

A broker in memory and the service are in another process, so that the program has its processor for itself. A session
for each request is the way of programs that do not use `Connection.request`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median

import trio

from benchmarks.broker_cases import Effort
from benchmarks.report import Row
from embedbroker import EmbeddedBroker
from embedclient import Connection, ConnectionFactory, DeliveryMode, Queue, TextMessage
from tests.interop.programs import Program

#: Requests that are under way at once.
AT_ONCE = 20
SERVICE = Queue("upper")
Exchange = Callable[[Connection, int], Awaitable[None]]


async def serve() -> None:
    """Answer requests until the process is ended."""
    async with (
        EmbeddedBroker() as broker,
        ConnectionFactory(broker.vm_url).connect() as connection,
        connection.session() as session,
        session.create_consumer(SERVICE) as requests,
    ):
        print("serving", broker.url, flush=True)
        replies = session.create_producer()
        async for request in requests:
            reply = TextMessage(request.body.upper(), correlation_id=request.message_id)
            await replies.send(reply, destination=request.reply_to, delivery_mode=DeliveryMode.NON_PERSISTENT)


async def by_many_tasks(connection: Connection, count: int) -> None:
    """Send requests from `AT_ONCE` tasks."""

    async def client() -> None:
        for _ in range(count // AT_ONCE):
            reply = await connection.request(SERVICE, "word", timeout=60)
            assert reply.body == "WORD"

    async with trio.open_nursery() as clients:
        for _ in range(AT_ONCE):
            clients.start_soon(client)


async def by_one_session(connection: Connection, count: int) -> None:
    """Send `AT_ONCE` requests, receive their replies, and so on, in one task."""
    async with connection.session() as session:
        producer = session.create_producer(SERVICE)
        replies_to = await session.create_temporary_queue()
        async with session.create_consumer(replies_to) as replies:
            for _ in range(count // AT_ONCE):
                for _ in range(AT_ONCE):
                    await producer.send(TextMessage("word", reply_to=replies_to))
                for _ in range(AT_ONCE):
                    assert (await replies.receive()).body == "WORD"


async def by_a_session_each(connection: Connection, count: int) -> None:
    """Open a session, a temporary queue and a consumer for each request."""
    for _ in range(count):
        async with connection.session() as session:
            replies_to = await session.create_temporary_queue()
            async with session.create_consumer(replies_to) as replies:
                await session.create_producer(SERVICE).send(TextMessage("word", reply_to=replies_to))
                assert (await replies.receive()).body == "WORD"
            await session.delete_temporary(replies_to)


WAYS: dict[str, tuple[Exchange, float]] = {
    "many tasks": (by_many_tasks, 1.0),
    "one session": (by_one_session, 1.0),
    "a session each": (by_a_session_each, 0.1),
}


async def _seconds_per_request(url: str, exchange: Exchange, count: int) -> float:
    async with ConnectionFactory(url).connect() as connection:
        await exchange(connection, AT_ONCE)  # opens what it keeps
        begun = time.perf_counter()
        await exchange(connection, count)
        return (time.perf_counter() - begun) / count


def requests(effort: Effort) -> list[Row]:
    """Requests and replies: 20 tasks on one connection, beside one session with 20 requests under way."""
    count, turns = (4_000, 5) if effort.rounds > 1 else (400, 1)
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    with Program([sys.executable, "-m", "benchmarks.request_cases"]) as service:
        url = service.wait_for(r"^serving (\S+)", seconds_max=60)[1]
        for _ in range(turns):
            for way, (exchange, share) in WAYS.items():
                found[way].append(trio.run(_seconds_per_request, url, exchange, int(count * share)))
    return rows_of(found)


def rows_of(found: dict[str, list[float]]) -> list[Row]:
    """Return the rows, of seconds per request for each way."""
    each = {way: median(times) for way, times in found.items()}
    details: dict[str, object] = dict(found)
    what = f"{AT_ONCE} tasks on one connection"
    return [
        Row(
            "requests", what, "requests/s", 1 / each["many tasks"], 1 / each["one session"], "higher", 0.8, 1.0, details
        ),
        Row("requests", f"one request, {what}", "ms", each["many tasks"] * 1e3, None, "lower", 1.5, 1.0),
        Row("requests", "one request, a session each", "ms", each["a session each"] * 1e3, None, "lower"),
    ]


if __name__ == "__main__":
    trio.run(serve)
