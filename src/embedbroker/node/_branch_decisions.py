"""Decisions about prepared XA branches that the broker's owner takes, from the input to the answer.

Responsible for answering when a decision is carried out and durable. `Kernel.branches` decides.
"""

from __future__ import annotations

from collections import deque

from embedbroker.kernel import Kernel

from ._current_step import CurrentStep
from ._gate import DurabilityGate
from ._inputs import DecideBranch
from ._outputs import BranchDecided
from ._part import Part

__all__ = ["BranchDecisions"]


class BranchDecisions(Part):
    """Answers that wait until their decision is durable, in order."""

    def __init__(self, kernel: Kernel, gate: DurabilityGate) -> None:
        self._kernel = kernel
        self._gate = gate
        self._waiting: deque[tuple[int, BranchDecided]] = deque()

    def on_input(self, wanted: DecideBranch) -> None:
        """Decide; the answer contains whether there was such a branch."""
        kernel, waiting = self._kernel, self._waiting
        answer = BranchDecided(wanted.request, kernel.branches.decide(wanted.xid, commit=wanted.commit))
        # Behind what it took, which may be carried out over several steps.
        kernel.deferred.add_action(lambda: waiting.append((kernel.store.point(), answer)))

    def run(self, step: CurrentStep) -> None:
        """Answer what is durable: up to the point to which replies may go."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= self._gate.confirmed:
            step.output(waiting.popleft()[1])
