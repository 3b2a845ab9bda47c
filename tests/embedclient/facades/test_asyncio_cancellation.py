"""Cancelled asyncio tasks: a send, commit, acknowledgement or close that was cut short hides no outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from embedclient import AcknowledgeMode, Connection, DeliveryMode, TextMessage
from embedclient.agent import Call
from embedclient.agent.session._session import Session as AgentSession
from embedclient.asyncio import ConnectionFactory, ServerLocator
from embedclient.errors import DuplicateIDException, TransactionOutcomeUnknownException


class AsyncioRelay:
    """Forwards between clients of `url` and a broker. Bytes to the client wait while they are held."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._open = asyncio.Event()
        self._open.set()
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.held = asyncio.Event()
        self.url = ""

    def hold(self) -> None:
        """Keep what the broker sends from now on; `held` is set when it has sent something."""
        self._open.clear()
        self.held.clear()

    def release(self) -> None:
        self._open.set()

    def cut(self) -> None:
        """End every connection now, as a cable would."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += [writer, to_broker]
        for work in (self._forward(reader, to_broker, False), self._forward(from_broker, writer, True)):
            task = asyncio.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, down: bool) -> None:
        try:
            while data := await source.read(65_536):
                if down and not self._open.is_set():
                    self.held.set()
                    await self._open.wait()
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        sink.close()

    async def ended(self) -> None:
        """Every connection is over."""
        self.release()
        self.cut()
        await asyncio.gather(*self._tasks)


@asynccontextmanager
async def relayed(broker: Any) -> AsyncIterator[AsyncioRelay]:
    relay = AsyncioRelay(broker.port)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.url = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield relay
    finally:
        server.close()
        await relay.ended()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario

    asyncio.run(bounded())


async def cancelled_when_answered(relay: AsyncioRelay, work: Awaitable[object]) -> None:
    """Cancel it when the broker has answered, and the answer is on its way."""

    async def do() -> None:
        await work

    relay.hold()
    task = asyncio.create_task(do())
    await relay.held.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def everything_in(connection: Connection) -> list[object]:
    bodies: list[object] = []
    async with connection.session() as session, session.create_consumer("q") as consumer:
        while (message := await consumer.receive_nowait()) is not None:
            bodies.append(message.body)
    return bodies


def test_a_send_cancelled_on_its_way_arrives_once_and_the_next_after_it(broker: Any) -> None:
    async def main() -> None:
        async with relayed(broker) as relay, ConnectionFactory(relay.url).connect() as connection:
            async with connection.session() as session:
                producer = session.create_producer("q")
                await producer.send("first")
                await cancelled_when_answered(relay, producer.send("cancelled"))
                relay.release()
                await producer.send("next")
            assert await everything_in(connection) == ["first", "cancelled", "next"]

    run(main())


async def cancelled_at_once(work: Awaitable[object]) -> None:
    """In a task that is cancelled when it begins with it."""

    async def do() -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(do())


@pytest.mark.parametrize("is_first", [True, False], ids=["asks for the queue", "knows the queue"])
def test_a_send_cancelled_before_it_left_is_not_sent(broker: Any, is_first: bool) -> None:
    async def main() -> None:
        async with ConnectionFactory(broker.url).connect() as connection:
            async with connection.session() as session:
                producer = session.create_producer("q")
                if not is_first:
                    await producer.send("first")
                await cancelled_at_once(producer.send("never"))
                await producer.send("next")
            assert await everything_in(connection) == ["first"] * (not is_first) + ["next"]

    run(main())


def test_a_send_cancelled_while_it_waits_for_credit_is_not_sent(broker: Any) -> None:
    async def main() -> None:
        async with relayed(broker) as relay, ConnectionFactory(f"{relay.url}?producerWindowSize=1000").connect() as c:
            async with c.session() as session:
                producer = session.create_producer("q")
                producer.delivery_mode = DeliveryMode.NON_PERSISTENT
                await producer.send("first")
                relay.hold()
                sending = asyncio.create_task(producer.send("x" * 5000))  # more than there is credit for
                await relay.held.wait()
                assert not sending.done()
                sending.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await sending
                relay.release()
                await producer.send("next")
            assert await everything_in(c) == ["first", "next"]

    run(main())


def test_a_commit_cancelled_before_it_left_changes_nothing(broker: Any) -> None:
    async def main() -> None:
        async with ConnectionFactory(broker.url).connect() as connection:
            async with connection.session(transacted=True) as session:
                producer = session.create_producer("q")
                await producer.send("undone")
                await cancelled_at_once(session.commit())
                await session.rollback()
                await producer.send("kept")
                await cancelled_at_once(session.commit())
                await session.commit()
            assert await everything_in(connection) == ["kept"]

    run(main())


def test_a_block_that_is_cancelled_while_it_ends_gives_nothing_to_the_next(broker: Any) -> None:
    async def main() -> None:
        async with ConnectionFactory(broker.url).connect() as connection:
            async with connection.session(transacted=True) as session:
                producer = session.create_producer("q")

                async def cancelled() -> None:
                    async with session.transaction():
                        await producer.send("of the cancelled block")
                        current = asyncio.current_task()
                        assert current is not None
                        current.cancel()

                with pytest.raises(asyncio.CancelledError):
                    await asyncio.create_task(cancelled())
                async with session.transaction():
                    await producer.send("next")
            assert await everything_in(connection) == ["next"]

    run(main())


def test_a_rollback_whose_caller_is_cancelled_already_takes_its_course(broker: Any) -> None:
    async def main() -> None:
        async with ConnectionFactory(broker.url).connect() as connection:
            async with connection.session(transacted=True) as session:
                producer = session.create_producer("q")
                await producer.send("taken back")
                await cancelled_at_once(session.rollback())
                async with session.transaction():
                    await producer.send("next")
            assert await everything_in(connection) == ["next"]

    run(main())


def test_a_commit_that_fails_while_its_caller_is_cancelled_is_reported_by_the_next(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with (
            ConnectionFactory(broker.url).connect() as connection,
            connection.session(transacted=True) as session,
        ):
            producer = session.create_producer("q")
            await producer.send(TextMessage("once", properties={"_AMQ_DUPL_ID": "the same"}))
            await session.commit()
            await producer.send(TextMessage("twice", properties={"_AMQ_DUPL_ID": "the same"}))
            commit = AgentSession.commit

            def cancel() -> None:
                committing.cancel()

            def cancelled_by_its_answer(agent_session: AgentSession) -> Call[None]:
                call = commit(agent_session)
                call.when_done(cancel)
                return call

            monkeypatch.setattr(AgentSession, "commit", cancelled_by_its_answer)
            committing = asyncio.create_task(session.commit())
            with pytest.raises(asyncio.CancelledError):
                await committing
            monkeypatch.undo()
            with pytest.raises(TransactionOutcomeUnknownException) as unknown:
                await session.commit()
            assert isinstance(unknown.value.linked_exception, DuplicateIDException)
            await session.commit()

    run(main())


def test_an_acknowledgement_cancelled_before_it_left_changes_nothing(broker: Any) -> None:
    async def main() -> None:
        async with (
            ConnectionFactory(broker.url).connect() as connection,
            connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session,
            session.create_consumer("q") as consumer,
        ):
            await session.create_producer("q").send("x")
            message = await consumer.receive(timeout=60)
            assert message is not None
            await cancelled_at_once(message.acknowledge())
            await session.recover()
            again = await consumer.receive(timeout=60)
            assert again is not None and again.redelivered

    run(main())


def test_a_commit_cancelled_on_its_way_is_in_doubt_until_its_outcome_is_known(broker: Any) -> None:
    async def main() -> None:
        async with relayed(broker) as relay, ConnectionFactory(relay.url).connect() as connection:
            async with connection.session(transacted=True) as session:
                producer = session.create_producer("q")
                await producer.send("x")
                await cancelled_when_answered(relay, session.commit())
                relay.release()
                await producer.send("y")
                await session.commit()  # learns first that the other one succeeded
            assert await everything_in(connection) == ["x", "y"]

    run(main())


def test_a_cancelled_commit_whose_connection_is_lost_is_reported_by_the_next(broker: Any) -> None:
    async def main() -> None:
        async with relayed(broker) as relay:
            url = f"{relay.url}?reconnectAttempts=5&retryInterval=1"
            async with ConnectionFactory(url).connect() as connection, connection.session(transacted=True) as session:
                await session.create_producer("q").send("x")
                await cancelled_when_answered(relay, session.commit())
                relay.cut()
                relay.release()
                with pytest.raises(TransactionOutcomeUnknownException):
                    await session.commit()
                await session.rollback()
                await session.commit()

    run(main())


def test_an_acknowledgement_cancelled_on_its_way_counts(broker: Any) -> None:
    async def main() -> None:
        url_options = "?blockOnAcknowledge=true"
        async with (
            relayed(broker) as relay,
            ConnectionFactory(relay.url + url_options).connect() as connection,
        ):
            async with connection.session(acknowledge_mode=AcknowledgeMode.CLIENT) as session:
                producer = session.create_producer("q")
                for body in ("one", "two"):
                    await producer.send(body)
                async with session.create_consumer("q") as consumer:
                    message = await consumer.receive(timeout=60)
                    assert message is not None and message.body == "one"
                    await cancelled_when_answered(relay, message.acknowledge())
                    relay.release()
                    following = await consumer.receive(timeout=60)
                    assert following is not None and following.body == "two"
            assert await everything_in(connection) == ["two"]

    run(main())


@pytest.mark.parametrize("part", ["consumer", "session", "connection"])
def test_a_close_cancelled_on_its_way_leaves_nothing_behind(
    broker: Any, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("embedclient._client._locator.CLOSE_TIMEOUT_S", 1.0)

    async def main() -> None:
        async with relayed(broker) as relay, ConnectionFactory(relay.url, client_id="me").connect() as connection:
            session = await connection.session()
            consumer = await session.create_consumer("q")
            await session.create_producer("q").send("x")
            close = {"consumer": consumer.close, "session": session.close, "connection": connection.close}[part]
            await cancelled_when_answered(relay, close())
            relay.release()
        # Its client id is free again, no task of it is left, and what this consumer may have had is there for others.
        async with ConnectionFactory(broker.url, client_id="me").connect() as connection:
            assert await everything_in(connection) == ["x"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


@pytest.mark.parametrize("limit", ["timeout", "wait_for", "task group"])
def test_a_limit_around_a_close_ends_with_the_close(broker: Any, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedclient._client._locator.CLOSE_TIMEOUT_S", 0.05)

    async def limited(close: Callable[[], Coroutine[Any, Any, object]]) -> None:
        if limit == "timeout":
            async with asyncio.timeout(0.01):
                await close()
        elif limit == "wait_for":
            await asyncio.wait_for(close(), 0.01)
        else:
            async with asyncio.TaskGroup() as group:
                group.create_task(out_of_time())
                await close()

    async def out_of_time() -> None:
        raise TimeoutError

    async def main() -> None:
        async with relayed(broker) as relay:
            factory, locator = ConnectionFactory(relay.url), ServerLocator(relay.url)

            block = factory.connect()
            await block.__aenter__()
            sessions = await locator.create_session_factory()
            await sessions.create_session()
            # Each closes on a separate connection: closing has one budget per connection.
            connections = [await factory.connect(), await factory.connect()]
            session, other = [await connection.session() for connection in connections]
            closes: list[Callable[[], Coroutine[Any, Any, object]]] = [
                partial(block.__aexit__, None, None, None),
                (await factory.connect()).close,
                (await factory.create_context()).close,
                sessions.close,
                (await session.create_consumer("q")).close,
                other.close,
            ]
            relay.hold()
            for close in closes:
                with pytest.raises((TimeoutError, ExceptionGroup)):
                    await limited(close)
                current = asyncio.current_task()
                assert current is not None and not current.cancelling()
                await asyncio.sleep(0)  # raises what the close has left behind
            relay.release()
            for connection in connections:
                await connection.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


def test_a_rollback_that_is_cut_short_is_waited_for_before_later_work(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("embedclient._client._locator.CLOSE_TIMEOUT_S", 0.05)

    async def main() -> None:
        async with relayed(broker) as relay, ConnectionFactory(relay.url).connect() as connection:
            async with connection.session(transacted=True) as session:
                producer = session.create_producer("q")
                await producer.send("first")

                async def failing() -> None:
                    async with session.transaction():
                        raise LookupError

                relay.hold()
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await failing()
                relay.release()
                async with session.transaction():
                    await producer.send("next")
            assert await everything_in(connection) == ["next"]

    run(main())
