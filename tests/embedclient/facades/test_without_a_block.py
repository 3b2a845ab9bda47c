"""Connections, contexts and session factories that are awaited, and closed by a call instead of the end of a block."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import trio

import embedclient.asyncio
import embedclient.blocking
from embedbroker import EmbeddedBroker
from embedclient import ConnectionFactory
from embedclient.errors import ConnectionClosedException, ConnectionLostException, IllegalStateException

from .conftest import Client, texts


async def test_what_is_awaited_lives_until_it_is_closed(client: Client, url: str) -> None:
    factory = client.connection_factory(url)
    connection = await factory.connect()
    session = await connection.session()
    await session.create_producer("q").send("hello")
    await session.close()
    context = await factory.create_context()
    other = await context.create_context(context.session_mode)
    await other.close()
    assert await texts(await context.create_consumer("q"), 1) == ["hello"]
    await context.close()
    await context.close()
    await connection.close()
    await connection.close()
    with pytest.raises(ConnectionClosedException):
        async with connection.session():
            pass
    sessions = await client.server_locator(url).create_session_factory()
    core = await sessions.create_session()
    await core.close()
    await sessions.close()
    xa = await client.xa_connection_factory(url).create_xa_connection()
    await xa.close()


async def test_what_is_awaited_is_closed_by_a_block(client: Client, url: str) -> None:
    factory, xa_factory = client.connection_factory(url), client.xa_connection_factory(url)
    async with await factory.connect() as connection, await connection.session() as session:
        async with session.create_producer("q") as producer:
            await producer.send("hello")
        async with await session.create_browser("q") as browser:
            assert await browser.next_message() is not None
        async with await session.create_consumer("q") as consumer:
            assert await texts(consumer, 1) == ["hello"]
        assert consumer.closed
    assert session.closed
    with pytest.raises(ConnectionClosedException):
        await connection.session()
    async with await factory.create_context() as context, await context.create_context(context.session_mode) as other:
        await other.create_producer().send("q", "again")
    with pytest.raises(ConnectionClosedException):
        await context.connection.session()
    async with await xa_factory.create_xa_connection() as xa, await xa.create_xa_session() as xa_session:
        pass
    assert xa_session.closed
    async with await xa_factory.create_xa_context() as xa_context:
        pass
    assert xa_context.session.closed
    async with (
        await client.server_locator(url).create_session_factory() as sessions,
        await sessions.create_session() as core,
        core.create_producer("q") as core_producer,
        await core.create_consumer("q") as core_consumer,
    ):
        await core_producer.send(core.create_message(b""))
    assert core.closed and core_consumer.closed


@pytest.mark.filterwarnings("error")
async def test_a_context_ends_with_its_connection_from_any_context_that_has_it(client: Client, url: str) -> None:
    before = background_names()
    context = await client.connection_factory(url).create_context()
    other = await context.create_context(context.session_mode)
    await other.connection.close()
    assert background_names() == before
    await context.close()
    await other.close()


def background_names() -> list[str]:
    """Return what runs for connections without a block: tasks of this event loop, threads of blocking ones."""
    names = [thread.name for thread in threading.enumerate() if thread.name == "embedclient"]
    if trio.lowlevel.in_trio_task():
        names += [task.name for task in _system_tasks() if task.name == "embedclient connection"]
    else:
        try:
            names += [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "embedclient connection"]
        except RuntimeError:
            pass
    return names


async def test_a_connection_without_a_block_that_cannot_be_made_leaves_nothing(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(ConnectionLostException, match=f"127.0.0.1:{port}"):
        await client.connection_factory(f"tcp://127.0.0.1:{port}").connect()


async def test_a_listener_closes_its_connection_without_a_block(client: Client, url: str) -> None:
    connection = await client.connection_factory(url).connect()
    session = await connection.session()
    consumer = await session.create_consumer("q")
    closed = client.event()
    is_blocking = client.name == "blocking"

    async def close(_: object) -> None:
        await connection.close()
        closed.set()

    def close_blocking(_: object) -> None:
        client.run(connection.close())
        closed.set()

    consumer.set_message_listener(close_blocking if is_blocking else close)
    await session.create_producer("q").send("last")
    await closed.wait()
    with pytest.raises(ConnectionClosedException):
        await connection.session()


def test_an_opening_is_used_once_and_names_what_to_do(url: str) -> None:
    async def main() -> None:
        opening = ConnectionFactory(url).connect()
        with pytest.raises(AttributeError, match="'session': use `async with` or `await`"):
            opening.session()  # type: ignore[attr-defined]
        connection = await opening
        with pytest.raises(IllegalStateException, match="opened before"):
            await opening
        await connection.close()

    trio.run(main)


def test_a_cancelled_connect_without_a_block_ends_its_tasks() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        url = f"tcp://127.0.0.1:{silent.getsockname()[1]}"

        async def on_trio() -> int:
            with trio.move_on_after(0.05) as scope:
                await ConnectionFactory(url).connect()
            assert scope.cancelled_caught
            return sum(task.name == "embedclient connection" for task in _system_tasks())

        async def on_asyncio() -> int:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await embedclient.asyncio.ConnectionFactory(url).connect()
            return len(asyncio.all_tasks()) - 1

        assert (trio.run(on_trio), asyncio.run(on_asyncio())) == (0, 0)


def _system_tasks() -> list[trio.lowlevel.Task]:
    root = trio.lowlevel.current_root_task()
    assert root is not None
    return [task for nursery in root.child_nurseries for task in nursery.child_tasks] + [
        task
        for nursery in root.child_nurseries
        for child in nursery.child_tasks
        for inner in child.child_nurseries
        for task in inner.child_tasks
    ]


def test_a_forgotten_connection_ends_with_its_event_loop_and_warns_with_its_line(url: str) -> None:
    async def on_trio() -> None:
        await ConnectionFactory(url).connect()  # line of trio

    async def on_asyncio() -> None:
        await embedclient.asyncio.ConnectionFactory(url).connect()  # line of asyncio

    def blocking() -> None:
        embedclient.blocking.ConnectionFactory(url).connect()  # line of blocking
        gc.collect()

    runs: dict[str, Callable[[], None]] = {
        "trio": lambda: trio.run(on_trio),
        "asyncio": lambda: asyncio.run(on_asyncio()),
        "blocking": blocking,
    }
    for name, run in runs.items():
        with pytest.warns(ResourceWarning, match="a connection was not closed") as caught:
            run()
        [warning] = caught
        with open(__file__) as source:
            assert source.readlines()[warning.lineno - 1].endswith(f"# line of {name}\n")
        assert warning.filename == __file__


def test_a_broker_in_a_thread_starts_and_stops_without_a_block() -> None:
    broker = EmbeddedBroker.in_thread()
    broker.stop()  # never started
    assert broker.start() is broker
    connection = embedclient.blocking.ConnectionFactory(broker.url).connect()
    connection.close()
    with pytest.raises(IllegalStateException, match="running already"):
        broker.start()
    broker.crash()
    broker.start()
    broker.close()
    broker.close()
    assert not broker.is_running
    with broker.start() as again:
        assert again.is_running
    assert not broker.is_running
    with pytest.raises(IllegalStateException, match=r"or call start\(\)"):
        broker.crash()


def test_a_forgotten_broker_in_a_thread_warns_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    at_exit: list[Any] = []
    monkeypatch.setattr("atexit.register", at_exit.append)
    broker = EmbeddedBroker.in_thread().start()
    with pytest.warns(ResourceWarning, match="a broker in a thread was not closed") as caught:
        at_exit[0]()
    assert (caught[0].filename, broker.is_running) == (__file__, False)


def test_a_plain_with_of_a_broker_names_the_thread() -> None:
    with pytest.raises(TypeError, match=r"EmbeddedBroker\.in_thread\(\)"), EmbeddedBroker():  # type: ignore[attr-defined]
        pass


def test_warnings_as_errors_end_no_event_loop(url: str) -> None:
    async def main() -> str:
        await ConnectionFactory(url).connect()
        return "done"

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        reported: list[object] = []
        patch.setattr("sys.unraisablehook", lambda details: reported.append(details.exc_type))
        warnings.simplefilter("error")
        assert trio.run(main) == "done"
    assert reported == [ResourceWarning]
