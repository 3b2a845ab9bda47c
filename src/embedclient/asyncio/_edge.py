"""The asyncio edge: transports, futures and timers for one agent.

Responsible for driving the agent directly from asyncio's protocol callbacks, and for a scope that does not change an
exception of the user. Makes no decision about the protocol: the agent makes them all.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import outcome

from embedclient._client import (
    PAUSES_PER_SWITCH,
    Pump,
    SystemEntropy,
    TimeBudget,
    settle_closing,
)
from embedclient.agent import Agent, BytesReceived, Call, Dial, Dialed, DialFailed, PeerClosed, Written
from embedclient.errors import IllegalStateException, JMSException, RemoteProtocolError
from embedclient.model import (
    IN_VM_CONNECTOR_FACTORY,
    Entropy,
    Instant,
    Place,
    ThreadShortage,
    WarnsWhenDeleted,
    describe_name,
    is_thread_shortage,
    unfit_parameter,
)
from embedclient.tls import STALLED, TLSConnection, TLSError, TLSStoreError, connector_tls

if TYPE_CHECKING:
    from embedclient._client import BrokerSearch
    from embedclient.model import AnnouncementHosts, MulticastGroup, SharedDirectory

T = TypeVar("T")
_log = logging.getLogger("embedclient")
_DATAGRAM_BYTES_MAX = 65_535


class AsyncioSignal:
    """A Signal for asyncio."""

    __slots__ = ("_future", "_set")

    def __init__(self) -> None:
        self._set = False
        self._future: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._set = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, timeout_s: float | None = None) -> bool:
        if not self._set:
            assert self._future is None, "one task waits for a signal at a time"
            self._future = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._future
            except TimeoutError:
                return False
            finally:
                self._future = None
        self._set = False
        return True


class AsyncioTask:
    """A SpawnedTask for asyncio."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def cancel(self) -> None:
        self._task.cancel()

    async def finished(self) -> None:
        await asyncio.wait([self._task])


