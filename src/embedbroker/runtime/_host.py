"""The driver of one node on trio: moves bytes, runs disk batches, keeps one timer. It decides nothing.

A step never awaits, so cancellation falls between steps. Inputs that arise while outputs are delivered (what a write
took, for one) wait in a list and are stepped right after.
"""

from __future__ import annotations

import gc
import logging
import time
from collections import deque
from collections.abc import Callable

import trio

from embedbroker.node import (
    Accepted,
    BytesReceived,
    CloseConnection,
    Command,
    CommandKind,
    DiskDone,
    DiskFailed,
    Input,
    Level,
    Node,
    Notice,
    PeerClosed,
    Ready,
    SendBytes,
    Stopped,
    Tick,
    Written,
)
from embedbroker.storage import Disk, DiskFault, DiskWork, Lane, WriteAt
from embedclient.transport import ByteStream, Listener, TransportLost

from ._clock import EdgeClock

__all__ = ["Host"]

READ_BYTES = 256 * 1024
# What writes took is reported in sums of this size: a step per write would cost as much as a small message.
REPORT_WRITTEN_BYTES = 128 * 1024
# A batch up to this size is written and synced on the loop while the disk is fast: a hop to a thread and back costs
# 0.25 ms, a sync on a good disk 0.1 ms (docs/performance.md). Once syncs take longer on average, a thread is cheaper.
INLINE_BATCH_BYTES = 64 * 1024
INLINE_SYNC_SECONDS_MAX = 0.0004

_LEVELS = {Level.INFO: logging.INFO, Level.WARNING: logging.WARNING, Level.ERROR: logging.ERROR}


class _Peer:
    """One connection at the edge: its pipe, and what the pipe did not take yet."""

    __slots__ = ("closing", "number", "stream", "unreported", "unsent")

    def __init__(self, number: int, stream: ByteStream) -> None:
        self.number = number
        self.stream = stream
        self.unsent: deque[memoryview] = deque()
        self.unreported = 0
        self.closing = False


