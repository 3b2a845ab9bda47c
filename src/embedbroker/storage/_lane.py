"""A lane: at most one piece of long disk work, step by step.

Responsible for connecting a generator of steps with the numbered work of the disk. Does not depend on the purpose of
the steps.
"""

from __future__ import annotations

from attrs import define

from ._disk import DiskFault, DiskOperation
from ._steps import Request, Steps

__all__ = ["StepLane"]


@define(eq=False)
class StepLane:
    """One lane. ``under_way`` is true while the disk works on a request of the steps."""

    steps: Steps[None] | None = None
    under_way: bool = False
    _request: Request | None = None

    @property
    def idle(self) -> bool:
        return self.steps is None

    def begin(self, steps: Steps[None]) -> None:
        """Start work; the lane must be idle."""
        assert self.steps is None
        self.steps = steps
        self._advance(None)

    def take(self, reached: int) -> tuple[DiskOperation, ...] | None:
        """Return the operations to do now; None when there are none, or the work waits for a durability point."""
        while not self.under_way and isinstance(self._request, int) and self._request <= reached:
            self._advance(())
        if self.under_way or not isinstance(self._request, tuple):
            return None
        self.under_way = True
        return self._request

    def done(self, results: tuple[object, ...]) -> None:
        """Pass the results of the operations that ``take`` returned to the steps."""
        assert self.under_way
        self.under_way = False
        self._advance(results)

    def failed(self, _fault: DiskFault) -> None:
        """End the work after a failure of the disk; its clean-up runs."""
        self.abandon()

    def abandon(self) -> None:
        """End the work where it is; a late answer is ignored."""
        self.under_way = False
        steps, self.steps, self._request = self.steps, None, None
        if steps is not None:
            steps.close()

    def _advance(self, results: tuple[object, ...] | None) -> None:
        # Restored only if there is more to come: work that has ended, or failed, leaves the lane idle.
        steps, self.steps, self._request = self.steps, None, None
        assert steps is not None
        try:
            self._request = next(steps) if results is None else steps.send(results)
        except StopIteration:
            return
        self.steps = steps
