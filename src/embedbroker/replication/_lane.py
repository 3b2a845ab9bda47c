"""The copy lane of a disk: long work as a generator, which may also wait for something else than the disk.

Responsible for one request at a time, for numbers that no work of a journal has, and for answers to work that was given
up. Does not depend on what is copied.

The number of disk work shows its owner: numbers of a journal are above zero, those of copies count down from -1, and
those of the record count down from far below.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from attrs import define

from embedbroker.storage import DiskOperation, DiskWork, Lane, Steps

__all__ = ["CopyLane", "CopySteps", "Numbers", "Request", "disk_steps"]

#: Operations to do, or a condition to wait for; it is called whenever work is taken.
Request = tuple[DiskOperation, ...] | Callable[[], bool]
CopySteps = Generator[Request, tuple[object, ...], None]
T = TypeVar("T")


def disk_steps(steps: Steps[T]) -> Generator[Request, tuple[object, ...], T]:
    """Run long work of a journal's directory in this lane."""
    try:
        request = next(steps)
        while True:
            assert isinstance(request, tuple), request
            request = steps.send((yield request))
    except StopIteration as stop:
        result: T = stop.value
        return result


@define(eq=False)
class Numbers:
    """Generate numbers below zero, for work that does not belong to a journal."""

    last: int = 0

    def next(self) -> int:
        self.last -= 1
        return self.last


@define(eq=False)
class CopyLane:
    """Run one long work. ``under_way`` is the number of the work that the disk does, 0 if none."""

    numbers: Numbers
    under_way: int = 0
    _steps: CopySteps | None = None
    _request: Request | None = None
    _stale: bool = False

    @property
    def idle(self) -> bool:
        """Return True if nothing is under way, and nothing waits."""
        return self._steps is None and not self.under_way

    def begin(self, steps: CopySteps) -> None:
        """Start work; the last must be over or given up."""
        assert self._steps is None
        self._steps = steps
        self._advance(None)

    def take(self) -> DiskWork | None:
        """Return the work to do now."""
        if self.under_way:
            return None
        while callable(self._request):
            if not self._request():
                return None
            self._advance(())
        if self._request is None:
            return None
        self.under_way = self.numbers.next()
        return DiskWork(Lane.COPY, self.under_way, self._request)

    def done(self, results: tuple[object, ...]) -> None:
        """Handle the results of the work that `take` returned."""
        assert self.under_way
        self.under_way = 0
        if self._stale:
            self._stale = False
        else:
            self._advance(results)

    def failed(self) -> bool:
        """Handle a failure of the disk; return True if the work was not given up before."""
        self.under_way = 0
        wanted, self._stale = not self._stale, False
        if wanted:
            self.abandon()
        return wanted

    def abandon(self) -> None:
        """Give the work up; an answer that still comes is ignored."""
        self._stale = bool(self.under_way)
        steps, self._steps, self._request = self._steps, None, None
        if steps is not None:
            steps.close()

    def _advance(self, results: tuple[object, ...] | None) -> None:
        steps, self._steps, self._request = self._steps, None, None
        assert steps is not None
        try:
            request = next(steps) if results is None else steps.send(results)
        except StopIteration:
            return
        self._steps, self._request = steps, request
