"""The activation of a broker: what a node needs of it, whichever policy decides.

Responsible for the contract between a node and its policy. `ReplicationActivation` and `SharedStoreActivation` keep it;
a broker without a lock store and without replication has none, and is active at once. Does not depend on a policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from embedbroker.config import Role
    from embedbroker.locks import LeaseWork, LockWork, LogEntry
    from embedclient.model import Instant

    from ._inputs import LockDone, LockFailed
    from .replication import ReplicaDisk

__all__ = ["Activation"]


class Activation(Protocol):
    """The right of one broker start to be active. One instance per start."""

    #: A decision was made that the node has not followed yet. The node clears it before it calls `role_after`.
    has_changed: bool

    # -- identity ------------------------------------------------------------------------------------------------

    @property
    def node_id(self) -> str:
        """Return the node id of the data here; empty until it is known."""

    @property
    def journal_identity(self) -> int | None:
        """Return the identity of the journal that belongs to that node; None if the record names none."""

    @property
    def replica_disk(self) -> ReplicaDisk | None:
        """Return the disk of a broker that replicates; None with a shared store."""

    # -- life ----------------------------------------------------------------------------------------------------

    def begin(self, now: Instant) -> None:
        """Start to find out what this broker may be."""

    def meet_journal(self, identity: int | None, last_batch: int | None) -> None:
        """Compare the journal that was read with the record; a journal that must not be used sets `failure`."""

    def settle(self, node_id: str, journal_identity: int | None, last_batch: int | None) -> None:
        """Record that this broker serves the node; the role is LIVE when that is durable."""

    def note_last_batch(self, last_batch: int) -> bool:
        """Record how far the journal is on disk; return True if `take_work` has work from that at once."""

    def note_shortage(self, *, lacks_room: bool) -> None:
        """Record whether the journal failed because the disk is full."""

    def note_scaled_down(self, *, is_complete: bool) -> None:
        """Note that a backup, which has taken over to move everything to another broker, waits as backup again.

        Args:
            is_complete: Whether nothing is left here.
        """

    def begin_stop(self, *, fails_over: bool) -> None:
        """Start an orderly stop; with ``fails_over`` a backup must take over."""

    def has_successor(self, *, fails_over: bool) -> bool:
        """Return True if another broker is expected to be active for the node after an orderly stop of this one."""

    def leave(self, *, fails_over: bool, last_batch: int | None) -> None:
        """Give the right to be active back. The journal must have been closed before."""

    def end(self) -> None:
        """End without a farewell to the other brokers."""

    # -- decisions -----------------------------------------------------------------------------------------------

    def role_after(self, now: Instant) -> Role | None:
        """Return what the node must become; None keeps its role."""

    @property
    def failure(self) -> str | None:
        """Return why the broker must stop at once; None as long as it need not."""

    @property
    def is_over(self) -> bool:
        """Return True if no work of this activation is left."""

    @property
    def restarts(self) -> bool:
        """Return True if the host must start another node in place of this one, to wait as backup."""

    @property
    def has_scaled_down(self) -> bool:
        """Return True if an earlier start of this backup moved everything to another broker: now it must serve."""

    @property
    def is_undecided(self) -> bool:
        """Return True if the role of backup must not be reported yet, because it may be passing."""

    @property
    def needs_room(self) -> bool:
        """Return True if this broker must not be active without room for the next segment of its journal."""

    @property
    def sure_until(self) -> float:
        """Return until when, in monotonic seconds, completed disk work may be confirmed; ``inf`` without a limit."""

    @property
    def admits_peers(self) -> bool:
        """Return True if this backup must accept peer connections because a cold start may need its answer."""

    # -- a backup of this broker ---------------------------------------------------------------------------------

    @property
    def backup_connection(self) -> object:
        """Return the connection of the backup, which outlives the others in an orderly stop; None without one."""

    @property
    def is_blocked(self) -> bool:
        """Return True if disk work waits for the answer of a backup that is lost."""

    def release_disk_work(self) -> None:
        """Complete the disk work that waits for a lost backup. Nothing must be confirmed any more."""

    # -- work and time -------------------------------------------------------------------------------------------

    def on_answer(self, answer: LockDone | LockFailed, now: Instant) -> None:
        """Handle the answer of a lock store or a lock manager."""

    def take_work(self, now: Instant) -> LockWork | LeaseWork | None:
        """Return the next batch for the lock store or the lock manager, one at a time."""

    @property
    def is_calm(self) -> bool:
        """Return True if traffic cannot change a decision: `on_time` may wait for `next_deadline`."""

    def next_deadline(self) -> float | None:
        """Return when `on_time` or `take_work` is due, in monotonic seconds."""

    def on_time(self, now: Instant) -> None:
        """Do what is due by now; set `has_changed` if a decision follows."""

    def take_log_entries(self) -> list[LogEntry]:
        """Return the lines for the operator since the last call."""
