"""The paged lists of queues and addresses."""

from __future__ import annotations

import json

from embedbroker.kernel import Address, Kernel, Queue

from ._paging import Column, page_of
from ._registry import Call, Kind, Operation, Parameter, Work
from ._texts import ROUTING_TYPES, routing_types_text

__all__ = ["OPERATIONS", "PAGE_PARAMETERS", "QUEUE_COLUMNS", "limit_percent"]

PAGE_PARAMETERS = (
    Parameter("options", Kind.TEXT),
    Parameter("page", Kind.INTEGER),
    Parameter("pageSize", Kind.INTEGER),
)

QUEUE_COLUMNS: dict[str, Column] = {
    "id": Column(lambda queue: queue.id, is_number=True),
    "name": Column(lambda queue: queue.name),
    "address": Column(lambda queue: queue.definition.address),
    "filter": Column(lambda queue: queue.definition.filter),
    "durable": Column(lambda queue: queue.durable),
    "paused": Column(lambda queue: queue.is_paused),
    "persistedPause": Column(lambda queue: queue.definition.paused),
    "temporary": Column(lambda queue: queue.definition.temporary),
    "purgeOnNoConsumers": Column(lambda queue: queue.definition.purge_on_no_consumers),
    "consumerCount": Column(lambda queue: queue.consumer_count, is_number=True),
    "maxConsumers": Column(lambda queue: queue.definition.max_consumers, is_number=True),
    "autoCreated": Column(lambda queue: queue.definition.auto_created),
    "user": Column(lambda queue: queue.definition.user),
    "routingType": Column(lambda queue: ROUTING_TYPES[queue.definition.routing_type]),
    "messagesAdded": Column(lambda queue: queue.added_count, is_number=True),
    "messageCount": Column(lambda queue: queue.message_count, is_number=True),
    "messagesAcked": Column(lambda queue: queue.acknowledged_count, is_number=True),
    "messagesExpired": Column(lambda queue: queue.expired_count, is_number=True),
    "deliveringCount": Column(lambda queue: queue.delivering_count, is_number=True),
    "messagesKilled": Column(lambda queue: queue.killed_count, is_number=True),
    "directDeliver": Column(lambda queue: False),
    "exclusive": Column(lambda queue: queue.definition.exclusive),
    "lastValue": Column(lambda queue: False),
    "lastValueKey": Column(lambda queue: None),
    "scheduledCount": Column(lambda queue: queue.scheduled_count, is_number=True),
    "groupRebalance": Column(lambda queue: queue.definition.group_rebalance),
    "groupRebalancePauseDispatch": Column(lambda queue: queue.definition.group_rebalance_pause_dispatch),
    "groupBuckets": Column(lambda queue: queue.definition.group_buckets, is_number=True),
    "groupFirstKey": Column(lambda queue: queue.definition.group_first_key),
    "enabled": Column(lambda queue: queue.definition.enabled),
    "ringSize": Column(lambda queue: -1, is_number=True),
    "consumersBeforeDispatch": Column(lambda queue: 0, is_number=True),
    "delayBeforeDispatch": Column(lambda queue: -1, is_number=True),
    "autoDelete": Column(lambda queue: queue.definition.auto_delete),
    "internalQueue": Column(lambda queue: queue.definition.internal),
}
"""Fields of a queue under the names of Artemis; kinds of queues that do not exist yet have the values of "off"."""


def limit_percent(kernel: Kernel, address: Address) -> int:
    """Return the size of an address in percent of its limit, or without one of the limit of the broker."""
    memory, limit = kernel.memory, kernel.settings.of(address.name).max_size_bytes
    if limit is None or limit <= 0:
        limit = memory.limit_bytes
    return 100 * memory.address_bytes(address.name) // limit if limit else 0


def _address_columns(kernel: Kernel) -> dict[str, Column]:
    def size_of(address: Address) -> int:
        return kernel.memory.address_bytes(address.name)

    def percent_of(address: Address) -> int:
        return limit_percent(kernel, address)

    return {
        "id": Column(lambda address: address.definition.id, is_number=True),
        "name": Column(lambda address: address.name),
        "routingTypes": Column(lambda address: json.dumps(routing_types_text(address), separators=(",", ":"))),
        "queueCount": Column(lambda address: len(address.queues), is_number=True),
        "internal": Column(lambda address: False),
        "temporary": Column(_is_temporary),
        "autoCreated": Column(lambda address: address.definition.auto_created),
        "paused": Column(lambda address: address.paused),
        "currentDuplicateIdCacheSize": Column(
            lambda address: 0 if address.duplicate_ids is None else len(address.duplicate_ids), is_number=True
        ),
        "retroactiveResource": Column(lambda address: False),
        "unroutedMessageCount": Column(lambda address: address.unrouted_count, is_number=True),
        "routedMessageCount": Column(lambda address: address.routed_count - address.unrouted_count, is_number=True),
        "messageCount": Column(lambda address: sum([queue.message_count for queue in address.queues]), is_number=True),
        "addressLimitPercent": Column(percent_of, is_number=True),
        "addressSize": Column(size_of, is_number=True),
        "numberOfPages": Column(lambda address: 0, is_number=True),
        "paging": Column(lambda address: False),
    }


def _is_temporary(address: Address) -> bool:
    queues = address.queues
    return bool(queues) and all(queue.definition.temporary for queue in queues)


def _list_queues(call: Call, options: str | None, page: int | None, page_size: int | None) -> Work:
    queues: list[Queue] = list(call.kernel.address_manager.queues.values())
    return page_of(queues, QUEUE_COLUMNS, options, page, page_size, "name")


def _list_addresses(call: Call, options: str | None, page: int | None, page_size: int | None) -> Work:
    addresses = list(call.kernel.address_manager.addresses.values())
    return page_of(addresses, _address_columns(call.kernel), options, page, page_size, "id")


OPERATIONS = (
    Operation("listQueues", PAGE_PARAMETERS, "String", _list_queues, "A page of queues as JSON."),
    Operation("listAddresses", PAGE_PARAMETERS, "String", _list_addresses, "A page of addresses as JSON."),
)
