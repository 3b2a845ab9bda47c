"""The settings of a broker as keyword arguments, for editors and type checkers.

Responsible for names and types only: `BrokerConfig` has the values, their checks and what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from embedclient.model import TLS, TransportConfiguration

from ._acceptors import AcceptorConfig
from ._address_settings import AddressSettings
from ._addresses import AddressConfiguration
from ._bridges import BridgeConfig
from ._broker import ConfigurationSource
from ._checks import PathLike
from ._cluster import ClusterConnection
from ._discovery import BroadcastGroup, DiscoveryGroup
from ._diverts import DivertConfiguration
from ._grouping import GroupingHandlerConfig
from ._ha_policy import HAPolicy
from ._security import GuestLogin, ResourceLimits, SecuritySetting, User, UserSource
from ._wildcards import WildcardConfiguration

__all__ = ["BrokerSettings"]

#: The values of an object by their names, in place of the object.
Nested: TypeAlias = Mapping[str, Any]


class BrokerSettings(TypedDict, total=False):
    """The keyword arguments that replace single values of a `BrokerConfig`.

    A function that passes settings on to `EmbeddedBroker` has the parameter `**settings: Unpack[BrokerSettings]`.
    """

    name: str
    host: str
    port: int
    acceptor_name: str
    anycast_prefixes: Sequence[str]
    multicast_prefixes: Sequence[str]
    tls: TLS | None
    acceptors: Sequence[AcceptorConfig | Nested]
    data_directory: str | PathLike | None
    ha_policy: HAPolicy
    node_manager_lock_directory: str | PathLike | None
    journal_lock_acquisition_timeout_ms: int
    connectors: Mapping[str, str | TransportConfiguration]
    broadcast_groups: Sequence[BroadcastGroup | Nested]
    discovery_groups: Sequence[DiscoveryGroup | Nested]
    cluster_connections: ClusterConnection | Nested | Sequence[ClusterConnection | Nested]
    cluster_user: str
    cluster_password: str
    wildcard_addresses: WildcardConfiguration
    literal_match_markers: str
    address_settings: Mapping[str, AddressSettings | Nested] | None
    addresses: Mapping[str, AddressConfiguration | Nested]
    diverts: Mapping[str, DivertConfiguration | Nested]
    bridges: Sequence[BridgeConfig | Nested]
    grouping_handler: GroupingHandlerConfig | None
    security_enabled: bool | None
    users: Iterable[User | Nested]
    guest: GuestLogin | None
    user_source: UserSource | None
    configuration_source: ConfigurationSource | None
    configuration_file_refresh_period_ms: int
    security_settings: Mapping[str, SecuritySetting | Nested] | None
    resource_limits: Mapping[str, ResourceLimits | Nested]
    populate_validated_user: bool
    reject_empty_validated_user: bool
    authentication_cache_size: int
    authorization_cache_size: int
    failed_login_delay_ms: int
    uuid_namespace: str
    management_address: str
    management_notification_address: str
    management_message_rbac: bool
    management_rbac_prefix: str
    view_permission_method_match_pattern: str
    send_address_notifications: bool
    send_connection_notifications: bool
    message_counter_enabled: bool
    message_counter_sample_period_ms: int
    message_counter_max_day_history: int
    global_max_size_bytes: int | None
    global_max_size_margin_bytes: int | None
    partial_frames_bytes_max: int | None
    resend_bytes_max: int | None
    output_total_bytes_max: int | None
    id_cache_bytes_max: int | None
    id_cache_size: int
    persist_id_cache: bool
    persist_delivery_count_before_delivery: bool
    frame_size_bytes_max: int
    client_version_min: int
    connection_ttl_ms: int
    connection_check_interval_ms: int
    handshake_timeout_ms: int
    connections_max: int
    sessions_per_connection_max: int
    consumers_per_session_max: int
    session_metadata_bytes_max: int
    held_replies_max: int
    addresses_max: int
    queues_max: int
    message_expiry_scan_period_ms: int
    transaction_timeout_ms: int
    transaction_timeout_scan_period_ms: int
    xa_branches_max: int
    address_queue_scan_period_ms: int
    output_high_water_bytes: int
    output_bytes_max: int
    work_per_step_max: int
    segment_size_bytes: int
    audit_directory: str | PathLike | None
    audit_retention: int
    large_messages_directory: str | PathLike | None
