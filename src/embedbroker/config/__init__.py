"""Frozen configuration values of one broker, validated once."""

from ._address_settings import AddressFullPolicy, AddressSettings, AddressSettingsRepository
from ._broker import BrokerConfig, MemoryShares
from ._ha_policy import (
    HAPolicy,
    LockManager,
    PrimaryOnly,
    ReplicationBackup,
    ReplicationPrimary,
    ScaleDown,
    SharedStoreBackup,
    SharedStorePrimary,
)
from ._role import Role

__all__ = [
    "AddressFullPolicy",
    "AddressSettings",
    "AddressSettingsRepository",
    "BrokerConfig",
    "HAPolicy",
    "LockManager",
    "MemoryShares",
    "PrimaryOnly",
    "ReplicationBackup",
    "ReplicationPrimary",
    "Role",
    "ScaleDown",
    "SharedStoreBackup",
    "SharedStorePrimary",
]
