"""Who may be live: the lock store as a seam, the rules of a claim, and locks in memory.

Its parts load when the first of their names is used: a broker without a directory needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._claim import Claim, Note, Standing, called
    from ._memory import MemoryLocks
    from ._operations import (
        Acquire,
        Holder,
        LiveState,
        Lock,
        LockFault,
        LockOperation,
        Locks,
        LockSession,
        LockWork,
        NodeRecord,
        ReadRecord,
        Release,
        Verify,
        WriteRecord,
    )

__all__ = [
    "Acquire",
    "Claim",
    "Holder",
    "LiveState",
    "Lock",
    "LockFault",
    "LockOperation",
    "LockSession",
    "LockWork",
    "Locks",
    "MemoryLocks",
    "NodeRecord",
    "Note",
    "ReadRecord",
    "Release",
    "Standing",
    "Verify",
    "WriteRecord",
    "called",
]

_HOMES = {"Claim": "._claim", "MemoryLocks": "._memory", "Note": "._claim", "Standing": "._claim", "called": "._claim"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES.get(name, "._operations"), __name__), name)
    globals()[name] = value
    return value
