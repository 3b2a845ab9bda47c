"""The activation of a broker that replicates.

Responsible for its stage, and for starting and stopping the role that belongs to a stage. `TRANSITIONS` has the stages
and the events between them, ``_decisions`` chooses the event. `BackupRole` copies from an active broker, `Election`
runs lease requests and votes, `ColdStartAgreement` agrees with a partner, `ActiveRole` serves a backup. Does not change
the node, which follows `role_after`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from embedbroker import locks
from embedbroker.cluster import ControlLink, InboundPeer, Membership
from embedbroker.config import BrokerConfig, ReplicationBackup, ReplicationPrimary, Role
from embedbroker.replication import Ending, EndingKind, PrimaryStatus, ReplicaRecord, ReplicaRegistration
from embedclient.model import Instant

from .._inputs import LockDone, LockFailed
from .._outputs import RoleChanged
from ..lease._lease_holder import LeaseHolder
from ..quorum._round import Electorate, VoteRound
from ..quorum._vote_requests import receive_votes
from ._active import ActiveRole
from ._backup import BackupRole, InSync, ReplicationEnd
from ._cold_start import ColdStartAgreement
from ._decisions import after_pause, after_record, after_replication, after_search
from ._election import Election
from ._initial_record import warnings_of
from ._node_record import NodeRecord
from ._replica_disk import ReplicaDisk
from ._stages import GAVE_WAY_PAUSE_S, ROLES, SEARCH_S, TRANSITIONS, Event, Stage

if TYPE_CHECKING:
    from embedbroker.storage import Journal

__all__ = ["ReplicationActivation"]


class ReplicationActivation:
    """The activation of one broker start. ``gives_way`` is set when it ends in favour of a primary."""

    needs_room = False
    sure_until = inf

    def __init__(
        self,
        config: BrokerConfig,
        journal: Journal,
        cluster: Membership,
        make_node_id: Callable[[], str],
        output: Callable[[RoleChanged], None],
        *,
        has_manager: bool,
    ) -> None:
        policy = config.own_policy
        assert isinstance(policy, ReplicationPrimary | ReplicationBackup)
        self.gives_way = False
        self.failure: str | None = None
        #: Something changed that the node has not followed yet.
        self.has_changed = False
        self.replica_disk = ReplicaDisk(journal, self._wake)
        self._notes: list[locks.LogEntry] = []
        self._journal = journal
        self._stage = Stage.NEW
        self._config = config
        self._policy = policy
        self._cluster = cluster
        self._make_node_id = make_node_id
        self._output = output
        self._lease = LeaseHolder(self.replica_disk.record_file, self._wake) if has_manager else None
        self._electorate = Electorate(cluster)
        self._node_record = NodeRecord(policy, self.replica_disk.record_file, self._electorate, has_manager=has_manager)
        self._backup_role = BackupRole(
            config,
            policy,
            journal.settings,
            cluster,
            self.replica_disk,
            self._node_record,
            self._log,
            output,
            self._on_replication,
        )
        self._election = Election(
            policy, cluster, self._electorate, self._node_record, self._lease, self._log, self._backup_role.report_once
        )
        self._cold_start: ColdStartAgreement | None = None
        if self._node_record.votes:
            self._cold_start = ColdStartAgreement(
                policy, cluster, self._node_record, lambda: self._waits, self._log, self._on_cold_start
            )
        self._active_role: ActiveRole | None = None
        self._hands_over = False
        # After a scale-down: it waits as backup again, and whether nothing is left here.
        self._ends_for_now = self._has_moved_all = False
        # When it searches for an active broker again, or sends the next request to the lock manager or the voters.
        self._due: float | None = None
        receive_votes(cluster, self._on_reply)
        cluster.inbound_peers.handlers[ReplicaRegistration] = self._on_registration

    # -- for the node --------------------------------------------------------------------------------------------

    @property
    def _record(self) -> ReplicaRecord:
        return self._node_record.record

    @property
    def node_id(self) -> str:
        """Return the node id of the record; empty until this broker was active, or in sync with an active one."""
        return self._record.node_id or ""

    @property
    def journal_identity(self) -> int | None:
        """Return the identity of the journal that belongs to that node."""
        return self._record.journal_identity

    @property
    def admits_peers(self) -> bool:
        """Return True if this broker must accept peer connections although it is not active, because a cold start may
        need its answer. That is False while the node has an active broker, which may refuse this one as its backup
        again and again."""
        can_meet = self._cold_start is not None and bool(self._record.node_id)
        return can_meet and self._waits and self._election.rival() is None

    @property
    def vote_round(self) -> VoteRound | None:
        """Return the vote that is under way: to go on without a backup, or to become active."""
        going_on = self._active_role.vote_round if self._active_role is not None else None
        return going_on if going_on is not None else self._election.vote_round

    @property
    def vote_is_for_start(self) -> bool:
        """Return True if the last vote to become active was about data from before, with no active broker lost."""
        return self._election.starts

    @property
    def is_over(self) -> bool:
        return self._stage is Stage.OVER

    @property
    def restarts(self) -> bool:
        """Return True if another node must wait in the place of this one, which gave way or has scaled down."""
        may = isinstance(self._policy, ReplicationBackup) and self._policy.restart_backup
        return (self.gives_way or self._ends_for_now) and self.failure is None and may

    @property
    def backup_connection(self) -> object:
        """Return the connection of the backup, which outlives the others in an orderly stop; None without one."""
        return self._active_role.backup if self._active_role is not None else None

    @property
    def is_calm(self) -> bool:
        """Return True if traffic can change nothing but disk work and its answers."""
        return self._stage in (Stage.ACTIVE, Stage.BACKUP) and not self.has_changed and self.replica_disk.is_steady

    def begin(self, now: Instant) -> None:
        self._apply(Event.STARTED)
        self.replica_disk.record_file.read(self._on_record)

    def meet_journal(self, identity: int | None, last_batch: int | None) -> None:
        """Compare the journal that was read with the record. None: there is no journal, and a backup would give up its
        data for nothing."""
        reason = self._node_record.meet_journal(identity, last_batch, self._journal.newest_segment)
        if reason is not None:
            self._fail(reason)

    def settle(self, node_id: str, journal_identity: int | None, last_batch: int | None) -> None:
        """Record that the node could serve; it is active when that is durable."""
        self._apply(Event.RECOVERED)
        self._node_record.settle(node_id, journal_identity, last_batch, self._on_settled)

    def note_last_batch(self, last_batch: int) -> bool:
        """Record how far the journal is on disk. Return False: the disk does that, not the lock manager."""
        if self._stage is Stage.ACTIVE:
            self._node_record.note_last_batch(last_batch, partial(self._log, True))
        return False

    def _on_settled(self) -> None:
        if self._stage is Stage.RECORDING:
            assert self._active_role is not None
            self._active_role.begin(self._cluster.now)
            self._apply(Event.RECORDED)

    def note_shortage(self, *, lacks_room: bool) -> None:
        """Do nothing: a replicating broker whose disk is full fails, and its backup takes over."""

    @property
    def has_scaled_down(self) -> bool:
        """Return True if an earlier start moved everything: its data is the newest, which a returning primary needs."""
        return self._node_record.has_scaled_down

    def note_scaled_down(self, *, is_complete: bool) -> None:
        """Wait as backup again after the end, with a mark in the record if nothing is left."""
        self._ends_for_now = True
        self._has_moved_all = is_complete

    def begin_stop(self, *, fails_over: bool) -> None:
        """Start an orderly stop; with ``fails_over`` a backup in sync must take over."""
        self._hands_over = fails_over or self.gives_way
        self._backup_role.pause()
        self._election.withdraw()
        if self._active_role is not None:
            self._active_role.leave(hands_over=self._hands_over)

    def has_successor(self, *, fails_over: bool) -> bool:
        """Return True if a backup in sync would serve: it takes over, if not by order, then by its own decision."""
        return self._active_role is not None and self._active_role.has_copy and not self._cluster.lacks_backup

    @property
    def is_blocked(self) -> bool:
        """Return True if disk work waits for the answer of a backup that is lost."""
        return self._active_role is not None and self._active_role.is_held

    def release_disk_work(self) -> None:
        """Complete the disk work that waits for a lost backup. Nothing must be confirmed any more."""
        assert self._active_role is not None
        self._active_role.let_go()

    def leave(self, *, fails_over: bool, last_batch: int | None) -> None:
        """Give the right to be active back, then hand over. Nothing is written to the journal any more."""
        self._apply(Event.JOURNAL_CLOSED)
        if self._stage is Stage.OVER:
            # It was not active: the lock manager takes the lease back with the session.
            return
        if self.gives_way:
            self._node_record.note_gave_way(self._wake)
        elif self._has_moved_all:
            self._node_record.note_scaled_down(self._wake)
        self._follow_leaving()

    def _follow_leaving(self) -> None:
        active_role = self._active_role
        assert active_role is not None
        if not self.replica_disk.record_file.is_idle:
            return
        if self._lease is not None and not self._lease.leave():
            return
        if not active_role.is_handing_over:
            active_role.hand_over(self._cluster.now, hands_over=self._hands_over)
        if active_role.has_handed_over:
            self._apply(Event.HANDED_OVER)

    def end(self) -> None:
        """End without a farewell to the other brokers."""
        if self._stage is not Stage.OVER:
            self._apply(Event.ENDED)

    def take_log_entries(self) -> list[locks.LogEntry]:
        notes, self._notes = self._notes, []
        return notes

    @property
    def is_undecided(self) -> bool:
        """Return True if a primary has not found out yet whether another broker is active in its place."""
        return self._stage not in ROLES and isinstance(self._policy, ReplicationPrimary)

    def role_after(self, now: Instant) -> Role | None:
        """Return what the node must become; None when nothing changes."""
        self.has_changed = False
        if self.failure is not None:
            return Role.STOPPED
        wanted_by = self._active_role.wanted_by if self._active_role is not None else None
        if self._stage is Stage.ACTIVE and wanted_by is not None:
            if not self.gives_way:
                self.gives_way = True
                self._log(False, f"gives way to the primary at {wanted_by}, which is in sync")
            return Role.STOPPED
        return ROLES.get(self._stage)

    # -- work, answers and time ----------------------------------------------------------------------------------

    def on_answer(self, answer: LockDone | LockFailed, now: Instant) -> None:
        assert self._lease is not None
        self._lease.on_answer(answer, now.monotonic)
        self._follow_lease()
        if self._stage is Stage.LEAVING:
            self._wake()

    def take_work(self, now: Instant) -> locks.LeaseWork | None:
        if self._lease is None or self._stage is Stage.OVER:
            return None
        work = self._lease.take_work(now.monotonic)
        self._follow_lease()
        return work

    def next_deadline(self) -> float | None:
        if self._stage is Stage.OVER:
            return None
        if self.has_changed:
            return self._cluster.now.monotonic
        # This runs twice in each step, so it builds no list.
        earliest = self._due if self._stage in (Stage.SEARCHING, Stage.BACKUP) else None
        backup_role = self._backup_role if self._stage is Stage.BACKUP else None
        for part in (backup_role, self._lease, self._election, self._active_role):
            due = part.next_deadline() if part is not None else None
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    def on_time(self, now: Instant) -> None:
        """Do what is due by now. During a search for an active broker and during a vote, any input may be due."""
        if self._stage not in (Stage.SEARCHING, Stage.VOTING):
            due = self.next_deadline()
            if due is None or due > now.monotonic:
                return
        if self.replica_disk.record_file.failure is not None and self.failure is None:
            self._fail(self.replica_disk.record_file.failure)
        if self._lease is not None:
            self._lease.on_time(now.monotonic)
            self._follow_lease()
        if self._stage is Stage.BACKUP:
            self._begin_anew(now)
            if self._stage is Stage.BACKUP:  # a broker with a request under way joins no active broker
                self._backup_role.on_time()
        elif self._stage is Stage.SEARCHING:
            self._look_for_live(now)
        elif self._stage is Stage.VOTING:
            self._follow_election(self._election.on_time())
        if self._active_role is not None:
            self._active_role.on_time(now)
            self._follow_active_role()
        if self._stage is Stage.LEAVING:
            self._follow_leaving()

    # -- the beginning -------------------------------------------------------------------------------------------

    def _on_record(self) -> None:
        if self._stage is not Stage.READING:
            return
        policy, was_known = self._policy, self._record.node_id is not None
        for warning in warnings_of(policy, has_manager=self._lease is not None):
            self._log(True, warning)
        record = self._node_record.begin(self._make_node_id)
        if isinstance(policy, ReplicationPrimary):
            self._backup_role.choice.only = record.node_id
            self._backup_role.wants_fail_back = True
        else:
            self._backup_role.choice.preferred = record.node_id
        if self._lease is not None and record.node_id is not None:
            self._lease.meet(record.node_id)
        event = after_record(policy, record, was_known=was_known, has_manager=self._lease is not None)
        if event is Event.ACTIVE_POSSIBLE:
            self._apply(event)
            self._due = self._cluster.now.monotonic + SEARCH_S
            self._cluster.become_backup("", policy.group_name, announce=False)
        elif event is Event.NO_CLAIM:
            # The broker that it gave way to is about to be active; if that one dies instead, this data is as good.
            self._stand_by(event, GAVE_WAY_PAUSE_S if record.gave_way else None)
        else:
            self._pursue(event)

    def _look_for_live(self, now: Instant) -> None:
        rival = self._election.rival()
        is_complete = self._cluster.is_informed or (self._due is not None and now.monotonic >= self._due)
        event = after_search(self._policy, self._record, has_rival=rival is not None, is_complete=is_complete)
        if event is Event.ACTIVE_FOUND:
            self._log(False, f"{rival} is live for this node: waits as its backup, to be live again")
        if event is Event.VOTE_NEEDED:
            self._pursue(event, starts=True)
        elif event is not None:
            self._stand_by(event)

    # -- standing by ---------------------------------------------------------------------------------------------

    def _stand_by(self, event: Event, requests_in_s: float | None = None) -> None:
        """Be a backup, which requests the lease or a vote when its pause has passed."""
        requests = self._lease is not None or self._policy.vote_on_replication_failure
        if not requests:
            self._due = None
        elif self._stage is not Stage.BACKUP or self._due is None:
            # An active broker that refuses this backup does not put off its next request.
            self._due = self._cluster.now.monotonic + (
                self._election.pause_s if requests_in_s is None else requests_in_s
            )
        self._apply(event)
        keeps = requests and self._node_record.may_be_newest
        if isinstance(self._policy, ReplicationBackup):
            # The copy of another node must not take the place of data that may be needed yet.
            self._backup_role.keep(self.node_id if keeps else None)
        else:
            self._backup_role.keeps = keeps
        self._cluster.become_backup(self.node_id, self._policy.group_name, announce=False)
        self._backup_role.begin()

    def _begin_anew(self, now: Instant) -> None:
        """Request the lease or a vote with the data that is here, without an active broker to copy from."""
        if self._due is None or now.monotonic < self._due:
            return
        self._due = now.monotonic + self._election.pause_s
        if self._backup_role.is_joined:
            return
        if self._cold_start is not None:
            self._cold_start.look_around()
        event = after_pause(
            self._policy,
            self._record,
            has_manager=self._lease is not None,
            may_request_votes=self._election.may_request_votes,
            has_rival=self._election.rival() is not None,
        )
        if event is not None:
            self._pursue(event, starts=True)

    def _on_replication(self, result: InSync | ReplicationEnd) -> None:
        """Handle the result of replication from an active broker."""
        if isinstance(result, InSync):
            self._on_in_sync(result.status)
        else:
            self._on_over(result.ending, result.status)

    def _on_in_sync(self, status: PrimaryStatus) -> None:
        self._note_in_sync(status)
        self._backup_role.choice.preferred = status.node_id
        self._cluster.become_backup(status.node_id, self._policy.group_name, announce=True)
        self._wake()

    def _note_in_sync(self, status: PrimaryStatus) -> None:
        self._node_record.note_in_sync(status)
        if self._lease is not None:
            self._lease.meet(status.node_id)

    def _on_over(self, ending: Ending, status: PrimaryStatus | None) -> None:
        if self._stage is not Stage.BACKUP or ending.kind is EndingKind.CLOSED:
            return
        event = after_replication(
            ending.kind,
            was_accepted=status is not None,
            in_sync=ending.in_sync,
            has_manager=self._lease is not None,
            votes=self._node_record.votes,
        )
        if event is Event.LEFT_BEHIND:
            self._node_record.note_left_behind()
        if status is None or event is Event.LEFT_BEHIND:
            self._stand_by(event)
            return
        self._note_in_sync(status)
        self._log(ending.kind is not EndingKind.FAIL_OVER, f"lost the live broker: {ending.text}")
        self._pursue(event)

    # -- others that wait ----------------------------------------------------------------------------------------

    @property
    def _waits(self) -> bool:
        return self._stage in (Stage.BACKUP, Stage.VOTING) and not self._backup_role.is_joined

    def _on_cold_start(self, event: Event) -> None:
        """Handle the agreement with a partner that waits as well."""
        self._election.withdraw()
        if event is Event.PARTNER_YIELDED:
            self._become_granted(event)
            return
        self._stand_by(event)
        # Until the partner is active: this copy is the only other one.
        self._backup_role.choice.only = self.node_id

    # -- requests ------------------------------------------------------------------------------------------------

    def _pursue(self, event: Event, *, starts: bool = False) -> None:
        """Take the way to being active that was decided for. ``starts``: with data from before, no broker was lost."""
        if event is Event.LEASE_NEEDED:
            self._request_lease()
        elif event is Event.VOTE_NEEDED and self._election.request_votes(starts=starts):
            self._apply(event)
        else:
            self._become_granted(Event.GRANTED)

    def _request_lease(self) -> None:
        self._apply(Event.LEASE_NEEDED)
        self._election.request_lease()

    def _follow_election(self, event: Event | None) -> None:
        if event is Event.GRANTED:
            self._become_granted(event)
        elif event is not None:
            self._stand_by(event)

    def _follow_lease(self) -> None:
        lease = self._lease
        if lease is None:
            return
        attempt = lease.take_attempt()
        if lease.failure is not None and self.failure is None and self._stage is not Stage.LEAVING:
            self._fail(lease.failure)
        if attempt is not None and self._stage is Stage.REQUESTING_LEASE:
            self._follow_election(self._election.on_attempt(attempt))
        elif attempt is not None and self._active_role is not None:
            self._active_role.on_attempt(attempt)
            self._follow_active_role()

    # -- being active --------------------------------------------------------------------------------------------

    def _become_granted(self, event: Event) -> None:
        self._due = None
        self._backup_role.pause()
        parts = self._cluster, self._electorate, self._lease, self.replica_disk, self._node_record
        self._active_role = ActiveRole(self._config, self._policy, *parts, self._log, self._wake, self._output)
        self._active_role.replicator.now = self._cluster.now
        self._apply(event)

    def _follow_active_role(self) -> None:
        active_role = self._active_role
        if active_role is None:
            return
        if active_role.failure is not None and self.failure is None:
            self._fail(active_role.failure)
        if active_role.wanted_by is not None or active_role.has_handed_over:
            self._wake()

    def _on_registration(self, inbound: InboundPeer, packet: object) -> None:
        assert isinstance(packet, ReplicaRegistration)
        if self._active_role is not None:
            self._active_role.on_registration(inbound, packet)

    def _on_reply(self, link: ControlLink, packet: object) -> None:
        self._follow_election(self._election.on_reply(link, packet))
        if self._active_role is not None:
            self._active_role.on_reply(link, packet, self._cluster.now)
            self._follow_active_role()

    # -- small things --------------------------------------------------------------------------------------------

    def _apply(self, event: Event) -> None:
        """Move to the stage that follows from an event. No other function sets the stage."""
        self._stage = locks.state_after(TRANSITIONS, self._stage, event)
        self._wake()

    def _wake(self) -> None:
        self.has_changed = True

    def _fail(self, reason: str) -> None:
        self.failure = reason
        self._wake()

    def _log(self, warning: bool, text: str) -> None:
        self._notes.append(locks.LogEntry(warning, text))
        self._wake()
