"""A replicating broker's right to be live, from the first question to the last word: its `Tenure`.

Responsible for when it is a backup, when it may be live, and what is true of its record then. Refuses to carry any of
it out: the node asks what it should become. `Standby` has what a backup does, `Candidacy` how it asks to be live,
`Incumbent` what a live broker does, ``_stages`` the ways from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from embedbroker import locks
from embedbroker.cluster import ControlLink, Guest, Membership
from embedbroker.config import BrokerConfig, ReplicationBackup, ReplicationPrimary, Role
from embedbroker.replication import Ending, EndingKind, ReplicaRecord, ReplicaRegistration, Standing
from embedclient.model import Instant

from .._inputs import LockDone, LockFailed
from .._outputs import RoleChanged
from ..lease._lease_holder import Tenancy
from ..quorum._round import Electorate
from ..quorum._vote_requests import hear_votes
from ._active import Incumbent
from ._backup import Standby
from ._cold_start import Meeting
from ._election import Candidacy
from ._initial_record import warnings_of
from ._node_record import Chronicle
from ._replica_disk import Copies
from ._stages import GAVE_WAY_FOR_S, LOOKS_FOR_S, ROLES, Stage

if TYPE_CHECKING:
    from embedbroker.storage import Journal

__all__ = ["Mandate"]


class Mandate:
    """Of one life. ``gives_way`` is set when it ends in favour of a primary. ``now`` is kept current by the node."""

    def __init__(
        self,
        config: BrokerConfig,
        journal: Journal,
        cluster: Membership,
        make_node_id: Callable[[], str],
        emit: Callable[[RoleChanged], None],
        *,
        has_manager: bool,
    ) -> None:
        policy = config.ha_policy
        assert isinstance(policy, ReplicationPrimary | ReplicationBackup)
        self.gives_way = False
        self.failure: str | None = None
        self.now = Instant(0.0, 0)
        #: Something changed that the node has not followed yet.
        self.stirred = False
        self.copies = Copies(journal, self._stir)
        self._notes: list[locks.Note] = []
        self._stage = Stage.NEW
        self._config = config
        self._policy = policy
        self._cluster = cluster
        self._make_node_id = make_node_id
        self._emit = emit
        self._tenancy = Tenancy(self.copies.keeper, self._stir) if has_manager else None
        self._electorate = Electorate(cluster)
        self._chronicle = Chronicle(policy, self.copies.keeper, self._electorate, has_manager=has_manager)
        self._standby = Standby(
            config, policy, journal.settings, cluster, self.copies, self._chronicle, self._note, emit
        )
        self._standby.on_in_sync = self._on_in_sync
        self._standby.on_over = self._on_over
        self._candidacy = Candidacy(
            policy, cluster, self._electorate, self._chronicle, self._tenancy, self._note, self._standby.say
        )
        self._candidacy.on_granted = self._become_granted
        self._candidacy.on_refused = self._stand_by
        self._meeting: Meeting | None = None
        if self._chronicle.votes:
            self._meeting = Meeting(policy, cluster, self._chronicle, lambda: self._waits, self._note)
            self._meeting.on_met = self._on_met
            self._meeting.on_given_way = self._on_given_way
        self._incumbent: Incumbent | None = None
        self._hands_over = False
        # When it looks again: for a live broker, or at the lock manager.
        self._due: float | None = None
        hear_votes(cluster, self._on_reply)
        cluster.guests.handlers[ReplicaRegistration] = self._on_registration

    # -- for the node --------------------------------------------------------------------------------------------

    @property
    def _record(self) -> ReplicaRecord:
        return self._chronicle.record

    @property
    def node_id(self) -> str:
        """As the record knows it; empty until this broker was live, or in sync with one that is."""
        return self._record.node_id or ""

    @property
    def journal_identity(self) -> int | None:
        """The journal that belongs to that node."""
        return self._record.journal_identity

    @property
    def lets_brokers_in(self) -> bool:
        """Whether others may find this broker although it is not live: one of them may wait for what it says. Nobody
        does while there is a live broker of that node, which may refuse this one as its backup again and again."""
        can_meet = self._meeting is not None and bool(self._record.node_id)
        return can_meet and self._waits and self._candidacy.rival() is None

    @property
    def is_over(self) -> bool:
        return self._stage is Stage.OVER

    @property
    def restarts(self) -> bool:
        """Whether another node is to wait in the place of this one, which gave way."""
        may = isinstance(self._policy, ReplicationBackup) and self._policy.restart_backup
        return self.gives_way and self.failure is None and may

    @property
    def backup(self) -> object:
        """The connection of a backup, which goes on when all others are closed."""
        return self._incumbent.backup if self._incumbent is not None else None

    def set_now(self, now: Instant) -> None:
        self.now = now
        if self.copies.duplication is not None:
            self.copies.duplication.now = now

    @property
    def is_curious(self) -> bool:
        """Whether anything that happens may be what it waits for."""
        return self._stage in (Stage.LOOKING, Stage.VOTING)

    @property
    def is_calm(self) -> bool:
        """Whether disk work and its answers are all that traffic can change."""
        return self._stage in (Stage.LIVE, Stage.STANDING_BY) and not self.stirred and self.copies.are_steady

    def begin(self, now: Instant) -> None:
        assert self._stage is Stage.NEW
        self._move(Stage.READING)
        self.copies.keeper.read(self._on_record)

    def meet_journal(self, identity: int | None, last_batch: int | None) -> None:
        """Compare the journal that was read with the record. None: there is none, and a backup would give up its own
        for nothing."""
        reason = self._chronicle.meet_journal(identity, last_batch)
        if reason is not None:
            self._fail(reason)

    def settle(self, node_id: str, journal_identity: int | None, last_batch: int | None) -> None:
        """The node could serve: that is noted, and then it is live."""
        assert self._stage is Stage.GRANTED
        self._move(Stage.SETTLING)
        self._chronicle.settle(node_id, journal_identity, last_batch, self._on_settled)

    def note_last_batch(self, last_batch: int) -> bool:
        """Write down how far the journal is on disk. Return False: the disk does that, not the lock manager."""
        if self._stage is Stage.LIVE:
            self._chronicle.note_last_batch(last_batch, partial(self._note, True))
        return False

    def _on_settled(self) -> None:
        if self._stage is Stage.SETTLING:
            assert self._incumbent is not None
            self._incumbent.begin(self.now)
            self._move(Stage.LIVE)

    def begin_stop(self, *, fails_over: bool) -> None:
        """An orderly stop has begun; with ``fails_over`` a backup in sync is to take over."""
        self._hands_over = fails_over or self.gives_way
        self._standby.pause()
        self._candidacy.withdraw()
        if self._incumbent is not None:
            self._incumbent.leave(hands_over=self._hands_over)

    @property
    def holds_up(self) -> bool:
        """Whether what the journal waits for will not come, and nothing may be confirmed without it."""
        return self._incumbent is not None and self._incumbent.is_held

    def let_go(self) -> None:
        assert self._incumbent is not None
        self._incumbent.let_go()

    def leave(self, *, fails_over: bool, last_batch: int | None) -> None:
        """Nothing is written to the journal any more: give the right back, then hand over."""
        if self._stage not in (Stage.SETTLING, Stage.LIVE) or self._incumbent is None:
            # A session that is closed gives back what is left.
            self._move(Stage.OVER)
            return
        self._move(Stage.LEAVING)
        if self.gives_way:
            self._chronicle.note_gave_way(self._stir)
        self._follow_leaving()

    def _follow_leaving(self) -> None:
        incumbent = self._incumbent
        assert incumbent is not None
        if not self.copies.keeper.is_idle:
            return
        if self._tenancy is not None and not self._tenancy.leave():
            return
        if not incumbent.is_handing_over:
            incumbent.hand_over(self.now, hands_over=self._hands_over)
        if incumbent.has_handed_over:
            self._move(Stage.OVER)

    def end(self) -> None:
        """The life is over, and nobody is told anything."""
        self._move(Stage.OVER)

    def take_notes(self) -> list[locks.Note]:
        notes, self._notes = self._notes, []
        return notes

    @property
    def is_undecided(self) -> bool:
        """Whether a primary does not know yet if another broker is live in its place."""
        return self._stage not in ROLES and isinstance(self._policy, ReplicationPrimary)

    def role_after(self, now: Instant) -> Role | None:
        """What the node is to become; None when nothing changes."""
        self.stirred = False
        if self.failure is not None:
            return Role.STOPPED
        wanted_by = self._incumbent.wanted_by if self._incumbent is not None else None
        if self._stage is Stage.LIVE and wanted_by is not None:
            if not self.gives_way:
                self.gives_way = True
                self._note(False, f"gives way to the primary at {wanted_by}, which is in sync")
            return Role.STOPPED
        return ROLES.get(self._stage)

    # -- work, answers and time ----------------------------------------------------------------------------------

    def on_answer(self, answer: LockDone | LockFailed, now: Instant) -> None:
        assert self._tenancy is not None
        self._tenancy.on_answer(answer, now.monotonic)
        self._follow_tenancy()
        if self._stage is Stage.LEAVING:
            self._stir()

    def take_work(self, now: Instant) -> locks.LeaseWork | None:
        if self._tenancy is None or self._stage is Stage.OVER:
            return None
        work = self._tenancy.take_work(now.monotonic)
        self._follow_tenancy()
        return work

    def next_deadline(self) -> float | None:
        if self._stage is Stage.OVER:
            return None
        if self.stirred:
            return self.now.monotonic
        # Twice in each step, so without a list of them.
        earliest = self._due if self._stage in (Stage.LOOKING, Stage.STANDING_BY) else None
        standby = self._standby if self._stage is Stage.STANDING_BY else None
        for part in (standby, self._tenancy, self._candidacy, self._incumbent):
            due = part.next_deadline() if part is not None else None
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    def on_time(self, now: Instant) -> None:
        """Whatever is due."""
        if self.copies.keeper.failure is not None and self.failure is None:
            self._fail(self.copies.keeper.failure)
        if self._tenancy is not None:
            self._tenancy.on_time(now.monotonic)
            self._follow_tenancy()
        if self._stage is Stage.STANDING_BY:
            self._begin_anew(now)
            if self._stage is Stage.STANDING_BY:  # who asks to be live joins nobody before there is an answer
                self._standby.on_time()
        elif self._stage is Stage.LOOKING:
            self._look_for_live(now)
        elif self._stage is Stage.VOTING:
            self._candidacy.on_time()
        if self._incumbent is not None:
            self._incumbent.on_time(now)
            self._follow_incumbent()
        if self._stage is Stage.LEAVING:
            self._follow_leaving()

    # -- the beginning -------------------------------------------------------------------------------------------

    def _on_record(self) -> None:
        policy, was_known = self._policy, self._record.node_id is not None
        for warning in warnings_of(policy, has_manager=self._tenancy is not None):
            self._note(True, warning)
        record = self._chronicle.begin(self._make_node_id)
        if isinstance(policy, ReplicationPrimary):
            self._standby.choice.only = record.node_id
            self._standby.wants_fail_back = True
        else:
            self._standby.choice.preferred = record.node_id
        if self._tenancy is not None:
            self._begin_with_manager(self._tenancy)
        elif isinstance(policy, ReplicationBackup):
            # Whoever it gave way to is about to ask for votes; if that one dies instead, this data is as good.
            self._stand_by(GAVE_WAY_FOR_S if record.gave_way else None)
        elif was_known and (policy.check_for_active_server or policy.vote_on_replication_failure):
            self._move(Stage.LOOKING)
            self._due = self.now.monotonic + LOOKS_FOR_S
            self._cluster.become_backup("", policy.group_name, announce=False)
        else:
            self._become_granted()

    def _begin_with_manager(self, tenancy: Tenancy) -> None:
        record = self._record
        if record.node_id is None:
            self._stand_by()
            return
        tenancy.meet(record.node_id)
        if record.gave_way:
            # The other one is about to take the lease; if it dies instead, this data is as good.
            self._stand_by(GAVE_WAY_FOR_S)
        elif self._chronicle.may_be_newest:
            self._try()
        else:
            self._stand_by()

    def _look_for_live(self, now: Instant) -> None:
        rival = self._candidacy.rival()
        if rival is not None:
            self._note(False, f"{rival} is live for this node: waits as its backup, to be live again")
            self._stand_by()
        elif not self._cluster.is_informed and (self._due is None or now.monotonic < self._due):
            return
        elif self._policy.vote_on_replication_failure and not self._chronicle.may_be_newest:
            self._stand_by()
        else:
            self._vote(starts=True)

    # -- standing by ---------------------------------------------------------------------------------------------

    def _stand_by(self, asks_in_s: float | None = None) -> None:
        asks = self._tenancy is not None or self._policy.vote_on_replication_failure
        if not asks:
            self._due = None
        elif self._stage is not Stage.STANDING_BY or self._due is None:
            # Whoever refuses this broker as backup does not put off what it asks for.
            self._due = self.now.monotonic + (self._candidacy.pause_s if asks_in_s is None else asks_in_s)
        self._move(Stage.STANDING_BY)
        keeps = asks and self._chronicle.may_be_newest
        if isinstance(self._policy, ReplicationBackup):
            # Nobody else's copy takes the place of data that may be needed yet.
            self._standby.keep(self.node_id if keeps else None)
        else:
            self._standby.keeps = keeps
        self._cluster.become_backup(self.node_id, self._policy.group_name, announce=False)
        self._standby.begin()

    def _begin_anew(self, now: Instant) -> None:
        """With the data that is here, unless there is somebody to join."""
        if self._due is None or now.monotonic < self._due:
            return
        self._due = now.monotonic + self._candidacy.pause_s
        if self._standby.is_joined:
            return
        if self._meeting is not None:
            self._meeting.look_around()
        if not self._chronicle.may_be_newest:
            return
        if self._tenancy is not None:
            self._try()
        elif self._candidacy.may_ask and self._candidacy.rival() is None:
            self._vote(starts=True)

    def _on_in_sync(self, standing: Standing) -> None:
        self._note_in_sync(standing)
        self._standby.choice.preferred = standing.node_id
        self._cluster.become_backup(standing.node_id, self._policy.group_name, announce=True)
        self._stir()

    def _note_in_sync(self, standing: Standing) -> None:
        self._chronicle.note_in_sync(standing)
        if self._tenancy is not None:
            self._tenancy.meet(standing.node_id)

    def _on_over(self, ending: Ending, standing: Standing | None) -> None:
        if self._stage is not Stage.STANDING_BY or ending.kind is EndingKind.CLOSED:
            return
        if standing is None:
            self._stand_by()
            return
        is_dismissed = ending.kind is EndingKind.BROKEN and self._tenancy is None and not self._chronicle.votes
        if not ending.in_sync or is_dismissed:
            # A live broker that says that it cannot go on with this backup goes on without it, unless it has to be
            # granted that first: then the lock manager knows, or the voters do, and it may be gone before they say so.
            self._chronicle.note_left_behind()
            self._stand_by()
            return
        self._note_in_sync(standing)
        self._note(True, f"lost the live broker: {ending.text}")
        if self._tenancy is not None:
            self._try()
        elif ending.kind in (EndingKind.FAIL_OVER, EndingKind.STOP_CALLED) and not self._chronicle.votes:
            self._become_granted()
        else:
            # After an orderly stop, too: the other one, started again, asks with what it had then.
            self._vote()

    # -- others that wait ----------------------------------------------------------------------------------------

    @property
    def _waits(self) -> bool:
        return self._stage in (Stage.STANDING_BY, Stage.VOTING) and not self._standby.is_joined

    def _on_met(self) -> None:
        self._candidacy.withdraw()
        self._become_granted()

    def _on_given_way(self) -> None:
        self._candidacy.withdraw()
        self._stand_by()
        # Until that one is live: this copy is the only other one.
        self._standby.choice.only = self.node_id

    # -- asking --------------------------------------------------------------------------------------------------

    def _try(self) -> None:
        self._move(Stage.TRYING)
        self._candidacy.ask_manager()

    def _vote(self, *, starts: bool = False) -> None:
        if self._candidacy.ask_others(starts=starts):
            self._move(Stage.VOTING)
        else:
            self._become_granted()

    def _follow_tenancy(self) -> None:
        tenancy = self._tenancy
        if tenancy is None:
            return
        trial = tenancy.take_trial()
        if tenancy.failure is not None and self.failure is None and self._stage is not Stage.LEAVING:
            self._fail(tenancy.failure)
        if trial is not None and self._stage is Stage.TRYING:
            self._candidacy.on_trial(trial)
        elif trial is not None and self._incumbent is not None:
            self._incumbent.on_trial(trial)
            self._follow_incumbent()

    # -- being live ----------------------------------------------------------------------------------------------

    def _become_granted(self) -> None:
        self._due = None
        self._standby.pause()
        parts = self._cluster, self._electorate, self._tenancy, self.copies, self._chronicle
        self._incumbent = Incumbent(self._config, self._policy, *parts, self._note, self._stir, self._emit)
        self._incumbent.duplication.now = self.now
        self._move(Stage.GRANTED)

    def _follow_incumbent(self) -> None:
        incumbent = self._incumbent
        if incumbent is None:
            return
        if incumbent.failure is not None and self.failure is None:
            self._fail(incumbent.failure)
        if incumbent.wanted_by is not None or incumbent.has_handed_over:
            self._stir()

    def _on_registration(self, guest: Guest, packet: object) -> None:
        assert isinstance(packet, ReplicaRegistration)
        if self._incumbent is not None:
            self._incumbent.on_registration(guest, packet)

    def _on_reply(self, link: ControlLink, packet: object) -> None:
        self._candidacy.on_reply(link, packet)
        if self._incumbent is not None:
            self._incumbent.on_reply(link, packet, self.now)
            self._follow_incumbent()

    # -- small things --------------------------------------------------------------------------------------------

    def _move(self, stage: Stage) -> None:
        if self._stage is not Stage.OVER:
            self._stage = stage
            self._stir()

    def _stir(self) -> None:
        self.stirred = True

    def _fail(self, reason: str) -> None:
        self.failure = reason
        self._stir()

    def _note(self, warning: bool, text: str) -> None:
        self._notes.append(locks.Note(warning, text))
        self._stir()
