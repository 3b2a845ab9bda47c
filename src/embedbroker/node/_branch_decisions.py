"""BranchDecisions about prepared branches that the broker's owner takes, from the input to the answer.

Responsible for answering when a decision is carried out and durable. Refuses to decide; the kernel's branches do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from embedbroker.kernel import Kernel

from ._inputs import DecideBranch
from ._outputs import BranchDecided

__all__ = ["BranchDecisions"]


class BranchDecisions:
    """Those that are not answered yet, in order: ``waiting``, which is for looking at."""

    __slots__ = ("_kernel", "waiting")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.waiting: deque[tuple[int, BranchDecided]] = deque()

    def take(self, wanted: DecideBranch) -> None:
        """Decide; the answer says whether there was such a branch."""
        kernel, waiting = self._kernel, self.waiting
        answer = BranchDecided(wanted.request, kernel.branches.decide(wanted.xid, commit=wanted.commit))
        # Behind what it took, which may be carried out over several steps.
        kernel.deferred.add_action(lambda: waiting.append((kernel.store.point(), answer)))

    def answers(self, confirmed: int) -> Iterator[BranchDecided]:
        """Those that are durable now: up to the point to which replies may go."""
        waiting = self.waiting
        while waiting and waiting[0][0] <= confirmed:
            yield waiting.popleft()[1]
