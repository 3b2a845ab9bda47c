"""Decisions about prepared branches that the broker's owner takes, from the input to the answer.

Responsible for answering when a decision is carried out and durable. Refuses to decide; the kernel's branches do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from embedbroker.kernel import Kernel

from ._inputs import DecideBranch
from ._outputs import BranchDecided

__all__ = ["Decisions"]


class Decisions:
    """Those that are not answered yet, in order: ``waiting``, which is for looking at."""

    __slots__ = ("_are_void", "_kernel", "waiting")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._are_void = False
        self.waiting: deque[tuple[int, BranchDecided]] = deque()

    def take(self, wanted: DecideBranch) -> None:
        """Decide; the answer says whether there was such a branch."""
        kernel = self._kernel
        answer = BranchDecided(wanted.request, kernel.branches.decide(wanted.xid, commit=wanted.commit))
        # Behind what it took, which may be carried out over several steps.
        kernel.chores.add_action(lambda: self._await_disk(answer))

    def _await_disk(self, answer: BranchDecided) -> None:
        if not self._are_void:
            self.waiting.append((self._kernel.store.point(), answer))

    def void(self) -> None:
        """No answer any more: whoever goes on with these data does not have what is decided here."""
        self._are_void = True
        self.waiting.clear()

    def answers(self) -> Iterator[BranchDecided]:
        """Those that are durable now."""
        waiting, reached = self.waiting, self._kernel.store.reached
        while waiting and waiting[0][0] <= reached:
            yield waiting.popleft()[1]
