"""The edges of a broker on trio, thin.

What reads the journal of a stopped broker loads on first use: a broker that runs, in memory perhaps, does without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ._embedded import EmbeddedBroker, observe

if TYPE_CHECKING:
    from ._descriptors import raise_descriptor_limit
    from ._disk import FileDisk
    from ._endpoint import Network
    from ._file_leases import FileLockManager
    from ._journal_directory import journal_directory, repair_directory
    from ._role_watch import Observer

__all__ = [
    "EmbeddedBroker",
    "FileDisk",
    "FileLockManager",
    "Network",
    "Observer",
    "journal_directory",
    "observe",
    "raise_descriptor_limit",
    "repair_directory",
]

_HOMES = {
    "FileDisk": "._disk",
    "FileLockManager": "._file_leases",
    "Network": "._endpoint",
    "Observer": "._role_watch",
    "raise_descriptor_limit": "._descriptors",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES.get(name, "._journal_directory"), __name__), name)
    globals()[name] = value
    return value