class AsyncioWire(asyncio.Protocol):
    """One pipe. asyncio writes at once and buffers the remainder; this class counts the bytes that have left."""

    def __init__(self, edge: AsyncioEdge, order: Dial) -> None:
        self._edge = edge
        self.connection = order.connection
        self._configuration = order.connector
        self._transport: asyncio.Transport | None = None
        self._unreported = 0
        self._reason = "closed by the peer"

    # What the pump calls

    def write(self, data: bytes) -> int:
        transport = self._transport
        if transport is None or transport.is_closing():
            return 0
        self._unreported += len(data)
        transport.write(data)
        taken = self._unreported - transport.get_write_buffer_size()
        self._unreported -= taken
        return taken

    def finish(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def close(self, reason: str) -> None:
        self._reason = reason
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        # asyncio then calls resume_writing whenever the buffer has become empty, whatever its size was.
        transport.set_write_buffer_limits(high=0)
        self._transport = transport
        self._set_options(transport.get_extra_info("socket"))

    def _set_options(self, connected: socket.socket | None) -> None:
        parameters = self._configuration.parameters
        if connected is None:  # the event loop does not provide its sockets
            return
        if not parameters.get("tcpNoDelay", True):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        for name, option in (("tcpSendBufferSize", socket.SO_SNDBUF), ("tcpReceiveBufferSize", socket.SO_RCVBUF)):
            size = int(parameters.get(name, -1))
            if size >= 0:
                connected.setsockopt(socket.SOL_SOCKET, option, size)

    def data_received(self, data: bytes) -> None:
        self._edge.guarded_step(BytesReceived(self.connection, data))

    def resume_writing(self) -> None:
        taken, self._unreported = self._unreported, 0
        if taken:
            self._edge.guarded_step(Written(self.connection, taken))

    def connection_lost(self, error: Exception | None) -> None:
        if self._edge.pump.disconnected(self.connection):
            where = f"{self._configuration.host}:{self._configuration.port}"
            cause = (error.strerror if isinstance(error, OSError) else None) or error or self._reason
            reason = f"connection to {where}: {cause}"
            self._edge.guarded_step(PeerClosed(self.connection, reason))


class EncryptedWire(AsyncioWire):
    """One pipe with TLS. The handshake is complete when `established` has a result."""

    def __init__(self, edge: AsyncioEdge, order: Dial, tls: TLSConnection) -> None:
        super().__init__(edge, order)
        self._tls = tls
        self.established: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Bytes that came with the end of the handshake; None once the agent uses the connection.
        self._early: bytes | None = b""

    def begin(self) -> None:
        """Give the agent what has come so far: it uses the connection from now on."""
        early, self._early = self._early, None
        if early:
            super().data_received(early)

    def write(self, data: bytes) -> int:
        transport = self._transport
        if transport is None or transport.is_closing():
            return 0
        try:
            self._tls.send(data)
        except TLSError as error:
            self.close(error.reason)
            return 0
        self._unreported += len(data)
        transport.write(self._tls.take())
        # The buffer has encrypted bytes, so that it counts as a whole.
        if transport.get_write_buffer_size():
            return 0
        taken, self._unreported = self._unreported, 0
        return taken

    def finish(self) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            self._tls.close()
            transport.write(self._tls.take())
        super().finish()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._process(None)

    def data_received(self, data: bytes) -> None:
        plain = self._process(data)
        if self._early is not None:
            self._early += plain
        elif plain:
            super().data_received(plain)
        if self._tls.is_closed and self._transport is not None:
            self._transport.close()

    def _process(self, data: bytes | None) -> bytes:
        """Pass bytes to TLS, and what it answers to the peer."""
        tls, transport = self._tls, self._transport
        assert transport is not None
        plain = b""
        failure: TLSError | None = None
        try:
            if data is None:
                tls.start()
            else:
                plain = tls.receive(data)
        except TLSError as error:
            failure = error
        if tls.has_output:
            transport.write(tls.take())
        if failure is not None:
            self._reason = failure.reason
            transport.close()
            self._fail(failure.reason)
        elif tls.is_established and not self.established.done():
            self.established.set_result(None)
        return plain

    def connection_lost(self, error: Exception | None) -> None:
        reason = self._reason
        try:
            self._tls.receive_end()
        except TLSError as ended:
            reason = str(error or ended.reason)
        self._fail(reason)
        super().connection_lost(error)

    def _fail(self, reason: str) -> None:
        if not self.established.done():
            self.established.set_exception(OSError(reason))


class AsyncioEdge:
    """An Edge on asyncio. Opened with `open_asyncio_edge`."""

    def __init__(self, agent: Agent, group: asyncio.TaskGroup, close_timeout_s: float) -> None:
        self.agent = agent
        self.close_budget = TimeBudget(close_timeout_s)
        self.listener_budget = TimeBudget(agent.settings.on_message_close_timeout_ms / 1000)
        self.pump = Pump(agent, self)
        self._group = group
        self._host = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._defect: asyncio.Future[None] = self._loop.create_future()
        self._pauses = 0

    # What the client's classes use

    def now(self) -> Instant:
        return Instant(self._loop.time(), int(time.time() * 1000))

    def flush_soon(self) -> None:
        self.pump.flush_soon()

    async def pause(self) -> None:
        self._pauses += 1
        task = asyncio.current_task()
        # A task that cancelled itself, or was cancelled while it was ready to run, gets the cancellation at its next
        # switch only. Without a switch here a request would be sent before.
        if self._pauses % PAUSES_PER_SWITCH == 0 or (task is not None and task.cancelling()):
            await asyncio.sleep(0)

    async def wait(self, call: Call[T]) -> T:
        self.pump.flush()
        if call.done:
            await self.pause()
            return call.value()
        ended: asyncio.Future[None] = self._loop.create_future()
        call.on_done = partial(_release, ended)
        try:
            await ended
        except asyncio.CancelledError:
            call.on_done = None
            call.cancel()
            raise
        return call.value()

    async def settle(self, call: Call[T], timeout_s: float) -> bool:
        self.pump.flush()
        if not call.done:
            ended: asyncio.Future[None] = self._loop.create_future()
            call.on_done = partial(_release, ended)
            await self._outlast_cancellation(ended, timeout_s)
            call.on_done = None
        return call.done

    async def raise_cancellation(self) -> None:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            await asyncio.sleep(0)

    async def settle_unless_cancelled(self, call: Call[T], timeout_s: float) -> bool:
        self.pump.flush()
        task = asyncio.current_task()
        assert task is not None
        # asyncio raises a cancellation once: a task that handles one counts as cancelled here.
        if not call.done and not task.cancelling():
            ended: asyncio.Future[None] = self._loop.create_future()
            call.on_done = partial(_release, ended)
            try:
                await asyncio.wait([ended], timeout=timeout_s)
            except asyncio.CancelledError:
                task.uncancel()  # so that the request counts once
                task.cancel()
            finally:
                call.on_done = None
        return call.done

    async def _outlast_cancellation(self, ended: asyncio.Future[None], timeout_s: float) -> None:
        """Wait although the task is cancelled meanwhile; its next wait then raises the cancellation."""
        deadline = self._loop.time() + timeout_s
        cancelled = False
        while not ended.done() and (remaining_s := deadline - self._loop.time()) > 0:
            try:
                await asyncio.wait([ended], timeout=remaining_s)
            except asyncio.CancelledError:
                cancelled = True
        task = asyncio.current_task()
        if cancelled and task is not None:
            task.uncancel()  # so that the request counts once
            task.cancel()

    async def within(self, timeout_s: float, work: Callable[[], Awaitable[T]]) -> T | None:
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                return await work()
        except TimeoutError as error:
            if isinstance(error, JMSException) or not limit.expired():
                raise
            return None

    async def in_thread(self, work: Callable[[], T]) -> T:
        result: concurrent.futures.Future[T] = concurrent.futures.Future()
        try:
            self._loop.run_in_executor(None, partial(_run_into, result, work))
        except RuntimeError as error:
            # The executor keeps what it has no thread for, and one of its threads may take it later, or have taken it.
            if result.cancel():
                if not is_thread_shortage(error):
                    raise
                raise ThreadShortage("reading or writing a file") from error
        ended = asyncio.wrap_future(result, loop=self._loop)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            await asyncio.wait([ended])
            raise

    def signal(self) -> AsyncioSignal:
        return AsyncioSignal()

    def spawn(self, work: Callable[[], Awaitable[None]]) -> AsyncioTask:
        async def run() -> None:
            await work()

        return AsyncioTask(self._start(run()))

    def owns_this_task(self) -> bool:
        task = asyncio.current_task()
        return task is self._host or task in self._tasks

    # What the pump uses

    def dial(self, order: Dial) -> None:
        self._dials[order.connection] = self._start(self._dial(order))

    def stop_dialing(self, connection: int) -> None:
        if connection in self._dials:
            self._dials.pop(connection).cancel()

    def arm_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._guarded, self.pump.on_timer)

    def schedule_flush(self) -> None:
        self._loop.call_soon(self._guarded, self.pump.flush)

    # Inside

    def guarded_step(self, event: BytesReceived | PeerClosed | Written) -> None:
        self._guarded(lambda: self.pump.step(event))

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run a callback of the loop. A defect ends the connection's scope, instead of a line in the loop's log."""
        try:
            work()
        except BaseException as defect:
            if not self._defect.done():
                self._defect.set_exception(defect)
                return
            raise

    async def watch(self) -> None:
        """End the scope with the first defect that a callback raised."""
        await self._defect

    def cancel_all(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._defect.cancel()
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Awaitable[None]) -> asyncio.Task[None]:
        async def run() -> None:
            await work

        task = self._group.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _dial(self, order: Dial) -> None:
        connection = order.connection
        try:
            wire = await self._open(order)
        except (OSError, TimeoutError) as error:
            reason = str(error) or f"no answer within {order.timeout_s:g} s"
            self.pump.step(DialFailed(connection, f"cannot connect to {_place(order)}: {reason}"))
            return
        finally:
            self._dials.pop(connection, None)
        self.pump.connected(connection, wire)
        self.pump.step(Dialed(connection))
        if isinstance(wire, EncryptedWire):
            wire.begin()

    async def _open(self, order: Dial) -> AsyncioWire:
        configuration = order.connector
        parameters = configuration.parameters
        if configuration.factory == IN_VM_CONNECTOR_FACTORY:
            raise OSError("vm:// works inside a trio program only; use broker.url")
        unfit = unfit_parameter(configuration)
        if unfit is not None:
            raise OSError(unfit)
        make_wire = self._wire_maker(order)
        local = (str(parameters.get("localAddress", "")), int(parameters.get("localPort", 0)))
        # asyncio looks up each name, and finds none for an empty one.
        near = (local[0] or ("::" if ":" in configuration.host else "0.0.0.0"), local[1])
        opened: AsyncioWire | None = None
        try:
            async with asyncio.timeout(order.timeout_s):
                _, wire = await self._loop.create_connection(
                    make_wire,
                    configuration.host,
                    configuration.port,
                    local_addr=near if any(local) else None,
                )
                opened = wire
                if isinstance(wire, EncryptedWire):
                    await _established(wire)
        except TimeoutError:
            if opened is None:
                raise
            raise OSError(STALLED) from None
        except ValueError as error:  # from the codec of host names, before any name service is called
            names = " or ".join(repr(name) for name in (configuration.host, local[0]) if name)
            raise OSError(f"{names} is not the name of a host") from error
        except RuntimeError as error:
            if not is_thread_shortage(error):
                raise
            raise OSError(str(ThreadShortage(f"looking up the name {configuration.host!r}"))) from error
        return wire

    def _wire_maker(self, order: Dial) -> Callable[[], AsyncioWire]:
        try:
            secured = connector_tls(order.connector)
            if secured is None:
                return lambda: AsyncioWire(self, order)
            tls = TLSConnection(secured[0], server_side=False, host=secured[1])
        except (TLSStoreError, TLSError) as error:
            raise OSError(str(error)) from error
        return lambda: EncryptedWire(self, order, tls)


async def _established(wire: EncryptedWire) -> None:
    try:
        await wire.established
    except BaseException:  # a cancellation and a time-out, too, must not leave it open
        wire.close(STALLED)
        raise


def _place(order: Dial) -> str:
    configuration = order.connector
    if configuration.factory == IN_VM_CONNECTOR_FACTORY:
        return f"vm://{configuration.parameters.get('serverId', '')}"
    if unfit_parameter(configuration) is not None:
        return configuration.host
    return f"{configuration.host}:{configuration.port}"


def _run_into(result: concurrent.futures.Future[T], work: Callable[[], T]) -> None:
    """Run work unless it was withdrawn, and set its result."""
    if not result.set_running_or_notify_cancel():
        return
    ended = outcome.capture(work)
    if isinstance(ended, outcome.Error):
        result.set_exception(ended.error)
    else:
        result.set_result(ended.value)


def _release(ended: asyncio.Future[None], _: Call[T]) -> None:
    if not ended.done():
        ended.set_result(None)


@asynccontextmanager
async def open_asyncio_edge(agent: Agent, close_timeout_s: float) -> AsyncIterator[AsyncioEdge]:
    """Open the scope of one agent: its tasks end with the block, after an orderly close.

    An exception from the block leaves as the same object, never in a group.

    Args:
        agent: the agent to drive.
        close_timeout_s: seconds that the orderly close may take at most.

    Raises:
        IllegalStateException: no asyncio loop is running.
    """
    _check_loop()
    failure: BaseException | None = None
    breakdown: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            edge = AsyncioEdge(agent, group, close_timeout_s)
            edge.spawn(edge.watch)
            try:
                yield edge
            except BaseException as error:  # sys.exc_info() may be one that the caller handles
                failure = error
                raise
            finally:
                try:
                    await settle_closing(edge, agent.close())
                finally:
                    agent.abort("closed")
                    edge.pump.flush()
                    edge.pump.close_all("closed")
                    edge.cancel_all()
    except BaseExceptionGroup as errors:
        breakdown = next((error for error in errors.exceptions if error is not failure), None)
    if breakdown is not None and (failure is None or isinstance(failure, asyncio.CancelledError)):
        raise breakdown
    if failure is not None:
        failure.__context__ = failure.__context__ or breakdown
        raise failure


def _check_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise IllegalStateException("embedclient.asyncio needs asyncio: trio programs take embedclient") from None


class AsyncioBackgroundScope(Generic[T]):
    """A BackgroundScope on asyncio."""

    def __init__(self, manager: AbstractAsyncContextManager[T], place: Place) -> None:
        self._manager = manager
        self._place = place
        self._entered = asyncio.Event()
        self._leaving = asyncio.Event()
        self._value: T | None = None
        self._failure: BaseException | None = None
        self._is_forgotten = False
        self._task: asyncio.Task[None] | None = None

    async def enter(self) -> T:
        self._task = asyncio.create_task(self._run(), name="embedclient connection")
        try:
            await self._entered.wait()
        except BaseException:
            self._leaving.set()
            self._task.cancel()
            await _outlast(self._task)
            raise
        if self._value is None:
            raise self._take_failure() or IllegalStateException("the event loop has ended")
        return self._value

    def leave_soon(self) -> None:
        self._leaving.set()

    async def leave(self) -> None:
        self._leaving.set()
        assert self._task is not None
        await _outlast(self._task)
        failure = self._take_failure()
        if failure is not None:
            raise failure

    def _take_failure(self) -> BaseException | None:
        failure, self._failure = self._failure, None
        return failure

    async def _run(self) -> None:
        # asyncio has only weak references to tasks.
        _open_scopes.add(self)
        result = await outcome.acapture(self._stay)
        # Others are a cancellation, and what stops the event loop.
        if isinstance(result, outcome.Error) and isinstance(result.error, Exception):
            self._failure = result.error
            if self._value is not None:
                _log.error("the connection that was opened in %s broke down", self._place, exc_info=result.error)
        self._entered.set()
        _open_scopes.discard(self)
        if self._is_forgotten:
            WarnsWhenDeleted(self._place, "a connection")
        if self._failure is None:
            result.unwrap()

    async def _stay(self) -> None:
        async with self._manager as self._value:
            self._entered.set()
            try:
                await self._leaving.wait()
            except asyncio.CancelledError:
                self._is_forgotten = not self._leaving.is_set()
                raise


_open_scopes: set[AsyncioBackgroundScope[Any]] = set()


async def _outlast(task: asyncio.Task[None]) -> None:
    """Wait for the end of a task although the caller is cancelled meanwhile, and raise the cancellation then."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


