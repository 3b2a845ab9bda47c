"""The keyword arguments of a broker, as a type for completion and for checkers of types."""

from __future__ import annotations

from collections.abc import Callable

from embedbroker.config import BrokerConfig, BrokerSettings
from embedbroker.locks import LockManagers, Locks
from embedbroker.storage import Disk
from embedclient.transport import Datagrams

from ._endpoint import Network
from ._hosted_backups import HostableBroker

__all__ = ["BrokerOptions"]


class BrokerOptions(BrokerSettings, total=False):
    """All arguments of `EmbeddedBroker` behind the configuration."""

    disk: Disk | None
    locks: Locks | None
    network: Network | None
    datagrams: Datagrams | None
    lock_manager: LockManagers | None
    make_backup: Callable[[BrokerConfig, str], HostableBroker] | None
