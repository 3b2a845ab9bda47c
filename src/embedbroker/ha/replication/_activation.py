"""A replicating broker's right to be live, from the first question to the last word.

Responsible for when it is a backup, when it may be live, and what is true of its record then. Refuses to carry any of
it out: the node asks what it should become. `BackupRole` has what a backup does, `Election` how it asks to be live,
`ActiveRole` what a live broker does, ``_stages`` the ways from one to the other.
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
from ._backup import BackupRole
from ._cold_start import ColdStartAgreement
from ._election import Election
from ._initial_record import warnings_of
from ._node_record import NodeRecord
from ._replica_disk import ReplicaDisk
from ._stages import GAVE_WAY_FOR_S, LOOKS_FOR_S, ROLES, Stage

if TYPE_CHECKING:
    from embedbroker.storage import Journal

__all__ = ["ReplicationActivation"]


class ReplicationActivation:
    """One instance per broker start. ``gives_way`` is set when it ends in favour of a primary."""

    needs_room = False
    waits_for_room = False
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
        policy = config.ha_policy
        assert isinstance(policy, ReplicationPrimary | ReplicationBackup)
        self.gives_way = False
        self.failure: str | None = None
        #: Something changed that the node has not followed yet.
        self.has_changed = False
        self.replica_disk = ReplicaDisk(journal, self._wake)
        self._notes: list[locks.LogEntry] = []
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
            config, policy, journal.settings, cluster, self.replica_disk, self._node_record, self._log, output
        )
        self._backup_role.on_in_sync = self._on_in_sync
        self._backup_role.on_over = self._on_over
        self._election = Election(
            policy, cluster, self._electorate, self._node_record, self._lease, self._log, self._backup_role.warn
        )
        self._election.on_granted = self._become_granted
        self._election.on_refused = self._stand_by
        self._cold_start: ColdStartAgreement | None = None
        if self._node_record.votes:
            self._cold_start = ColdStartAgreement(policy, cluster, self._node_record, lambda: self._waits, self._log)
            self._cold_start.on_met = self._on_met
            self._cold_start.on_given_way = self._on_given_way
        self._active_role: ActiveRole | None = None
        self._hands_over = False
        # When it looks again: for a live broker, or at the lock manager.
        self._due: float | None = None
        receive_votes(cluster, self._on_reply)
        cluster.inbound_peers.handlers[ReplicaRegistration] = self._on_registration

    # -- for the node --------------------------------------------------------------------------------------------

    @property
    def _record(self) -> ReplicaRecord:
        return self._node_record.record

    @property
    def node_id(self) -> str:
        """As the record knows it; empty until this broker was live, or in sync with one that is."""
        return self._record.node_id or ""

    @property
    def journal_identity(self) -> int | None:
        """The journal that belongs to that node."""
        return self._record.journal_identity

    @property
    def admits_peers(self) -> bool:
        """Whether others may find this broker although it is not live: one of them may wait for what it says. Nobody
        does while there is a live broker of that node, which may refuse this one as its backup again and again."""
        can_meet = self._cold_start is not None and bool(self._record.node_id)
        return can_meet and self._waits and self._election.rival() is None

    @property
    def vote_round(self) -> VoteRound | None:
        """Return the vote that is under way: to go on without a backup, or to become live."""
        going_on = self._active_role.vote_round if self._active_role is not None else None
        return going_on if going_on is not None else self._election.vote_round

    @property
    def vote_is_for_start(self) -> bool:
        """Return True if the last vote to become live was about data from before, with no live broker lost."""
        return self._election.starts

    @property
    def is_over(self) -> bool:
        return self._stage is Stage.OVER

    @property
    def restarts(self) -> bool:
        """Whether another node is to wait in the place of this one, which gave way."""
        may = isinstance(self._policy, ReplicationBackup) and self._policy.restart_backup
        return self.gives_way and self.failure is None and may

    @property
    def backup_connection(self) -> object:
        """Return the connection of the backup, which outlives the others in an orderly stop; None without one."""
        return self._active_role.backup if self._active_role is not None else None

    @property
    def is_calm(self) -> bool:
        """Whether disk work and its answers are all that traffic can change."""
        return self._stage in (Stage.LIVE, Stage.STANDING_BY) and not self.has_changed and self.replica_disk.is_steady

    def begin(self, now: Instant) -> None:
        assert self._stage is Stage.NEW
        self._move(Stage.READING)
        self.replica_disk.record_file.read(self._on_record)

    def meet_journal(self, identity: int | None, last_batch: int | None) -> None:
        """Compare the journal that was read with the record. None: there is none, and a backup would give up its own
        for nothing."""
        reason = self._node_record.meet_journal(identity, last_batch)
        if reason is not None:
            self._fail(reason)

    def settle(self, node_id: str, journal_identity: int | None, last_batch: int | None) -> None:
        """The node could serve: that is noted, and then it is live."""
        assert self._stage is Stage.GRANTED
        self._move(Stage.SETTLING)
        self._node_record.settle(node_id, journal_identity, last_batch, self._on_settled)

    def note_last_batch(self, last_batch: int) -> bool:
        """Write down how far the journal is on disk. Return False: the disk does that, not the lock manager."""
        if self._stage is Stage.LIVE:
            self._node_record.note_last_batch(last_batch, partial(self._log, True))
        return False

    def _on_settled(self) -> None:
        if self._stage is Stage.SETTLING:
            assert self._active_role is not None
            self._active_role.begin(self._cluster.now)
            self._move(Stage.LIVE)

    def note_shortage(self, *, lacks_room: bool) -> None:
        """Do nothing: a replicating broker whose disk is full fails, and its backup takes over."""

    def begin_stop(self, *, fails_over: bool) -> None:
        """An orderly stop has begun; with ``fails_over`` a backup in sync is to take over."""
        self._hands_over = fails_over or self.gives_way
        self._backup_role.pause()
        self._election.withdraw()
        if self._active_role is not None:
            self._active_role.leave(hands_over=self._hands_over)

    @property
    def is_blocked(self) -> bool:
        """Return True if disk work waits for the answer of a backup that is lost."""
        return self._active_role is not None and self._active_role.is_held

    def release_disk_work(self) -> None:
        """Complete the disk work that waits for a lost backup. Nothing must be confirmed any more."""
        assert self._active_role is not None
        self._active_role.let_go()

    def leave(self, *, fails_over: bool, last_batch: int | None) -> None:
        """Nothing is written to the journal any more: give the right back, then hand over."""
        if self._stage not in (Stage.SETTLING, Stage.LIVE) or self._active_role is None:
            # A session that is closed gives back what is left.
            self._move(Stage.OVER)
            return
        self._move(Stage.LEAVING)
        if self.gives_way:
            self._node_record.note_gave_way(self._wake)
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
            self._move(Stage.OVER)

    def end(self) -> None:
        """The life is over, and nobody is told anything."""
        self._move(Stage.OVER)

    def take_log_entries(self) -> list[locks.LogEntry]:
        notes, self._notes = self._notes, []
        return notes

    @property
    def is_undecided(self) -> bool:
        """Whether a primary does not know yet if another broker is live in its place."""
        return self._stage not in ROLES and isinstance(self._policy, ReplicationPrimary)

    def role_after(self, now: Instant) -> Role | None:
        """What the node is to become; None when nothing changes."""
        self.has_changed = False
        if self.failure is not None:
            return Role.STOPPED
        wanted_by = self._active_role.wanted_by if self._active_role is not None else None
        if self._stage is Stage.LIVE and wanted_by is not None:
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
        # Twice in each step, so without a list of them.
        earliest = self._due if self._stage in (Stage.LOOKING, Stage.STANDING_BY) else None
        backup_role = self._backup_role if self._stage is Stage.STANDING_BY else None
        for part in (backup_role, self._lease, self._election, self._active_role):
            due = part.next_deadline() if part is not None else None
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    def on_time(self, now: Instant) -> None:
        """Do what is due by now. While it looks for a live broker or for votes, every input may be due."""
        if self._stage not in (Stage.LOOKING, Stage.VOTING):
            due = self.next_deadline()
            if due is None or due > now.monotonic:
                return
        if self.replica_disk.record_file.failure is not None and self.failure is None:
            self._fail(self.replica_disk.record_file.failure)
        if self._lease is not None:
            self._lease.on_time(now.monotonic)
            self._follow_lease()
        if self._stage is Stage.STANDING_BY:
            self._begin_anew(now)
            if self._stage is Stage.STANDING_BY:  # who asks to be live joins nobody before there is an answer
                self._backup_role.on_time()
        elif self._stage is Stage.LOOKING:
            self._look_for_live(now)
        elif self._stage is Stage.VOTING:
            self._election.on_time()
        if self._active_role is not None:
            self._active_role.on_time(now)
            self._follow_active_role()
        if self._stage is Stage.LEAVING:
            self._follow_leaving()

    # -- the beginning -------------------------------------------------------------------------------------------

    def _on_record(self) -> None:
        policy, was_known = self._policy, self._record.node_id is not None
        for warning in warnings_of(policy, has_manager=self._lease is not None):
            self._log(True, warning)
        record = self._node_record.begin(self._make_node_id)
        if isinstance(policy, ReplicationPrimary):
            self._backup_role.choice.only = record.node_id
            self._backup_role.wants_fail_back = True
        else:
            self._backup_role.choice.preferred = record.node_id
        if self._lease is not None:
            self._begin_with_manager(self._lease)
        elif isinstance(policy, ReplicationBackup):
            # Whoever it gave way to is about to ask for votes; if that one dies instead, this data is as good.
            self._stand_by(GAVE_WAY_FOR_S if record.gave_way else None)
        elif was_known and (policy.check_for_active_server or policy.vote_on_replication_failure):
            self._move(Stage.LOOKING)
            self._due = self._cluster.now.monotonic + LOOKS_FOR_S
            self._cluster.become_backup("", policy.group_name, announce=False)
        else:
            self._become_granted()

    def _begin_with_manager(self, lease: LeaseHolder) -> None:
        record = self._record
        if record.node_id is None:
            self._stand_by()
            return
        lease.meet(record.node_id)
        if record.gave_way:
            # The other one is about to take the lease; if it dies instead, this data is as good.
            self._stand_by(GAVE_WAY_FOR_S)
        elif self._node_record.may_be_newest:
            self._try()
        else:
            self._stand_by()

    def _look_for_live(self, now: Instant) -> None:
        rival = self._election.rival()
        if rival is not None:
            self._log(False, f"{rival} is live for this node: waits as its backup, to be live again")
            self._stand_by()
        elif not self._cluster.is_informed and (self._due is None or now.monotonic < self._due):
            return
        elif self._policy.vote_on_replication_failure and not self._node_record.may_be_newest:
            self._stand_by()
        else:
            self._vote(starts=True)

    # -- standing by ---------------------------------------------------------------------------------------------

    def _stand_by(self, asks_in_s: float | None = None) -> None:
        asks = self._lease is not None or self._policy.vote_on_replication_failure
        if not asks:
            self._due = None
        elif self._stage is not Stage.STANDING_BY or self._due is None:
            # Whoever refuses this broker as backup does not put off what it asks for.
            self._due = self._cluster.now.monotonic + (self._election.pause_s if asks_in_s is None else asks_in_s)
        self._move(Stage.STANDING_BY)
        keeps = asks and self._node_record.may_be_newest
        if isinstance(self._policy, ReplicationBackup):
            # Nobody else's copy takes the place of data that may be needed yet.
            self._backup_role.keep(self.node_id if keeps else None)
        else:
            self._backup_role.keeps = keeps
        self._cluster.become_backup(self.node_id, self._policy.group_name, announce=False)
        self._backup_role.begin()

    def _begin_anew(self, now: Instant) -> None:
        """With the data that is here, unless there is somebody to join."""
        if self._due is None or now.monotonic < self._due:
            return
        self._due = now.monotonic + self._election.pause_s
        if self._backup_role.is_joined:
            return
        if self._cold_start is not None:
            self._cold_start.look_around()
        if not self._node_record.may_be_newest:
            return
        if self._lease is not None:
            self._try()
        elif self._election.may_ask and self._election.rival() is None:
            self._vote(starts=True)

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
        if self._stage is not Stage.STANDING_BY or ending.kind is EndingKind.CLOSED:
            return
        if status is None:
            self._stand_by()
            return
        is_dismissed = ending.kind is EndingKind.BROKEN and self._lease is None and not self._node_record.votes
        if not ending.in_sync or is_dismissed:
            # A live broker that says that it cannot go on with this backup goes on without it, unless it has to be
            # granted that first: then the lock manager knows, or the voters do, and it may be gone before they say so.
            self._node_record.note_left_behind()
            self._stand_by()
            return
        self._note_in_sync(status)
        self._log(True, f"lost the live broker: {ending.text}")
        if self._lease is not None:
            self._try()
        elif ending.kind in (EndingKind.FAIL_OVER, EndingKind.STOP_CALLED) and not self._node_record.votes:
            self._become_granted()
        else:
            # After an orderly stop, too: the other one, started again, asks with what it had then.
            self._vote()

    # -- others that wait ----------------------------------------------------------------------------------------

    @property
    def _waits(self) -> bool:
        return self._stage in (Stage.STANDING_BY, Stage.VOTING) and not self._backup_role.is_joined

    def _on_met(self) -> None:
        self._election.withdraw()
        self._become_granted()

    def _on_given_way(self) -> None:
        self._election.withdraw()
        self._stand_by()
        # Until that one is live: this copy is the only other one.
        self._backup_role.choice.only = self.node_id

    # -- asking --------------------------------------------------------------------------------------------------

    def _try(self) -> None:
        self._move(Stage.TRYING)
        self._election.ask_manager()

    def _vote(self, *, starts: bool = False) -> None:
        if self._election.ask_others(starts=starts):
            self._move(Stage.VOTING)
        else:
            self._become_granted()

    def _follow_lease(self) -> None:
        lease = self._lease
        if lease is None:
            return
        attempt = lease.take_attempt()
        if lease.failure is not None and self.failure is None and self._stage is not Stage.LEAVING:
            self._fail(lease.failure)
        if attempt is not None and self._stage is Stage.TRYING:
            self._election.on_attempt(attempt)
        elif attempt is not None and self._active_role is not None:
            self._active_role.on_attempt(attempt)
            self._follow_active_role()

    # -- being live ----------------------------------------------------------------------------------------------

    def _become_granted(self) -> None:
        self._due = None
        self._backup_role.pause()
        parts = self._cluster, self._electorate, self._lease, self.replica_disk, self._node_record
        self._active_role = ActiveRole(self._config, self._policy, *parts, self._log, self._wake, self._output)
        self._active_role.replicator.now = self._cluster.now
        self._move(Stage.GRANTED)

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
        self._election.on_reply(link, packet)
        if self._active_role is not None:
            self._active_role.on_reply(link, packet, self._cluster.now)
            self._follow_active_role()

    # -- small things --------------------------------------------------------------------------------------------

    def _move(self, stage: Stage) -> None:
        if self._stage is not Stage.OVER:
            self._stage = stage
            self._wake()

    def _wake(self) -> None:
        self.has_changed = True

    def _fail(self, reason: str) -> None:
        self.failure = reason
        self._wake()

    def _log(self, warning: bool, text: str) -> None:
        self._notes.append(locks.LogEntry(warning, text))
        self._wake()