class AsyncioLoop:
    """A Loop for asyncio."""

    def __init__(self) -> None:
        self.entropy: Entropy = SystemEntropy()

    def open_edge(self, agent: Agent, close_timeout_s: float) -> AbstractAsyncContextManager[AsyncioEdge]:
        return open_asyncio_edge(agent, close_timeout_s)

    async def enter(self, manager: AbstractAsyncContextManager[T], place: Place) -> tuple[T, AsyncioBackgroundScope[T]]:
        _check_loop()
        scope = AsyncioBackgroundScope(manager, place)
        return await scope.enter(), scope

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def current_run(self) -> object:
        return asyncio.get_running_loop()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def search(self, search: BrokerSearch) -> None:
        _check_loop()
        from embedclient.model import AnnouncementHosts, MulticastGroup, SharedDirectory

        group = search.group
        with suppress(TimeoutError):  # the search has found no broker, which it reports
            match group:
                case SharedDirectory():
                    await _search_in_directory(search, group)
                case AnnouncementHosts():
                    await _search_at_hosts(search, group)
                case MulticastGroup():
                    await _search_in_group(search, group)


async def _search_in_group(search: BrokerSearch, group: MulticastGroup) -> None:
    # Loads trio, which only programs with a URL of this kind need.
    from embedclient.transport import joined_socket

    loop = asyncio.get_running_loop()
    joined = joined_socket(group, *await _interface(loop, group))
    try:
        async with asyncio.timeout(search.timeout_s):
            while True:
                if search.on_datagram(await loop.sock_recv(joined, _DATAGRAM_BYTES_MAX)):
                    return
                # sock_recv does not suspend while datagrams wait: a flood of them would stop the loop.
                await asyncio.sleep(0)
    finally:
        joined.close()


