"""Packets about addresses, queues and session metadata.

Responsible for creation, deletion, queries and their answers. Does not depend on which answer a version expects. Where
a creation has None, the broker's address settings decide.
"""

from __future__ import annotations

from ._packet_table import (
    Packet,
    flag,
    i8,
    i32,
    i64,
    optional_flag,
    optional_i32,
    optional_i64,
    optional_simple_string,
    routing_types,
    simple_string,
    simple_strings,
    string,
)
from ._packet_type import PacketType


class CreateAddress(Packet):
    """Create an address, or replace the routing types of an existing one."""

    TYPE = PacketType.CREATE_ADDRESS
    address: str = simple_string()
    routing_types: tuple[int, ...] = routing_types()
    requires_response: bool = flag()
    auto_created: bool = flag()


class CreateQueue(Packet):
    """Create a queue, before version 129."""

    TYPE = PacketType.CREATE_QUEUE
    address: str = simple_string()
    queue_name: str = simple_string()
    filter: str | None = optional_simple_string()
    durable: bool = flag()
    temporary: bool = flag()
    requires_response: bool = flag()


class CreateQueueV2(Packet):
    """Create a queue."""

    TYPE = PacketType.CREATE_QUEUE_V2
    address: str = simple_string()
    queue_name: str = simple_string()
    filter: str | None = optional_simple_string()
    durable: bool = flag()
    temporary: bool = flag()
    requires_response: bool = flag()
    auto_created: bool = flag()
    routing_type: int = i8()
    max_consumers: int = i32(default=-1)
    purge_on_no_consumers: bool = flag(default=False)
    exclusive: bool | None = optional_flag(default=None, tail=True)
    last_value: bool | None = optional_flag(default=None)
    last_value_key: str | None = optional_simple_string(default=None, tail=True)
    non_destructive: bool | None = optional_flag(default=None)
    consumers_before_dispatch: int | None = optional_i32(default=None)
    delay_before_dispatch: int | None = optional_i64(default=None)
    group_rebalance: bool | None = optional_flag(default=None)
    group_buckets: int | None = optional_i32(default=None)
    auto_delete: bool | None = optional_flag(default=None)
    auto_delete_delay: int | None = optional_i64(default=None)
    auto_delete_message_count: int | None = optional_i64(default=None)
    group_first_key: str | None = optional_simple_string(default=None, tail=True)
    ring_size: int | None = optional_i64(default=None, tail=True)
    enabled: bool | None = optional_flag(default=None, tail=True)
    group_rebalance_pause_dispatch: bool | None = optional_flag(default=None, tail=True)


class CreateSharedQueue(Packet):
    """Create the queue of a shared subscription if it is missing, before version 129."""

    TYPE = PacketType.CREATE_SHARED_QUEUE
    address: str = simple_string()
    queue_name: str = simple_string()
    filter: str | None = optional_simple_string()
    durable: bool = flag()
    requires_response: bool = flag()


class CreateSharedQueueV2(Packet):
    """Create the queue of a shared subscription if it is missing."""

    TYPE = PacketType.CREATE_SHARED_QUEUE_V2
    address: str = simple_string()
    queue_name: str = simple_string()
    filter: str | None = optional_simple_string()
    durable: bool = flag()
    routing_type: int = i8()
    requires_response: bool = flag()
    max_consumers: int | None = optional_i32(default=None, tail=True)
    purge_on_no_consumers: bool | None = optional_flag(default=None)
    exclusive: bool | None = optional_flag(default=None)
    last_value: bool | None = optional_flag(default=None)
    last_value_key: str | None = optional_simple_string(default=None, tail=True)
    non_destructive: bool | None = optional_flag(default=None)
    consumers_before_dispatch: int | None = optional_i32(default=None)
    delay_before_dispatch: int | None = optional_i64(default=None)
    group_rebalance: bool | None = optional_flag(default=None)
    group_buckets: int | None = optional_i32(default=None)
    auto_delete: bool | None = optional_flag(default=None)
    auto_delete_delay: int | None = optional_i64(default=None)
    auto_delete_message_count: int | None = optional_i64(default=None)
    group_first_key: str | None = optional_simple_string(default=None, tail=True)
    ring_size: int | None = optional_i64(default=None, tail=True)
    enabled: bool | None = optional_flag(default=None, tail=True)
    group_rebalance_pause_dispatch: bool | None = optional_flag(default=None, tail=True)


