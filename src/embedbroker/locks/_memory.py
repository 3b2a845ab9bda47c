"""Locks in memory, for brokers of one process: each group shares one ``MemoryLocks``.

Responsible for the seam's rules without any file. Does not reach another process.

Brokers may run in different threads: taking a lock is one operation on a dictionary.
"""

from __future__ import annotations

from ._operations import (
    NOT_ALONE,
    NOT_HELD,
    Acquire,
    Lock,
    LockFault,
    LockOperation,
    ReadHolder,
    ReadRecord,
    Release,
    StoreRecord,
    Verify,
    WriteRecord,
)

__all__ = ["MemoryLocks"]


class MemoryLocks:
    """Decide which of several brokers in this process is active, and hold their node id as long as the object exists.

    Pass the same object to the brokers of one live and backup group: ``EmbeddedBroker(config, locks=locks)``.
    """

    def __init__(self) -> None:
        self._holders: dict[Lock, _MemorySession] = {}
        self.record = StoreRecord()

    def __repr__(self) -> str:
        held = ", ".join(f"{lock.name}: {session.holder}" for lock, session in self._holders.items())
        return f"<{type(self).__name__} {held or 'free'}>"

    def open(self, holder: str) -> _MemorySession:
        """Begin a session."""
        return _MemorySession(self, holder)

    def holder(self, lock: Lock) -> str | None:
        """Return the name of the holder of a lock; None if it is free.

        Args:
            lock: the lock.
        """
        session = self._holders.get(lock)
        return session.holder if session is not None else None

    def revoke(self, lock: Lock) -> None:
        """Take a lock away from its holder, which finds out at its next check.

        Args:
            lock: the lock.
        """
        self._holders.pop(lock, None)

    def take(self, lock: Lock, session: _MemorySession) -> bool:
        """Return True if the session holds the lock now."""
        return self._holders.setdefault(lock, session) is session

    def give(self, lock: Lock, session: _MemorySession) -> None:
        if self._holders.get(lock) is session:
            del self._holders[lock]

    def holds(self, lock: Lock, session: _MemorySession) -> bool:
        return self._holders.get(lock) is session


class _MemorySession:
    immediate = True

    def __init__(self, store: MemoryLocks, holder: str) -> None:
        self.holder = holder
        self._store = store
        self._closed = False

    def run(self, operations: tuple[LockOperation, ...]) -> tuple[object, ...]:
        if self._closed:
            raise LockFault("the session was closed")
        return tuple([self._do(operation) for operation in operations])

    def close(self) -> None:
        self._closed = True
        for lock in Lock:
            self._store.give(lock, self)

    def _do(self, operation: LockOperation) -> object:
        store = self._store
        match operation:
            case Acquire(lock):
                return store.take(lock, self)
            case Release(lock):
                store.give(lock, self)
            case ReadHolder(lock):
                return store.holder(lock)
            case Verify(lock):
                return store.holds(lock, self)
            case ReadRecord():
                return store.record
            case WriteRecord(record, over):
                if not store.holds(Lock.LIVE, self):
                    raise LockFault(NOT_HELD)
                if not store.record.may_follow(over):
                    raise LockFault(NOT_ALONE)
                store.record = record
        return None
