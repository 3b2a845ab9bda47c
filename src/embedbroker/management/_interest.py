"""Which notifications a queue may take, decided by three of their properties alone, and once for each combination.

Responsible for that decision, so that no message is made which all filters refuse. In a cluster most events are of that
kind: each broker reports the queues of all others, and its neighbours select its own queues only. Does not depend on
which events there are.
"""

from __future__ import annotations

from typing import cast

from attrs import frozen

from embedbroker.kernel import Kernel, Message, Queue, Selector, parse_condition_on
from embedclient.model import Properties, PropertyValue

__all__ = ["Interest", "may_select"]

_KIND, _ADDRESS, _DISTANCE = "_AMQ_NotifType", "_AMQ_Address", "_AMQ_Distance"
_KNOWN = frozenset((_KIND, _ADDRESS, _DISTANCE))
# Addresses are named by clients.
_DECISIONS_MAX = 1_000
# Members of a cluster have one filter in common. More are not worth a decision: each is compiled for it.
_FILTERS_MAX = 16


@frozen
class _Outline:
    """A notification of which nothing else is known, as far as the condition of a filter reads it."""

    values: dict[str, PropertyValue]

    def property(self, name: str) -> PropertyValue:
        return self.values[name]


def may_select(filter: Selector, kind: PropertyValue, address: PropertyValue, distance: PropertyValue) -> bool:
    """Return False if a filter refuses each notification of a kind, about an address, with a distance."""
    outline = _Outline({_KIND: kind, _ADDRESS: address, _DISTANCE: distance})
    return parse_condition_on(filter.text, _KNOWN).matches(cast(Message, outline))


class Interest:
    """The interest in notifications of one broker. `forget` must be called when queues of their address change."""

    def __init__(self, kernel: Kernel, address: str) -> None:
        self._resolution = kernel.address_manager.resolution
        self._address = address
        self._decisions: dict[tuple[PropertyValue, ...], bool] = {}

    def forget(self, queue: Queue) -> None:
        """Decide anew if a queue that is added, removed or changed takes notifications."""
        if queue.definition.address == self._address:
            self._decisions.clear()

    def includes(self, properties: Properties) -> bool:
        """Return False if no queue takes a notification with these properties."""
        known = (properties.get(_KIND), properties.get(_ADDRESS), properties.get(_DISTANCE))
        decision = self._decisions.get(known)
        address = self._resolution.find(self._address)
        # What is bound beside its own queues may change without an event of theirs.
        if address is None or address.others is not None:
            return True
        if decision is None:
            if len(self._decisions) >= _DECISIONS_MAX:
                self._decisions.clear()
            filters = {queue.filter for queue in address.queues}
            decision = self._decisions[known] = len(filters) > _FILTERS_MAX or any(
                filter is None or may_select(filter, *known) for filter in filters
            )
        return decision
