"""The backups of other brokers that this broker hosts.

Responsible for the answer whether there is room for one more, for the order to start it, and for the list of those that
run (cluster-and-ha 16). Does not start a broker: the host does. Does not depend on what a backup does.

Artemis hosts a second backup of a broker that repeats its request after a lost connection, and keeps the place of a
backup that has ended. Here a question contains the node id of the requester. Its present host answers with
``ALREADY_HOSTED``, which the requester prefers. A backup that has ended leaves its place to the next one.

An Artemis broker has another journal, so it gets the answer that no backup is available.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from embedbroker.cluster import CONTROL_CHANNEL, InboundPeer, Membership
from embedbroker.config import Colocated, ReplicationPrimary, Role
from embedclient.wire.core import (
    BACKUP_VOTE_HANDLER,
    BackupRequest,
    BackupRequestResponse,
    BackupVote,
    QuorumVoteReply,
    Record,
    encode_vote,
)

from .._inputs import BackupChanged
from .._outputs import StartBackup

__all__ = ["ALREADY_HOSTED", "VOTE_FORMAT", "BackupHosting"]

#: The journals of brokers that host backups of each other have the same format.
VOTE_FORMAT = 1
#: The number of backups in the answer of a broker that hosts one of the requester.
ALREADY_HOSTED = -1


@define
class _Hosted:
    """One backup. ``requester`` receives an answer when it has begun, and when it has ended."""

    node_id: str
    requester: InboundPeer
    role: Role = Role.ACTIVATING
    has_begun: bool = False


class BackupHosting:
    """The hosted backups of one broker start.

    Args:
        policy: The policy of this broker.
        membership: Receives the questions and requests of other brokers.
        output: Takes the orders to start a backup.
        log: Receives lines for the operator.
    """

    def __init__(
        self,
        policy: Colocated,
        membership: Membership,
        output: Callable[[StartBackup], None],
        log: Callable[[str], None],
    ) -> None:
        self._policy = policy
        self._replicates = isinstance(policy.primary, ReplicationPrimary)
        self._membership = membership
        self._output = output
        self._log = log
        self._hosted: dict[int, _Hosted] = {}
        membership.inbound_peers.handlers[BackupVote] = self._on_vote
        membership.inbound_peers.handlers[BackupRequest] = self._on_request

    @property
    def hosted(self) -> dict[int, str]:
        """Return the node ids of the brokers whose backups run here, by their places."""
        return {index: each.node_id for index, each in sorted(self._hosted.items())}

    def _of(self, node_id: str | None) -> _Hosted | None:
        return next((each for each in self._hosted.values() if each.node_id == node_id), None)

    @property
    def _has_room(self) -> bool:
        return self._membership.role is Role.LIVE and len(self._hosted) < self._policy.max_backups

    def _on_vote(self, inbound: InboundPeer, vote: Record) -> None:
        assert isinstance(vote, BackupVote)
        present = self._of(vote.node_id)
        backups = len(self._hosted)
        available = self._has_room and vote.format == VOTE_FORMAT and self._may_host(vote.node_id)
        if present is not None:
            backups, available = ALREADY_HOSTED, self._stands_by(present)
        answer = BackupVote(backups, self._membership.node_id, available, VOTE_FORMAT)
        inbound.peer.send(QuorumVoteReply(BACKUP_VOTE_HANDLER, encode_vote(answer)), CONTROL_CHANNEL)

    def _stands_by(self, present: _Hosted) -> bool:
        """Return True if a backup waits. One that is active at this moment gives way, and may end after that."""
        return self._membership.role is Role.LIVE and present.role is Role.BACKUP

    def _on_request(self, inbound: InboundPeer, request: Record) -> None:
        assert isinstance(request, BackupRequest)
        present = self._of(request.node_id)
        if present is not None:
            is_there = self._stands_by(present)
            if is_there:
                present.requester = inbound
            self._answer(inbound, started=is_there)
        elif (
            request.node_id is not None
            and self._has_room
            and request.backup_size == len(self._hosted)
            and self._may_host(request.node_id)
        ):
            self._start(inbound, request, request.node_id)
        else:
            self._answer(inbound, started=False)

    def _may_host(self, node_id: str | None) -> bool:
        """Return True if a primary has the group of the backups here. A shared store has no groups."""
        if node_id is None or not self._replicates:
            return node_id is not None
        member = self._membership.topology.members.get(node_id)
        return member is not None and member.backup_group_name == getattr(self._policy.backup, "group_name", None)

    def _start(self, inbound: InboundPeer, request: BackupRequest, node_id: str) -> None:
        index = next(index for index in range(len(self._hosted) + 1) if index not in self._hosted)
        self._hosted[index] = _Hosted(node_id, inbound)
        self._output(
            StartBackup(
                index,
                node_id,
                request.journal_directory,
                request.bindings_directory,
                request.large_messages_directory,
            )
        )

    def _answer(self, inbound: InboundPeer, *, started: bool) -> None:
        inbound.peer.send(BackupRequestResponse(started), CONTROL_CHANNEL)

    def on_change(self, change: BackupChanged) -> None:
        """Note the role of a backup, and report its begin and its end to the broker that requested it."""
        hosted = self._hosted.get(change.index)
        if hosted is None:
            return
        hosted.role = change.role
        is_over = change.role is Role.STOPPED
        if is_over:
            del self._hosted[change.index]
            if hosted.has_begun:
                reason = f": {change.failure}" if change.failure is not None else ""
                self._log(f"hosts no backup of node {hosted.node_id} any more{reason}")
            self._answer(hosted.requester, started=False)
        elif not hosted.has_begun and change.role in (Role.BACKUP, Role.LIVE):
            hosted.has_begun = True
            self._log(f"hosts a backup of node {hosted.node_id}, as {hosted.requester.name} requested")
            self._answer(hosted.requester, started=True)
