"""Requests of a replicating broker to be active: for the lease, or for the votes of other active brokers.

Responsible for starting and ending each request, and for the record after a refusal. Does not depend on what follows
from an outcome.
"""

from __future__ import annotations

from collections.abc import Callable

from embedbroker import locks
from embedbroker.cluster import ControlLink, Membership
from embedbroker.config import ReplicationBackup, ReplicationPrimary

from ..lease._lease_holder import LeaseHolder
from ..quorum._round import Electorate, VoteRound, votes_needed
from ..quorum._vote_requests import round_to_take_over
from ._decisions import after_lease_request, after_vote
from ._node_record import NodeRecord
from ._stages import BACKUP_PAUSE_S, PAUSE_S, Event

__all__ = ["Election"]


class Election:
    """One instance per broker start, for all attempts. A method that may end an attempt returns the event.

    ``log`` reports to the operator what follows, ``report_once`` why the broker waits.
    """

    def __init__(
        self,
        policy: ReplicationPrimary | ReplicationBackup,
        cluster: Membership,
        electorate: Electorate,
        node_record: NodeRecord,
        lease: LeaseHolder | None,
        log: Callable[[bool, str], None],
        report_once: Callable[[bool, str], None],
    ) -> None:
        self._policy = policy
        self._cluster = cluster
        self._electorate = electorate
        self._node_record = node_record
        self._lease = lease
        self._log = log
        self._report_once = report_once
        self.vote_round: VoteRound | None = None
        #: The vote is about data from before: no active broker was lost.
        self.starts = False

    def rival(self) -> str | None:
        """Return the broker that is active for the node of the data here, if there is a connection to it."""
        member = self._cluster.topology.members.get(self._node_record.record.node_id or "")
        live = member.live if member is not None else None
        return live.name if live is not None and self._cluster.link_to(live) is not None else None

    @property
    def may_request_votes(self) -> bool:
        """Return True if there are voters, or none are needed: by the policy, or because this is the only copy."""
        size = self._policy.quorum_size
        none_is_needed = size >= 0 and votes_needed(size) == 0
        return not self._electorate.is_empty or self._node_record.record.is_only_one or none_is_needed

    @property
    def pause_s(self) -> float:
        """Return the pause before the next request, in seconds."""
        # The two brokers of a pair must not request votes at the same time for ever.
        is_later = self._lease is None and isinstance(self._policy, ReplicationBackup)
        return BACKUP_PAUSE_S if is_later else PAUSE_S

    # -- the lock manager ----------------------------------------------------------------------------------------

    def request_lease(self) -> None:
        """Request the lease: granted if the data here is the newest and no other broker is active."""
        assert self._lease is not None
        self._lease.try_to_activate(self._cluster.now.monotonic)

    def on_attempt(self, attempt: locks.ActivationAttempt) -> Event:
        """Handle the outcome of a lease request."""
        event = after_lease_request(attempt.verdict)
        if event is Event.GRANTED:
            return event
        if attempt.verdict is locks.AttemptResult.STALE:
            # A backup that starts again has an older copy: another broker was live meanwhile.
            warning = isinstance(self._policy, ReplicationPrimary)
            self._report_once(warning, f"may not be live, and waits as backup: {attempt.text}")
            if attempt.epoch == self._node_record.record.epoch:
                # The answer is about the data of that moment, not about other data that is here by now.
                self._node_record.believe_stale()
        else:
            why = (
                "the lock manager is asked again"
                if attempt.verdict is locks.AttemptResult.FAILED
                else "waits as backup"
            )
            self._report_once(True, f"{why}: {attempt.text}")
        return event

    # -- votes ---------------------------------------------------------------------------------------------------

    def request_votes(self, *, starts: bool) -> bool:
        """Return True if votes are needed, and begin the rounds. ``starts``: with data from before, no broker lost."""
        record = self._node_record.record
        self.starts = starts
        if not starts or self._policy.vote_on_replication_failure:
            self.vote_round = round_to_take_over(
                self._policy, self._cluster, self._electorate, record.node_id or "", record.epoch, starts=starts
            )
            if starts and self.vote_round is None and record.partner is not None and self._policy.quorum_size < 0:
                self._log(
                    True,
                    "begins with the data that is here, although the other broker that has it may have gone on from"
                    " there: a cluster of one pair has no voter; configure three pairs or more, or give both a"
                    " lock_manager",
                )
        return self.vote_round is not None

    def on_reply(self, link: ControlLink, packet: object) -> Event | None:
        """Handle a vote; return the event if the outcome is known."""
        if self.vote_round is None:
            return None
        self.vote_round.on_reply(link, packet, self._cluster.now.monotonic)
        return self.on_time()

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due, in monotonic seconds; None if it never is."""
        return self.vote_round.next_deadline() if self.vote_round is not None else None

    def on_time(self) -> Event | None:
        """Request votes and count them; return the event if the outcome is known."""
        vote_round = self.vote_round
        if vote_round is None:
            return None
        vote_round.on_time(self._cluster.now.monotonic)
        rival, record = self.rival(), self._node_record.record
        event = after_vote(
            record,
            has_rival=rival is not None,
            won=vote_round.won,
            starts=self.starts,
            is_contradicted=vote_round.is_contradicted,
        )
        if event is None:
            return None
        self.vote_round = None
        if rival is not None:
            vote_round.withdraw()
        what = "begin with the data that is here" if self.starts else "take over"
        if event is Event.GRANTED:
            if vote_round.won:
                text = f"may {what}: {vote_round.summary}"
            else:
                text = "begins with the data that is here, from which no other broker can have gone on: "
                text += vote_round.summary
            self._log(False, text)
            return event
        self._report_once(True, f"does not {what}: {vote_round.summary if rival is None else f'{rival} is live'}")
        if not self._policy.vote_on_replication_failure:
            # An active broker that requests no votes may go on without this copy, and no other broker would notice.
            self._node_record.note_left_behind()
        return event

    def withdraw(self) -> None:
        """Withdraw the request for votes: this broker does not request to be active any more."""
        if self.vote_round is not None:
            self.vote_round.withdraw()
            self.vote_round = None
