"""What only asyncio has: its cancellations, time-outs and task groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import trio

import embedclient
from embedbroker import EmbeddedBroker
from embedclient import DeliveryMode, Message
from embedclient.agent import Agent, BytesReceived, Input, Output
from embedclient.asyncio import ConnectionFactory
from embedclient.errors import ConnectionLostException, IllegalStateException
from embedclient.model import Instant


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario

    asyncio.run(bounded())


async def one_turn() -> None:
    """Every other task goes on until it waits, as at a checkpoint in trio. No time passes, and nothing is polled."""
    await asyncio.sleep(0)


def test_receives_that_time_out_at_any_moment_lose_no_message_and_repeat_none(url: str) -> None:
    async def main() -> None:
        count = 200
        received: list[object] = []
        async with ConnectionFactory(url).connect() as connection, asyncio.TaskGroup() as group:

            async def send() -> None:
                async with connection.session() as session:
                    producer = session.create_producer("q")
                    producer.delivery_mode = DeliveryMode.NON_PERSISTENT
                    for index in range(count):
                        await producer.send(str(index))
                        await one_turn()

            group.create_task(send())
            async with connection.session() as session, session.create_consumer("q") as consumer:
                while len(received) < count:
                    receiving = asyncio.create_task(consumer.receive())
                    # Cancelled after no turn to four: before it waits, while it does, and with a message on its way.
                    for _ in range(len(received) % 5):
                        await one_turn()
                    receiving.cancel()
                    try:
                        message: Message | None = await receiving
                    except asyncio.CancelledError:
                        await one_turn()
                        message = await consumer.receive(timeout=0.001)
                    if message is not None:
                        received.append(message.body)
        assert received == [str(index) for index in range(count)]

    run(main())


def test_a_cancelled_task_closes_its_connection_in_an_orderly_way(url: str) -> None:
    async def main() -> None:
        async def hold() -> None:
            async with ConnectionFactory(url, client_id="me").connect() as connection:
                session = await connection.session()
                await session.create_consumer("q")
                connected.set()
                await asyncio.Event().wait()

        connected = asyncio.Event()
        holding = asyncio.create_task(hold())
        await connected.wait()
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding
        async with ConnectionFactory(url, client_id="me").connect():
            pass
        current = asyncio.current_task()
        assert asyncio.all_tasks() - {current} == set()

    run(main())


def test_a_connection_in_an_exception_handler_ends_without_what_is_handled(url: str) -> None:
    async def main() -> None:
        done = False
        try:
            raise LookupError
        except LookupError:
            async with ConnectionFactory(url).connect():
                pass
            done = True
        assert done

    run(main())


def test_a_timeout_around_a_connection_is_a_timeout(url: str) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                async with (
                    ConnectionFactory(url).connect() as connection,
                    connection.session() as session,
                    session.create_consumer("q") as consumer,
                ):
                    await consumer.receive()

    run(main())


def test_a_defect_in_the_client_ends_the_scope_as_itself(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Agent.step

    def step(agent: Agent, event: Input, now: Instant) -> list[Output]:
        if isinstance(event, BytesReceived):
            raise AssertionError("a defect")
        return whole(agent, event, now)

    # Real seconds, in which no answer comes any more.
    monkeypatch.setattr("embedclient._client._locator.CLOSE_TIMEOUT_S", 0.01)

    async def main() -> None:
        async with ConnectionFactory(url).connect() as connection, connection.session() as session:
            producer = session.create_producer("q")
            monkeypatch.setattr(Agent, "step", step)
            await producer.send("x")

    with pytest.raises(AssertionError, match="a defect"):
        run(main())


def test_a_name_in_the_vm_is_refused_with_the_way_out() -> None:
    async def main() -> None:
        with pytest.raises(ConnectionLostException, match=r"broker\.url"):
            async with ConnectionFactory("vm://broker").connect():
                pass

    run(main())


def test_messages_larger_than_the_sockets_buffers_arrive(url: str) -> None:
    async def main() -> None:
        body = bytes(90_000)
        async with (
            ConnectionFactory(f"{url}?producerWindowSize=-1").connect() as connection,
            connection.session() as session,
            session.create_consumer("q") as consumer,
        ):
            producer = session.create_producer("q")
            producer.delivery_mode = DeliveryMode.NON_PERSISTENT
            for _ in range(100):
                await producer.send(body)
            for _ in range(100):
                message = await consumer.receive(timeout=60)
                assert message is not None and message.body == body

    run(main())


def test_socket_options_of_the_url_are_set_and_a_refusal_names_the_address(url: str) -> None:
    async def main() -> None:
        options = "tcpNoDelay=false&tcpSendBufferSize=65536&tcpReceiveBufferSize=65536"
        async with ConnectionFactory(f"{url}?{options}").connect() as connection, connection.session() as session:
            await session.create_producer("q").send("x")
        with pytest.raises(ConnectionLostException, match=r"127\.0\.0\.1"):
            async with ConnectionFactory("tcp://127.0.0.1:1").connect():
                pass

    run(main())


async def enter(opening: AbstractAsyncContextManager[object]) -> None:
    async with opening:
        pass


def test_the_client_of_another_loop_says_which_one_it_needs(url: str) -> None:
    with pytest.raises(IllegalStateException, match=r"needs trio: asyncio programs take embedclient\.asyncio"):
        asyncio.run(enter(embedclient.ConnectionFactory(url).connect()))
    with pytest.raises(IllegalStateException, match=r"needs asyncio: trio programs take embedclient$"):
        trio.run(enter, ConnectionFactory(url).connect())


def test_a_broker_in_an_asyncio_program_says_where_it_can_live() -> None:
    with pytest.raises(IllegalStateException, match=r"use 'with EmbeddedBroker\.in_thread\(\)'"):
        asyncio.run(enter(EmbeddedBroker()))


def deaf_listener() -> tuple[Callable[[object], Awaitable[None]], asyncio.Event]:
    """One that swallows its cancellation, and an event set when it is called."""
    begun = asyncio.Event()

    async def listen(_: object) -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            pass

    return listen, begun


def test_a_scope_ends_although_a_listener_of_its_connection_swallows_the_cancellation(broker: Any) -> None:
    async def main() -> None:
        listen, begun = deaf_listener()
        async with ConnectionFactory(broker.url).connect() as connection:
            connection.exception_listener = listen
            await asyncio.to_thread(broker.stop)
            await begun.wait()

    run(main())


def test_a_scope_ends_although_a_message_listener_swallows_the_cancellation(url: str) -> None:
    async def main() -> None:
        listen, begun = deaf_listener()
        async with ConnectionFactory(f"{url}?onMessageCloseTimeout=0").connect() as connection:
            for name in ("a", "b"):
                session = await connection.create_session()
                await session.create_producer(name).send("x")
                (await session.create_consumer(name)).set_message_listener(listen)
            await begun.wait()

    run(main())
