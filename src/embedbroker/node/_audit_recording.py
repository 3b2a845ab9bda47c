"""The audit log of one life: from the moment in which a node is live until it has stopped.

Responsible for when the log takes facts, and for what a disk that refuses it means: the log ends, the broker goes on.
Refuses to know what is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from embedbroker.kernel import Kernel

from ._inputs import AuditFailed
from ._outputs import Level, Output

if TYPE_CHECKING:
    from embedbroker.storage import AuditLog

__all__ = ["AuditRecording"]


class AuditRecording:
    """``log`` is None while there is nothing to write: nobody wants it, or it ended."""

    __slots__ = ("_kernel", "_log_at", "journal_identity", "log")

    def __init__(self, log: AuditLog | None, kernel: Kernel, log_at: Callable[[Level, str], None]) -> None:
        self.log = log
        self._kernel = kernel
        self._log_at = log_at
        self.journal_identity = 0

    def begin(self, node_id: str, wall_ms: int) -> None:
        """The node is live; everything from now on is written."""
        log = self.log
        if log is None:
            return
        for note in log.notes:
            self._log_at(Level.WARNING, note)
        log.wall_ms = wall_ms
        log.begin(self.journal_identity, self._kernel.config.name, node_id)
        self._kernel.observers.subscribe(log)

    def end(self) -> None:
        """The node has stopped."""
        if self.log is not None:
            self._kernel.observers.unsubscribe(self.log)
            self.log.end()

    def collect(self, outputs: list[Output], wall_ms: int, confirmed: int) -> list[Output]:
        """The outputs of a step, behind what it has to write."""
        log, kernel = self.log, self._kernel
        assert log is not None
        log.wall_ms = wall_ms
        work = log.take_work(kernel.store.point(), confirmed, kernel.ids.next_id - 1)
        return outputs if work is None else [work, *outputs]

    def on_failed(self, failed: AuditFailed, outputs: list[Output]) -> None:
        """The disk did not take it."""
        log, self.log = self.log, None
        if log is not None:
            self._kernel.observers.unsubscribe(log)
            outputs.append(log.fail())
            text = f"the audit log stops, the broker goes on without it until it starts again: {failed.text}"
            self._log_at(Level.ERROR, text)
