"""What the parts of a node share in the step that is under way: the time, the outputs so far, and the log."""

from __future__ import annotations

from embedclient.model import Instant

from ._outputs import Level, Notice, Output

__all__ = ["CurrentStep", "NodeLog"]


class CurrentStep:
    """One object for all steps of a node; ``outputs`` is a new list in each.

    ``timely`` is True when timed work may run: on a tick, and on every input but traffic that changes nothing.
    """

    __slots__ = ("now", "outputs", "timely")

    def __init__(self) -> None:
        self.now = Instant(0.0, 0)
        self.timely = True
        self.outputs: list[Output] = []

    def output(self, output: Output) -> None:
        """Add one output, in any phase of the step."""
        self.outputs.append(output)


class NodeLog:
    """Lines for the operator, as outputs of the current step."""

    __slots__ = ("_step",)

    def __init__(self, step: CurrentStep) -> None:
        self._step = step

    def info(self, text: str) -> None:
        self._step.outputs.append(Notice(Level.INFO, text))

    def warning(self, text: str) -> None:
        self._step.outputs.append(Notice(Level.WARNING, text))

    def error(self, text: str) -> None:
        self._step.outputs.append(Notice(Level.ERROR, text))
