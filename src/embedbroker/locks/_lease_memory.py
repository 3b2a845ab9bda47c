"""A lock manager in memory, for brokers of one process.

Responsible for the seam's rules without any file. Does not reach another process.

Brokers may run in different threads: taking a lease is one operation on a dictionary, and only the holder of a lease
swaps its epoch.
"""

from __future__ import annotations

from ._leases import (
    GiveLease,
    KeepLease,
    Lease,
    LeaseOperation,
    ReadLeaseHolder,
    ReadSequence,
    SwapSequence,
    TakeLease,
)
from ._operations import LockFault

__all__ = ["MemoryLockManager"]


class MemoryLockManager:
    """Decide which broker of a replicating pair is active, for pairs in this process, as long as the manager exists.

    Pass the same object to all brokers: ``EmbeddedBroker(config, lock_manager=manager)``. It serves many pairs.
    """

    def __init__(self) -> None:
        self._holders: dict[str, _MemorySession] = {}
        self._sequences: dict[str, int] = {}

    def __repr__(self) -> str:
        held = ", ".join(f"{key}: {session.holder}" for key, session in self._holders.items())
        return f"<{type(self).__name__} {held or 'free'}>"

    def open(self, holder: str) -> _MemorySession:
        """Begin a session."""
        return _MemorySession(self, holder)

    def holder(self, key: str) -> str | None:
        """Return the name of the holder of a node id's lease; None if it is free.

        Args:
            key: node id of a pair.
        """
        session = self._holders.get(key)
        return session.holder if session is not None else None

    def sequence(self, key: str) -> int:
        """Return the epoch of a node id, as Artemis' activation sequence; 0 before it was ever active.

        Args:
            key: node id of a pair.
        """
        return self._sequences.get(key, 0)

    def revoke(self, key: str) -> None:
        """Take a lease away from its holder, which finds out at its next renewal.

        Args:
            key: node id of a pair.
        """
        self._holders.pop(key, None)

    def take(self, key: str, session: _MemorySession) -> bool:
        """Return True if the session holds the lease now."""
        return self._holders.setdefault(key, session) is session

    def give(self, key: str, session: _MemorySession) -> None:
        if self._holders.get(key) is session:
            del self._holders[key]

    def give_all(self, session: _MemorySession) -> None:
        for key in list(self._holders):
            self.give(key, session)

    def holds(self, key: str, session: _MemorySession) -> bool:
        return self._holders.get(key) is session

    def swap(self, key: str, expected: int, new: int) -> bool:
        if self.sequence(key) != expected:
            return False
        self._sequences[key] = new
        return True


class _MemorySession:
    immediate = True

    def __init__(self, manager: MemoryLockManager, holder: str) -> None:
        self.holder = holder
        self._manager = manager
        self._closed = False

    def run(self, operations: tuple[LeaseOperation, ...]) -> tuple[object, ...]:
        if self._closed:
            raise LockFault("the session was closed")
        return tuple([self._do(operation) for operation in operations])

    def close(self) -> None:
        self._closed = True
        self._manager.give_all(self)

    def _do(self, operation: LeaseOperation) -> object:
        manager = self._manager
        match operation:
            case TakeLease(key):
                return Lease() if manager.take(key, self) else None
            case KeepLease(key):
                return Lease() if manager.holds(key, self) else None
            case GiveLease(key):
                manager.give(key, self)
            case ReadLeaseHolder(key):
                return manager.holder(key)
            case ReadSequence(key):
                return manager.sequence(key)
            case SwapSequence(key, expected, new):
                return manager.swap(key, expected, new)
        return None
