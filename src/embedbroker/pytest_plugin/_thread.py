"""The thread in which the brokers of a test run that is not in trio: a plain one, or one in asyncio.

Responsible for the thread, for carrying calls into it, and for the deadline of a test that cannot be cancelled from
there. Clients of such tests run in real time and in other threads, so these brokers are reached over sockets.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import outcome
import trio

from embedclient.errors import IllegalStateException

from ._bench import Bench, LeftBehind
from ._deadline import Deadline, can_interrupt

__all__ = ["BenchThread"]

T = TypeVar("T")

# Turns of a loop until a client in it has handled the end of its connection.
_TURNS_TO_NOTICE = 10
# How long the end of a test waits for a fault of its plan that goes on.
_FAULT_ENDS_WITHIN_S = 2.0


class BenchThread:
    """Run a bench while a test outside of trio uses it. If it ``carries``, it is the `Carrier` of a test in asyncio."""

    def __init__(self, bench: Bench, *, carries: bool) -> None:
        self.bench = bench
        if carries:
            bench.carrier = self
        #: Of the part of the test that runs: its set-up, itself, or its tear-down.
        self._deadline: Deadline | None = None
        self._begun = threading.Event()
        self.begun_at = time.monotonic()
        self._token: trio.lowlevel.TrioToken | None = None
        self._leave: trio.Event | None = None
        self._result: outcome.Outcome[None] | None = None
        #: The loop in which the test has used its brokers last.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="embedbroker test", daemon=True)

    def open(self) -> None:
        """Start the thread, and return when the bench can be used. The deadline counts from here."""
        self.bench.is_watched = can_interrupt()
        self.begin_deadline()
        self._thread.start()
        self._begun.wait()
        if self._token is None:
            self.close()

    def close(self) -> None:
        """End the bench, and raise the exception with which it ended, if any."""
        __tracebackhide__ = True
        if self._token is not None and self._leave is not None and self._result is None:
            try:
                self._token.run_sync_soon(self._leave.set)
            except trio.RunFinishedError:
                pass  # it ended by itself
        self._thread.join()
        assert self._result is not None
        self._result.unwrap()

    def begin_deadline(self) -> None:
        """Start the deadline of this part of the test, for waits that do not end with the brokers."""
        if self.bench.is_watched:
            self._deadline = Deadline(self.bench.timeout_s, self.bench.overdue)
            self._deadline.begin()

    def end_deadline(self) -> None:
        """End the deadline: this part of the test is over."""
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.end()

    def call(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run an async function in the thread, and block until it returns."""
        __tracebackhide__ = True
        return self._blocked(partial(trio.from_thread.run, partial(function, *args, **kwargs)))

    def call_now(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a function that does not wait in the thread."""
        __tracebackhide__ = True
        return self._blocked(partial(trio.from_thread.run_sync, partial(function, *args, **kwargs)))

    def failed(self) -> None:
        """Make the report of a failed test while its brokers still run, and drop the proof that nothing is left."""
        self.bench.must_prove = False
        try:
            self.bench.report = self.call(self.bench.describe_now)
        except IllegalStateException as error:
            self.bench.report = self.bench.report or str(error)

    # -- for a test in asyncio -----------------------------------------------------------------------------------

    @property
    def is_here(self) -> bool:
        """True in this thread."""
        return threading.get_ident() == self._thread.ident

    async def carry(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run an async function in the thread, for a task of asyncio. If the task is cancelled, so is the call."""
        __tracebackhide__ = True
        loop = self._loop = asyncio.get_running_loop()
        call: _Call[T] = _Call(loop, partial(function, *args, **kwargs))
        cancelled: asyncio.CancelledError | None = None
        self._soon(call.begin)
        while not call.over.done():
            try:
                await asyncio.wait([call.over])
            except asyncio.CancelledError as error:
                cancelled = error
                self._soon(call.scope.cancel)
        if cancelled is not None:
            raise cancelled
        if isinstance(call.result, outcome.Error):
            if isinstance(call.result.error, trio.Cancelled):
                raise self._ended() from None
            raise call.result.error
        assert call.result is not None
        # What the function did to connections is at their sockets by now.
        # Clients in this loop must notice it before the next call of the test.
        for _ in range(_TURNS_TO_NOTICE):
            await asyncio.sleep(0)
        return call.result.unwrap()

    async def carry_back(self, function: Callable[..., object], *args: object) -> None:
        """Run a function of the test in its loop of asyncio, and await what it returns.

        The loop of the test is known once it has used its brokers. Before that, the function gets a new loop.
        """

        async def there() -> None:
            result = function(*args)
            if inspect.isawaitable(result):
                await result

        loop = self._loop
        if loop is None or not loop.is_running():
            await self._carry_to_new_loop(there, _name_of(function))
            return
        run, tasks = _FaultRun(), list[asyncio.Task[None]]()

        async def captured() -> None:
            run.end_with(await outcome.acapture(there))

        def begin() -> None:
            tasks.append(loop.create_task(captured()))
            tasks[0].add_done_callback(lambda _: run.note_end())  # one that is cancelled at once does not run

        loop.call_soon_threadsafe(begin)
        try:
            await run.ended.wait()
        except trio.Cancelled:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            if loop.is_running():
                await run.wait_a_while()
            run.raise_error()
            raise
        run.raise_error()

    async def _carry_to_new_loop(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        loop = asyncio.new_event_loop()

        def run() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner, suppress(asyncio.CancelledError):
                runner.run(work())

        def cancel() -> None:
            with suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])

        await self.run_fault(name, run, cancel)

    async def run_fault(
        self, name: str, fault: Callable[[], object], cancel: Callable[[], object] = lambda: None
    ) -> None:
        """Run a fault of a plan in a thread, for a task in the thread of the brokers.

        Raises:
            LeftBehind: the test passed, and the fault goes on.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        run = _FaultRun()
        try:
            await trio.to_thread.run_sync(lambda: run.end_with(outcome.capture(fault)), abandon_on_cancel=True)
        except trio.Cancelled:
            cancel()
            await run.wait_a_while()
            if self.bench.must_prove and not run.ended.is_set():
                raise LeftBehind(f"left behind by this test: the fault {name}, which does not end") from None
            run.raise_error()
            raise
        run.raise_error()

    def _soon(self, function: Callable[[], object]) -> None:
        if self._token is None or not self._thread.is_alive():
            raise self._ended()
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            raise self._ended() from None

    # -- the thread ----------------------------------------------------------------------------------------------

    def _blocked(self, call: Callable[..., T]) -> T:
        __tracebackhide__ = True
        if self._token is None or not self._thread.is_alive():
            raise self._ended()
        try:
            return call(trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):
            self._thread.join()
            raise self._ended() from None

    def _ended(self) -> IllegalStateException:
        """Return the error for a call after the end, with the reason if there is one."""
        reason = f": {self._result.error!r}" if isinstance(self._result, outcome.Error) else ""
        return IllegalStateException(f"the brokers of this test have ended{reason}")

    def _run(self) -> None:
        self._result = outcome.capture(trio.run, self.bench.run, self._stay)
        self._begun.set()

    async def _stay(self) -> None:
        self._leave = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._begun.set()
        await self._leave.wait()


class _FaultRun:
    """A fault of a plan that runs in another thread: its end, and how it ended."""

    def __init__(self) -> None:
        self.ended = trio.Event()
        self._result: outcome.Outcome[object] | None = None
        self._token = trio.lowlevel.current_trio_token()

    def end_with(self, result: outcome.Outcome[object]) -> None:
        """Keep how the fault ended. Any thread may call this, also after the end of the brokers."""
        self._result = result
        self.note_end()

    def note_end(self) -> None:
        """Set ``ended``, from any thread."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self.ended.set)

    async def wait_a_while(self) -> None:
        """Wait until the fault has ended, in a cancelled task, too, but not long."""
        with trio.move_on_after(_FAULT_ENDS_WITHIN_S, shield=True):
            await self.ended.wait()

    def raise_error(self) -> None:
        """Raise the exception of the fault, if it has one and was not cancelled only."""
        if isinstance(self._result, outcome.Error) and not isinstance(self._result.error, asyncio.CancelledError):
            self._result.unwrap()


class _Call(Generic[T]):
    """One call of a task of asyncio, which runs as a task of trio."""

    def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[[], Awaitable[T]]) -> None:
        self.scope = trio.CancelScope()
        self.over: asyncio.Future[None] = loop.create_future()
        self.result: outcome.Outcome[T] | None = None
        self._loop = loop
        self._function = function

    def begin(self) -> None:
        trio.lowlevel.spawn_system_task(self._run)

    async def _run(self) -> None:
        __tracebackhide__ = True
        with self.scope:
            # A cancellation ends here, too: nothing follows in this task.
            self.result = await outcome.acapture(self._function)
        try:
            self._loop.call_soon_threadsafe(self._settle)
        except RuntimeError:
            pass  # the loop is closed, and no task waits

    def _settle(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


def _name_of(function: Callable[..., object]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
