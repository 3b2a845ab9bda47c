"""Cursor: the place of a reader in a queue that is read by ranges of positions.

Responsible for what the reader has, and for its lease. Does not depend on messages, records and clocks. A queue has its
cursor, so this stands below the package that moves cursors.
"""

from __future__ import annotations

from .._definitions import CursorDefinition

__all__ = ["Cursor"]


class Cursor:
    """``definition`` is what the journal has of it; the lease is in force until ``lease_until``, monotonic seconds.

    ``before`` is whose lease it was in front of its owner's, empty for nobody's; None where the cursor was made for it.
    """

    __slots__ = ("before", "definition", "lease_until")

    def __init__(self, definition: CursorDefinition) -> None:
        self.definition = definition
        self.lease_until = 0.0
        self.before: str | None = definition.owner

    def is_held(self, now: float) -> bool:
        """Whether somebody's lease is in force."""
        return bool(self.definition.owner) and now < self.lease_until

    def renew(self, now: float) -> None:
        """The lease counts from now."""
        self.lease_until = now + self.definition.lease_ms / 1000

    def left_ms(self, now: float) -> int:
        """How long the lease is in force yet."""
        return round((self.lease_until - now) * 1000) if self.is_held(now) else 0
