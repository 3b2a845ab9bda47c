"""Definitions of addresses and queues, as durable values.

These are the values the journal stores and the kernel restores. They hold plain fields only and do not depend on
consumers, messages or files.
"""

from __future__ import annotations

from attrs import field, frozen

__all__ = [
    "AddressDefinition",
    "CursorDefinition",
    "CursorRemoved",
    "DivertDefinition",
    "DivertRemoved",
    "GroupDecision",
    "GroupDecisionRemoved",
    "QueueDefinition",
    "SettingsDefinition",
    "SettingsRemoved",
]


@frozen
class AddressDefinition:
    """Define one address: a name and the routing types it serves (core-protocol 2.1 of Artemis' address model)."""

    id: int
    name: str
    anycast: bool
    multicast: bool
    auto_created: bool = False
    paused: bool = False


@frozen
class QueueDefinition:
    """Define one queue as it was declared.

    ``routing_type`` is 0 for multicast and 1 for anycast, as on the wire. ``max_consumers`` of -1 means unlimited.
    ``auto_delete_delay`` is in milliseconds. ``auto_delete_message_count`` of -1 means "whatever it holds". A
    ``transient`` queue is deleted with its last consumer. ``paused`` is True for a pause that survives a restart.
    ``group_buckets`` of -1 means one for each group, and 0 that groups have no effect. ``group_rebalance`` assigns
    groups anew when a consumer joins; with ``group_rebalance_pause_dispatch`` not before consumers have settled what
    they hold. The first message of a group for a consumer has the property ``group_first_key``. A queue
    that is not ``enabled`` takes no message; what it has is delivered. A queue is ``configuration_managed`` if a
    configuration contained it. An ``internal`` one is made by the broker for itself.
    """

    id: int
    name: str
    address: str
    routing_type: int
    durable: bool = True
    temporary: bool = False
    transient: bool = False
    filter: str | None = None
    max_consumers: int = -1
    exclusive: bool = False
    purge_on_no_consumers: bool = False
    auto_created: bool = False
    auto_delete: bool = False
    auto_delete_delay: int = 0
    auto_delete_message_count: int = 0
    user: str | None = None
    paused: bool = False
    group_buckets: int = -1
    group_rebalance: bool = False
    group_first_key: str | None = None
    group_rebalance_pause_dispatch: bool = False
    enabled: bool = True
    configuration_managed: bool = False
    internal: bool = False


@frozen
class DivertDefinition:
    """Define one divert. ``routing_type`` is STRIP, PASS, ANYCAST or MULTICAST.

    ``forwarding_address`` names one address, or several with commas.
    ``properties`` are added to each copy, as text.
    """

    id: int
    name: str
    address: str
    forwarding_address: str
    routing_name: str
    exclusive: bool = False
    filter: str | None = None
    routing_type: str = "STRIP"
    properties: dict[str, str] = field(factory=dict)


@frozen
class GroupDecision:
    """Record that the messages of a group go to one queue of a cluster.

    ``key`` is the id of the group with a dot and the routing name; ``queue`` is the name of the queue in the cluster.
    """

    id: int
    key: str
    queue: str


@frozen
class GroupDecisionRemoved:
    """Record that a decision on a group is no longer in force."""

    id: int


@frozen
class DivertRemoved:
    """Record that a divert is gone."""

    id: int


@frozen
class CursorDefinition:
    """Define one reader's place in a queue.

    Everything up to ``position`` is acknowledged, and ``(position, end]`` is pinned; it held ``rows`` messages when
    that was last recorded. ``owner`` holds the lease; it is empty when the lease was released. The lease lasts
    ``lease_ms`` milliseconds from its last use. ``lost`` counts the messages that the latest pin from ``lost_start``
    found missing.
    """

    id: int
    queue_id: int
    name: str
    position: int = 0
    end: int = 0
    rows: int = 0
    owner: str = ""
    lease_ms: int = 0
    lost: int = 0
    lost_start: int = 0


@frozen
class CursorRemoved:
    """Record that a cursor is gone, and that all it acknowledged has left."""

    id: int


@frozen
class SettingsDefinition:
    """Define what management set: settings of the addresses of a match, or a bridge or connector of that name.

    ``kind`` is ``address``, ``security``, ``bridge`` or ``connector``. ``values`` are fields of `AddressSettings`,
    lists of roles by fields of `SecuritySetting`, fields of `BridgeConfig`, or a ``url``; fields that are not set are
    absent.
    """

    id: int
    kind: str
    match: str
    values: dict[str, object] = field(factory=dict)


@frozen
class SettingsRemoved:
    """Record that settings are gone."""

    id: int
