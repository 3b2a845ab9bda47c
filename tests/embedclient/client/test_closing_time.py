"""How long closing takes: nothing without a connection, and one budget for everything in a silent one.

Each test leaves what it opened by a cancellation or an exception, in virtual time, and compares the exact seconds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
import trio.testing

from embedclient import AcknowledgeMode, Connection, ConnectionFactory, ServerLocator, Session, XAConnectionFactory
from embedclient.errors import TransactionOutcomeUnknownException
from embedclient.model import JMSMessage, Xid
from tests.embedclient.client.conftest import Relay, relayed_broker

pytestmark = pytest.mark.usefixtures("autojump_clock")
RECONNECT = "reconnectAttempts=-1&retryInterval=1000&retryIntervalMultiplier=1&connectionTTL=60000"
CLOSE_S = 5.0
"""The budget of one connection, as the guide has it."""


def lose(relay: Relay) -> None:
    """End every connection and accept no other one."""
    relay.close()
    relay.release()


def freeze(relay: Relay) -> None:
    """Keep every connection, and let no byte through."""
    relay.hold("up")
    relay.hold("down")


@asynccontextmanager
async def connected(*, parameters: str = RECONNECT) -> AsyncIterator[tuple[Relay, Connection]]:
    async with relayed_broker() as relay, ConnectionFactory(f"{relay.url}?{parameters}").connect() as connection:
        yield relay, connection


class Stopwatch:
    def __init__(self) -> None:
        self.seconds = -1.0

    @asynccontextmanager
    async def around(self) -> AsyncIterator[trio.CancelScope]:
        """Measure from the cancellation of the block to its end."""
        with trio.CancelScope() as scope:
            yield scope
        self.seconds = trio.current_time() - self.cancelled_at

    def cancel(self, scope: trio.CancelScope) -> None:
        self.cancelled_at = trio.current_time()
        scope.cancel()


async def pass_time(seconds: float) -> None:
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


async def notice_the_loss() -> None:
    """Let the client see that its connection has ended: one second of attempts that fail."""
    await pass_time(1)


async def open_sessions(stack: AsyncExitStack, connection: Connection, count: int) -> list[Session]:
    sessions = []
    for index in range(count):
        session = await stack.enter_async_context(connection.create_session())
        for number in range(4):
            await stack.enter_async_context(session.create_consumer(f"queue-{index}-{number}"))
        sessions.append(session)
    return sessions


@pytest.mark.parametrize("sessions", [1, 4])
@pytest.mark.parametrize(("trouble", "expected_s"), [(lose, 0.0), (freeze, CLOSE_S)])
async def test_a_cancelled_program_closes_in_one_budget(sessions: int, trouble: object, expected_s: float) -> None:
    watch = Stopwatch()
    async with relayed_broker() as relay:
        async with watch.around() as scope, AsyncExitStack() as stack:
            connection = await stack.enter_async_context(ConnectionFactory(f"{relay.url}?{RECONNECT}").connect())
            await open_sessions(stack, connection, sessions)
            trouble(relay)  # type: ignore[operator]
            await notice_the_loss()
            watch.cancel(scope)
            await trio.lowlevel.checkpoint()
        assert watch.seconds == pytest.approx(expected_s)
        relay.release()


@pytest.mark.parametrize(("trouble", "expected_s"), [(lose, 0.0), (freeze, CLOSE_S)])
async def test_an_exception_closes_in_one_budget_too(trouble: object, expected_s: float) -> None:
    """What the blocking client does: a KeyboardInterrupt leaves the blocks, and no task is cancelled."""
    async with relayed_broker() as relay:
        with pytest.raises(KeyboardInterrupt):
            async with AsyncExitStack() as stack:
                connection = await stack.enter_async_context(ConnectionFactory(f"{relay.url}?{RECONNECT}").connect())
                await open_sessions(stack, connection, 4)
                trouble(relay)  # type: ignore[operator]
                await notice_the_loss()
                since = trio.current_time()
                raise KeyboardInterrupt
        assert trio.current_time() - since == pytest.approx(expected_s)
        relay.release()


async def test_a_connection_lost_while_it_is_closed_ends_the_wait() -> None:
    async with connected() as (relay, connection):
        session = await connection.create_session()
        consumer = await session.create_consumer("q")
        freeze(relay)

        async def cut() -> None:
            await pass_time(2)
            lose(relay)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut)
            since = trio.current_time()
            await consumer.close()
            await session.close()
            assert trio.current_time() - since == pytest.approx(2.0)
        assert consumer.closed
        assert session.closed


@pytest.mark.parametrize(("trouble", "expected_s"), [(lose, 0.0), (freeze, CLOSE_S)])
async def test_everything_else_shares_the_budget(trouble: object, expected_s: float) -> None:
    """The rollback of a block, a browser, a producer, a context's session."""
    watch = Stopwatch()
    async with relayed_broker() as relay:
        async with watch.around() as scope, AsyncExitStack() as stack:
            factory = ConnectionFactory(f"{relay.url}?{RECONNECT}")
            context = await stack.enter_async_context(factory.create_context())
            session = await stack.enter_async_context(context.connection.create_session(transacted=True))
            browsed = await context.connection.create_session()
            await browsed.create_producer("q").send("x")
            browser = await stack.enter_async_context(browsed.create_browser("q"))
            assert await anext(aiter(browser)) is not None
            producer = session.create_producer("q")
            stack.push_async_callback(producer.close)
            await stack.enter_async_context(session.transaction())
            await producer.send("to be rolled back")
            trouble(relay)  # type: ignore[operator]
            await notice_the_loss()
            watch.cancel(scope)
            await trio.lowlevel.checkpoint()
        assert watch.seconds == pytest.approx(expected_s)
        relay.release()


