"""Query results as the packet that a client of each version waits for (core-protocol 4.5)."""

from __future__ import annotations

from embedbroker.kernel import AddressView, QueueView
from embedclient.wire.core import (
    Packet,
    SessionBindingQueryResponse,
    SessionBindingQueryResponseV2,
    SessionBindingQueryResponseV3,
    SessionBindingQueryResponseV4,
    SessionBindingQueryResponseV5,
    SessionQueueQueryResponse,
    SessionQueueQueryResponseV2,
    SessionQueueQueryResponseV3,
)

from ._old_names import MODERN_NAMES_SINCE, old_name, prefix_of

__all__ = ["address_response", "queue_response"]


def queue_response(view: QueueView, version: int, *, to_query: bool = True) -> Packet:
    """Describe a queue, existing or not.

    Old clients get the address in their notation when they queried an existing queue. They get it unchanged when the
    queue does not exist or when they created a consumer (captured).
    """
    definition = view.definition
    address = definition.address
    if version < MODERN_NAMES_SINCE and view.exists and to_query:
        address = old_name(address, definition.routing_type)
    base = (
        view.exists,
        definition.durable,
        definition.temporary or definition.transient,
        view.consumer_count,
        view.message_count,
        definition.filter,
        address,
        definition.name,
    )
    if version < 126:
        return SessionQueueQueryResponse(*base)
    if version < 129:
        return SessionQueueQueryResponseV2(*base, view.auto_create_queues)
    return SessionQueueQueryResponseV3(
        *base,
        view.auto_create_queues,
        definition.auto_created,
        definition.purge_on_no_consumers,
        definition.routing_type,
        definition.max_consumers,
        exclusive=definition.exclusive,
        last_value=False,
        default_consumer_window_size=view.default_consumer_window_size,
        last_value_key=None,
        non_destructive=False,
        consumers_before_dispatch=0,
        delay_before_dispatch=-1,
        group_rebalance=definition.group_rebalance,
        group_buckets=definition.group_buckets,
        auto_delete=definition.auto_delete,
        auto_delete_delay=definition.auto_delete_delay,
        auto_delete_message_count=definition.auto_delete_message_count,
        group_first_key=definition.group_first_key,
        ring_size=-1,
        enabled=definition.enabled if view.exists else None,
        group_rebalance_pause_dispatch=definition.group_rebalance_pause_dispatch,
        configuration_managed=definition.configuration_managed,
    )


def address_response(view: AddressView, requested: str, version: int) -> Packet:
    """Describe an address and its queues."""
    names = tuple(view.queue_names)
    if version < MODERN_NAMES_SINCE and "::" not in requested:
        names = tuple(prefix_of(requested) + name for name in names)
    if version < 126:
        return SessionBindingQueryResponse(view.exists, names)
    if version < 127:
        return SessionBindingQueryResponseV2(view.exists, names, view.auto_create_queues)
    if version < 130 and "::" in requested:
        # Older clients compare the names with the fully qualified one of their query.
        names = tuple(f"{requested.partition('::')[0]}::{name}" for name in names)
    flags = (view.exists, names, view.auto_create_queues, view.auto_create_addresses)
    if version < 129:
        return SessionBindingQueryResponseV3(*flags)
    purge, consumers = view.default_purge_on_no_consumers, view.default_max_consumers
    exclusive, multicast, anycast = view.default_exclusive, view.supports_multicast, view.supports_anycast
    if version < 135:
        return SessionBindingQueryResponseV4(*flags, purge, consumers, exclusive, False, None, False, 0, -1)
    return SessionBindingQueryResponseV5(
        *flags, purge, consumers, exclusive, False, None, False, 0, -1, multicast, anycast
    )
