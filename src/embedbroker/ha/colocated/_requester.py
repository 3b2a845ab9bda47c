"""The search for a broker that hosts a backup of this one.

Responsible for the question to the members of the cluster, for the choice among those with room, and for the pauses
between attempts (cluster-and-ha 16). Does not depend on how a backup works.

An attempt ends with a backup that runs, or with a pause. The next search begins when the host is lost, or reports that
the backup has ended.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Protocol

from embedbroker.cluster import CONTROL_CHANNEL, ControlLink, Membership
from embedbroker.config import BrokerConfig, Colocated, ReplicationPrimary, Role
from embedclient.wire.core import (
    BACKUP_VOTE_HANDLER,
    BackupRequest,
    BackupRequestResponse,
    BackupVote,
    QuorumVote,
    Record,
    encode_vote,
)

from ._hosting import ALREADY_HOSTED, VOTE_FORMAT

__all__ = ["BackupRequester"]

#: How long to wait for answers to the question, in seconds: members that host no backups never answer.
ANSWER_WITHIN_S = 2.0
#: Seconds until the next look whether another broker is connected.
LOOKS_AGAIN_S = 0.25
#: How long a host may take to start a backup, in seconds, beside the call time-out.
STARTS_WITHIN_S = 15.0


class _Stage(Enum):
    #: Until the next attempt.
    PAUSING = "pausing"
    VOTING = "voting"
    REQUESTING = "requesting"
    #: A backup runs at a host.
    BACKED_UP = "backed up"
    GIVEN_UP = "given up"


class RequesterLog(Protocol):
    """Receive lines for the operator."""

    def warning(self, text: str) -> None:
        """Log a line that needs attention."""

    def info(self, text: str) -> None:
        """Log an ordinary line."""


class BackupRequester:
    """The search of one broker start.

    Args:
        config: The configuration, with a `Colocated` policy and a cluster connection.
        policy: That policy.
        membership: Has the links to other brokers.
        log: Receives lines for the operator.
    """

    def __init__(self, config: BrokerConfig, policy: Colocated, membership: Membership, log: RequesterLog) -> None:
        assert config.cluster_connection is not None
        self._config = config
        self._policy = policy
        self._membership = membership
        self._log = log
        self._interval_s = policy.backup_request_retry_interval_ms / 1000
        self._starts_within_s = config.cluster_connection.call_timeout_ms / 1000 + STARTS_WITHIN_S
        self._stage = _Stage.PAUSING
        self._due: float | None = None
        self._attempts = 0
        self._voters: list[ControlLink] = []
        self._answers: dict[ControlLink, BackupVote] = {}
        self._host: ControlLink | None = None
        # By the node ids of hosts: the requests of this search that they did not fulfil.
        self._refusals: Counter[str] = Counter()
        membership.handlers[BackupVote] = self._on_vote
        membership.handlers[BackupRequestResponse] = self._on_response

    @property
    def is_backed_up(self) -> bool:
        """Return True if another broker hosts a backup of this one."""
        return self._stage is _Stage.BACKED_UP

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due, in monotonic seconds; None if no time matters."""
        return self._due if self._membership.role is Role.LIVE else None

    def on_time(self) -> None:
        """Follow the role of this broker and the links to others, and do what is due."""
        membership, now = self._membership, self._membership.now.monotonic
        if membership.role is not Role.LIVE or self._stage is _Stage.GIVEN_UP:
            return
        if self._host is not None and self._host not in membership.links:
            self._log.warning(f"the connection to {self._host.name}, which hosts the backup of this broker, is lost")
            self._host = None
            self._pause(now, 0.0)
        if self._stage is _Stage.PAUSING and (self._due is None or now >= self._due):
            self._request_votes(now)
        elif self._stage is _Stage.VOTING and self._due is not None and now >= self._due:
            self._choose(now)
        elif self._stage is _Stage.REQUESTING and self._due is not None and now >= self._due:
            self._fail(now, "the answer is overdue")

    def _pause(self, now: float, seconds: float) -> None:
        self._stage, self._due = _Stage.PAUSING, now + seconds

    # -- one attempt ---------------------------------------------------------------------------------------------

    def _request_votes(self, now: float) -> None:
        membership = self._membership
        links = [
            link
            for member in membership.topology.members.values()
            if member.live is not None and member.node_id != membership.node_id
            if (link := membership.link_to(member.live)) is not None
        ]
        if not links:
            self._pause(now, min(LOOKS_AGAIN_S, self._interval_s))
            return
        self._stage, self._due = _Stage.VOTING, now + ANSWER_WITHIN_S
        self._voters, self._answers = links, {}
        question = encode_vote(BackupVote(-1, membership.node_id, False, VOTE_FORMAT))
        for link in links:
            link.send(QuorumVote(BACKUP_VOTE_HANDLER, question), CONTROL_CHANNEL)

    def _on_vote(self, link: ControlLink, vote: Record) -> None:
        assert isinstance(vote, BackupVote)
        if self._stage is _Stage.VOTING and link in self._voters:
            self._answers[link] = vote
            if len(self._answers) == len(self._voters):
                self._choose(self._membership.now.monotonic)

    def _choose(self, now: float) -> None:
        """Send the request to the broker that hosts one already, else to that with the fewest refusals and backups."""
        links = self._membership.links
        found = [
            (self._rank(vote), vote.backups, link)
            for link, vote in self._answers.items()
            if vote.available and vote.format == VOTE_FORMAT and link in links
        ]
        if not found:
            self._fail(now, f"none of {len(self._voters)} brokers has room for one")
            return
        _rank, backups, link = min(found, key=lambda each: each[0])
        self._stage, self._due, self._host = _Stage.REQUESTING, now + self._starts_within_s, link
        link.send(self._request(backups), CONTROL_CHANNEL)

    def _rank(self, vote: BackupVote) -> tuple[bool, int, int, str]:
        """Return the place of a host among those with room: the least is chosen."""
        node_id = vote.node_id or ""
        return vote.backups != ALREADY_HOSTED, self._refusals[node_id], vote.backups, node_id

    def _request(self, backups: int) -> BackupRequest:
        config, node_id = self._config, self._membership.node_id
        if isinstance(self._policy.primary, ReplicationPrimary):
            return BackupRequest(backups, node_id=node_id)
        directory = config.data_directory
        return BackupRequest(
            backups,
            directory,
            config.node_manager_lock_directory,
            config.large_messages_directory,
            directory,
            node_id,
        )

    def _on_response(self, link: ControlLink, response: Record) -> None:
        assert isinstance(response, BackupRequestResponse)
        if self._stage not in (_Stage.REQUESTING, _Stage.BACKED_UP) or link is not self._host:
            return
        if self._stage is _Stage.BACKED_UP:
            if not response.backup_started:
                self._log.warning(f"the backup of this broker that {link.name} hosted has ended")
                self._host = None
                self._pause(self._membership.now.monotonic, self._interval_s)
            return
        if response.backup_started:
            self._stage, self._due, self._attempts = _Stage.BACKED_UP, None, 0
            self._refusals.clear()
            self._log.info(f"{link.name} hosts a backup of this broker")
        else:
            self._fail(self._membership.now.monotonic, f"{link.name} did not start one")

    def _fail(self, now: float, reason: str) -> None:
        if self._host is not None and self._host in self._answers:
            self._refusals[self._answers[self._host].node_id or ""] += 1
        self._host = None
        self._attempts += 1
        retries = self._policy.backup_request_retries
        if 0 <= retries < self._attempts:
            self._stage, self._due = _Stage.GIVEN_UP, None
            self._log.warning(f"no backup of this broker, after {self._attempts} requests: {reason}")
            return
        if self._attempts == 1:
            self._log.info(f"no backup of this broker yet, it is requested again: {reason}")
        self._pause(now, self._interval_s)
