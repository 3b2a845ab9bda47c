"""A lock store that fails on purpose: the twin of the real ones.

It obeys the rules of the seam in ``embedbroker.locks``, and its faults are those that real stores have: the store
cannot be reached, or not in the middle of a batch, it has no room for somebody's record, or the locks of a broker that
has been silent are taken away.
"""

from __future__ import annotations

from attrs import define, field

from embedbroker.locks import Lock, LockFault, LockOperation, LockSession, MemoryLocks, StoreRecord, WriteRecord

__all__ = ["SimulatedLocks"]


@define(eq=False)
class SimulatedLocks:
    """``reachable`` False makes every operation fail, for all sessions.

    ``short`` makes it fail, too, and for the moment: the machine has no descriptors, or no memory.
    ``breaks_after``: so many operations of the next batch that is longer are done, and the rest fails. ``full`` names
    holders whose records find no room.
    """

    reachable: bool = True
    short: bool = False
    breaks_after: int | None = None
    full: set[str] = field(factory=set)
    _store: MemoryLocks = field(init=False, factory=MemoryLocks)

    def open(self, holder: str) -> LockSession:
        """Begin a session."""
        if not self.reachable:
            raise LockFault("the lock store cannot be reached")
        return _Session(self, holder, self._store.open(holder))

    def holder(self, lock: Lock) -> str | None:
        """Who holds a lock."""
        return self._store.holder(lock)

    def read(self) -> StoreRecord:
        """The record, without a session."""
        return self._store.record

    def write(self, record: StoreRecord) -> None:
        """Replace the record behind everybody's back, as another machine or an operator may."""
        self._store.record = record

    def revoke(self, lock: Lock) -> None:
        """Take a lock away from its holder, who is not told."""
        self._store.revoke(lock)

    def lapse(self, holder: str) -> None:
        """Take everything away from a holder, as a server does from a machine that it has not heard of for long."""
        for lock in Lock:
            if self._store.holder(lock) == holder:
                self._store.revoke(lock)


@define(eq=False)
class _Session:
    _locks: SimulatedLocks
    _holder: str
    _session: LockSession
    immediate: bool = field(init=False, default=True)

    def run(self, operations: tuple[LockOperation, ...]) -> tuple[object, ...]:
        locks = self._locks
        if not locks.reachable:
            raise LockFault("the lock store cannot be reached")
        if locks.short:
            raise LockFault("too many open files", passes=True)
        if locks.breaks_after is not None and locks.breaks_after < len(operations):
            done, locks.breaks_after = locks.breaks_after, None
            self._session.run(operations[:done])
            raise LockFault("the lock store cannot be reached any more")
        if self._holder in locks.full and any(isinstance(operation, WriteRecord) for operation in operations):
            raise LockFault("no space left in the lock directory", passes=True)
        return self._session.run(operations)

    def close(self) -> None:
        self._session.close()
