"""The lock manager of replicating brokers: leases and epochs by name, as a few simple operations.

Responsible for the operation values and for the ``LockManagers`` seam with its rules. It is to a pair with two
directories what ``Locks`` is to a group with one. Does not decide which broker gets a lease; `Activation` does.

Rules of the seam:

- A lease and an epoch have a key, the node id that a primary and its backups share. Each key has one of both.
- A lease has at most one session that holds it. Two sessions of one process are two holders. No operation waits.
- An answer contains how long the right lasts, counted from the moment when the work was handed out: the manager counts
  from a later one. None lasts until it is given back, or until it is taken away, which `KeepLease` finds out.
- A session that ends in order has given everything back. One that dies keeps what it had for as long as it lasts.
- An epoch that was never written is 0. What was swapped survives a power cut of the manager. Only the holder of the
  lease of a key swaps its epoch.
- A fault does not show what happened: an operation that failed may have been done.
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
    """A right that lasts ``lasts_s`` seconds, counted from when the work was handed out; None: no end is known."""

    lasts_s: float | None = None


@frozen
class TakeLease:
    """Take the lease of ``key`` if it is free. Result: a Lease, also when this session has it already, or None."""

    key: str


@frozen
class KeepLease:
    """Renew the lease of ``key``. Result: a Lease, or None when this session does not have it any more."""

    key: str


@frozen
class GiveLease:
    """Give the lease of ``key`` back; one that is not held is no fault. Result: None."""

    key: str


@frozen
class ReadLeaseHolder:
    """Result: a description of the holder of the lease of ``key`` (this session, too), or None if it is free."""

    key: str


@frozen
class ReadSequence:
    """Result: the epoch of ``key``, an int."""

    key: str


@frozen
class SwapSequence:
    """Replace the epoch of ``key`` if it is ``expected``. Result: whether it was."""

    key: str
    expected: int
    new: int


LeaseOperation: TypeAlias = TakeLease | KeepLease | GiveLease | ReadLeaseHolder | ReadSequence | SwapSequence


class LeaseSession(Protocol):
    """The session of one broker start in a lock manager. Synchronous; the caller decides on which thread it runs."""

    #: Whether ``run`` never waits for a device, so that it may run where everything else waits for it.
    immediate: bool

    def run(self, operations: tuple[LeaseOperation, ...]) -> tuple[object, ...]:
        """Do the operations in order and return one result for each.

        Raises:
            LockFault: An operation failed; those after it did not happen.
        """

    def close(self) -> None:
        """Give everything back. Closing twice is no error."""


class LockManagers(Protocol):
    """A lock manager, as its clients use it."""

    def open(self, holder: str) -> LeaseSession:
        """Begin a session.

        Args:
            holder: The name of this broker for others.

        Raises:
            LockFault: This broker is not set up for it. Requests to a manager that is not there now are repeated.
        """


@frozen
class LeaseWork:
    """One ``LeaseSession.run`` to do, one at a time. ``batch`` names it in the answer."""

    batch: int
    operations: tuple[LeaseOperation, ...]
