"""The way of lock work to a store and back.

Responsible for turning faults into answers, and for how long answers take: a store that is quick is asked on the loop,
because a waiting backup asks twenty times a second and a hop to a thread costs more than the answer. Refuses to know
what is asked.
"""

from __future__ import annotations

import time

from embedbroker.locks import LockFault, LockSession, LockWork, WriteRecord
from embedbroker.node import LockDone, LockFailed

__all__ = ["LockLane"]

# On average: what a hop to a thread costs, and a bit more. A store at the other end of a network takes longer.
QUICK_SECONDS_MAX = 0.0004


class LockLane:
    """Of one life's session."""

    def __init__(self, session: LockSession) -> None:
        self._session = session
        # A store has to show that it is quick.
        self._seconds = 10 * QUICK_SECONDS_MAX

    def is_quick(self, work: LockWork) -> bool:
        """Whether an answer may be waited for on the loop. Writing the record syncs a disk."""
        return self._session.immediate or (self._seconds <= QUICK_SECONDS_MAX and not _writes(work))

    def run(self, work: LockWork) -> LockDone | LockFailed:
        """Ask the store, and keep a running average of what questions take."""
        begin = time.perf_counter()
        try:
            answer: LockDone | LockFailed = LockDone(work.batch, self._session.run(work.operations))
        except LockFault as fault:
            answer = LockFailed(work.batch, fault)
        if not _writes(work):
            self._seconds += 0.1 * (time.perf_counter() - begin - self._seconds)
        return answer


def _writes(work: LockWork) -> bool:
    return any(isinstance(operation, WriteRecord) for operation in work.operations)
