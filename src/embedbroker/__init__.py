"""A message broker that lives inside a Python process.

Public names are those in `__all__`; the rest of the package may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

if TYPE_CHECKING:
    from .config import (
        AcceptorConfig,
        AddressConfiguration,
        AddressFullPolicy,
        AddressSettings,
        BridgeConfig,
        BridgeRoutingType,
        BroadcastGroup,
        BrokerConfig,
        BrokerSettings,
        ClusterConnection,
        Colocated,
        DiscoveryGroup,
        DivertConfiguration,
        DivertRoutingType,
        GroupingHandlerConfig,
        GroupingHandlerType,
        GuestLogin,
        HAPolicy,
        LockManager,
        MessageLoadBalancing,
        PrimaryOnly,
        QueueConfiguration,
        ReplicationBackup,
        ReplicationPrimary,
        ResourceLimits,
        Role,
        ScaleDown,
        SecuritySetting,
        SharedStoreBackup,
        SharedStorePrimary,
        User,
        WildcardConfiguration,
    )
    from .configfile import ConfigFileError, load_config
    from .kernel import DivertedMessage
    from .locks import MemoryLockManager, MemoryLocks
    from .outbound import BridgedMessage
    from .runtime import (
        AddressInfo,
        EmbeddedBroker,
        GroupInfo,
        HostedBackup,
        Management,
        PreparedTransaction,
        QueueInfo,
        ThreadedBroker,
        ThreadedManagement,
    )

__all__ = [
    "AcceptorConfig",
    "AddressConfiguration",
    "AddressFullPolicy",
    "AddressInfo",
    "AddressSettings",
    "BridgeConfig",
    "BridgeRoutingType",
    "BridgedMessage",
    "BroadcastGroup",
    "BrokerConfig",
    "BrokerSettings",
    "ClusterConnection",
    "Colocated",
    "ConfigFileError",
    "DiscoveryGroup",
    "DivertConfiguration",
    "DivertRoutingType",
    "DivertedMessage",
    "EmbeddedBroker",
    "GroupInfo",
    "GroupingHandlerConfig",
    "GroupingHandlerType",
    "GuestLogin",
    "HAPolicy",
    "HostedBackup",
    "LockManager",
    "Management",
    "MemoryLockManager",
    "MemoryLocks",
    "MessageLoadBalancing",
    "PreparedTransaction",
    "PrimaryOnly",
    "QueueConfiguration",
    "QueueInfo",
    "ReplicationBackup",
    "ReplicationPrimary",
    "ResourceLimits",
    "Role",
    "ScaleDown",
    "SecuritySetting",
    "SharedStoreBackup",
    "SharedStorePrimary",
    "ThreadedBroker",
    "ThreadedManagement",
    "User",
    "WildcardConfiguration",
    "load_config",
]

__getattr__ = lazy_names(
    __name__,
    {
        ".config": (
            "AcceptorConfig AddressConfiguration AddressFullPolicy AddressSettings BridgeConfig BridgeRoutingType "
            "BroadcastGroup BrokerConfig BrokerSettings ClusterConnection Colocated DiscoveryGroup DivertConfiguration "
            "DivertRoutingType GroupingHandlerConfig GroupingHandlerType GuestLogin HAPolicy LockManager "
            "MessageLoadBalancing PrimaryOnly QueueConfiguration ReplicationBackup ReplicationPrimary ResourceLimits "
            "Role ScaleDown SecuritySetting SharedStoreBackup SharedStorePrimary User WildcardConfiguration"
        ),
        ".kernel": "DivertedMessage",
        ".outbound": "BridgedMessage",
        ".configfile": "ConfigFileError load_config",
        ".runtime": "AddressInfo EmbeddedBroker GroupInfo HostedBackup Management PreparedTransaction QueueInfo "
        "ThreadedBroker ThreadedManagement",
        ".locks": "MemoryLockManager MemoryLocks",
    },
)


def __dir__() -> list[str]:
    return __all__
