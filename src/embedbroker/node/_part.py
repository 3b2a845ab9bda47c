"""The interface that a subsystem of a node must have for a place in the schedule of a step."""

from __future__ import annotations

from abc import ABC, abstractmethod

from embedclient.model import Instant

from ._current_step import CurrentStep

__all__ = ["Part"]


class Part(ABC):
    """One entry of the schedule. Traffic does not come this way: `Node.step` calls its receivers directly.

    ``timed_only``: the part runs in timely steps only. All others run in every step, so `run` must be cheap.
    """

    timed_only: bool = False

    @abstractmethod
    def run(self, step: CurrentStep) -> None:
        """Do what is due, and add to the outputs of the step."""

    def next_deadline(self, now: Instant) -> float | None:
        """Return when `run` must be called in a timely step, in monotonic seconds."""
        return None

    def has_work(self, now: Instant) -> bool:
        """Return True if the last `run` left work that must go on at once, in the next step."""
        return False
