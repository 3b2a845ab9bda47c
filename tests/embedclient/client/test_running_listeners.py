"""What waits for a listener that is running, and what its failures may not take along."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from embedbroker import EmbeddedBroker
from embedbroker.runtime._embedded import life_of
from embedclient import Connection, ConnectionFactory, Message, MessageConsumer, Session
from embedclient.errors import IllegalStateException
from tests.embedclient.client.conftest import connected_in_vm, relayed_broker

Ending = Callable[[Connection, Session, MessageConsumer], Awaitable[None]]
ENDINGS: dict[str, Ending] = {
    "consumer.close": lambda _connection, _session, consumer: consumer.close(),
    "session.close": lambda _connection, session, _consumer: session.close(),
    "connection.stop": lambda connection, _session, _consumer: connection.stop(),
    "connection.close": lambda connection, _session, _consumer: connection.close(),
}


@asynccontextmanager
async def with_a_running_listener(
    connection: Connection, may_end: trio.Event
) -> AsyncIterator[tuple[Session, MessageConsumer, trio.Event]]:
    begun, ended = trio.Event(), trio.Event()

    async def listen(_: Message) -> None:
        begun.set()
        await may_end.wait()
        ended.set()

    async with connection.session() as session, connection.session() as other:
        consumer = await session.create_consumer("q")
        consumer.set_message_listener(listen)
        await other.create_producer("q").send("x")
        await begun.wait()
        yield session, consumer, ended


@pytest.mark.parametrize("ending", ENDINGS)
async def test_what_ends_deliveries_waits_for_the_listener_and_its_acknowledgement(
    ending: str, autojump_clock: trio.testing.MockClock
) -> None:
    may_end = trio.Event()
    async with connected_in_vm() as connection, trio.open_nursery() as nursery:
        async with with_a_running_listener(connection, may_end) as (session, consumer, ended):

            async def let_it_end() -> None:
                await trio.testing.wait_all_tasks_blocked()
                may_end.set()

            nursery.start_soon(let_it_end)
            await ENDINGS[ending](connection, session, consumer)
            assert ended.is_set()
        if ending != "connection.close":
            await connection.start()
            async with connection.session() as after, after.create_consumer("q") as again:
                assert await again.receive_nowait() is None


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("timeout_ms", [-1, 0, 2_000])
async def test_nobody_waits_longer_than_the_settings_say(
    ending: str, timeout_ms: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with (
        connected_in_vm(f"?onMessageCloseTimeout={timeout_ms}") as connection,
        with_a_running_listener(connection, trio.Event()) as (session, consumer, ended),
    ):
        started = trio.current_time()
        await ENDINGS[ending](connection, session, consumer)
        assert trio.current_time() - started == pytest.approx(max(0, timeout_ms) / 1000, abs=0.5)
        assert not ended.is_set()


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_listener_does_not_wait_for_itself(ending: str, autojump_clock: trio.testing.MockClock) -> None:
    done = trio.Event()
    async with connected_in_vm() as connection, connection.session() as session, connection.session() as other:
        consumer = await session.create_consumer("q")

        async def listen(_: Message) -> None:
            started = trio.current_time()
            await ENDINGS[ending](connection, session, consumer)
            assert trio.current_time() - started < 1
            done.set()

        consumer.set_message_listener(listen)
        await other.create_producer("q").send("x")
        await done.wait()


async def test_two_tasks_may_close_a_session_whose_listener_is_running(autojump_clock: trio.testing.MockClock) -> None:
    may_end = trio.Event()
    async with (
        connected_in_vm() as connection,
        with_a_running_listener(connection, may_end) as (session, _, ended),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(session.close)
        nursery.start_soon(session.close)
        nursery.start_soon(connection.stop)
        await trio.testing.wait_all_tasks_blocked()
        may_end.set()
        await ended.wait()


async def test_a_listener_that_fails_while_it_is_cancelled_leaves_the_connection_alone(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    begun = trio.Event()

    async def fail_at_the_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while cleaning up")

    async def listen(_: Message) -> None:
        begun.set()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_at_the_end)
            nursery.start_soon(trio.sleep_forever)

    async with connected_in_vm("?onMessageCloseTimeout=0") as connection, connection.session() as other:
        async with connection.session() as session:
            (await session.create_consumer("q")).set_message_listener(listen)
            await other.create_producer("q").send("x")
            await begun.wait()
        await other.create_producer("r").send("the connection lives")
    assert "while cleaning up" in caplog.text


async def test_a_consumer_that_receives_gets_no_listener() -> None:
    async with connected_in_vm() as connection, connection.session() as session, connection.session() as other:
        consumer = await session.create_consumer("q")
        async with trio.open_nursery() as nursery:

            async def receive() -> None:
                message = await consumer.receive()
                assert message.body == "x"

            nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(IllegalStateException, match="receiving"):
                consumer.set_message_listener(lambda _: None)
            await other.create_producer("q").send("x")
        consumer.set_message_listener(lambda _: None)


async def test_a_connection_stops_all_sessions_although_one_is_closed_meanwhile() -> None:
    async with relayed_broker() as relay, ConnectionFactory(relay.url).connect() as connection:
        first, second, third = [await connection.create_session() for _ in range(3)]
        await first.create_producer("q").send("x")
        consumer = await third.create_consumer("q")
        relay.hold("down")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.stop)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(second.close)
            await trio.testing.wait_all_tasks_blocked()
            relay.release()
        assert await consumer.receive_nowait() is None
        await connection.start()
        assert await consumer.receive(timeout=5) is not None


async def test_a_session_nobody_waits_for_any_more_is_closed_again() -> None:
    async with EmbeddedBroker() as broker, ConnectionFactory(broker.vm_url).connect() as connection:
        sessions = life_of(broker).host.node.core.sessions
        before = len(sessions)
        for passes in range(1, 8):
            opened: list[Session] = []

            async def open_session(scope: trio.CancelScope, opened: list[Session] = opened) -> None:
                with scope:
                    opened.append(await connection.create_session())

            async with trio.open_nursery() as nursery:
                scope = trio.CancelScope()
                nursery.start_soon(open_session, scope)
                for _ in range(passes):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert len(sessions) == before + len(opened)
            for session in opened:
                await session.close()
