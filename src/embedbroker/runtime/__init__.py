"""The edges of a broker on trio, thin.

The reader of a stopped broker's journal loads on first use: a running broker, in memory perhaps, does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

from ._embedded import EmbeddedBroker, ThreadedBroker, observe

if TYPE_CHECKING:
    from ._body_directory import MARK_FILE, body_directory_fits
    from ._descriptors import raise_descriptor_limit
    from ._disk import FileDisk
    from ._endpoint import Network
    from ._file_leases import FileLockManager
    from ._hosted_backups import HostedBackup
    from ._journal_directory import journal_directory, repair_directory
    from ._management import AddressInfo, GroupInfo, Management, PreparedTransaction, QueueInfo
    from ._role_watch import Observer
    from ._threaded_management import ThreadedManagement

__all__ = [
    "MARK_FILE",
    "AddressInfo",
    "EmbeddedBroker",
    "FileDisk",
    "FileLockManager",
    "GroupInfo",
    "HostedBackup",
    "Management",
    "Network",
    "Observer",
    "PreparedTransaction",
    "QueueInfo",
    "ThreadedBroker",
    "ThreadedManagement",
    "body_directory_fits",
    "journal_directory",
    "observe",
    "raise_descriptor_limit",
    "repair_directory",
]

__getattr__ = lazy_names(
    __name__,
    {
        "._body_directory": "MARK_FILE body_directory_fits",
        "._disk": "FileDisk",
        "._file_leases": "FileLockManager",
        "._endpoint": "Network",
        "._hosted_backups": "HostedBackup",
        "._management": "AddressInfo GroupInfo Management PreparedTransaction QueueInfo",
        "._threaded_management": "ThreadedManagement",
        "._role_watch": "Observer",
        "._journal_directory": "journal_directory repair_directory",
        "._descriptors": "raise_descriptor_limit",
    },
)
