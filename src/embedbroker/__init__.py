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
        HAPolicy,
        LockManager,
        PrimaryOnly,
        QueueConfiguration,
        ReplicationBackup,
        ReplicationPrimary,
        Role,
        ScaleDown,
        SharedStoreBackup,
        SharedStorePrimary,
    )
    from .configfile import ConfigFileError, load_config
    from .locks import MemoryLockManager, MemoryLocks
    from .runtime import EmbeddedBroker
    from .runtime._threaded import ThreadedBroker

__all__ = [
    "AddressConfiguration",
    "AddressFullPolicy",
    "AddressSettings",
    "BrokerConfig",
    "ClusterConnection",
    "ConfigFileError",
    "EmbeddedBroker",
    "HAPolicy",
    "LockManager",
    "MemoryLockManager",
    "MemoryLocks",
    "PrimaryOnly",
    "QueueConfiguration",
    "ReplicationBackup",
    "ReplicationPrimary",
    "Role",
    "ScaleDown",
    "SharedStoreBackup",
    "SharedStorePrimary",
    "ThreadedBroker",
    "load_config",
]

__getattr__ = lazy_names(
    __name__,
    {
        ".config": (
            "AddressConfiguration AddressFullPolicy AddressSettings BrokerConfig ClusterConnection HAPolicy "
            "LockManager PrimaryOnly QueueConfiguration ReplicationBackup ReplicationPrimary Role ScaleDown "
            "SharedStoreBackup SharedStorePrimary"
        ),
        ".configfile": "ConfigFileError load_config",
        ".runtime": "EmbeddedBroker",
        ".locks": "MemoryLockManager MemoryLocks",
        ".runtime._threaded": "ThreadedBroker",
    },
)
