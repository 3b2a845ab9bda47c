"""A connection that many tasks share, while its broker fails over: requests, sends and work go on."""

from __future__ import annotations

import trio

from embedbroker.pytest_plugin import BrokerClock, BrokerPair
from embedclient import Connection, ConnectionFactory, JMSException, TextMessage

CLIENTS, EACH, JOBS = 20, 5, 40


async def serve(connection: Connection) -> None:
    async with connection.consume("upper") as requests:
        async for request in requests:
            async with request.processing():
                reply = TextMessage(request.body.upper(), correlation_id=request.message_id)
                assert request.reply_to is not None
                await connection.send(request.reply_to, reply)


async def request_until_answered(connection: Connection, word: str) -> object:
    while True:
        try:
            return (await connection.request("upper", word, timeout=20)).body
        except (JMSException, TimeoutError):  # lost with the broker, as its request or its reply
            continue


async def test_requests_of_many_tasks_are_answered_over_a_failover(broker_pair: BrokerPair) -> None:
    replies: dict[str, object] = {}
    in_the_middle = trio.Event()

    async def client(connection: Connection, number: int) -> None:
        for part in range(EACH):
            word = f"a{number}.{part}"
            replies[word] = await request_until_answered(connection, word)
            if len(replies) == CLIENTS * EACH // 4:
                in_the_middle.set()

    async with (
        ConnectionFactory(broker_pair.url).connect() as server,
        ConnectionFactory(broker_pair.url).connect() as shared,
        trio.open_nursery() as service,
    ):
        service.start_soon(serve, server)
        async with trio.open_nursery() as clients:
            for number in range(CLIENTS):
                clients.start_soon(client, shared, number)
            await in_the_middle.wait()
            await broker_pair.live.crash()
            assert len(replies) < CLIENTS * EACH
            await broker_pair.wait_live()
        service.cancel_scope.cancel()
    assert replies == {word: word.upper() for word in replies} and len(replies) == CLIENTS * EACH


async def test_a_worker_goes_on_over_a_failover_and_leaves_no_dead_letter(
    broker_pair: BrokerPair, broker_clock: BrokerClock
) -> None:
    done: list[object] = []
    in_the_middle = trio.Event()

    async def work(connection: Connection) -> None:
        async with connection.consume("jobs") as jobs:
            async for job in jobs:
                async with job.processing():
                    await broker_clock.advance(0.01)
                    done.append(job.body)
                    if len(done) == JOBS // 4:
                        in_the_middle.set()

    async with ConnectionFactory(broker_pair.url).connect() as connection, trio.open_nursery() as workers:
        for number in range(JOBS):
            await connection.send("jobs", str(number))
        for _ in range(2):
            workers.start_soon(work, connection)
        await in_the_middle.wait()
        await broker_pair.failover()
        assert len(set(done)) < JOBS
        await broker_pair.wait_for(queue="jobs", count=0, timeout=600)
        workers.cancel_scope.cancel()
    assert set(done) == {str(number) for number in range(JOBS)}
    # Those in work at the failover may come again.
    assert len(done) <= JOBS + 4
    await broker_pair.assert_empty("DLQ")
