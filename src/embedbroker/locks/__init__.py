"""The right to be active: the seams of lock store and lock manager, the rules for them, and both in memory.

Its parts load when the first of their names is used: a broker without a directory needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

if TYPE_CHECKING:
    from ._claim import Claim
    from ._claim_state import CLAIM_TRANSITIONS, ClaimEvent, ClaimState, LogEntry, called
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
    from ._transitions import state_after

__all__ = [
    "CLAIM_TRANSITIONS",
    "NOT_ALONE",
    "NOT_HELD",
    "Acquire",
    "ActivationAttempt",
    "AttemptResult",
    "Claim",
    "ClaimEvent",
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
    "state_after",
]

__getattr__ = lazy_names(
    __name__,
    {
        "._operations": (
            "Acquire LiveState Lock LockFault LockOperation LockSession LockWork Locks NOT_ALONE NOT_HELD ReadHolder "
            "ReadRecord Release StoreRecord Verify WriteRecord"
        ),
        "._lease_activation": "ActivationAttempt AttemptResult LeaseActivation",
        "._claim": "Claim",
        "._claim_state": "CLAIM_TRANSITIONS ClaimEvent ClaimState LogEntry called",
        "._leases": (
            "GiveLease KeepLease Lease LeaseOperation LeaseSession LeaseWork LockManagers ReadLeaseHolder "
            "ReadSequence SwapSequence TakeLease"
        ),
        "._lease_memory": "MemoryLockManager",
        "._memory": "MemoryLocks",
        "._transitions": "state_after",
    },
)
