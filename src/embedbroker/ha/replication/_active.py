"""A replicating broker that is active: the backup it accepts, and its reaction to the loss of that backup.

Responsible for which backup may register, and for handing over at the end. Renews the right to be active before
anything is confirmed without a backup. Does not depend on how it became active.

How the right is renewed when a backup is lost that may believe itself in sync, in this order:

===================================  ===================================================================
a lock manager                       the epoch grows under the lease (``LeaseActivation``)
``vote_on_replication_failure``      most of the other active brokers grant their vote to this one
neither                              nothing: it goes on, and so may the backup
===================================  ===================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from embedbroker import locks
from embedbroker.cluster import ControlLink, InboundPeer, Membership
from embedbroker.config import BrokerConfig, ReplicationBackup, ReplicationPrimary, Role
from embedbroker.replication import PrimaryStatus, Refusal, ReplicaRegistration, Replicator, ReplicatorState

from .._outputs import RoleChanged
from ..lease._lease_holder import LeaseHolder
from ..quorum._round import Electorate, VoteRound
from ..quorum._vote_requests import repeat_vote_request, round_to_go_on
from ..quorum._voter import connector_text
from ._node_record import NodeRecord
from ._replica_disk import ReplicaDisk

if TYPE_CHECKING:
    from embedclient.model import Instant

__all__ = ["ActiveRole"]

#: Seconds without a request after the lock manager failed; it receives requests again until the lease is over.
AFTER_FAULT_S = 0.25
#: How long a hand-over waits until the backup has everything, in seconds.
HANDED_OVER_WITHIN_S = 5.0
#: When a primary without a backup looks like a mistake in the configuration, in seconds.
ALONE_AFTER_S = 30.0


class ActiveRole:
    """The active role of one broker start. ``failure`` is the reason why it must not be active any more.

    ``on_change`` is called when something of it has changed.
    """

    def __init__(
        self,
        config: BrokerConfig,
        policy: ReplicationPrimary | ReplicationBackup,
        membership: Membership,
        electorate: Electorate,
        lease: LeaseHolder | None,
        replica_disk: ReplicaDisk,
        node_record: NodeRecord,
        log: Callable[[bool, str], None],
        on_change: Callable[[], None],
        output: Callable[[RoleChanged], None],
    ) -> None:
        assert config.cluster_connection is not None
        self.failure: str | None = None
        #: Where the primary is that is in sync, requested to be active again, and may be.
        self.wanted_by: str | None = None
        #: Everything is handed over, or there was no backup to hand over to.
        self.has_handed_over = False
        self.is_handing_over = False
        self.vote_round: VoteRound | None = None
        self._policy = policy
        self._connection = config.cluster_connection
        self._membership = membership
        self._electorate = electorate
        self._lease = lease
        self._node_record = node_record
        self._log = log
        self._on_change = on_change
        self._output = output
        self._inbound: InboundPeer | None = None
        self._is_live = False
        self._leaves = False
        self._renews = False
        # The last activation that this start has left behind: copies that have it must not be active any more.
        self._left_behind = 0
        self._announced_at_ms = 0
        self._due: float | None = None
        call_timeout_s = self._connection.call_timeout_ms / 1000
        sync_timeout_s = policy.initial_replication_sync_timeout_ms / 1000
        self.replicator = Replicator(
            call_timeout_s, sync_timeout_s, lambda text: log(True, text), lambda text: log(False, text)
        )
        self.replicator.owner = self
        replica_disk.replicator = self.replicator

    @property
    def backup(self) -> object:
        """Return the connection of a backup, which outlives all others."""
        return self._inbound.peer if self._inbound is not None and self.replicator.replica_name else None

    @property
    def has_copy(self) -> bool:
        """Return True if a backup is in sync."""
        return self.replicator.state is ReplicatorState.SYNCHRONISED

    def begin(self, now: Instant) -> None:
        """Record that this broker is active."""
        self._is_live = True
        if self._lease is not None:
            self._lease.is_live = True
        self._due = now.monotonic + ALONE_AFTER_S
        self._left_behind = self._node_record.record.epoch - 1
        self._announced_at_ms = now.wall_ms
        self._membership.observer = self

    # -- a backup ------------------------------------------------------------------------------------------------

    def on_registration(self, inbound: InboundPeer, registration: ReplicaRegistration) -> None:
        """Accept or refuse a backup that registers."""
        replicator, record = self.replicator, self._node_record.record
        policy, group = self._policy, registration.group_name
        if not self._is_live or self._leaves:
            replicator.refuse(inbound, Refusal.NOT_READY, "it is not live at this moment")
        elif None not in (group, policy.group_name) and group != policy.group_name:
            text = f"its group_name is {policy.group_name!r}, and that of the backup {group!r}"
            replicator.refuse(inbound, Refusal.NOT_READY, text)
        elif registration.cluster_name not in (None, self._connection.name):
            text = (
                f"its cluster_connection is named {self._connection.name!r}, and that of the backup"
                f" {registration.cluster_name!r}: give both the same name, or, if they are different clusters, correct"
                " the static_connectors of the backup, and give each cluster another cluster_password"
            )
            replicator.refuse(inbound, Refusal.NOT_READY, text)
        elif self._is_back(registration):
            # Its former connection is dead, and the backup noticed that before this broker.
            assert self._inbound is not None
            self._inbound.fail("the backup has come back on another connection")
            replicator.refuse(inbound, Refusal.ALREADY_REPLICATING, "its former connection has just ended")
        elif self._is_one_to_voters(registration):
            text = (
                "its connector is the one of the live broker, so that votes cannot distinguish the two: give each"
                " broker another connector"
            )
            replicator.refuse(inbound, Refusal.NOT_READY, text)
        else:
            assert record.node_id is not None and record.journal_identity is not None
            status = PrimaryStatus(record.node_id, record.journal_identity, record.epoch, self._allows_fail_back)
            replicator.register(inbound, registration, status)
            if replicator.registration is registration:
                self._inbound = inbound
                self._due = None

    def may_hand_over(self) -> bool:
        """Record this backup as partner; return True if that is durable, or if there are no votes.

        A backup in sync may go on by itself, so after a crash, too, this broker must not forget that it had one.

        The record is not written before the copy is whole. Otherwise this broker would wait after a crash for a backup
        that could not go on.
        """
        if not self._node_record.votes:
            return True
        registration = self.replicator.registration
        assert registration is not None
        self._node_record.note_partner(registration.connector)
        return self._node_record.is_written

    def _is_back(self, registration: ReplicaRegistration) -> bool:
        known = self.replicator.registration
        return known is not None and known.connector.leads_where(registration.connector)

    def _is_one_to_voters(self, registration: ReplicaRegistration) -> bool:
        own = connector_text(self._membership.connector)
        return self._node_record.votes and connector_text(registration.connector) == own

    @property
    def _allows_fail_back(self) -> bool:
        return isinstance(self._policy, ReplicationBackup) and self._policy.allow_failback

    def on_synchronised(self) -> None:
        """Announce the backup that is in sync, and let a primary be active again if that is allowed."""
        registration, membership = self.replicator.registration, self._membership
        assert registration is not None
        self._output(RoleChanged(Role.LIVE, in_sync=True))
        self._on_change()
        membership.topology.put_backup(
            membership.node_id, registration.connector, registration.group_name, membership.now.wall_ms
        )
        if registration.wants_fail_back and self._allows_fail_back:
            self.wanted_by = self.replicator.replica_name
        elif registration.wants_fail_back and isinstance(self._policy, ReplicationBackup):
            self._log(
                False, f"{self.replicator.replica_name} is a primary, and allow_failback is not set here: it waits"
            )

    def on_lost(self, reason: str, held: bool) -> None:
        """Go on without the backup. A backup that may believe itself in sync must be ruled out first."""
        membership = self._membership
        self._inbound = None
        self.wanted_by = None
        self._on_change()
        if self._leaves:
            self.has_handed_over = True
            return
        if membership.node_id in membership.topology.members:
            membership.topology.put_backup(membership.node_id, None, self._policy.group_name, membership.now.wall_ms)
        if held:
            self._output(RoleChanged(Role.LIVE))
            self._log(
                True, f"the backup is lost ({reason}): nothing is confirmed until the right to be live is renewed"
            )
            self._renew()
        else:
            self._node_record.note_alone()

    # -- the right -----------------------------------------------------------------------------------------------

    def _renew(self) -> None:
        now = self._membership.now.monotonic
        self._renews = True
        self._due = None
        if self._lease is not None:
            self._lease.renew(now)
        elif self._node_record.votes:
            epoch = self._node_record.record.epoch
            self.vote_round = round_to_go_on(self._policy, self._connection, self._membership, self._electorate, epoch)
        else:
            self._node_record.count_on(self._go_on)

    def _go_on(self) -> None:
        self._renews = False
        if not self._leaves and self.replicator.state is ReplicatorState.HELD:
            self._log(False, "goes on without a backup")
            self.replicator.go_on_alone()

    def on_attempt(self, attempt: locks.ActivationAttempt) -> None:
        """Handle the answer of the lock manager."""
        if not self._renews:
            return
        if attempt.verdict is locks.AttemptResult.GRANTED:
            self._go_on()
        elif attempt.verdict is locks.AttemptResult.FAILED:
            # The requests repeat as long as the lease lasts.
            self._due = self._membership.now.monotonic + AFTER_FAULT_S
        else:
            self.failure = f"lost its backup, and may not go on without one: {attempt.text}"

    def _look_at_round(self) -> None:
        vote_round = self.vote_round
        if vote_round is None or vote_round.won is None:
            return
        self.vote_round = None
        if vote_round.won:
            self._log(False, f"the others see this broker: {vote_round.summary}")
            self._left_behind = self._node_record.record.epoch
            self._node_record.count_on(self._go_on)
        else:
            self.failure = (
                "lost its backup, which may be live, and not enough of the cluster sees this broker: "
                f"{vote_round.summary}"
            )

    def on_link(self, link: ControlLink) -> None:
        """Send which copies are left behind to a new peer, or to one that received no request for votes."""
        if self._node_record.votes:
            repeat_vote_request(link, self._membership, self._left_behind, self._announced_at_ms)

    # -- the end -------------------------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Return True if a broker that stops would wait for ever."""
        return self.replicator.state is ReplicatorState.HELD

    def leave(self, *, hands_over: bool) -> None:
        """Begin a stop, after which a backup that is in sync takes over, or decides by itself what to do."""
        self._leaves = True
        if self.vote_round is not None:
            self.vote_round.withdraw()
            self.vote_round = None
        state = self.replicator.state
        if state in (ReplicatorState.ALONE, ReplicatorState.COPYING):
            # The journal cannot be closed before everything is copied that its last work renames or removes, and a
            # copy may take hours. It is worth nothing before it is whole; what there is of it is kept.
            self.replicator.close("the broker stops, and it has no copy that is whole")
            self._node_record.note_alone()
        elif hands_over and state is ReplicatorState.SYNCHRONISED:
            self.replicator.announce_stop()

    def let_go(self) -> None:
        """Complete the work that waits for a backup. Nothing is confirmed any more."""
        self.replicator.close("the broker stops")

    def hand_over(self, now: Instant, *, hands_over: bool) -> None:
        """Hand over to the backup, because everything is written."""
        self.is_handing_over = True
        if not hands_over or self.replicator.state is not ReplicatorState.SYNCHRONISED:
            self.replicator.close("the broker stops")
            self.has_handed_over = True
            return
        inbound = self._inbound
        assert inbound is not None
        self.replicator.announce_failover()
        self.replicator.close("it is to take over")
        inbound.receiver = self
        self._due = now.monotonic + HANDED_OVER_WITHIN_S

    def on_frame(self, packet_type: int, buffer: bytes | bytearray, start: int, end: int) -> None:
        """Ignore what the backup sends while it takes over."""

    def on_gone(self) -> None:
        """Handle that the backup has taken over: it ends the connection then."""
        self.has_handed_over = True
        self._on_change()

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due, in monotonic seconds; None if it never is."""
        earliest = self._due
        for part in (self.replicator, self.vote_round):
            due = part.next_deadline() if part is not None else None
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    def on_time(self, now: Instant) -> None:
        """Do what is due by now."""
        due = self.replicator.next_deadline()
        if due is not None and due <= now.monotonic:
            self.replicator.on_time(now)
        if self.vote_round is not None:
            self.vote_round.on_time(now.monotonic)
        self._look_at_round()
        if self._due is not None and now.monotonic >= self._due:
            self._due = None
            if self._leaves:
                self.has_handed_over = True
            elif self._renews and self._lease is not None:
                self._lease.renew(now.monotonic)
            elif not self._renews:
                self._log(
                    True,
                    "no backup has joined yet: is one of the brokers configured as backup, with the cluster_user,"
                    " cluster_password and group_name of this one, and does it find this one by its static_connectors?",
                )

    def on_reply(self, link: ControlLink, packet: object, now: Instant) -> None:
        """Count a vote."""
        if self.vote_round is not None:
            self.vote_round.on_reply(link, packet, now.monotonic)
            self._look_at_round()