class Host:
    """Runs a node until it stopped. Everything it starts lives in the nursery it is given."""

    def __init__(
        self,
        node: Node,
        nursery: trio.Nursery,
        disk: Disk | None,
        logger: logging.Logger,
        on_stopped: Callable[[str | None], None],
    ) -> None:
        self.node = node
        self.ready = trio.Event()
        self.stopped = trio.Event()
        self.failure: str | None = None
        self._nursery = nursery
        self._disk = disk
        self._logger = logger
        self._on_stopped = on_stopped
        self._clock = EdgeClock()
        self._inputs: deque[Input] = deque()
        self._stepping = False
        self._peers: dict[int, _Peer] = {}
        self._next_number = 1
        self._armed = trio.CancelScope()
        self._armed_for = float("inf")
        self._work: deque[DiskWork] = deque()
        self._work_waiting = trio.Event()
        self._background: deque[DiskWork] = deque()
        self._background_waiting = trio.Event()
        self._collector_paused = False
        self._sync_seconds = 0.0

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin; `ready` is set when the node serves."""
        self._nursery.start_soon(self._keep_time)
        if self._disk is not None:
            self._nursery.start_soon(self._run_journal_lane, self._disk)
            self._nursery.start_soon(self._run_background_lane, self._disk)
            self._pause_collector()
        self.feed(Command(CommandKind.START))

    def stop(self) -> None:
        """Ask the node to stop in an orderly way; `stopped` is set when it has."""
        self.feed(Command(CommandKind.STOP))

    async def serve(self, listener: Listener) -> None:
        """Accept peers until the listener is closed."""
        while True:
            try:
                stream = await listener.accept()
            except TransportLost:
                return
            self._nursery.start_soon(self._receive, stream)

    def close_connections(self) -> None:
        """Drop every pipe at once, without a word."""
        for peer in list(self._peers.values()):
            peer.stream.close()
        self._peers.clear()

    # -- stepping ------------------------------------------------------------------------------------------------

    def feed(self, input: Input) -> None:
        """Step the node with an input, and with every input that this causes."""
        self._inputs.append(input)
        if self._stepping:
            return
        self._stepping = True
        inputs, node, clock = self._inputs, self.node, self._clock
        try:
            while inputs:
                for output in node.step(inputs.popleft(), clock.now()):
                    if type(output) is SendBytes:
                        self._send(output.connection, output.data)
                    else:
                        self._deliver(output)
        finally:
            self._stepping = False
        deadline = node.next_deadline()
        if deadline is not None and deadline < self._armed_for:
            self._armed_for = deadline
            self._armed.deadline = deadline

    def _deliver(self, output: object) -> None:
        match output:
            case CloseConnection():
                self._close(output.connection)
            case DiskWork():
                if output.lane is Lane.JOURNAL:
                    self._work.append(output)
                    self._work_waiting.set()
                else:
                    self._background.append(output)
                    self._background_waiting.set()
            case Notice():
                self._logger.log(_LEVELS[output.level], "%s", output.text)
            case Ready():
                self._resume_collector()
                self.ready.set()
            case Stopped():
                self._resume_collector()
                self.failure = output.failure
                self.stopped.set()
                self.ready.set()
                self._on_stopped(output.failure)
            case _:
                raise AssertionError(output)

    async def _keep_time(self) -> None:
        """The single timer: sleeps until the earliest deadline, then ticks."""
        while not self.stopped.is_set():
            with self._armed:
                await trio.sleep_forever()
            self._armed = trio.CancelScope()
            self._armed_for = float("inf")
            self.feed(Tick())

    # -- connections ---------------------------------------------------------------------------------------------

    async def _receive(self, stream: ByteStream) -> None:
        """The life of one connection: every read is one input."""
        number = self._next_number
        self._next_number += 1
        peer = self._peers[number] = _Peer(number, stream)
        try:
            self.feed(Accepted(number, stream.peer))
            while not peer.closing:
                data = await stream.receive(READ_BYTES)
                if not data:
                    self._forget(peer, "closed by the peer")
                    return
                self.feed(BytesReceived(number, data))
        except TransportLost as error:
            self._forget(peer, error.reason)
        finally:
            if not peer.closing:
                stream.close()

    def _forget(self, peer: _Peer, reason: str) -> None:
        if self._peers.pop(peer.number, None) is not None:
            peer.stream.close()
            if not peer.closing:
                self.feed(PeerClosed(peer.number, reason))

    def _send(self, number: int, data: bytes) -> None:
        peer = self._peers.get(number)
        if peer is None:
            return
        if peer.unsent:
            peer.unsent.append(memoryview(data))
            return
        try:
            taken = peer.stream.send_nowait(data)
        except TransportLost as error:
            self._lose(peer, error.reason)
            return
        self._report(peer, taken, at_once=False)
        if taken < len(data):
            peer.unsent.append(memoryview(data)[taken:])
            self._nursery.start_soon(self._drain, peer)

    def _report(self, peer: _Peer, taken: int, *, at_once: bool) -> None:
        peer.unreported += taken
        if peer.unreported >= REPORT_WRITTEN_BYTES or (at_once and peer.unreported):
            self._inputs.append(Written(peer.number, peer.unreported))
            peer.unreported = 0

    async def _drain(self, peer: _Peer) -> None:
        """Write what the pipe did not take at once; runs only while something is unsent."""
        unsent = peer.unsent
        try:
            while unsent:
                await peer.stream.wait_writable()
                while unsent:
                    data = unsent[0]
                    taken = peer.stream.send_nowait(data)
                    if taken == len(data):
                        unsent.popleft()
                    else:
                        unsent[0] = data[taken:]
                    self._report(peer, taken, at_once=True)
                    if taken < len(data):
                        break
                self._step_waiting()
        except TransportLost as error:
            unsent.clear()
            self._lose(peer, error.reason)
            self._step_waiting()
        if peer.closing:
            peer.stream.close()

    def _step_waiting(self) -> None:
        """Step inputs that were noted outside `feed`."""
        if self._inputs and not self._stepping:
            self.feed(self._inputs.popleft())

    def _lose(self, peer: _Peer, reason: str) -> None:
        if self._peers.pop(peer.number, None) is not None:
            peer.stream.close()
            self._inputs.append(PeerClosed(peer.number, reason))

    def _close(self, number: int) -> None:
        """Close after what was sent: at once, or when the writer is through."""
        peer = self._peers.pop(number, None)
        if peer is None:
            return
        peer.closing = True
        if not peer.unsent:
            peer.stream.close()
        else:
            self._nursery.start_soon(self._close_late, peer)

    async def _close_late(self, peer: _Peer) -> None:
        """A peer that does not read gets a second to take its last bytes."""
        await trio.sleep(1)
        peer.stream.close()

    # -- disk ----------------------------------------------------------------------------------------------------

    async def _run_journal_lane(self, disk: Disk) -> None:
        """One batch after the other. Runs after the connections that were readable in the same pass, so their records
        are gathered into the next batch."""
        while True:
            while not self._work:
                self._work_waiting = trio.Event()
                await self._work_waiting.wait()
            work = self._work.popleft()
            size = sum(
                len(piece)
                for operation in work.operations
                if isinstance(operation, WriteAt)
                for piece in operation.data
            )
            if size <= INLINE_BATCH_BYTES and self._sync_seconds <= INLINE_SYNC_SECONDS_MAX and self.node.is_running:
                self._run_inline(disk, work)
                await trio.lowlevel.checkpoint()
            else:
                await self._run_in_thread(disk, work)

    async def _run_background_lane(self, disk: Disk) -> None:
        while True:
            while not self._background:
                self._background_waiting = trio.Event()
                await self._background_waiting.wait()
            await self._run_in_thread(disk, self._background.popleft())

    async def _run_in_thread(self, disk: Disk, work: DiskWork) -> None:
        try:
            results = await trio.to_thread.run_sync(self._timed, disk, work)
        except DiskFault as fault:
            self.feed(DiskFailed(work.batch, fault))
        else:
            self.feed(DiskDone(work.batch, results))

    def _run_inline(self, disk: Disk, work: DiskWork) -> None:
        try:
            results = self._timed(disk, work)
        except DiskFault as fault:
            self.feed(DiskFailed(work.batch, fault))
        else:
            self.feed(DiskDone(work.batch, results))

    def _timed(self, disk: Disk, work: DiskWork) -> tuple[object, ...]:
        """Run a batch and keep a running average of what journal batches take."""
        begin = time.perf_counter()
        results = disk.run(work.operations)
        if work.lane is Lane.JOURNAL:
            self._sync_seconds += 0.1 * (time.perf_counter() - begin - self._sync_seconds)
        return results

    # -- garbage collector ---------------------------------------------------------------------------------------

    def _pause_collector(self) -> None:
        """Recovery makes many objects that live on; collecting while it runs doubles its time."""
        if gc.isenabled():
            gc.disable()
            self._collector_paused = True

    def _resume_collector(self) -> None:
        if self._collector_paused:
            self._collector_paused = False
            gc.enable()
