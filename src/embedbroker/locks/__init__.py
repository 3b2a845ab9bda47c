"""Who may be live: the seams of lock store and lock manager, the rules for them, and both in memory.

Its parts load when the first of their names is used: a broker without a directory needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._claim import Claim
    from ._claim_state import ClaimState, LogEntry, called
    from ._lease_activation import ActivationAttempt, AttemptResult, LeaseActivation
    from ._lease_memory import MemoryLockManager
    from ._leases import (
        GiveLease,
        KeepLease,
        Lease,
        LeaseOperation,
        LeaseSession,
        LeaseWork,
        LockManagers,
        ReadLeaseHolder,
        ReadSequence,
        SwapSequence,
        TakeLease,
    )
    from ._memory import MemoryLocks
    from ._operations import (
        NOT_ALONE,
        NOT_HELD,
        Acquire,
        LiveState,
        Lock,
        LockFault,
        LockOperation,
        Locks,
        LockSession,
        LockWork,
        ReadHolder,
        ReadRecord,
        Release,
        StoreRecord,
        Verify,
        WriteRecord,
    )

__all__ = [
    "NOT_ALONE",
    "NOT_HELD",
    "Acquire",
    "ActivationAttempt",
    "AttemptResult",
    "Claim",
    "ClaimState",
    "GiveLease",
    "KeepLease",
    "Lease",
    "LeaseActivation",
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
    "LogEntry",
    "MemoryLockManager",
    "MemoryLocks",
    "ReadHolder",
    "ReadLeaseHolder",
    "ReadRecord",
    "ReadSequence",
    "Release",
    "StoreRecord",
    "SwapSequence",
    "TakeLease",
    "Verify",
    "WriteRecord",
    "called",
]

_HOMES = {
    "LeaseActivation": "._lease_activation",
    "ActivationAttempt": "._lease_activation",
    "AttemptResult": "._lease_activation",
    "Claim": "._claim",
    "MemoryLockManager": "._lease_memory",
    "MemoryLocks": "._memory",
    "LogEntry": "._claim_state",
    "ClaimState": "._claim_state",
    "called": "._claim_state",
    **dict.fromkeys(
        (
            "GiveLease",
            "KeepLease",
            "Lease",
            "ReadLeaseHolder",
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
