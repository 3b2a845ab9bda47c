"""Cursor: the place of a reader in a queue that is read by ranges of positions.

Responsible for the reader's range, and for its lease. Does not depend on messages, records and clocks. A queue holds
its cursor, so this module stands below the package that moves cursors.
"""

from __future__ import annotations

from .._definitions import CursorDefinition

__all__ = ["Cursor"]


class Cursor:
    """Hold a cursor's ``definition``, as in the journal.

    Its lease is in force until ``lease_until``, monotonic seconds.

    ``before`` is the previous holder of the lease: empty if the lease had none, None if the cursor was created for its
    owner.
    """

    __slots__ = ("before", "definition", "lease_until")

    def __init__(self, definition: CursorDefinition) -> None:
        self.definition = definition
        self.lease_until = 0.0
        self.before: str | None = definition.owner

    def is_held(self, now: float) -> bool:
        """Return True if a lease is in force."""
        return bool(self.definition.owner) and now < self.lease_until

    def renew(self, now: float) -> None:
        """Restart the term of the lease."""
        self.lease_until = now + self.definition.lease_ms / 1000

    def left_ms(self, now: float) -> int:
        """Return the rest of the lease in milliseconds."""
        return round((self.lease_until - now) * 1000) if self.is_held(now) else 0
