"""What a lock manager is to replicating brokers: leases and numbers by name, as a few dumb operations.

Responsible for the operation values and for the ``LockManagers`` seam with its rules. It is to a pair with two
directories what ``Locks`` is to a group with one. Refuses to know who should have what; `Activation` does.

Rules of the seam:
- A lease and a number are known by a key, the node id that a primary and its backups share. Each has its own.
- A lease has at most one session that holds it. Two sessions of one process are two holders. No operation waits.
- An answer says how long the right lasts, counted from the moment when the work was handed out: the manager counts from
  a later one. None lasts until it is given back, or until somebody takes it away, which `KeepLease` finds out.
- A session that ends in order has given everything back. One that dies keeps what it had for as long as it lasts.
- A number that nobody wrote is 0. What was swapped survives a power cut of whoever keeps it. Only who holds the lease
  of a key swaps its number.
- A fault says nothing about what happened: an operation that failed may have been done.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from attrs import frozen

__all__ = [
    "GiveLease",
    "KeepLease",
    "Lease",
    "LeaseOperation",
    "LeaseSession",
    "LeaseWork",
    "LockManagers",
    "ReadLeaseHolder",
    "ReadSequence",
    "SwapSequence",
    "TakeLease",
]


@frozen
class Lease:
    """A right that lasts so many seconds, counted from when the work was handed out; None: no end is known."""

    lasts_s: float | None = None


@frozen
class TakeLease:
    """Take the lease of ``key`` if nobody has it. Result: a Lease, also when this session has it already, or None."""

    key: str


@frozen
class KeepLease:
    """Have the lease of ``key`` last longer. Result: a Lease, or None when this session does not have it any more."""

    key: str


@frozen
class GiveLease:
    """Give the lease of ``key`` back; one that is not held is no fault. Result: None."""

    key: str


@frozen
class ReadLeaseHolder:
    """Result: a description of who holds the lease of ``key`` (this session, too), or None when nobody does."""

    key: str


@frozen
class ReadSequence:
    """Result: the number of ``key``, an int."""

    key: str


@frozen
class SwapSequence:
    """Replace the number of ``key`` if it is ``expected``. Result: whether it was."""

    key: str
    expected: int
    new: int


LeaseOperation: TypeAlias = TakeLease | KeepLease | GiveLease | ReadLeaseHolder | ReadSequence | SwapSequence


class LeaseSession(Protocol):
    """The part of one broker's life in a lock manager. Synchronous; the caller decides on which thread it runs."""

    #: Whether ``run`` never waits for a device, so that it may run where everything else waits for it.
    immediate: bool

    def run(self, operations: tuple[LeaseOperation, ...]) -> tuple[object, ...]:
        """Do the operations in order and return one result for each.

        Raises:
            LockFault: an operation failed; those after it did not happen.
        """

    def close(self) -> None:
        """Give everything back. Closing twice is no error."""


class LockManagers(Protocol):
    """A lock manager, as its clients see it."""

    def open(self, holder: str) -> LeaseSession:
        """Begin a session; ``holder`` is who to name to others.

        Raises:
            LockFault: this broker is not set up for it. A manager that is not there now is asked again and again.
        """


@frozen
class LeaseWork:
    """One ``LeaseSession.run`` to do, one at a time. ``batch`` names it in the answer."""

    batch: int
    operations: tuple[LeaseOperation, ...]
