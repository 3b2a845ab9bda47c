"""Who may be live: the seams of lock store and lock manager, the rules for them, and both in memory.

Its parts load when the first of their names is used: a broker without a directory needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._claim import Claim
    from ._claim_state import Note, Standing, called
    from ._lease_activation import Activation, Trial, Verdict
    from ._lease_memory import MemoryLockManager
    from ._leases import (
        GiveLease,
        KeepLease,
        Lease,
        LeaseHolder,
        LeaseOperation,
        LeaseSession,
        LeaseWork,
        LockManagers,
        ReadSequence,
        SwapSequence,
        TakeLease,
    )
    from ._memory import MemoryLocks
    from ._operations import (
        NOT_ALONE,
        NOT_HELD,
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
    "NOT_ALONE",
    "NOT_HELD",
    "Acquire",
    "Activation",
    "Claim",
    "GiveLease",
    "Holder",
    "KeepLease",
    "Lease",
    "LeaseHolder",
    "LeaseOperation",
    "LeaseSession",
    "LeaseWork",
    "LiveState",
    "Lock",
    "LockFault",
    "LockManagers",
    "LockOperation",
    "LockSession",
    "LockWork",
    "Locks",
    "MemoryLockManager",
    "MemoryLocks",
    "NodeRecord",
    "Note",
    "ReadRecord",
    "ReadSequence",
    "Release",
    "Standing",
    "SwapSequence",
    "TakeLease",
    "Trial",
    "Verdict",
    "Verify",
    "WriteRecord",
    "called",
]

_HOMES = {
    "Activation": "._lease_activation",
    "Trial": "._lease_activation",
    "Verdict": "._lease_activation",
    "Claim": "._claim",
    "MemoryLockManager": "._lease_memory",
    "MemoryLocks": "._memory",
    "Note": "._claim_state",
    "Standing": "._claim_state",
    "called": "._claim_state",
    **dict.fromkeys(
        (
            "GiveLease",
            "KeepLease",
            "Lease",
            "LeaseHolder",
            "LeaseOperation",
            "LeaseSession",
            "LeaseWork",
            "LockManagers",
            "ReadSequence",
            "SwapSequence",
            "TakeLease",
        ),
        "._leases",
    ),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES.get(name, "._operations"), __name__), name)
    globals()[name] = value
    return value
