"""Types that signatures of a broker name, and that its start does not load.

A signature has such a name behind that of this module, so that `typing.get_type_hints` finds it. It loads only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

if TYPE_CHECKING:
    from embedbroker.config import BrokerSettings
    from embedbroker.locks import LockManagers, Locks
    from embedbroker.storage import Disk
    from embedclient.transport import Datagrams

    from .._hosted_backups import HostableBroker, HostedBackup, HostedBackups
    from .._management import Management, QueueInfo
    from .._options import BrokerOptions
    from .._threaded_management import ThreadedManagement

__all__ = [
    "BrokerOptions",
    "BrokerSettings",
    "Datagrams",
    "Disk",
    "HostableBroker",
    "HostedBackup",
    "HostedBackups",
    "LockManagers",
    "Locks",
    "Management",
    "QueueInfo",
    "ThreadedManagement",
]

__getattr__ = lazy_names(
    __name__,
    {
        "embedbroker.config": "BrokerSettings",
        "embedbroker.locks": "LockManagers Locks",
        "embedbroker.storage": "Disk",
        "embedclient.transport": "Datagrams",
        ".._hosted_backups": "HostableBroker HostedBackup HostedBackups",
        ".._management": "Management QueueInfo",
        ".._options": "BrokerOptions",
        ".._threaded_management": "ThreadedManagement",
    },
)
