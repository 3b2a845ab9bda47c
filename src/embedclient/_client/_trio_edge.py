"""The trio edge: sockets, tasks and timers for one agent.

Responsible for dialling, reading, writing and timers, and for waiting without a task switch per message. Makes no
decision about the protocol: the agent makes them all.

KeyboardInterrupt is never raised in these tasks or in a step of the agent. It goes to the program's main task, which
then closes its objects and needs these tasks to do so.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TypeVar

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled, enable_ki_protection

from embedclient.agent import Agent, BytesReceived, Call, Dial, Dialed, DialFailed, PeerClosed, Written
from embedclient.model import Instant
from embedclient.transport import ByteStream, TransportLost, dial, run_in_thread

from ._edge import PAUSES_PER_SWITCH, READ_BYTES_MAX
from ._pump import Pump
from ._time_budget import TimeBudget
from ._trio_waiting import TrioSignal, TrioTask

T = TypeVar("T")
VIRTUAL_START_MS = 1_700_000_000_000
"""Under a virtual clock the wall time derives from that clock; broker and client begin at the same date."""


class TrioWire:
    """One pipe. Data is written at once; a writer task exists only while the pipe is full."""

    __slots__ = ("_backlog", "_edge", "_finishing", "connection", "lost_reason", "stream")

    def __init__(self, edge: TrioEdge, connection: int, stream: ByteStream) -> None:
        self._edge = edge
        self.connection = connection
        self.stream = stream
        self._backlog = bytearray()
        self._finishing = False
        self.lost_reason: str | None = None

    def write(self, data: bytes) -> int:
        if self._backlog:
            self._backlog += data
            return 0
        taken = self._send(data)
        if taken < len(data) and self.lost_reason is None:
            self._backlog += memoryview(data)[taken:]
            self._edge.start(self._write_backlog)
        return taken

    def finish(self) -> None:
        """Close as soon as everything is written."""
        self._finishing = True
        if not self._backlog:
            self.close("closed here")

    def close(self, reason: str) -> None:
        self.lost_reason = self.lost_reason or reason
        self._backlog.clear()
        self.stream.close()

    def _send(self, data: bytes | bytearray) -> int:
        try:
            return self.stream.send_nowait(data)
        except TransportLost as lost:
            self.close(lost.reason)  # wakes the reader, which reports it
            return 0

    @enable_ki_protection
    async def _write_backlog(self) -> None:
        while self._backlog:
            await self.stream.wait_writable()
            taken = self._send(self._backlog)
            del self._backlog[:taken]  # empty already if the pipe was lost
            if taken and not self._finishing:
                self._edge.pump.step(Written(self.connection, taken))
        if self._finishing:
            self.close("closed here")


class TrioEdge:
    """An Edge on trio. Opened by `TrioLoop`."""

    def __init__(self, agent: Agent, spawned: trio.Nursery, own: trio.Nursery, close_timeout_s: float) -> None:
        self.agent = agent
        self.close_budget = TimeBudget(close_timeout_s)
        self.listener_budget = TimeBudget(agent.settings.on_message_close_timeout_ms / 1000)
        self.pump = Pump(agent, self)
        self.flush_soon = self.pump.flush_soon
        self._spawned = spawned
        self._own = own
        self._dials: dict[int, trio.CancelScope] = {}
        self._timer = trio.CancelScope()
        self._flush_wanted = TrioSignal()
        self._pauses = 0
        self._virtual = _clock_is_virtual()
        # Called directly: `trio.current_time` looks for the running loop first, once or twice for each read.
        self._monotonic = trio.lowlevel.current_clock().current_time
        self._now = Instant(-1.0, 0)

    # What the client's classes use

    def now(self) -> Instant:
        if self._virtual:
            monotonic = self._monotonic()
            if monotonic != self._now.monotonic:
                self._now = Instant(monotonic, VIRTUAL_START_MS + int(monotonic * 1000))
            return self._now
        # Called once or twice per message: the value is reused until the millisecond has passed.
        wall_ms = time.time_ns() // 1_000_000
        if wall_ms != self._now.wall_ms:
            self._now = Instant(self._monotonic(), wall_ms)
        return self._now

    def pause(self) -> Coroutine[object, None, None]:
        # Not a coroutine function: it runs once or twice per message, and each additional frame costs time.
        self._pauses += 1
        wait = checkpoint_if_cancelled if self._pauses % PAUSES_PER_SWITCH else checkpoint
        return wait()

    @enable_ki_protection
    async def wait(self, call: Call[T]) -> T:
        self.pump.flush()
        if call.done:
            await self.pause()
            return call.value()
        task = trio.lowlevel.current_task()

        def abort(_: Callable[[], None]) -> trio.lowlevel.Abort:
            call.on_done = None
            call.cancel()
            return trio.lowlevel.Abort.SUCCEEDED

        call.on_done = partial(_reschedule, task)
        await trio.lowlevel.wait_task_rescheduled(abort)
        return call.value()

    @enable_ki_protection
    async def settle(self, call: Call[T], timeout_s: float) -> bool:
        self.pump.flush()
        if not call.done:
            ended = trio.Event()
            call.on_done = lambda _: ended.set()
            with trio.CancelScope(shield=True, deadline=trio.current_time() + timeout_s):
                await ended.wait()
            call.on_done = None
        return call.done

    async def raise_cancellation(self) -> None:
        """Do nothing: a cancelled scope cancels each wait in it, and only those."""

    @enable_ki_protection
    async def settle_unless_cancelled(self, call: Call[T], timeout_s: float) -> bool:
        self.pump.flush()
        if not call.done:
            ended = trio.Event()
            call.on_done = lambda _: ended.set()
            try:
                with trio.move_on_after(timeout_s):
                    await ended.wait()
            except trio.Cancelled:
                pass  # a cancelled scope cancels the next wait again
            finally:
                call.on_done = None
        return call.done

    async def within(self, timeout_s: float, work: Callable[[], Awaitable[T]]) -> T | None:
        with trio.move_on_after(max(0.0, timeout_s)):
            return await work()
        return None

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await run_in_thread(work, "reading or writing a file")

    def signal(self) -> TrioSignal:
        return TrioSignal()

    def spawn(self, work: Callable[[], Awaitable[None]]) -> TrioTask:
        task = TrioTask()
        self._spawned.start_soon(task.run, work)
        return task

    def owns_this_task(self) -> bool:
        task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        while task is not None and task is not self._spawned.parent_task:
            nursery = task.parent_nursery
            task = None if nursery is None else nursery.parent_task
        return task is not None

    # What the pump uses

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        self._own.start_soon(work)

    def dial(self, order: Dial) -> None:
        self._own.start_soon(self._run_connection, order)

    def stop_dialing(self, connection: int) -> None:
        if connection in self._dials:
            self._dials[connection].cancel()

    def arm_timer(self, deadline: float) -> None:
        self._timer.deadline = deadline

    def schedule_flush(self) -> None:
        self._flush_wanted.set()

    # Tasks

    @enable_ki_protection
    async def run_timer(self) -> None:
        while True:
            with self._timer:
                await trio.sleep_forever()
            self._timer = trio.CancelScope()
            self.pump.on_timer()

    @enable_ki_protection
    async def run_flusher(self) -> None:
        while True:
            await self._flush_wanted.wait()
            self.pump.flush()

    @enable_ki_protection
    async def _run_connection(self, order: Dial) -> None:
        connection = order.connection
        with trio.CancelScope() as scope:
            self._dials[connection] = scope
            try:
                stream = await dial(order.connector, order.timeout_s)
            except TransportLost as lost:
                self.pump.step(DialFailed(connection, lost.reason))
                return
            finally:
                del self._dials[connection]
        if scope.cancelled_caught:
            return
        wire = TrioWire(self, connection, stream)
        self.pump.connected(connection, wire)
        try:
            self.pump.step(Dialed(connection))
            reason = await self._read(wire)
        finally:
            stream.close()
        if self.pump.disconnected(connection):
            self.pump.step(PeerClosed(connection, reason))

    async def _read(self, wire: TrioWire) -> str:
        stream, step, connection = wire.stream, self.pump.step, wire.connection
        try:
            while data := await stream.receive(READ_BYTES_MAX):
                step(BytesReceived(connection, data))
        except TransportLost as lost:
            return wire.lost_reason or lost.reason
        return f"connection to {stream.peer}: closed by the peer"


enable_ki_protection(Pump.flush_soon)


def _clock_is_virtual() -> bool:
    """Return True if a test's MockClock drives this run. Without trio.testing loaded it cannot."""
    testing = sys.modules.get("trio.testing")
    return testing is not None and isinstance(trio.lowlevel.current_clock(), testing.MockClock)


def _reschedule(task: trio.lowlevel.Task, _: Call[T]) -> None:
    trio.lowlevel.reschedule(task)
