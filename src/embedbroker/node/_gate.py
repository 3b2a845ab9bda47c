"""The one durability gate: replies wait here until what they confirm is safe.

Responsible for calling the right holders when more became durable. Does not depend on replies: each holder keeps its
own in order.
"""

from __future__ import annotations

from embedbroker.protocols import Releasable

__all__ = ["DurabilityGate"]


class DurabilityGate:
    """The holders that wait, in the order in which they began to. Nothing up to ``confirmed`` has to wait."""

    __slots__ = ("_holders", "_is_shut", "confirmed", "reached")

    def __init__(self) -> None:
        self._holders: dict[Releasable, None] = {}
        self._is_shut = False
        self.reached = 0
        self.confirmed = 0

    @property
    def held_count(self) -> int:
        """Return how many holders wait."""
        return len(self._holders)

    def hold(self, holder: Releasable) -> None:
        """Remember a holder."""
        self._holders[holder] = None

    def open(self, reached: int) -> None:
        """Call the holders: everything up to ``reached`` is durable."""
        self.reached = reached
        if self._is_shut:
            return
        self.confirmed = reached
        for holder in list(self._holders):
            if not holder.release(reached):
                del self._holders[holder]

    def shut(self) -> None:
        """Confirm nothing more: what becomes durable from now on may be missing in the next life."""
        self._is_shut = True
