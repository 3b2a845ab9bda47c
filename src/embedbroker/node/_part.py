"""The interface that a subsystem of a node must have for a place in the schedule of a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection

from embedclient.model import Instant

from ._current_step import CurrentStep

__all__ = ["Part"]


class Part(ABC):
    """One entry of the schedule. Traffic does not come this way: `Node.step` calls its receivers directly.

    ``timed_only``: the part runs in timely steps only, and only these may change what `next_deadline` returns.
    All others run in every step, so `run` must be cheap. ``waiting``: what the part has to do in a step of
    traffic, one collection for its whole life; the part does not run while that is empty. True: it always runs.
    """

    timed_only: bool = False
    waiting: Collection[object] | bool = True

    @abstractmethod
    def run(self, step: CurrentStep) -> None:
        """Do what is due, and add to the outputs of the step."""

    def next_deadline(self, now: Instant) -> float | None:
        """Return when `run` must be called in a timely step, in monotonic seconds.

        The present moment means that the last `run` left work, which must go on in the next step of any kind.
        """
        return None

    @property
    def deadline_source(self) -> Callable[[Instant], float | None]:
        """Return what steps call for `next_deadline`, which a part may leave to its subsystem."""
        return self.next_deadline