async def _search_in_directory(search: BrokerSearch, directory: SharedDirectory) -> None:
    from embedclient.transport import LOOK_EVERY_S, DirectoryReader

    reader = DirectoryReader(directory, newest_first=True)
    async with asyncio.timeout(search.timeout_s):
        while True:
            found = await _in_daemon_thread(reader.look, f"reading {directory}")
            if any(search.on_datagram(data) for data in found):
                return
            await asyncio.sleep(LOOK_EVERY_S)


async def _search_at_hosts(search: BrokerSearch, hosts: AnnouncementHosts) -> None:
    """Fetch from all places at the same time, so that one that hangs does not delay the others."""
    found = asyncio.Event()
    tasks = [asyncio.ensure_future(_search_at(search, hosts, *place, found)) for place in hosts.places]
    try:
        async with asyncio.timeout(search.timeout_s):
            await found.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _search_at(
    search: BrokerSearch, hosts: AnnouncementHosts, host: str, port: int, found: asyncio.Event
) -> None:
    from embedclient.transport import ANSWER_S, FETCH_EVERY_S

    while not found.is_set():
        # A place without a broker is normal: the search reports that none was found.
        with suppress(OSError, ValueError, RuntimeError, TimeoutError, RemoteProtocolError):
            async with asyncio.timeout(ANSWER_S):
                data = await _fetched(host, port, hosts.channel)
            if not found.is_set() and data is not None and search.on_datagram(data):
                found.set()
        await asyncio.sleep(FETCH_EVERY_S)