@pytest.mark.parametrize(("trouble", "expected_s"), [(lose, 0.0), (freeze, CLOSE_S)])
async def test_xa_and_core_sessions_share_the_budget(trouble: object, expected_s: float) -> None:
    watch = Stopwatch()
    async with relayed_broker() as relay:
        url = f"{relay.url}?{RECONNECT}"
        async with watch.around() as scope, AsyncExitStack() as stack:
            connection = await stack.enter_async_context(XAConnectionFactory(url).create_xa_connection())
            for number in range(2):
                session = await stack.enter_async_context(connection.create_xa_session())
                await session.xa_resource.start(Xid(1, bytes([number]), b"b"))
                await stack.enter_async_context(session.create_consumer("q"))
            trouble(relay)  # type: ignore[operator]
            await notice_the_loss()
            watch.cancel(scope)
            await trio.lowlevel.checkpoint()
        assert watch.seconds == pytest.approx(expected_s)
        relay.release()


@pytest.mark.parametrize(("trouble", "expected_s"), [(lose, 0.0), (freeze, CLOSE_S)])
async def test_core_sessions_share_the_budget(trouble: object, expected_s: float) -> None:
    watch = Stopwatch()
    async with relayed_broker() as relay:
        async with watch.around() as scope, AsyncExitStack() as stack:
            locator = ServerLocator(f"{relay.url}?{RECONNECT}")
            factory = await stack.enter_async_context(locator.create_session_factory())
            for number in range(3):
                session = await stack.enter_async_context(factory.create_session())
                await session.create_queue(f"q{number}")
                await stack.enter_async_context(session.create_consumer(f"q{number}"))
            trouble(relay)  # type: ignore[operator]
            await notice_the_loss()
            watch.cancel(scope)
            await trio.lowlevel.checkpoint()
        assert watch.seconds == pytest.approx(expected_s)
        relay.release()


