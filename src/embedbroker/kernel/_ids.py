"""Numbers that never repeat: message ids, queue ids, transaction ids and queue positions.

One counter serves all of them, so positions grow with time in every queue and a restart needs one durable limit only.
"""

from __future__ import annotations

from attrs import define

from ._store import Store

__all__ = ["Ids"]

_RESERVE = 1_000_000


@define(eq=False)
class Ids:
    """Assign ids below a durable limit; after a crash counting continues at the limit."""

    store: Store
    next_id: int = 1
    limit: int = 0

    def take(self, count: int = 1) -> int:
        """Return the first of ``count`` consecutive ids."""
        first = self.next_id
        after = first + count
        if after > self.limit:
            self.limit = after + _RESERVE
            self.store.reserve_ids(self.limit)
        self.next_id = after
        return first
