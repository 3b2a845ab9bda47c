"""Calls into the thread that runs trio for one connection, from any other thread.

Responsible for the transfer of work, and for keeping open the scopes that blocking programs enter and leave call by
call. Responsible for listeners, which run in separate threads so that they may use the client. Does not depend on the
client's classes.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Generic, ParamSpec, TypeVar

import outcome
import trio

from embedclient._client import ClientMessage, Closeable, Connection, JMSContext, Opening
from embedclient.errors import ConnectionClosedException, IllegalStateException
from embedclient.model import JMSMessage, Place, Processing, TemporaryQueue, TemporaryTopic, ThreadShortage, deletable
from embedclient.transport import run_in_thread

from ._event_loop import CLOSED, EventLoop

T = TypeVar("T")
P = ParamSpec("P")
C = TypeVar("C", bound=Closeable)
D = TypeVar("D", TemporaryQueue, TemporaryTopic)
N = TypeVar("N")
M = TypeVar("M", bound=JMSMessage | ClientMessage)

_log = logging.getLogger("embedclient")
# How often a listener is tried again that has no thread.
_TRY_AGAIN_EVERY_S = 0.1
# Only to detect a thread that ended without a result; results wake their waiters at once.
_ALIVE_CHECK_S = 1.0
# Objects that wait for listeners when their scope is left.
_SCOPED = (Connection, JMSContext)
# True in the thread of a listener: an object that it closes must not wait for it.
_listening: ContextVar[bool] = ContextVar("embedclient listening", default=False)


def check_blocking() -> None:
    """Raise IllegalStateException in a thread that runs an event loop: a blocking call would stop all of its tasks."""
    if trio.lowlevel.in_trio_run():
        loop, module = "trio", "embedclient"
    elif asyncio._get_running_loop() is not None:
        loop, module = "asyncio", "embedclient.asyncio"
    else:
        return
    raise IllegalStateException(
        f"this thread runs {loop}, which a call of embedclient.blocking would stop: use {module}, or call in a thread"
    )


class Job(Generic[T]):
    """One call on its way through the portal's thread.

    The waiting thread may be interrupted between any two of its steps, so every wait here must be repeatable.
    """

    __slots__ = ("_context", "_done", "_has_begun", "_has_ended", "_outcome", "_scope", "_work")

    def __init__(self, work: Callable[[], Awaitable[T]] | None = None) -> None:
        self._work = work
        self._scope = trio.CancelScope()
        # A call from a listener's thread belongs to that listener, also in the portal's thread.
        self._context = copy_context()
        self._outcome: outcome.Value[T] | outcome.Error | None = None
        self._has_begun = False
        self._has_ended = False
        self._done = threading.Lock()
        self._done.acquire()

    # In the portal's thread

    def begin(self, nursery: trio.Nursery) -> None:
        self._has_begun = True
        try:
            self._context.run(nursery.start_soon, self._run)
        except RuntimeError:  # another thread has closed the connection, so the nursery starts no more tasks
            self._end()

    async def _run(self) -> None:
        assert self._work is not None
        with self._scope:
            self._outcome = await outcome.acapture(self._work)
        self._end()

    def run_now(self, work: Callable[[], T]) -> None:
        self._outcome = outcome.capture(work)
        self._end()

    def cancel(self) -> None:
        """End the job, also if its caller was interrupted before the job began."""
        if self._has_begun:
            self._scope.cancel()
        elif not self._has_ended:
            self._end()

    def _end(self) -> None:
        self._has_ended = True
        self._done.release()

    # In the thread that waits

    def finished(self, timeout_s: float) -> bool:
        return self._has_ended or self._done.acquire(timeout=timeout_s)

    @property
    def succeeded(self) -> bool:
        return isinstance(self._outcome, outcome.Value)

    def result(self) -> T:
        result = self._outcome
        if result is None or (isinstance(result, outcome.Error) and isinstance(result.error, trio.Cancelled)):
            raise ConnectionClosedException(CLOSED)
        return result.unwrap()


class _Threaded(partial[Awaitable[None]]):
    """A listener in the form for the event loop. Two of one listener are equal, so that it can be removed."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Threaded) and bool(self.args[0] == other.args[0])

    def __hash__(self) -> int:
        return hash(_Threaded)  # a listener needs no hash, and there are few


