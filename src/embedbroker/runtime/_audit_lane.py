"""The edge of the audit log: urgent writes of a step are done at once, operations that may take long in a thread.

Responsible for the order of both, and for reporting the first failure to the node. Does not depend on the content.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio
from trio.lowlevel import enable_ki_protection

from embedbroker.node import AuditFailed
from embedbroker.storage import AuditWork, Disk, DiskFault, DiskOperation, FaultKind

from ._threads import TRY_AGAIN_EVERY_S, Threads

__all__ = ["AuditLane"]

# What must be written before a step's result is seen cannot wait for a shortage: it is tried again at once.
_TRIES = 3


class AuditLane:
    """The audit log's disk work of one node. ``take`` steps the node with a failure that a thread met."""

    def __init__(
        self,
        disk: Disk,
        nursery: trio.Nursery,
        threads: Threads,
        take: Callable[[AuditFailed], None],
    ) -> None:
        self._disk = disk
        self._nursery = nursery
        self._threads = threads
        self._take = take
        self._later: deque[DiskOperation] = deque()
        self._is_busy = False
        self._has_failed = False

    def write(self, work: AuditWork) -> AuditFailed | None:
        """Do the operations that cannot wait; return the failure."""
        operations = work.operations
        for left in reversed(range(_TRIES)):
            try:
                self._disk.run(operations)
                break
            except DiskFault as fault:
                if fault.kind is not FaultKind.SHORT or not left:
                    return self._failure(fault)
                operations = operations[len(fault.done) :]
        if work.later:
            self._later.extend(work.later)
            if not self._is_busy:
                self._is_busy = True
                self._nursery.start_soon(self._run_later)
        return None

    def _failure(self, fault: DiskFault) -> AuditFailed | None:
        """Return the first failure only; the node's reaction to it may fail, too."""
        if self._has_failed:
            return None
        self._has_failed = True
        return AuditFailed(str(fault))

    @enable_ki_protection
    async def _run_later(self) -> None:
        failure: AuditFailed | None = None
        while self._later and failure is None:
            operations = tuple(self._later)
            self._later.clear()
            outcome = await self._threads.run(self._run, operations)
            if isinstance(outcome, tuple):
                self._later.extendleft(reversed(outcome))
                await trio.sleep(TRY_AGAIN_EVERY_S)
            else:
                failure = outcome
        self._is_busy = False
        if failure is not None:
            self._take(failure)

    def _run(self, operations: tuple[DiskOperation, ...]) -> AuditFailed | tuple[DiskOperation, ...] | None:
        """Run operations; return the failure, or what a shortage leaves to do later."""
        try:
            self._disk.run(operations)
        except DiskFault as fault:
            return operations[len(fault.done) :] if fault.kind is FaultKind.SHORT else self._failure(fault)
        return None
