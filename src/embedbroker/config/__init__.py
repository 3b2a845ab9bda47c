"""Frozen configuration values of one broker, validated once."""

from ._address_settings import AddressFullPolicy, AddressSettings, AddressSettingsRepository
from ._addresses import AddressConfiguration, QueueConfiguration
from ._broker import BrokerConfig, MemoryShares
from ._cluster import DEFAULT_CLUSTER_PASSWORD, DEFAULT_CLUSTER_USER, ClusterConnection
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
from ._misfits import misfits
from ._role import Role

__all__ = [
    "DEFAULT_CLUSTER_PASSWORD",
    "DEFAULT_CLUSTER_USER",
    "AddressConfiguration",
    "AddressFullPolicy",
    "AddressSettings",
    "AddressSettingsRepository",
    "BrokerConfig",
    "ClusterConnection",
    "HAPolicy",
    "LockManager",
    "MemoryShares",
    "PrimaryOnly",
    "QueueConfiguration",
    "ReplicationBackup",
    "ReplicationPrimary",
    "Role",
    "ScaleDown",
    "SharedStoreBackup",
    "SharedStorePrimary",
    "misfits",
]
