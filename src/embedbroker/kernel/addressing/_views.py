"""Results of queries: frozen views of queues and addresses."""

from __future__ import annotations

from attrs import asdict, evolve, frozen

from .._definitions import QueueDefinition

__all__ = ["AddressView", "QueueRequest", "QueueUpdate", "QueueView"]


@frozen
class QueueRequest:
    """Hold a client's request to create a queue. None takes the address settings' default.

    ``routing_type`` None takes the default too. ``shared`` queues may exist already with the same address and filter.
    """

    address: str
    name: str
    filter: str | None = None
    durable: bool = True
    temporary: bool = False
    routing_type: int | None = None
    auto_created: bool = False
    max_consumers: int | None = None
    purge_on_no_consumers: bool | None = None
    exclusive: bool | None = None
    group_buckets: int | None = None
    group_rebalance: bool | None = None
    group_rebalance_pause_dispatch: bool | None = None
    group_first_key: str | None = None
    enabled: bool | None = None
    auto_delete: bool | None = None
    auto_delete_delay: int | None = None
    auto_delete_message_count: int | None = None
    shared: bool = False
    ignore_if_exists: bool = False
    user: str | None = None
    configuration_managed: bool = False
    internal: bool = False


@frozen
class QueueUpdate:
    """Hold a request to change a queue. None keeps a value; an empty filter, user or group key removes it."""

    filter: str | None = None
    routing_type: int | None = None
    max_consumers: int | None = None
    purge_on_no_consumers: bool | None = None
    exclusive: bool | None = None
    group_buckets: int | None = None
    group_rebalance: bool | None = None
    group_rebalance_pause_dispatch: bool | None = None
    group_first_key: str | None = None
    enabled: bool | None = None
    user: str | None = None

    def of(self, definition: QueueDefinition) -> QueueDefinition:
        """Return the definition with the changes."""
        changes = {name: value for name, value in asdict(self).items() if value is not None}
        for name in ("filter", "user", "group_first_key"):
            if name in changes:
                changes[name] = changes[name] or None
        return evolve(definition, **changes)


@frozen
class QueueView:
    """Describe one queue as a query reports it; for a missing one the values it would get."""

    exists: bool
    definition: QueueDefinition
    consumer_count: int
    message_count: int
    auto_create_queues: bool
    default_consumer_window_size: int


@frozen
class AddressView:
    """Describe one address as a query reports it, with the defaults a queue on it would get."""

    exists: bool
    queue_names: list[str]
    auto_create_queues: bool
    auto_create_addresses: bool
    default_purge_on_no_consumers: bool
    default_max_consumers: int
    default_exclusive: bool
    supports_multicast: bool
    supports_anycast: bool
