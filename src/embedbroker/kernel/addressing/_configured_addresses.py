"""Addresses of a configuration that changes while the broker runs.

Responsible for the treatment of queues that exist, and for the deletion of what a configuration does not contain. Does
not depend on how a change is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from embedbroker.config import AddressConfiguration, QueueConfiguration

from .._refusal import Refused
from ..queueing._queue import Queue
from ._address import Address
from ._addresses import AddressManager
from ._views import QueueUpdate

if TYPE_CHECKING:
    from .._teardown import Teardown

__all__ = ["ConfiguredAddresses"]

_MULTICAST, _ANYCAST = 0, 1

T = TypeVar("T")


class ConfiguredAddresses:
    """Adopt addresses, with their queues, of a configuration.

    Args:
        manager: Holds the addresses and queues.
        teardown: Deletes queues.
        inform: Receives one line about each queue and address that is deleted.
    """

    __slots__ = ("_inform", "_manager", "_teardown")

    def __init__(self, manager: AddressManager, teardown: Teardown, inform: Callable[[str], None]) -> None:
        self._manager = manager
        self._teardown = teardown
        self._inform = inform

    def remove_missing(self, wanted: Mapping[str, AddressConfiguration]) -> None:
        """Delete what a configuration does not contain, where address settings require it, as Artemis does.

        ``config_delete_addresses`` deletes an address with all its queues, unless it was created on demand.
        ``config_delete_queues`` deletes those queues of all other addresses that a configuration created. Dead letter
        and expiry addresses count as configured: settings contain them.
        """
        entries = self._manager.settings.entries.values()
        if not any(each.config_delete_queues or each.config_delete_addresses for each in entries):
            return
        targets: set[str | None] = set()
        for settings in entries:
            targets |= {settings.dead_letter_address, settings.expiry_address}
        for address in list(self._manager.addresses.values()):
            name = address.name
            is_missing = name not in wanted and name not in targets and not address.definition.auto_created
            missing_queues = [queue for queue in address.queues if queue.definition.configuration_managed]
            if missing_queues and name in wanted:
                configured = _queue_names(wanted[name])
                missing_queues = [queue for queue in missing_queues if queue.name not in configured]
            # The settings of an address cost more than the rest, and most addresses need none.
            if not is_missing and not missing_queues:
                continue
            settings = self._manager.settings.of(name)
            if is_missing and settings.config_delete_addresses:
                self._delete_address(address)
            elif settings.config_delete_queues:
                for queue in missing_queues:
                    self._delete_queue(queue)

    def _delete_address(self, address: Address) -> None:
        for queue in list(address.queues):
            self._delete_queue(queue)
        if self._manager.is_bound(address):
            self._inform(f"address {address.name!r} is not deleted: it has diverts")
            return
        self._inform(f"address {address.name!r} is deleted: the configuration does not contain it")
        self._manager.remove_address(address)

    def _delete_queue(self, queue: Queue) -> None:
        self._inform(f"queue {queue.name!r} is deleted: the configuration does not contain it")
        self._teardown.delete_queue(queue)

    def reload(self, name: str, wanted: AddressConfiguration) -> list[Refused]:
        """Adopt an address, as Artemis does; return the refusals. Queues that are not configured stay.

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


def _queue_names(wanted: AddressConfiguration) -> set[str]:
    """Return the names of the queues that an address has in a configuration."""
    return {*(wanted.anycast or ()), *(wanted.multicast or ())}