async def _fetched(host: str, port: int, channel: str) -> bytes | None:
    from embedclient.transport import FRAME_BYTES_MAX, announcement_in

    reader, writer = await asyncio.open_connection(sock=await _connected_socket(host, port))
    try:
        came = b""
        while (data := announcement_in(came, channel)) is None and (more := await reader.read(FRAME_BYTES_MAX)):
            came += more
        return data
    finally:
        writer.close()


async def _connected_socket(host: str, port: int) -> socket.socket:
    """Connect without the executor of the loop, which waits for a look-up that hangs when the program ends."""
    from embedclient.transport import look_up, with_port

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ended.set)

    result = look_up(host, wake)
    await ended.wait()
    failure = OSError(f"{host!r} has no address")
    for family, kind, protocol, _, address in with_port(result.result(), port):
        try:
            opened = socket.socket(family, kind, protocol)
        except OSError as error:
            failure = error
            continue
        try:
            opened.setblocking(False)
            await loop.sock_connect(opened, address)
            return opened
        except OSError as error:
            opened.close()
            failure = error
        except BaseException:  # a cancellation, too, must not leave it open
            opened.close()
            raise
    raise failure


async def _in_daemon_thread(work: Callable[[], T], purpose: str) -> T:
    """Run work that may hang for ever. An executor of the loop would wait for it when the program ends.

    Raises:
        OSError: the operating system starts no thread.
    """
    result: concurrent.futures.Future[T] = concurrent.futures.Future()
    try:
        threading.Thread(target=_run_into, args=(result, work), name=f"embedclient {purpose}", daemon=True).start()
    except RuntimeError as error:
        if not is_thread_shortage(error):
            raise
        raise OSError(str(ThreadShortage(purpose))) from error
    return await asyncio.wrap_future(result)


async def _interface(loop: asyncio.AbstractEventLoop, group: MulticastGroup) -> tuple[str, ...]:
    """Return the IPv4 address of the interface that a group names; nothing if it names none."""
    name = group.local_bind_address
    if name is None:
        return ()
    try:
        found = await loop.getaddrinfo(name, None, family=socket.AF_INET, type=socket.SOCK_DGRAM)
    except (OSError, ValueError) as error:  # ValueError is from the codec of host names
        reason = f"{describe_name(name)} is no IPv4 address or name of this machine"
        raise OSError(f"cannot join {group}: {reason}") from error
    except RuntimeError as error:
        if not is_thread_shortage(error):
            raise
        raise OSError(str(ThreadShortage(f"looking up the name {describe_name(name)!r}"))) from error
    return (str(found[0][4][0]),)
