"""The agenda of a scenario's faults: when each strikes, what heals it again, and whether all have healed.

Responsible for times and for the count of what is still wrong. Does not depend on what a fault does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field, frozen

from embedbroker.testing._world import World

from .fault_kinds import FaultKind

__all__ = ["FaultSchedule"]


@frozen(eq=False)
class _Strike:
    kind: FaultKind


@frozen(eq=False)
class _Undo:
    what: Callable[[], object]


@frozen(eq=False)
class _Appointment:
    what: Callable[[], object]


@define(eq=False)
class FaultSchedule:
    """``strike`` carries a fault out. ``disturb`` is called before anything on the agenda happens."""

    world: World
    strike: Callable[[FaultKind], None]
    disturb: Callable[[], None] | None = None
    struck: int = field(default=0, init=False)
    _outstanding: int = field(default=0, init=False)

    def schedule(self, strikes: Iterable[tuple[FaultKind, float]]) -> None:
        """Sets each fault at its time, in seconds from now."""
        for kind, at_s in strikes:
            self.expect()
            self.world.after(at_s, self, _Strike(kind))

    @property
    def over(self) -> bool:
        """True if every fault has struck and healed."""
        return not self._outstanding

    def expect(self) -> None:
        """Something more is wrong, and will heal."""
        self._outstanding += 1

    def healed(self) -> None:
        """A fault leaves nothing to undo."""
        self._outstanding -= 1

    def later(self, delay_s: float, what: Callable[[], object]) -> None:
        """What heals a fault, after a while."""
        self.world.after(delay_s, self, _Undo(what))

    def appoint(self, delay_s: float, what: Callable[[], object]) -> None:
        """Something happens after a while, and heals nothing."""
        self.world.after(delay_s, self, _Appointment(what))

    def on_event(self, event: object) -> None:
        """A fault strikes, or heals."""
        if self.disturb is not None:
            self.disturb()
        match event:
            case _Strike(kind):
                self.struck += 1
                self.world.note("fault", kind.name)
                self.strike(kind)
            case _Undo(what):
                what()
                self._outstanding -= 1
            case _Appointment(what):
                what()
