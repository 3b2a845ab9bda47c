"""A message broker that lives inside a Python process.

Public names are those in `__all__`; the rest of the package may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

if TYPE_CHECKING:
    from .config import (
        AddressConfiguration,
        AddressFullPolicy,
        AddressSettings,
        BrokerConfig,
        ClusterConnection,
        GuestLogin,
        HAPolicy,
        LockManager,
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
    )
    from .configfile import ConfigFileError, load_config
    from .locks import MemoryLockManager, MemoryLocks
    from .runtime import EmbeddedBroker, ThreadedBroker

__all__ = [
    "AddressConfiguration",
    "AddressFullPolicy",
    "AddressSettings",
    "BrokerConfig",
    "ClusterConnection",
    "ConfigFileError",
    "EmbeddedBroker",
    "GuestLogin",
    "HAPolicy",
    "LockManager",
    "MemoryLockManager",
    "MemoryLocks",
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
    "ThreadedBroker",
    "User",
    "load_config",
]

__getattr__ = lazy_names(
    __name__,
    {
        ".config": (
            "AddressConfiguration AddressFullPolicy AddressSettings BrokerConfig ClusterConnection GuestLogin "
            "HAPolicy LockManager PrimaryOnly QueueConfiguration ReplicationBackup ReplicationPrimary ResourceLimits "
            "Role ScaleDown SecuritySetting SharedStoreBackup SharedStorePrimary User"
        ),
        ".configfile": "ConfigFileError load_config",
        ".runtime": "EmbeddedBroker ThreadedBroker",
        ".locks": "MemoryLockManager MemoryLocks",
    },
)
