"""A lock manager that fails on purpose, with leases that expire: the simulated counterpart of a real one.

It obeys the rules of the seam in ``embedbroker.locks``, and its faults are those of real managers. It cannot be
reached, by all brokers or by one; a lease is revoked; a broker dies, and its lease lasts until it expires.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from embedbroker.locks import (
    GiveLease,
    KeepLease,
    Lease,
    LeaseOperation,
    LockFault,
    ReadLeaseHolder,
    ReadSequence,
    SwapSequence,
    TakeLease,
)

__all__ = ["SimulatedLockManager"]


@define(eq=False)
class _Tenant:
    session: _Session
    until: float


@define(eq=False)
class SimulatedLockManager:
    """A lock manager shared by its sessions. ``clock`` returns monotonic seconds.

    A lease lasts ``lease_s``; None makes leases end with their sessions.

    ``reachable`` False makes every operation fail; ``cut_off`` names the holders for which every operation fails.
    ``breaks_after``: that many operations of the next batch of at least that length are done, and the answer is lost.
    """

    clock: Callable[[], float]
    lease_s: float | None = None
    reachable: bool = True
    breaks_after: int | None = None
    cut_off: dict[str, None] = field(init=False, factory=dict)
    sequences: dict[str, int] = field(init=False, factory=dict)
    _tenants: dict[str, _Tenant] = field(init=False, factory=dict)

    def open(self, holder: str) -> _Session:
        """Begin a session."""
        return _Session(self, holder)

    def holder(self, key: str) -> str | None:
        """Return the holder of a lease."""
        session = self.session_of(key)
        return session.holder if session is not None else None

    def revoke(self, key: str) -> None:
        """Revoke a lease without notice to its holder."""
        self._tenants.pop(key, None)

    def session_of(self, key: str) -> _Session | None:
        tenant = self._tenants.get(key)
        return tenant.session if tenant is not None and self.clock() < tenant.until else None

    def let(self, key: str, session: _Session) -> Lease:
        lasts = self.lease_s
        self._tenants[key] = _Tenant(session, self.clock() + lasts if lasts is not None else float("inf"))
        return Lease(lasts)

    def end(self, session: _Session) -> None:
        """End a session. With leases that expire, the end takes effect only at the expiry."""
        if self.lease_s is None:
            self._tenants = {key: tenant for key, tenant in self._tenants.items() if tenant.session is not session}


@define(eq=False)
class _Session:
    _manager: SimulatedLockManager
    holder: str
    immediate: bool = field(init=False, default=True)
    _closed: bool = field(init=False, default=False)

    def run(self, operations: tuple[LeaseOperation, ...]) -> tuple[object, ...]:
        if self._closed:
            raise LockFault("the session was closed")
        if not self._manager.reachable or self.holder in self._manager.cut_off:
            raise LockFault("the lock manager cannot be reached")
        breaks_after = self._manager.breaks_after
        if breaks_after is not None and breaks_after <= len(operations):
            self._manager.breaks_after = None
            for operation in operations[:breaks_after]:
                self._do(operation)
            raise LockFault("the lock manager cannot be reached any more")
        return tuple([self._do(operation) for operation in operations])

    def close(self) -> None:
        self._closed = True
        self._manager.end(self)

    def _do(self, operation: LeaseOperation) -> object:
        manager = self._manager
        match operation:
            case TakeLease(key):
                return manager.let(key, self) if manager.session_of(key) in (None, self) else None
            case KeepLease(key):
                return manager.let(key, self) if manager.session_of(key) is self else None
            case GiveLease(key):
                if manager.session_of(key) is self:
                    manager.revoke(key)
            case ReadLeaseHolder(key):
                return manager.holder(key)
            case ReadSequence(key):
                return manager.sequences.get(key, 0)
            case SwapSequence(key, expected, new):
                if manager.sequences.get(key, 0) != expected:
                    return False
                manager.sequences[key] = new
                return True
        return None