class _Observer(Generic[N]):
    """A listener that is called in the event loop, and passes what it gets to a task there."""

    def __init__(self, nursery: trio.Nursery, listener: Callable[..., Awaitable[None]]) -> None:
        self._nursery = nursery
        self._listener = listener
        self._waiting: deque[N] = deque()
        self._is_calling = False

    def __call__(self, value: N) -> None:
        self._waiting.append(value)
        if not self._is_calling:
            self._is_calling = True
            self._nursery.start_soon(self._pass_on)

    async def _pass_on(self) -> None:
        while self._waiting:
            result = await outcome.acapture(self._listener, self._waiting.popleft())
            if isinstance(result, outcome.Error):
                if not isinstance(result.error, Exception):
                    result.unwrap()
                _log.error("a listener of the session factory failed", exc_info=result.error)
        self._is_calling = False


class _Scope(Generic[T]):
    """An async context manager in a separate task.

    It has no reference to the portal, so that the portal can be garbage.
    """

    def __init__(self, manager: AbstractAsyncContextManager[T]) -> None:
        self._manager = manager
        self._entered = trio.Event()
        self.leave = trio.Event()
        self.failure: BaseException | None = None
        self.value: T | None = None
        self.job: Job[None] = Job(self._stay)

    async def _stay(self) -> None:
        try:
            async with self._manager as self.value:
                self._entered.set()
                await self.leave.wait()
                if self.failure is not None:
                    raise self.failure
        finally:
            self._entered.set()

    async def close_value(self) -> None:
        """Close the value for a listener that leaves the scope: the scope's task would wait for that listener."""
        if isinstance(self.value, _SCOPED):
            await self.value.close()

    async def until_entered(self) -> None:
        await self._entered.wait()


class Held(Generic[T]):
    """An async context manager that is entered in a separate task and left on demand."""

    def __init__(self, portal: Portal, scope: _Scope[T]) -> None:
        self._portal = portal
        self._scope = scope

    def enter(self) -> T:
        scope = self._scope
        self._portal.submit(scope.job)
        self._portal.call(scope.until_entered)
        if scope.value is None and scope.job.finished(0):
            scope.job.result()  # raises the failure
        return self.value

    @property
    def value(self) -> T:
        return self._scope.value  # type: ignore[return-value]  # None is a T where the manager gives nothing

    def leave(self, failure: BaseException | None = None) -> None:
        """End the scope, with the exception that leaves the block, if there is one."""
        scope = self._scope
        if failure is not None and self._portal.is_inherited():
            return  # the parent process ends the scope; the caller raises the failure
        scope.failure = failure
        try:
            if _listening.get():
                self._portal.call(scope.close_value)
            self._portal.call_now(scope.leave.set)
            self._portal.wait(scope.job)
        except ConnectionClosedException:
            if failure is None:  # else the scope ended with the connection; the caller raises the failure
                raise
        except BaseException as error:
            if error is not failure:
                raise

    def close(self) -> None:
        """End the scope, unless it ended with the connection, or belongs to the parent of a forked process."""
        if self._portal.is_open() and not self._portal.is_inherited():
            self.leave()