class DeleteQueue(Packet):
    """Delete a queue that has no consumers."""

    TYPE = PacketType.DELETE_QUEUE
    queue_name: str = simple_string()


class SessionQueueQuery(Packet):
    """Query a queue."""

    TYPE = PacketType.SESS_QUEUEQUERY
    queue_name: str = simple_string()


class SessionQueueQueryResponse(Packet):
    """Describe a queue, before version 126."""

    TYPE = PacketType.SESS_QUEUEQUERY_RESP
    exists: bool = flag()
    durable: bool = flag()
    temporary: bool = flag()
    consumer_count: int = i32()
    message_count: int = i64()
    filter: str | None = optional_simple_string()
    address: str | None = optional_simple_string()
    name: str | None = optional_simple_string()


class SessionQueueQueryResponseV2(Packet):
    """Describe a queue, versions 126 to 128."""

    TYPE = PacketType.SESS_QUEUEQUERY_RESP_V2
    exists: bool = flag()
    durable: bool = flag()
    temporary: bool = flag()
    consumer_count: int = i32()
    message_count: int = i64()
    filter: str | None = optional_simple_string()
    address: str | None = optional_simple_string()
    name: str | None = optional_simple_string()
    auto_create_queues: bool = flag()


class SessionQueueQueryResponseV3(Packet):
    """Describe a queue. For a missing queue, the attributes it would be created with."""

    TYPE = PacketType.SESS_QUEUEQUERY_RESP_V3
    exists: bool = flag()
    durable: bool = flag()
    temporary: bool = flag()
    consumer_count: int = i32()
    message_count: int = i64()
    filter: str | None = optional_simple_string()
    address: str | None = optional_simple_string()
    name: str | None = optional_simple_string()
    auto_create_queues: bool = flag()
    auto_created: bool = flag()
    purge_on_no_consumers: bool = flag()
    routing_type: int = i8()
    max_consumers: int = i32()
    exclusive: bool | None = optional_flag(default=None, tail=True)
    last_value: bool | None = optional_flag(default=None)
    default_consumer_window_size: int | None = optional_i32(default=None, tail=True)
    last_value_key: str | None = optional_simple_string(default=None, tail=True)
    non_destructive: bool | None = optional_flag(default=None)
    consumers_before_dispatch: int | None = optional_i32(default=None)
    delay_before_dispatch: int | None = optional_i64(default=None)
    group_rebalance: bool | None = optional_flag(default=None)
    group_buckets: int | None = optional_i32(default=None)
    auto_delete: bool | None = optional_flag(default=None)
    auto_delete_delay: int | None = optional_i64(default=None)
    auto_delete_message_count: int | None = optional_i64(default=None)
    group_first_key: str | None = optional_simple_string(default=None, tail=True)
    ring_size: int | None = optional_i64(default=None, tail=True)
    enabled: bool | None = optional_flag(default=None, tail=True)
    group_rebalance_pause_dispatch: bool | None = optional_flag(default=None, tail=True)
    configuration_managed: bool | None = optional_flag(default=None, tail=True)


class SessionBindingQuery(Packet):
    """Query the queues of an address."""

    TYPE = PacketType.SESS_BINDINGQUERY
    address: str = simple_string()


class SessionBindingQueryResponse(Packet):
    """The queues of an address, before version 126."""

    TYPE = PacketType.SESS_BINDINGQUERY_RESP
    exists: bool = flag()
    queue_names: tuple[str, ...] = simple_strings()


