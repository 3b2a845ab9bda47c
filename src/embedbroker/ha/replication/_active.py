"""A replicating broker that is live: the backup it takes, and what it does when that is gone.

Responsible for who may register, for renewing the right to be live before anything is confirmed without a backup, and
for handing over at the end. Refuses to know how it became live.

What renews the right when a backup is lost that may believe itself in sync, in this order:

===================================  ===================================================================
a lock manager                       the activation sequence grows under the lease (``Activation``)
``vote_on_replication_failure``      most of the other live brokers say that this one is there
neither                              nothing: it goes on, and so may the backup
===================================  ===================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from embedbroker import locks
from embedbroker.cluster import ControlLink, Guest, Membership
from embedbroker.config import BrokerConfig, ReplicationBackup, ReplicationPrimary, Role
from embedbroker.replication import Duplication, DuplicationState, Refusal, ReplicaRegistration, Standing

from .._outputs import RoleChanged
from ..lease._lease_holder import Tenancy
from ..quorum._round import Ballot, Electorate
from ..quorum._vote_requests import ballot_to_go_on, repeat_question
from ..quorum._voter import connector_text
from ._node_record import Chronicle
from ._replica_disk import Copies

if TYPE_CHECKING:
    from embedclient.model import Instant

__all__ = ["Incumbent"]

#: How long a lock manager that failed is left alone; until the lease is over it is asked again.
AFTER_FAULT_S = 0.25
#: How long whoever hands over waits until the backup has everything.
HANDED_OVER_WITHIN_S = 5.0
#: When a primary that nobody joined looks like a mistake in the configuration.
NOBODY_AFTER_S = 30.0


class Incumbent:
    """Of one life, from when it may be live. ``failure`` says why it may not be any more.

    ``on_change`` is called when something of it has changed.
    """

    def __init__(
        self,
        config: BrokerConfig,
        policy: ReplicationPrimary | ReplicationBackup,
        membership: Membership,
        electorate: Electorate,
        tenancy: Tenancy | None,
        copies: Copies,
        chronicle: Chronicle,
        note: Callable[[bool, str], None],
        on_change: Callable[[], None],
        emit: Callable[[RoleChanged], None],
    ) -> None:
        assert config.cluster_connection is not None
        self.failure: str | None = None
        #: A primary is in sync that wants to be live again, and may.
        self.wanted_by: str | None = None
        #: Everything is handed over, or there was nobody to hand over to.
        self.has_handed_over = False
        self.is_handing_over = False
        self.ballot: Ballot | None = None
        self._policy = policy
        self._connection = config.cluster_connection
        self._membership = membership
        self._electorate = electorate
        self._tenancy = tenancy
        self._chronicle = chronicle
        self._note = note
        self._on_change = on_change
        self._emit = emit
        self._guest: Guest | None = None
        self._is_live = False
        self._leaves = False
        self._renews = False
        # The last activation that this life has left behind: copies that have it must not be live any more.
        self._left_behind = 0
        self._told_as = 0
        self._due: float | None = None
        call_timeout_s = self._connection.call_timeout_ms / 1000
        sync_timeout_s = policy.initial_replication_sync_timeout_ms / 1000
        self.duplication = Duplication(
            call_timeout_s, sync_timeout_s, lambda text: note(True, text), lambda text: note(False, text)
        )
        self.duplication.on_synchronised = self._on_synchronised
        self.duplication.on_lost = self._on_lost
        if chronicle.votes:
            self.duplication.may_hand_over = self._may_hand_over
        copies.duplication = self.duplication

    @property
    def backup(self) -> object:
        """The connection of a backup, which goes on when all others are closed."""
        return self._guest.peer if self._guest is not None and self.duplication.replica_name else None

    def begin(self, now: Instant) -> None:
        """It is live."""
        self._is_live = True
        if self._tenancy is not None:
            self._tenancy.is_live = True
        self._due = now.monotonic + NOBODY_AFTER_S
        self._left_behind = self._chronicle.record.activation - 1
        self._told_as = now.wall_ms
        self._membership.on_link = self._tell_what_is_over

    # -- a backup ------------------------------------------------------------------------------------------------

    def on_registration(self, guest: Guest, registration: ReplicaRegistration) -> None:
        """A backup offers itself."""
        duplication, record = self.duplication, self._chronicle.record
        policy, group = self._policy, registration.group_name
        if not self._is_live or self._leaves:
            duplication.refuse(guest, Refusal.NOT_READY, "it is not live at this moment")
        elif None not in (group, policy.group_name) and group != policy.group_name:
            text = f"its group_name is {policy.group_name!r}, and that of the backup {group!r}"
            duplication.refuse(guest, Refusal.NOT_READY, text)
        elif registration.cluster_name not in (None, self._connection.name):
            text = (
                f"its cluster_connection is named {self._connection.name!r}, and that of the backup"
                f" {registration.cluster_name!r}: give both the same name, or, if they are different clusters, correct"
                " the static_connectors of the backup, and let each cluster have a cluster_password of its own"
            )
            duplication.refuse(guest, Refusal.NOT_READY, text)
        elif self._is_back(registration):
            # The connection that it had is dead, and it knew before this broker.
            assert self._guest is not None
            self._guest.fail("the backup has come back on another connection")
            duplication.refuse(guest, Refusal.ALREADY_REPLICATING, "its former connection has just ended")
        elif self._is_one_to_voters(registration):
            text = (
                "its connector is the one of the live broker, and votes could not tell the two apart: give each broker"
                " a connector of its own"
            )
            duplication.refuse(guest, Refusal.NOT_READY, text)
        else:
            assert record.node_id is not None and record.journal_identity is not None
            standing = Standing(record.node_id, record.journal_identity, record.activation, self._allows_fail_back)
            duplication.register(guest, registration, standing)
            if duplication.registration is registration:
                self._guest = guest
                self._due = None

    def _may_hand_over(self) -> bool:
        """Whoever is in sync may go on by itself: it is known here, after a crash too, that there is such a one.

        Not before the copy is whole, or this broker would wait after a crash for one that could not go on.
        """
        registration = self.duplication.registration
        assert registration is not None
        self._chronicle.note_partner(registration.connector)
        return self._chronicle.is_written

    def _is_back(self, registration: ReplicaRegistration) -> bool:
        known = self.duplication.registration
        return known is not None and known.connector.leads_where(registration.connector)

    def _is_one_to_voters(self, registration: ReplicaRegistration) -> bool:
        own = connector_text(self._membership.connector)
        return self._chronicle.votes and connector_text(registration.connector) == own

    @property
    def _allows_fail_back(self) -> bool:
        return isinstance(self._policy, ReplicationBackup) and self._policy.allow_failback

    def _on_synchronised(self) -> None:
        registration, membership = self.duplication.registration, self._membership
        assert registration is not None
        self._emit(RoleChanged(Role.LIVE, in_sync=True))
        self._on_change()
        membership.topology.put_backup(
            membership.node_id, registration.connector, registration.group_name, membership.now.wall_ms
        )
        if registration.wants_fail_back and self._allows_fail_back:
            self.wanted_by = self.duplication.replica_name
        elif registration.wants_fail_back and isinstance(self._policy, ReplicationBackup):
            self._note(
                False, f"{self.duplication.replica_name} is a primary, and allow_failback is not set here: it waits"
            )

    def _on_lost(self, reason: str, held: bool) -> None:
        membership = self._membership
        self._guest = None
        self.wanted_by = None
        self._on_change()
        if self._leaves:
            self.has_handed_over = True
            return
        if membership.node_id in membership.topology.members:
            membership.topology.put_backup(membership.node_id, None, self._policy.group_name, membership.now.wall_ms)
        if held:
            self._emit(RoleChanged(Role.LIVE))
            self._note(
                True, f"the backup is lost ({reason}): nothing is confirmed until the right to be live is renewed"
            )
            self._renew()
        else:
            self._chronicle.note_alone()

    # -- the right -----------------------------------------------------------------------------------------------

    def _renew(self) -> None:
        now = self._membership.now.monotonic
        self._renews = True
        self._due = None
        if self._tenancy is not None:
            self._tenancy.renew(now)
        elif self._chronicle.votes:
            activation = self._chronicle.record.activation
            self.ballot = ballot_to_go_on(
                self._policy, self._connection, self._membership, self._electorate, activation
            )
        else:
            self._chronicle.count_on(self._go_on)

    def _go_on(self) -> None:
        self._renews = False
        if not self._leaves and self.duplication.state is DuplicationState.HELD:
            self._note(False, "goes on without a backup")
            self.duplication.go_on_alone()

    def on_trial(self, trial: locks.Trial) -> None:
        """The lock manager has answered."""
        if not self._renews:
            return
        if trial.verdict is locks.Verdict.GRANTED:
            self._go_on()
        elif trial.verdict is locks.Verdict.FAILED:
            # As long as the lease lasts.
            self._due = self._membership.now.monotonic + AFTER_FAULT_S
        else:
            self.failure = f"lost its backup, and may not go on without one: {trial.text}"

    def _look_at_ballot(self) -> None:
        ballot = self.ballot
        if ballot is None or ballot.won is None:
            return
        self.ballot = None
        if ballot.won:
            self._note(False, f"the others see this broker: {ballot.told}")
            self._left_behind = self._chronicle.record.activation
            self._chronicle.count_on(self._go_on)
        else:
            self.failure = (
                f"lost its backup, which may be live, and not enough of the cluster sees this broker: {ballot.told}"
            )

    def _tell_what_is_over(self, link: ControlLink) -> None:
        """Who has just come, or was not asked, has not heard which copies are left behind."""
        if self._chronicle.votes:
            repeat_question(link, self._membership, self._left_behind, self._told_as)

    # -- the end -------------------------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether a broker that stops would wait for ever."""
        return self.duplication.state is DuplicationState.HELD

    def leave(self, *, hands_over: bool) -> None:
        """A stop has begun, after which a backup that is in sync takes over, or decides by itself what to do."""
        self._leaves = True
        if self.ballot is not None:
            self.ballot.withdraw()
            self.ballot = None
        state = self.duplication.state
        if state in (DuplicationState.ALONE, DuplicationState.COPYING):
            # The journal cannot be closed before everything is copied that its last work renames or removes, and a
            # copy may take hours. It is worth nothing before it is whole; what there is of it is kept.
            self.duplication.close("the broker stops, and it has no copy that is whole")
            self._chronicle.note_alone()
        elif hands_over and state is DuplicationState.SYNCHRONISED:
            self.duplication.announce_stop()

    def let_go(self) -> None:
        """Nothing is confirmed any more: what waits for a backup is done."""
        self.duplication.close("the broker stops")

    def hand_over(self, now: Instant, *, hands_over: bool) -> None:
        """Everything is written."""
        self.is_handing_over = True
        if not hands_over or self.duplication.state is not DuplicationState.SYNCHRONISED:
            self.duplication.close("the broker stops")
            self.has_handed_over = True
            return
        guest = self._guest
        assert guest is not None
        self.duplication.announce_failover()
        self.duplication.close("it is to take over")
        guest.on_gone = self._on_taken
        self._due = now.monotonic + HANDED_OVER_WITHIN_S

    def _on_taken(self) -> None:
        self.has_handed_over = True
        self._on_change()

    # -- time ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When `on_time` is due."""
        earliest = self._due
        for part in (self.duplication, self.ballot):
            due = part.next_deadline() if part is not None else None
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    def on_time(self, now: Instant) -> None:
        """Whatever is due."""
        due = self.duplication.next_deadline()
        if due is not None and due <= now.monotonic:
            self.duplication.on_time(now)
        if self.ballot is not None:
            self.ballot.on_time(now.monotonic)
        self._look_at_ballot()
        if self._due is not None and now.monotonic >= self._due:
            self._due = None
            if self._leaves:
                self.has_handed_over = True
            elif self._renews and self._tenancy is not None:
                self._tenancy.renew(now.monotonic)
            elif not self._renews:
                self._note(
                    True,
                    "no backup has joined yet: is one of the brokers configured as backup, with the cluster_user,"
                    " cluster_password and group_name of this one, and does it find this one by its static_connectors?",
                )

    def on_reply(self, link: ControlLink, packet: object, now: Instant) -> None:
        """A vote."""
        if self.ballot is not None:
            self.ballot.on_reply(link, packet, now.monotonic)
            self._look_at_ballot()
