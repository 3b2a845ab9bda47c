"""The lock manager that a configuration selects: Artemis' class names and properties, and the drivers behind them.

Opens nothing: a session is opened with the broker's life.
"""

from __future__ import annotations

from collections.abc import Mapping

from embedbroker.config import LockManager
from embedbroker.locks import LockManagers

__all__ = ["lock_manager_of"]

# By the last part of the class name; the second of each is Artemis' name before 2.41.
_FILES = ("FileBasedLockManager", "FileBasedPrimitiveManager")
_ZOOKEEPER = ("CuratorDistributedLockManager", "CuratorDistributedPrimitiveManager")


def lock_manager_of(configured: LockManager) -> LockManagers:
    """Return the lock manager of a policy.

    Raises:
        ValueError: there is no such manager, or a property is wrong; the text names it.
    """
    name = configured.class_name.rpartition(".")[2]
    try:
        if name in _FILES:
            return _in_files(configured.properties)
        if name in _ZOOKEEPER:
            from ._zookeeper import ZooKeeperLockManager, ZooKeeperSettings

            return ZooKeeperLockManager(ZooKeeperSettings.of(configured.properties))
    except ValueError as error:
        raise ValueError(f"lock_manager {name}: {error}") from None
    raise ValueError(
        f"lock_manager: there is no class_name {configured.class_name!r} here; there are {_FILES[0]} and"
        f" {_ZOOKEEPER[0]}, or hand a lock manager to EmbeddedBroker(config, lock_manager=...)"
    )


def _in_files(properties: Mapping[str, str]) -> LockManagers:
    from ._file_leases import FileLockManager

    for name in properties:
        if name != "locks-folder":
            raise ValueError(f"property {name!r} is unknown; the only one is locks-folder")
    if not properties.get("locks-folder"):
        raise ValueError("needs the property locks-folder, a directory that all brokers of the pair reach")
    return FileLockManager(properties["locks-folder"])
