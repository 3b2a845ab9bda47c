"""A lock store that fails on purpose: the twin of the real ones.

It obeys the rules of the seam in ``embedbroker.locks``, and its faults are those that real stores have: the store
cannot be reached, or a lock is taken away from the broker that holds it.
"""

from __future__ import annotations

from attrs import define, field

from embedbroker.locks import Lock, LockFault, LockOperation, LockSession, MemoryLocks

__all__ = ["SimulatedLocks"]


@define(eq=False)
class SimulatedLocks:
    """``reachable`` False makes every operation fail, for all sessions."""

    reachable: bool = True
    _store: MemoryLocks = field(init=False, factory=MemoryLocks)

    def open(self, holder: str) -> LockSession:
        """Begin a session."""
        if not self.reachable:
            raise LockFault("the lock store cannot be reached")
        return _Session(self, self._store.open(holder))

    def holder(self, lock: Lock) -> str | None:
        """Who holds a lock."""
        return self._store.holder(lock)

    def revoke(self, lock: Lock) -> None:
        """Take a lock away from its holder, who is not told."""
        self._store.revoke(lock)


@define(eq=False)
class _Session:
    _locks: SimulatedLocks
    _session: LockSession
    immediate: bool = field(init=False, default=True)

    def run(self, operations: tuple[LockOperation, ...]) -> tuple[object, ...]:
        if not self._locks.reachable:
            raise LockFault("the lock store cannot be reached")
        return self._session.run(operations)

    def close(self) -> None:
        self._session.close()
