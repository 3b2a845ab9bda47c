"""A node's right to be active, from the first request to the last record.

Responsible for the effect of each answer of the lock store on the node, and for when an active backup may give way.
Announces a backup in the cluster meanwhile. Does not carry any of it out: the node reads its next role here.

What is written to the record of the store, and what follows:

=================================  ==================================================  ======================
the live lock is granted           active, and the number of this broker start         the journal is read
the journal is read                node id, identity of the journal                    clients are served
a stop before that                 its former content                                  the locks are free
orderly stop, journal sealed       paused; with failover-on-shutdown nothing           the locks are free
giving way to a primary            failing back                                        the locks are free
crash, or a disk that fails        nothing: it stays active                            the locks are free
=================================  ==================================================  ======================

A live broker checks its lock, the lock of its data directory and the record twice a second, or every two seconds when
it has no backups. A number of another broker start in the record means that the store granted its lock twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedbroker import locks
from embedbroker.config import BrokerConfig, Role
from embedclient.model import Instant

from .._inputs import LockDone, LockFailed

if TYPE_CHECKING:
    from embedbroker.cluster import Membership

__all__ = ["SharedStoreActivation"]

# How long an active backup waits for a primary to announce itself in the cluster before it gives way anyhow, in
# seconds.
ANNOUNCED_WITHIN_S = 60.0


class SharedStoreActivation:
    """The activation of one broker start, which has a number. ``gives_way`` is set when it ends to let a primary be
    active."""

    # A shared store has no copies, and no peer that an activation depends on.
    replica_disk = None
    backup_connection: object = None
    is_undecided = False
    is_blocked = False
    admits_peers = False
    is_calm = True
    # The primary finds what this broker left in the store, which is nothing.
    has_scaled_down = False

    def __init__(self, config: BrokerConfig, cluster: Membership | None, life: int) -> None:
        self.has_changed = False
        self.gives_way = False
        self._lacks_room = False
        self._has_scaled_down = False
        self._claim = locks.Claim(config.own_policy, config.journal_lock_acquisition_timeout_ms, life)
        #: Whether the record is outside the data directory: then it outlives a data directory that is lost, or not
        #: mounted.
        self._has_place = config.node_manager_lock_directory not in (None, config.data_directory)
        self._cluster = cluster
        # The node id under which the cluster has this backup, and whether it was announced under it.
        self._place: tuple[str, bool] | None = None

    @property
    def node_id(self) -> str:
        """Return the node id of the lock store; empty until a broker was active."""
        return self._claim.record.node_id or ""

    @property
    def journal_identity(self) -> int | None:
        """Return the identity of the journal that belongs to that node."""
        return self._claim.record.journal_identity

    @property
    def failure(self) -> str | None:
        """Return why the node must stop."""
        return self._claim.failure

    @property
    def is_over(self) -> bool:
        """Return True if the lock store receives no more operations."""
        return self._claim.state is locks.ClaimState.OVER

    @property
    def restarts(self) -> bool:
        """Return True if another node must wait in the place of this one, which gave way, or has no room to write."""
        ends_for_now = self.gives_way or self._lacks_room or self._has_scaled_down
        return ends_for_now and self._claim.failure is None and self._claim.restarts

    @property
    def needs_room(self) -> bool:
        """Return True if it is active only with room to write: a backup without room waits until there is some."""
        return self._claim.restarts

    def begin(self, now: Instant) -> None:
        self._claim.begin(now.monotonic)

    def meet_journal(self, identity: int | None, last_batch: int | None) -> None:
        """Compare the journal that was read with the record. An empty one has no identity, and ends with batch 0."""
        claim = self._claim
        if identity is None and last_batch == 0 and claim.record.last_batch is None and not self._has_place:
            # Earlier releases named a journal beside the record before there was anything in it.
            if claim.record.journal_identity is not None:
                text = (
                    f"node {self.node_id} had a journal by its record (node.state), which is not there:"
                    " if it is lost, restore it"
                )
                claim.notes.append(locks.LogEntry(True, text))
            return
        claim.meet_journal(identity, last_batch)

    def settle(self, node_id: str, journal_identity: int | None, last_batch: int | None) -> None:
        """Write to the store that the node could serve; it is active when that is done."""
        self._claim.settle(node_id, journal_identity, last_batch)

    def note_last_batch(self, last_batch: int) -> bool:
        """Record how far the journal is on disk; return True if that is work to take at once."""
        return self._claim.note_last_batch(last_batch)

    def note_shortage(self, *, lacks_room: bool) -> None:
        """Record whether the journal failed because the disk is full."""
        self._lacks_room = lacks_room

    def note_scaled_down(self, *, is_complete: bool) -> None:
        """Note that a backup, which has taken over to move everything to another broker, waits as backup again."""
        self._has_scaled_down = True

    def begin_stop(self, *, fails_over: bool) -> None:
        """Do nothing: the record of the store changes when the journal is closed."""

    def has_successor(self, *, fails_over: bool) -> bool:
        """Return True if a primary waits, or if there is a backup that must take over."""
        if self.gives_way:
            return True
        hands_over = fails_over or self._claim.farewell is None
        return hands_over and self._cluster is not None and self._cluster.has_backup

    def release_disk_work(self) -> None:
        """Do nothing: disk work does not wait for a backup."""

    def leave(self, *, fails_over: bool, last_batch: int | None) -> None:
        """Write the state after the stop to the store, unless a backup must take over. Nothing is written to the
        journal any more."""
        farewell = locks.LiveState.FAILING_BACK if self.gives_way else self._claim.farewell
        self._claim.leave(None if fails_over else farewell, last_batch)

    def end(self) -> None:
        """End this start without a change in the store."""
        self._claim.leave(None)

    @property
    def sure_until(self) -> float:
        """Return how long the last answer of the lock store counts, in monotonic seconds."""
        return self._claim.sure_until

    # -- work and answers ----------------------------------------------------------------------------------------

    def on_answer(self, answer: LockDone | LockFailed, now: Instant) -> None:
        if isinstance(answer, LockDone):
            self._claim.on_done(answer.batch, answer.results, now.monotonic)
        else:
            self._claim.on_failed(answer.batch, answer.fault, now.monotonic)

    def on_time(self, now: Instant) -> None:
        """Check whether an answer is overdue; set `has_changed` if that changes the claim."""
        self.has_changed |= self._claim.on_time(now.monotonic)

    def take_work(self, now: Instant) -> locks.LockWork | None:
        return self._claim.take_work(now.monotonic)

    def next_deadline(self) -> float | None:
        return self._claim.next_deadline()

    def take_log_entries(self) -> list[locks.LogEntry]:
        """Return the lines for the operator."""
        notes, self._claim.notes = self._claim.notes, []
        return notes

    def role_after(self, now: Instant) -> Role | None:
        """Return what the node must become; None when nothing changes."""
        claim = self._claim
        match claim.state:
            case locks.ClaimState.OVER:
                return Role.STOPPED
            case locks.ClaimState.QUEUED | locks.ClaimState.WAITING:
                self._stand_by(next_in_line=claim.state is locks.ClaimState.WAITING)
                return Role.BACKUP
            case locks.ClaimState.GRANTED:
                return Role.ACTIVATING
            case locks.ClaimState.LIVE if claim.wanted_by is not None and self._is_announced(now):
                if not self.gives_way:
                    self.gives_way = True
                    claim.notes.append(locks.LogEntry(False, f"gives way to {claim.wanted_by}"))
                return Role.STOPPED
            case locks.ClaimState.LIVE:
                return Role.LIVE
            case _:
                return None

    def _stand_by(self, *, next_in_line: bool) -> None:
        """Search for the active broker; the next in line is announced under the node id of that broker."""
        place = (self.node_id, next_in_line and bool(self.node_id))
        if self._cluster is not None and place != self._place:
            self._place = place
            self._cluster.become_backup(self.node_id, announce=place[1])

    def _is_announced(self, now: Instant) -> bool:
        """Return True if clients received the place of the primary that waits: else they could not follow."""
        if self._cluster is None or now.monotonic >= self._claim.wanted_since + ANNOUNCED_WITHIN_S:
            return True
        member = self._cluster.topology.members.get(self.node_id)
        return member is not None and member.backup is not None
