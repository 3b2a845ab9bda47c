"""The audit log of one node, from the moment in which it is live until it has stopped.

Responsible for when the log records facts, and for its end when the disk refuses it: the broker goes on. Does not
depend on the content of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedbroker.kernel import Kernel

from ._current_step import CurrentStep, NodeLog
from ._gate import DurabilityGate
from ._inputs import AuditFailed
from ._part import Part

if TYPE_CHECKING:
    from embedbroker.storage import AuditLog

__all__ = ["AuditRecording"]


class AuditRecording(Part):
    """The recording of one node. ``audit_log`` holds None without an audit log, and after one that failed."""

    def __init__(self, audit_log: AuditLog | None, kernel: Kernel, gate: DurabilityGate, log: NodeLog) -> None:
        self._audit_log = audit_log
        self._kernel = kernel
        self._gate = gate
        self._log = log
        self.journal_identity = 0

    @property
    def is_wanted(self) -> bool:
        """True if there is a log to write."""
        return self._audit_log is not None

    def begin(self, node_id: str, wall_ms: int) -> None:
        """Record everything from now on: the node is live."""
        audit_log = self._audit_log
        if audit_log is None:
            return
        for note in audit_log.notes:
            self._log.warning(note)
        audit_log.wall_ms = wall_ms
        audit_log.begin(self.journal_identity, self._kernel.config.name, node_id)
        self._kernel.observers.subscribe(audit_log)

    def end(self) -> None:
        """Record no more: the node has stopped."""
        if self._audit_log is not None:
            self._kernel.observers.unsubscribe(self._audit_log)
            self._audit_log.end()

    def run(self, step: CurrentStep) -> None:
        """Put what the log must write in front of the outputs of the step."""
        audit_log, kernel = self._audit_log, self._kernel
        if audit_log is None:
            return
        audit_log.wall_ms = step.now.wall_ms
        work = audit_log.take_work(kernel.store.point(), self._gate.confirmed, kernel.ids.next_id - 1)
        if work is not None:
            step.outputs.insert(0, work)

    def on_input(self, failed: AuditFailed, step: CurrentStep) -> None:
        """End the log after its disk failed."""
        audit_log, self._audit_log = self._audit_log, None
        if audit_log is not None:
            self._kernel.observers.unsubscribe(audit_log)
            step.output(audit_log.fail())
            self._log.error(f"the audit log stops, the broker goes on without it until it starts again: {failed.text}")
