"""Which notifications a queue may take, decided by three of their properties alone, and once for each combination.

Responsible for that decision, so that no message is made which all filters refuse. In a cluster most events are of that
kind: each broker reports the queues of all others, and its neighbours select its own queues only. Does not depend on
which events there are.
"""

from __future__ import annotations

from functools import lru_cache

from embedbroker.kernel import Kernel, Queue, Selector, may_match

__all__ = ["Interest", "may_select"]

_KIND, _ADDRESS, _DISTANCE = "_AMQ_NotifType", "_AMQ_Address", "_AMQ_Distance"
# Addresses are named by clients.
_DECISIONS_MAX = 1_000
# Members of a cluster have one filter in common. More are not worth a decision: each is compiled for it.
_FILTERS_MAX = 16


def may_select(filter: Selector, kind: str, address: str | None, distance: int | None) -> bool:
    """Return False if a filter refuses each notification of a kind, about an address, with a distance."""
    return may_match(filter.text, (_KIND, kind), (_ADDRESS, address), (_DISTANCE, distance))


@lru_cache(_DECISIONS_MAX)
def _may_any_select(filters: frozenset[str | None], kind: str, address: str | None, distance: int | None) -> bool:
    """Return False if all filters do. In a cluster those of the members are equal, and come back with each of them."""
    known = (_KIND, kind), (_ADDRESS, address), (_DISTANCE, distance)
    return any(filter is None or may_match(filter, *known) for filter in filters)


class Interest:
    """The interest in notifications of one broker. `forget` must be called when queues of their address change."""

    def __init__(self, kernel: Kernel, address: str) -> None:
        self._resolution = kernel.address_manager.resolution
        self._address = address
        self._decisions: dict[tuple[str, str | None, int | None], bool] = {}
        # The texts of the filters; None until they are needed.
        self._filters: frozenset[str | None] | None = None

    def forget(self, queue: Queue) -> None:
        """Decide anew if a queue that is added, removed or changed takes notifications."""
        if queue.definition.address == self._address:
            self._decisions.clear()
            self._filters = None

    def includes(self, kind: str, address: str | None, distance: int | None) -> bool:
        """Return False if no queue takes a notification of a kind, about an address, with a distance.

        The values are those of its properties: None stands for one without the property.
        """
        bound = self._resolution.find(self._address)
        if bound is None or bound.others is not None:
            # What is bound beside its own queues may change without an event of theirs.
            return bound is not None
        known = (kind, address, distance)
        decision = self._decisions.get(known)
        if decision is None:
            if len(self._decisions) >= _DECISIONS_MAX:
                self._decisions.clear()
            filters = self._filters
            if filters is None:
                filters = self._filters = frozenset(
                    [None if queue.filter is None else queue.filter.text for queue in bound.queues]
                )
            decision = self._decisions[known] = len(filters) > _FILTERS_MAX or _may_any_select(filters, *known)
        return decision
