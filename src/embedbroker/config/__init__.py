"""Frozen configuration values of one broker, validated once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

from ._acceptors import AcceptorConfig, as_acceptors
from ._address_settings import AddressFullPolicy, AddressSettings, AddressSettingsRepository
from ._addresses import AddressConfiguration, QueueConfiguration
from ._bridges import (
    ADD_HEADERS,
    BridgeConfig,
    BridgeRoutingType,
    BridgeTransformer,
    bridge_as_json,
    check_bridges,
)
from ._broker import BrokerConfig, ConfigurationSource, ConfigurationWatch, MemoryShares, check_beside_acceptors
from ._cluster import (
    DEFAULT_CLUSTER_PASSWORD,
    DEFAULT_CLUSTER_USER,
    ClusterConnection,
    MessageLoadBalancing,
    as_connectors,
    overlap,
)
from ._colocation import HOST_CONNECTOR, can_scale_down_at_host, hosted_backup, is_at_host
from ._discovery import BroadcastGroup, DiscoveryGroup
from ._diverts import DivertConfiguration, DivertRoutingType, Transformer, as_diverts, forwarding_addresses
from ._grouping import GroupingHandlerConfig, GroupingHandlerType
from ._ha_policy import (
    Colocated,
    HAPolicy,
    LockManager,
    PlainPolicy,
    PrimaryOnly,
    ReplicationBackup,
    ReplicationPrimary,
    ScaleDown,
    SharedStoreBackup,
    SharedStorePrimary,
)
from ._matches import Matches
from ._misfits import exposure, misfits
from ._role import Role
from ._security import (
    ANY_ROLE,
    GuestLogin,
    ResourceLimits,
    SecuritySetting,
    User,
    UserChange,
    UserSource,
    certificate_pattern,
)
from ._settings_json import (
    PERMISSIONS,
    address_settings_as_json,
    address_settings_of_json,
    security_setting_of_json,
)
from ._wildcards import WildcardConfiguration

if TYPE_CHECKING:
    from ._broker_settings import BrokerSettings

__all__ = [
    "ADD_HEADERS",
    "ANY_ROLE",
    "DEFAULT_CLUSTER_PASSWORD",
    "DEFAULT_CLUSTER_USER",
    "HOST_CONNECTOR",
    "PERMISSIONS",
    "AcceptorConfig",
    "AddressConfiguration",
    "AddressFullPolicy",
    "AddressSettings",
    "AddressSettingsRepository",
    "BridgeConfig",
    "BridgeRoutingType",
    "BridgeTransformer",
    "BroadcastGroup",
    "BrokerConfig",
    "BrokerSettings",
    "ClusterConnection",
    "Colocated",
    "ConfigurationSource",
    "ConfigurationWatch",
    "DiscoveryGroup",
    "DivertConfiguration",
    "DivertRoutingType",
    "GroupingHandlerConfig",
    "GroupingHandlerType",
    "GuestLogin",
    "HAPolicy",
    "LockManager",
    "Matches",
    "MemoryShares",
    "MessageLoadBalancing",
    "PlainPolicy",
    "PrimaryOnly",
    "QueueConfiguration",
    "ReplicationBackup",
    "ReplicationPrimary",
    "ResourceLimits",
    "Role",
    "ScaleDown",
    "SecuritySetting",
    "SharedStoreBackup",
    "SharedStorePrimary",
    "Transformer",
    "User",
    "UserChange",
    "UserSource",
    "WildcardConfiguration",
    "address_settings_as_json",
    "address_settings_of_json",
    "as_acceptors",
    "as_connectors",
    "as_diverts",
    "bridge_as_json",
    "can_scale_down_at_host",
    "certificate_pattern",
    "check_beside_acceptors",
    "check_bridges",
    "exposure",
    "forwarding_addresses",
    "hosted_backup",
    "is_at_host",
    "misfits",
    "overlap",
    "security_setting_of_json",
]

# For type checkers: a broker does without.
__getattr__ = lazy_names(__name__, {"._broker_settings": "BrokerSettings"})