async def test_a_receive_that_waits_for_its_acknowledgement_is_cut_short_by_a_cancellation() -> None:
    parameters = f"{RECONNECT}&blockOnAcknowledge=true"
    async with (
        connected(parameters=parameters) as (relay, connection),
        connection.create_session(acknowledge_mode=AcknowledgeMode.AUTO) as session,
    ):
        await session.create_producer("q").send("x")
        consumer = await session.create_consumer("q")
        await pass_time(1)  # the message is in the client's buffer
        lose(relay)
        await notice_the_loss()
        since = trio.current_time()
        with trio.move_on_after(3):
            message = await consumer.receive()
        assert trio.current_time() - since == pytest.approx(3.0)
        assert message is not None
        assert message.body == "x"


async def test_a_cancelled_commit_in_doubt_does_not_hold_up_the_next_cancellation() -> None:
    """The one that was cancelled learns nothing; the next call that is not does."""
    async with connected() as (relay, connection):
        session = await connection.create_session(transacted=True)
        await session.create_producer("q").send("x")
        freeze(relay)
        with trio.move_on_after(1):
            await session.commit()
        since = trio.current_time()
        with trio.move_on_after(2) as cancelled:
            await session.commit()
        assert cancelled.cancelled_caught
        assert trio.current_time() - since == pytest.approx(2.0 + CLOSE_S)
        lose(relay)
        with pytest.raises(TransactionOutcomeUnknownException):
            await session.commit()
        relay.release()


async def test_listeners_that_do_not_end_share_a_budget() -> None:
    """Of 10 s, `onMessageCloseTimeout`; the broker answers."""

    async def listen(_: JMSMessage) -> None:
        started.append(1)
        await trio.sleep_forever()

    started: list[int] = []
    async with connected() as (_, connection):
        sessions = []
        for number in range(3):
            session = await connection.create_session()
            await session.create_producer(f"q{number}").send("x")
            (await session.create_consumer(f"q{number}")).set_message_listener(listen)
            sessions.append(session)
        await pass_time(1)
        assert len(started) == 3
        since = trio.current_time()
        for session in sessions:
            await session.close()
        assert trio.current_time() - since == pytest.approx(10.0)


@pytest.mark.parametrize("part", ["consumer", "session", "connection"])
async def test_a_listener_whose_message_goes_back_without_a_connection_is_not_waited_for(part: str) -> None:
    async def listen(_: JMSMessage) -> None:
        lose(relay)
        await notice_the_loss()
        raise ValueError("cannot do it without the broker")

    async with connected() as (relay, connection):
        session = await connection.create_session()
        await session.create_producer("q").send("x")
        consumer = await session.create_consumer("q")
        consumer.set_message_listener(listen)
        await pass_time(3)
        since = trio.current_time()
        close = {"consumer": consumer.close, "session": session.close, "connection": connection.close}[part]
        await close()
        assert trio.current_time() == since


async def test_what_is_closed_without_a_connection_is_closed_at_the_broker_after_the_reconnect() -> None:
    async with connected() as (relay, connection):
        session = await connection.create_session()
        consumer = await session.create_consumer("q")
        await session.create_producer("q").send("x")
        await pass_time(1)
        relay.cut()
        since = trio.current_time()
        await consumer.close()
        await session.close()
        assert trio.current_time() == since
        assert session.closed
        # The broker gives the message of the closed consumer to another one.
        async with connection.create_session() as other, other.create_consumer("q") as patient:
            message = await patient.receive(timeout=10)
            assert message is not None


async def test_seconds_come_back_to_a_program_that_goes_on() -> None:
    """A broker that is silent for a while: later closes wait again, so that they are complete when they return."""
    async with connected() as (relay, connection):
        sessions = [await connection.create_session() for _ in range(3)]
        freeze(relay)
        times = []
        for session in sessions:
            since = trio.current_time()
            await session.close()
            times.append(trio.current_time() - since)
            await pass_time(2)
        assert times == pytest.approx([5.0, 2.0, 2.0])
        relay.release()
