"""A message broker that lives inside a Python process.

Everything promised to users is in `__all__`; the rest of the package may change.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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

# Loaded on first use: importing the package is cheap for programs that need one name of it.
_HOMES = {
    **dict.fromkeys(__all__, ".config"),
    "ConfigFileError": ".configfile",
    "EmbeddedBroker": ".runtime",
    "MemoryLockManager": ".locks",
    "MemoryLocks": ".locks",
    "ThreadedBroker": ".runtime._threaded",
    "load_config": ".configfile",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __name__), name)
