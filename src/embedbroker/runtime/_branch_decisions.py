"""PendingBranchDecisions about XA branches in doubt that are on their way through the node.

Responsible for waking the task that waits for a decision, also when the broker ends first. Decides nothing.
"""

from __future__ import annotations

import trio

__all__ = ["PendingBranchDecisions"]


class _Decision:
    def __init__(self) -> None:
        self.made = trio.Event()
        self.found: bool | None = None

    def make(self, found: bool | None) -> None:
        self.found = found
        self.made.set()


class PendingBranchDecisions:
    """The pending decisions, by number."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Decision] = {}

    def expect(self, number: int) -> None:
        """Prepare for a decision that is about to be handed to the node."""
        self._waiting[number] = _Decision()

    async def wait(self, number: int) -> bool | None:
        """Return whether there was such a branch; None when the broker ended before the decision was durable."""
        decision = self._waiting[number]
        try:
            await decision.made.wait()
        finally:
            self._waiting.pop(number, None)
        return decision.found

    def make(self, number: int, found: bool) -> None:
        """Record the node's answer; the waiting task may be gone."""
        if number in self._waiting:
            self._waiting[number].make(found)

    def abandon(self) -> None:
        """Wake every waiting task: the node answers nothing any more."""
        for decision in self._waiting.values():
            decision.make(None)
