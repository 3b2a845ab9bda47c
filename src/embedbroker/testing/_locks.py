"""A lock store that fails on purpose: the simulated counterpart of the real ones.

It obeys the rules of the seam in ``embedbroker.locks``, and its faults are those that real stores have. The store
cannot be reached, or fails in the middle of a batch. It has no room for a record, or it revokes the locks of a broker
that has been silent.
"""

from __future__ import annotations

from attrs import define, field

from embedbroker.locks import Lock, LockFault, LockOperation, LockSession, MemoryLocks, StoreRecord, WriteRecord

__all__ = ["SimulatedLocks"]


@define(eq=False)
class SimulatedLocks:
    """A store shared by its sessions. ``reachable`` False makes every operation fail, for all sessions.

    ``short`` makes it fail, too, for a moment: the machine has no descriptors, or no memory. ``breaks_after``: that
    many operations of the next batch that is longer are done, and the rest fails. ``full`` names holders whose records
    find no room.
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
        """Return the holder of a lock."""
        return self._store.holder(lock)

    def read(self) -> StoreRecord:
        """Return the record, without a session."""
        return self._store.record

    def write(self, record: StoreRecord) -> None:
        """Replace the record without notice to any session, as another machine or an operator may."""
        self._store.record = record

    def revoke(self, lock: Lock) -> None:
        """Revoke a lock without notice to its holder."""
        self._store.revoke(lock)

    def lapse(self, holder: str) -> None:
        """Revoke all locks of a holder, as a server does for a machine that has been silent for long."""
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
