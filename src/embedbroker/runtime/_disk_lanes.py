"""The lanes of a disk: which piece of work runs when, and on which thread.

Responsible for one piece of work at a time in each lane. Work runs on the loop where that is cheaper than a hop to a
thread and back. Responsible, too, for continuing work that a shortage of descriptors or memory delayed. Does not depend
on the content of the work: each answer is an input of the node.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

import trio
from attrs import evolve
from trio.lowlevel import enable_ki_protection

from embedbroker import storage
from embedbroker.config import Role
from embedbroker.node import BytesReceived, DiskDone, DiskFailed, Input

from ._threads import TRY_AGAIN_EVERY_S

if TYPE_CHECKING:
    from embedbroker.node import Node

    from ._threads import Threads

__all__ = ["DiskLanes"]

# A batch up to this size is written and synced on the loop while the disk is fast. A hop to a thread and back costs
# 0.25 ms, a sync on a good disk 0.1 ms (docs/performance.md). Once syncs take longer on average, a thread is cheaper.
INLINE_BATCH_BYTES = 64 * 1024
INLINE_SYNC_SECONDS_MAX = 0.0004
# The same limit for the two brokers of a pair in sync. There a hop delays both, one after the other, and what a sync
# holds up waits for the other broker anyway. Two syncs of one disk at a time take 0.3 ms: with the limit above, pairs
# alternated between loop and thread.
PAIRED_SYNC_SECONDS_MAX = 0.001
# A batch waits for one pass of the scheduler, so that connections that are readable in that pass share it. Once a
# single connection has caused this many batches in a row there is no other connection to wait for, and the pass is
# saved.
LONE_BATCHES_MIN = 8
# How often the log reports that a shortage delays work.
WARN_EVERY_S = 60.0


class DiskLanes:
    """The lanes of one node. ``take`` steps it with an answer, from a task that is protected from Ctrl-C.

    ``waiting`` is the work of the journal's lane that was not begun. A disk in memory that answers at once needs no
    other lane: nothing there could delay the rest.
    """

    def __init__(
        self,
        disk: storage.Disk,
        node: Node,
        nursery: trio.Nursery,
        threads: Threads,
        take: Callable[[Input], None],
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.waiting: deque[storage.DiskWork] = deque()
        self._disk = disk
        self._in_memory = storage.loop_latency_s(disk) is not None
        self._node = node
        self._nursery = nursery
        self._threads = threads
        self._take = take
        self._warn = warn
        self._warned_at = -math.inf
        # By lane and batch: the results of the first operations, while the others are still to be done.
        self._done: dict[tuple[storage.Lane, int], tuple[object, ...]] = {}
        self._is_begun = trio.Event()
        self._background: deque[storage.DiskWork] = deque()
        self._background_waiting = trio.Event()
        self._given_up = False
        self._shortage = ""
        self._sync_seconds = 0.0
        self._lone_peer = 0
        self._lone_batches = 0

    def start(self) -> None:
        """Begin to work."""
        self._nursery.start_soon(self._run_journal)
        self._nursery.start_soon(self._run_background)

    def give_up(self) -> None:
        """Ignore all further answers of the disk. It is closed by now: its refusals are no faults of a disk."""
        self._given_up = True

    def order(self, work: storage.DiskWork) -> None:
        """Accept a piece of work; one of the journal's lane waits for `begin`."""
        if work.lane is storage.Lane.JOURNAL or (self._in_memory and self._is_quick(work)):
            self.waiting.append(work)
        elif work.lane is storage.Lane.BACKGROUND:
            self._background.append(work)
            self._background_waiting.set()
        else:
            self._nursery.start_soon(self._run_beside, work)

    def begin(self, cause: Input) -> DiskDone | DiskFailed | None:
        """Write a batch: in the journal's lane in the next pass, or here if no other connection was seen to share it.

        Return the answer in the second case.
        """
        if type(cause) is BytesReceived:
            if cause.connection != self._lone_peer:
                self._lone_peer = cause.connection
                self._lone_batches = 0
            elif self._lone_batches < LONE_BATCHES_MIN:
                self._lone_batches += 1
            elif self._is_quick(self.waiting[0]):
                answer = self._run(self.waiting.popleft())
                if not isinstance(answer, storage.DiskWork):
                    return answer
                self.waiting.appendleft(answer)
                self._lone_batches = 0
        self._is_begun.set()
        return None

    # -- lanes ---------------------------------------------------------------------------------------------------

    @enable_ki_protection
    async def _run_journal(self) -> None:
        """Run one batch after the other.

        Runs after the connections that were readable in the same pass, so their records are gathered into the next
        batch.
        """
        while True:
            while not self.waiting:
                self._is_begun = trio.Event()
                await self._is_begun.wait()
            work = self.waiting.popleft()
            if self._given_up:
                return
            if not self._is_quick(work):
                await self._run_apart(work)
                continue
            answer = self._run(work)
            if isinstance(answer, storage.DiskWork):
                await self._wait_out()
                await self._run_apart(answer)
                continue
            self._take(answer)
            if self.waiting:
                await trio.lowlevel.checkpoint()

    @enable_ki_protection
    async def _run_background(self) -> None:
        while True:
            while not self._background:
                self._background_waiting = trio.Event()
                await self._background_waiting.wait()
            await self._run_apart(self._background.popleft())

    @enable_ki_protection
    async def _run_beside(self, work: storage.DiskWork) -> None:
        """Run work of a lane that few brokers use; its caller waits for the answer before the next request."""
        await self._run_apart(work)

    # -- one piece of work ---------------------------------------------------------------------------------------

    def _is_quick(self, work: storage.DiskWork) -> bool:
        """Return True if a batch costs less on the loop than in a thread."""
        if self._in_memory:
            return not storage.loop_latency_s(self._disk)
        node = self._node
        # Recovery reads much; a backup that is in sync does what a live broker does.
        is_paired = node.replica_disk is not None and node.replica_disk.is_in_sync
        seconds_max = PAIRED_SYNC_SECONDS_MAX if is_paired else INLINE_SYNC_SECONDS_MAX
        if self._sync_seconds > seconds_max or not (node.is_running or node.role is Role.BACKUP):
            return False
        size = 0
        for operation in work.operations:
            if type(operation) is storage.WriteAt:
                for data in operation.data:
                    size += len(data)
        return size <= INLINE_BATCH_BYTES

    async def _run_apart(self, work: storage.DiskWork) -> None:
        """Run work in a thread; or, for a disk in memory, here when its time has passed."""
        while True:
            answer = await self._run_here_or_there(work)
            if self._given_up:
                return
            if not isinstance(answer, storage.DiskWork):
                self._take(answer)
                return
            work = answer
            await self._wait_out()

    async def _run_here_or_there(self, work: storage.DiskWork) -> DiskDone | DiskFailed | storage.DiskWork:
        if not self._in_memory:
            return await self._threads.run(self._run, work)
        await trio.sleep(storage.loop_latency_s(self._disk) or 0.0)
        return self._run(work)

    async def _wait_out(self) -> None:
        """Wait a moment for a shortage to pass."""
        now = trio.current_time()
        if now >= self._warned_at + WARN_EVERY_S:
            self._warned_at = now
            self._warn(f"the disk waits for what this process is short of, and goes on by itself: {self._shortage}")
        await trio.sleep(TRY_AGAIN_EVERY_S)

    def _run(self, work: storage.DiskWork) -> DiskDone | DiskFailed | storage.DiskWork:
        """Run a batch and keep a running average of the time of journal batches.

        Return the part that must be done later.
        """
        begin = 0.0 if self._in_memory else perf_counter()
        key = work.lane, work.batch
        try:
            results = self._disk.run(work.operations)
        except storage.DiskFault as fault:
            if fault.kind is storage.FaultKind.SHORT:
                self._shortage = str(fault)
                self._done[key] = self._done.get(key, ()) + fault.done
                return evolve(work, operations=work.operations[len(fault.done) :])
            self._done.pop(key, None)
            return DiskFailed(work.batch, fault)
        if self._done:
            results = self._done.pop(key, ()) + results
        if work.lane is storage.Lane.JOURNAL and not self._in_memory:
            self._sync_seconds += 0.1 * (perf_counter() - begin - self._sync_seconds)
        return DiskDone(work.batch, results)
