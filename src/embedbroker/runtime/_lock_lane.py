"""The way of lock work to a store and back.

Responsible for turning faults into answers, and for measuring how long answers take. A quick store is queried on the
loop. A waiting backup sends twenty requests a second, and a hop to a thread costs more than the answer. A check of the
live lock also checks the lock of the data directory: both must be what other brokers would find. Does not depend on the
other operations.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from embedbroker.locks import (
    LeaseSession,
    LeaseWork,
    Lock,
    LockFault,
    LockSession,
    LockWork,
    SwapSequence,
    Verify,
    WriteRecord,
)
from embedbroker.node import LockDone, LockFailed

__all__ = ["LockLane"]

# On average: the cost of a hop to a thread, and a bit more. A store at the other end of a network takes longer.
QUICK_SECONDS_MAX = 0.0004


class LockLane:
    """The lock work of one life's session.

    ``verify_directory`` raises LockFault when the data directory may be another broker's.
    """

    def __init__(self, session: LockSession | LeaseSession, verify_directory: Callable[[], None] | None = None) -> None:
        self._session = session
        self._verify_directory = verify_directory
        # A store counts as slow until its answers are quick.
        self._seconds = 10 * QUICK_SECONDS_MAX

    def is_quick(self, work: LockWork | LeaseWork) -> bool:
        """Return True if an answer may be waited for on the loop. Writing a record or a number syncs a disk."""
        return self._session.immediate or (self._seconds <= QUICK_SECONDS_MAX and not _writes(work))

    def run(self, work: LockWork | LeaseWork) -> LockDone | LockFailed:
        """Run the work in the store, and keep a running average of the time of requests."""
        begin = time.perf_counter()
        try:
            # A session gets its own kind of work.
            results = self._session.run(work.operations)  # type: ignore[arg-type]
            answer: LockDone | LockFailed = LockDone(work.batch, results)
            if self._verify_directory is not None and Verify(Lock.LIVE) in work.operations:
                self._verify_directory()
        except LockFault as fault:
            answer = LockFailed(work.batch, fault)
        if not _writes(work):
            self._seconds += 0.1 * (time.perf_counter() - begin - self._seconds)
        return answer


def _writes(work: LockWork | LeaseWork) -> bool:
    return any(isinstance(operation, WriteRecord | SwapSequence) for operation in work.operations)
