"""Addresses of a configuration that changes while the broker runs.

Responsible for what becomes of queues that exist. Does not depend on how a change is noticed.
"""

from __future__ import annotations

from typing import TypeVar

from embedbroker.config import AddressConfiguration, QueueConfiguration

from .._refusal import Refused
from ._addresses import AddressManager
from ._views import QueueUpdate

__all__ = ["ConfiguredAddresses"]

_MULTICAST, _ANYCAST = 0, 1

T = TypeVar("T")


class ConfiguredAddresses:
    """Adopt addresses, with their queues, of a configuration that has changed."""

    __slots__ = ("_manager",)

    def __init__(self, manager: AddressManager) -> None:
        self._manager = manager

    def reload(self, name: str, wanted: AddressConfiguration) -> list[Refused]:
        """Adopt an address, as Artemis does; return the refusals. What is not configured stays.

        Existing queues get the configured values; an attribute that is not configured gets the default of the address.
        The address stops serving a routing type that the configuration no longer contains, if no queue has it.
        """
        manager = self._manager
        existing = {queue.name for queue in manager.addresses[name].queues} if name in manager.addresses else set()
        refusals = manager.declare(name, wanted)
        for routing_type, queues in ((_ANYCAST, wanted.anycast), (_MULTICAST, wanted.multicast)):
            for queue_name, configured in (queues or {}).items():
                if queue_name in existing:
                    update = self._update(name, routing_type, configured)
                    refused = manager.update_queue(manager.queues[queue_name], update)
                    refusals += [] if refused is None else [refused]
        self._narrow(name, wanted)
        return refusals

    def _update(self, address_name: str, routing_type: int, configured: QueueConfiguration) -> QueueUpdate:
        settings = self._manager.settings.of(address_name)

        def default(value: T | None, otherwise: T | None) -> T | None:
            return otherwise if value is None else value

        return QueueUpdate(
            filter=configured.filter or "",
            routing_type=routing_type,
            max_consumers=default(configured.max_consumers, settings.default_max_consumers),
            purge_on_no_consumers=default(configured.purge_on_no_consumers, settings.default_purge_on_no_consumers),
            exclusive=default(configured.exclusive, settings.default_exclusive_queue),
            group_buckets=default(configured.group_buckets, settings.default_group_buckets),
            group_rebalance=default(configured.group_rebalance, settings.default_group_rebalance),
            group_rebalance_pause_dispatch=default(
                configured.group_rebalance_pause_dispatch, settings.default_group_rebalance_pause_dispatch
            ),
            group_first_key=configured.group_first_key or settings.default_group_first_key or "",
            # Without a value, what management ordered stays, as it does for a pause.
            enabled=configured.enabled,
            user=configured.user,
        )

    def _narrow(self, name: str, wanted: AddressConfiguration) -> None:
        """Serve the configured routing types, and those of queues that exist."""
        address = self._manager.addresses.get(name)
        if address is None:
            return
        kept = {queue.definition.routing_type for queue in address.queues}
        anycast = wanted.anycast is not None or _ANYCAST in kept
        multicast = wanted.multicast is not None or _MULTICAST in kept
        if (anycast, multicast) != (address.definition.anycast, address.definition.multicast):
            self._manager.create_address(name, anycast=anycast, multicast=multicast, auto_created=False, limited=False)