class SessionBindingQueryResponseV2(Packet):
    """The queues of an address, version 126."""

    TYPE = PacketType.SESS_BINDINGQUERY_RESP_V2
    exists: bool = flag()
    queue_names: tuple[str, ...] = simple_strings()
    auto_create_queues: bool = flag()


class SessionBindingQueryResponseV3(Packet):
    """The queues of an address, versions 127 and 128."""

    TYPE = PacketType.SESS_BINDINGQUERY_RESP_V3
    exists: bool = flag()
    queue_names: tuple[str, ...] = simple_strings()
    auto_create_queues: bool = flag()
    auto_create_addresses: bool = flag()


class SessionBindingQueryResponseV4(Packet):
    """The queues of an address, versions 129 to 134."""

    TYPE = PacketType.SESS_BINDINGQUERY_RESP_V4
    exists: bool = flag()
    queue_names: tuple[str, ...] = simple_strings()
    auto_create_queues: bool = flag()
    auto_create_addresses: bool = flag()
    default_purge_on_no_consumers: bool = flag()
    default_max_consumers: int = i32()
    default_exclusive: bool | None = optional_flag(default=None, tail=True)
    default_last_value: bool | None = optional_flag(default=None)
    default_last_value_key: str | None = optional_simple_string(default=None, tail=True)
    default_non_destructive: bool | None = optional_flag(default=None)
    default_consumers_before_dispatch: int | None = optional_i32(default=None)
    default_delay_before_dispatch: int | None = optional_i64(default=None)


class SessionBindingQueryResponseV5(Packet):
    """The queues of an address, and the routing types it serves."""

    TYPE = PacketType.SESS_BINDINGQUERY_RESP_V5
    exists: bool = flag()
    queue_names: tuple[str, ...] = simple_strings()
    auto_create_queues: bool = flag()
    auto_create_addresses: bool = flag()
    default_purge_on_no_consumers: bool = flag()
    default_max_consumers: int = i32()
    default_exclusive: bool | None = optional_flag(default=None, tail=True)
    default_last_value: bool | None = optional_flag(default=None)
    default_last_value_key: str | None = optional_simple_string(default=None, tail=True)
    default_non_destructive: bool | None = optional_flag(default=None)
    default_consumers_before_dispatch: int | None = optional_i32(default=None)
    default_delay_before_dispatch: int | None = optional_i64(default=None)
    supports_multicast: bool = flag(default=False, tail=True)
    supports_anycast: bool = flag(default=False)


class SessionAddMetadata(Packet):
    """Attach a text to the session; always answered."""

    TYPE = PacketType.SESS_ADD_METADATA
    key: str = string()
    value: str = string()


class SessionAddMetadataV2(Packet):
    """Attach a text to the session."""

    TYPE = PacketType.SESS_ADD_METADATA2
    key: str = string()
    value: str = string()
    requires_response: bool = flag()


class SessionUniqueAddMetadata(Packet):
    """Attach a text to the session unless another session has the same."""

    TYPE = PacketType.SESS_UNIQUE_ADD_METADATA
    key: str = string()
    value: str = string()
    requires_response: bool = flag(default=True)


PACKETS: tuple[type[Packet], ...] = (
    CreateAddress,
    CreateQueue,
    CreateQueueV2,
    CreateSharedQueue,
    CreateSharedQueueV2,
    DeleteQueue,
    SessionQueueQuery,
    SessionQueueQueryResponse,
    SessionQueueQueryResponseV2,
    SessionQueueQueryResponseV3,
    SessionBindingQuery,
    SessionBindingQueryResponse,
    SessionBindingQueryResponseV2,
    SessionBindingQueryResponseV3,
    SessionBindingQueryResponseV4,
    SessionBindingQueryResponseV5,
    SessionAddMetadata,
    SessionAddMetadataV2,
    SessionUniqueAddMetadata,
)