class Portal:
    """The state that the objects of one connection share. Opened with `Portal.open()`.

    The event loop has no reference to the portal. When the program has no reference to any object of the connection,
    the portal ends with a warning. An object with a listener counts as in use.
    """

    def __init__(self, loop: EventLoop, place: Place) -> None:
        self._loop = loop
        self._place = place
        self._connection_scope: _Scope[object] | None = None
        # Threads that were interrupted in a call that succeeded nevertheless, and the interrupting exception.
        self._interrupted: dict[int, BaseException] = {}

    @classmethod
    def open(cls) -> Portal:
        """Start the thread.

        Raises:
            ResourceAllocationException: the system has no descriptors left for an event loop, or starts no thread.
            IllegalStateException: this thread runs trio or asyncio.
        """
        check_blocking()
        return cls(EventLoop.start(), Place.of_caller())

    def __del__(self) -> None:
        if self._loop.abandon():
            self._place.warn("a connection", source=self)

    def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Enter the connection's scope, which `close` leaves."""
        scope = _Scope(manager)
        try:
            value = Held(self, scope).enter()
        except BaseException:  # KeyboardInterrupt, too, must not leave the thread running
            self._stop()
            raise
        self._connection_scope = scope  # type: ignore[assignment]  # its value is never used
        return value

    def close(self) -> None:
        """Leave the connection's scope and end the thread. A second call has no effect.

        In a forked process there is nothing to close: the connection belongs to the parent.
        """
        scope, self._connection_scope = self._connection_scope, None
        if scope is None or self.is_inherited():
            return
        try:
            Held(self, scope).leave()
        finally:
            self._stop()
        self._raise_interrupt()

    def hold(self, manager: AbstractAsyncContextManager[T]) -> Held[T]:
        """Enter a scope inside the connection's. The caller must leave it."""
        held = Held(self, _Scope(manager))
        held.enter()
        return held

    def block(self, manager: AbstractAsyncContextManager[T]) -> AbstractContextManager[T]:
        """Return a context manager for a `with` statement that enters and leaves an async one."""
        return self._block(manager)

    @contextmanager
    def _block(self, manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
        held = Held(self, _Scope(manager))
        value = held.enter()
        try:
            yield value
        except BaseException as failure:
            held.leave(failure)
            raise
        held.leave()

    # Calls

    def call(self, work: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an async function in the portal's thread and return its result.

        An exception that interrupts the waiting thread (KeyboardInterrupt) cancels the work, under the work's rules for
        cancellation. If the work succeeded nevertheless, its result is returned, because a message would otherwise be
        lost. This thread's next call then raises the exception.

        Raises:
            IllegalStateException: this thread runs trio or asyncio.
        """
        check_blocking()
        self._raise_interrupt()
        job: Job[T] = Job(partial(work, *args, **kwargs))
        return self._finish(job, partial(self.submit, job))

    def close_part(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close a part of the connection, unless the connection is closed already."""
        if self.is_open() and not self.is_inherited():
            self.call(close)

    def is_open(self) -> bool:
        """Return True if the connection has not been closed."""
        return self._connection_scope is not None

    def is_inherited(self) -> bool:
        """Return True if this process was forked from the one that opened the connection, and must not use it."""
        return self._loop.is_inherited

    def each(self, take: Callable[[], Awaitable[M]]) -> Iterator[M]:
        """Yield the items of an async iterator. On a closed connection it ends."""
        while self.is_open():
            try:
                item = self.call(take)
            except StopAsyncIteration:
                return
            except ConnectionClosedException:
                if self.is_open():
                    raise
                return
            yield self.message(item)

    def call_now(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the portal's thread. It must not wait."""
        bound = partial(work, *args, **kwargs)
        job: Job[T] = Job()
        return self._finish(job, partial(self._soon, partial(job.run_now, bound)))

    def submit(self, job: Job[T]) -> None:
        self._soon(partial(job.begin, self._loop.nursery))

    def wait(self, job: Job[T]) -> T:
        """Wait for a submitted job and return its result."""
        return self._finish(job, lambda: None)

    def _finish(self, job: Job[T], begin: Callable[[], None]) -> T:
        try:
            begin()
            self._until_finished(job)
        except (ConnectionClosedException, IllegalStateException):
            raise  # the job cannot begin, or the portal's thread has ended
        except BaseException as interrupt:
            self._soon(job.cancel)
            self._until_finished(job)
            if not job.succeeded:
                raise
            self._interrupted[threading.get_ident()] = interrupt
        return job.result()

    def _raise_interrupt(self) -> None:
        interrupt = self._interrupted.pop(threading.get_ident(), None)
        if interrupt is not None:
            raise interrupt

    def _until_finished(self, job: Job[T]) -> None:
        while not job.finished(_ALIVE_CHECK_S):
            if not self._loop.is_alive:
                raise ConnectionClosedException(CLOSED)

    def _soon(self, work: Callable[[], object]) -> None:
        self._loop.soon(work)

    async def opening(self, open_it: Callable[[], Opening[C]]) -> C:
        """Return the object that a `create_...` method opens, without its scope: a blocking program closes it."""
        return await open_it()

    # Values that make calls when they are used

    def temporary(self, destination: D) -> D:
        """Return a temporary destination whose `delete()` blocks."""
        blocking: Callable[..., Any] = lambda _: self.call(destination.delete)  # noqa: E731
        return deletable(destination, blocking)

    def message(self, message: M) -> M:
        """Return a message whose `acknowledge()` and access to a large body block, instead of returning awaitables."""
        acknowledge: Callable[..., Awaitable[None]] | None = message.on_acknowledge
        if isinstance(acknowledge, Processing):
            acknowledge.use_calls(self.call)
        elif acknowledge is not None:
            blocking: Callable[..., Any] = partial(self.call, acknowledge)
            message.on_acknowledge = blocking
        stream = message.body_stream
        if stream is not None:
            stream.use_calls(self.call)
        return message

    def listener(self, listener: Callable[..., object] | None) -> Callable[..., Awaitable[None]] | None:
        """Return the listener in a form for the event loop: it runs in a thread, so that it may make blocking calls."""
        if listener is not None and not callable(listener):
            raise TypeError(f"a listener is called; {listener!r} cannot be called")
        if listener is None:
            return None
        if iscoroutinefunction(listener):
            raise TypeError(f"the listeners of blocking programs are plain functions; {listener!r} is asynchronous")
        return _Threaded(self._run_listener, listener)

    def observer(self, listener: Callable[[N], None] | None) -> Callable[[N], None] | None:
        """Return a listener in the form for a step of the client: it returns at once.

        A thread calls the program's function, for one value at a time, in their order.
        """
        adapted = self.listener(listener)
        return None if adapted is None else _Observer[N](self._loop.nursery, adapted)

    def known_listener(self, listener: Callable[..., object]) -> Callable[..., Awaitable[None]]:
        """Return the same as `listener`, for one that is added and removed, and never None."""
        adapted = self.listener(listener)
        assert adapted is not None
        return adapted

    def original(self, adapted: Callable[..., object] | None) -> Callable[..., object] | None:
        """Return the program's listener from the form that `listener` returned."""
        return adapted.args[0] if isinstance(adapted, partial) else None

    async def _run_listener(self, listener: Callable[..., object], *arguments: object) -> None:
        dressed = [
            self.message(argument) if isinstance(argument, JMSMessage | ClientMessage) else argument
            for argument in arguments
        ]
        _listening.set(True)
        call = partial(listener, *dressed)
        is_logged = False
        while True:
            try:
                await run_in_thread(call, "a listener", abandon_on_cancel=True)
                return
            except ThreadShortage as shortage:
                # A listener that was not called has not failed: a rollback would use up an attempt of its message.
                if not is_logged:
                    _log.warning("a listener waits until it can be called: %s", shortage)
                    is_logged = True
                await trio.sleep(_TRY_AGAIN_EVERY_S)

    def _stop(self) -> None:
        self._loop.end()
