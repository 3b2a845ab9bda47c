"""One scenario, three facades: tests that take `client` are async functions, run by trio, asyncio, and blocking calls.

Scenarios are written in the async dialect. For the blocking facade every object is wrapped so that its methods look
async and block when they are awaited: nothing in such a scenario ever suspends, which the runner checks.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Protocol, TypeVar

import pytest
import trio

import embedclient
import embedclient.asyncio
import embedclient.blocking
from embedbroker import EmbeddedBroker, Management, ThreadedBroker
from embedclient import _client
from embedclient.model import JMSMessage

T = TypeVar("T")
Scenario = Callable[..., Coroutine[Any, Any, None]]
SECONDS_MAX = 60


class Client(Protocol):
    """What a scenario uses of a facade."""

    name: str

    def connection_factory(self, url: str, **options: Any) -> _client.ConnectionFactory: ...

    def xa_connection_factory(self, url: str) -> _client.XAConnectionFactory: ...

    def server_locator(self, url: str) -> _client.ServerLocator: ...

    def initial_context(self, environment: Any) -> Any: ...

    def run(self, scenario: Coroutine[Any, Any, None]) -> None: ...

    async def together(self, *works: Callable[[], Awaitable[None]]) -> None:
        """Run all of them at the same time, in tasks or threads."""

    async def aside(self, work: Callable[[], None]) -> None:
        """Run a blocking function where it blocks no event loop."""

    def event(self) -> Event:
        """An event that a listener can set."""

    def broker(self, **options: Any) -> AbstractAsyncContextManager[Broker]:
        """Run a broker as a program with this facade does: in its trio run, or in a thread beside it."""


class Broker(Protocol):
    """What a scenario uses of the broker in its program."""

    @property
    def url(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def management(self) -> Management: ...

    async def start(self) -> object: ...

    async def crash(self) -> None: ...


class Event(Protocol):
    def set(self) -> None: ...

    async def wait(self) -> object: ...


class TrioClient:
    name = "trio"

    def connection_factory(self, url: str, **options: Any) -> _client.ConnectionFactory:
        return embedclient.ConnectionFactory(url, **options)

    def xa_connection_factory(self, url: str) -> _client.XAConnectionFactory:
        return embedclient.XAConnectionFactory(url)

    def server_locator(self, url: str) -> _client.ServerLocator:
        return embedclient.ServerLocator(url)

    def initial_context(self, environment: Any) -> Any:
        return embedclient.InitialContext(environment)

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        async def bounded() -> None:
            with trio.fail_after(SECONDS_MAX):
                await scenario

        trio.run(bounded)

    async def together(self, *works: Callable[[], Awaitable[None]]) -> None:
        async with trio.open_nursery() as nursery:
            for work in works:
                nursery.start_soon(work)

    async def aside(self, work: Callable[[], None]) -> None:
        await trio.to_thread.run_sync(work)

    def event(self) -> Event:
        return trio.Event()

    def broker(self, **options: Any) -> AbstractAsyncContextManager[Broker]:
        return EmbeddedBroker(**options)


class AsyncioClient:
    name = "asyncio"

    def connection_factory(self, url: str, **options: Any) -> _client.ConnectionFactory:
        return embedclient.asyncio.ConnectionFactory(url, **options)

    def xa_connection_factory(self, url: str) -> _client.XAConnectionFactory:
        return embedclient.asyncio.XAConnectionFactory(url)

    def server_locator(self, url: str) -> _client.ServerLocator:
        return embedclient.asyncio.ServerLocator(url)

    def initial_context(self, environment: Any) -> Any:
        return embedclient.asyncio.InitialContext(environment)

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(SECONDS_MAX):
                await scenario

        asyncio.run(bounded())

    async def together(self, *works: Callable[[], Awaitable[None]]) -> None:
        async def run(work: Callable[[], Awaitable[None]]) -> None:
            await work()

        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(run(work))

    async def aside(self, work: Callable[[], None]) -> None:
        await asyncio.to_thread(work)

    def event(self) -> Event:
        return asyncio.Event()

    def broker(self, **options: Any) -> AbstractAsyncContextManager[Broker]:
        return _broker_beside(EmbeddedBroker.in_thread(**options), asyncio.to_thread)


class BlockingClient:
    name = "blocking"

    def connection_factory(self, url: str, **options: Any) -> _client.ConnectionFactory:
        return _Dressed(embedclient.blocking.ConnectionFactory(url, **options), _client.ConnectionFactory)  # type: ignore[return-value]

    def xa_connection_factory(self, url: str) -> _client.XAConnectionFactory:
        return _Dressed(embedclient.blocking.XAConnectionFactory(url), _client.XAConnectionFactory)  # type: ignore[return-value]

    def server_locator(self, url: str) -> _client.ServerLocator:
        return _Dressed(embedclient.blocking.ServerLocator(url), _client.ServerLocator)  # type: ignore[return-value]

    def initial_context(self, environment: Any) -> Any:
        return _Dressed(embedclient.blocking.InitialContext(environment), _client.InitialContext)

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        try:
            scenario.send(None)
        except StopIteration:
            return
        raise AssertionError("a blocking scenario suspended")

    async def together(self, *works: Callable[[], Awaitable[None]]) -> None:
        errors: list[BaseException] = []

        def run(work: Callable[[], Awaitable[None]]) -> None:
            async def awaited() -> None:
                await work()

            try:
                self.run(awaited())
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS_MAX)
        assert not any(thread.is_alive() for thread in threads), "a thread did not end"
        if errors:
            raise BaseExceptionGroup("threads", errors)

    async def aside(self, work: Callable[[], None]) -> None:
        work()

    def event(self) -> Event:
        return _ThreadEvent()

    def broker(self, **options: Any) -> AbstractAsyncContextManager[Broker]:
        return _broker_beside(EmbeddedBroker.in_thread(**options), _at_once)


async def _at_once(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    return function(*arguments, **options)


@asynccontextmanager
async def _broker_beside(broker: ThreadedBroker, call: Callable[..., Awaitable[Any]]) -> AsyncIterator[Any]:
    """Enter a broker that blocks. `call` runs each of its methods where the program may block."""
    await call(broker.__enter__)
    try:
        yield _Beside(broker, call)
    finally:
        await call(broker.__exit__, None, None, None)


class _Beside:
    """A broker that blocks, or its management, in the async dialect."""

    def __init__(self, blocking: Any, call: Callable[..., Awaitable[Any]]) -> None:
        self._blocking = blocking
        self._call = call

    @property
    def management(self) -> _Beside:
        return _Beside(self._blocking.management, self._call)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._blocking, name)
        return partial(self._call, value) if callable(value) else value


class _ThreadEvent:
    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self) -> object:
        assert self._event.wait(SECONDS_MAX)
        return None


class _Dressed:
    """A blocking object in the async dialect. `twin` is the async class, which shows what is awaited."""

    def __init__(self, blocking: Any, twin: type) -> None:
        object.__setattr__(self, "_blocking", blocking)
        object.__setattr__(self, "_twin", twin)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._blocking, name, value)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._blocking, name)
        declared = inspect.getattr_static(self._twin, name, None)
        if not inspect.isfunction(declared):
            return _dressed(value)
        returned = str(inspect.signature(declared).return_annotation)
        if "Opening[" in returned or "AbstractAsyncContextManager[" in returned:
            return lambda *args, **options: _Entering(lambda: value(*args, **options))
        if inspect.iscoroutinefunction(declared):

            async def call(*args: Any, **options: Any) -> Any:
                return _dressed(value(*args, **options))

            return call
        return lambda *args, **options: _dressed(value(*args, **options))

    def __await__(self) -> Generator[None, None, None]:
        self._blocking.wait()
        yield from ()

    async def __aenter__(self) -> Any:
        assert self._blocking.__enter__() is self._blocking
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._blocking.__exit__(kind, error, trace)

    async def __aiter__(self) -> AsyncIterator[Any]:
        for message in self._blocking:
            yield _dressed(message)


class _DressedMessage:
    """A received message of the blocking facade: acknowledging it blocks, and so does reading a large body."""

    def __init__(self, message: JMSMessage | _client.ClientMessage) -> None:
        self._message = message

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)

    @property  # type: ignore[misc]  # so that isinstance sees the message's class
    def __class__(self) -> Any:
        return type(self._message)

    async def acknowledge(self) -> None:
        assert self._message.acknowledge() is None

    async def save_to(self, target: Any, **options: Any) -> None:
        self._message.save_to(target, **options)

    async def chunks(self, **options: Any) -> AsyncIterator[bytes]:
        for piece in self._message.chunks(**options):
            yield piece

    async def acknowledge_individually(self) -> None:
        assert isinstance(self._message, _client.ClientMessage)
        assert self._message.acknowledge_individually() is None


class _Entering:
    """What a `create_...` method of the blocking facade opens, for `async with` and `await`."""

    def __init__(self, open_it: Callable[[], Any]) -> None:
        self._open = open_it
        self._opened: Any = None

    def __await__(self) -> Generator[None, None, Any]:
        yield from ()
        return _dressed(self._open())

    async def __aenter__(self) -> Any:
        self._opened = self._open()
        return _dressed(self._opened.__enter__())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        return self._opened.__exit__(kind, error, trace)


def _dressed(value: Any) -> Any:
    if isinstance(value, JMSMessage | _client.ClientMessage) and value.on_acknowledge is not None:
        return _DressedMessage(value)
    twin = getattr(_client, type(value).__name__, None)
    if twin is not None and type(value).__module__.startswith("embedclient.blocking"):
        return _Dressed(value, twin)
    return value


@pytest.fixture(params=[TrioClient, AsyncioClient, BlockingClient], ids=["trio", "asyncio", "blocking"])
def client(request: pytest.FixtureRequest) -> Client:
    made: Client = request.param()
    return made


@pytest.fixture
def broker() -> Iterator[Any]:
    with EmbeddedBroker.in_thread() as running:
        yield running


@pytest.fixture
def url(broker: Any) -> str:
    text: str = broker.url
    return text


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    fixtures = pyfuncitem.funcargs
    if "client" not in fixtures or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {name: fixtures[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    client: Client = fixtures["client"]  # type: ignore[assignment]  # what the fixture of this name gives
    client.run(pyfuncitem.obj(**wanted))
    return True


async def texts(consumer: Any, count: int) -> list[object]:
    """Return the bodies of the next messages, after which the consumer must get no other."""
    found: list[object] = []
    for _ in range(count):
        message = await consumer.receive(timeout=60)
        assert message is not None, found
        found.append(message.body)
    assert await consumer.receive_nowait() is None
    return found


def connected(client: Client, url: str, **options: Any) -> AbstractAsyncContextManager[_client.Connection]:
    return client.connection_factory(url, **options).connect()
