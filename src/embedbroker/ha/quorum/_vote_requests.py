"""The two questions of a replicating broker to the others of its cluster: may it go on, may it take over?

Responsible for the content of a question, for the number of voters, and for which answers are a yes (cluster-and-ha
13). Does not depend on what follows.
"""

from __future__ import annotations

from collections.abc import Callable

from embedbroker.cluster import CONTROL_CHANNEL, ControlLink, Membership
from embedbroker.config import ClusterConnection, ReplicationBackup, ReplicationPrimary
from embedclient.wire.core import PRIMARY_VOTE_HANDLER, LiveVote, QuorumVote, QuorumVoteReply, Record, encode_vote

from ._grants import VoteRequest
from ._round import Electorate, VoteRound, votes_needed
from ._voter import connector_text, leads_to

__all__ = ["receive_votes", "repeat_vote_request", "round_to_go_on", "round_to_take_over"]

#: How long an active broker waits until enough voters are reachable, in seconds: Artemis' own bound for all of it.
GOES_ON_WITHIN_S = 5.0
#: How long others have to notice that an active broker is gone, before a backup requests their votes, in seconds.
REQUESTS_AFTER_S = 0.1

_Policy = ReplicationPrimary | ReplicationBackup


def _question_to_go_on(membership: Membership, epoch: int, attempt: int = 0) -> LiveVote:
    """Return the question of an active broker whose backup has the data of ``epoch``."""
    request = VoteRequest(epoch, connector_text(membership.connector), attempt=attempt)
    return LiveVote(True, membership.node_id, str(request))


def round_to_go_on(
    policy: _Policy, connection: ClusterConnection, membership: Membership, electorate: Electorate, epoch: int
) -> VoteRound:
    """Begin one round, and as many more as silence takes, for the vote to go on without a backup.

    The asker must confirm nothing before it has won. The round waits until enough of the others are reachable, if that
    is soon. A voter whose own backup has fallen silent as well notices that within the call time-out, and grants its
    vote then. A dead voter is noticed when its connection has been silent for the TTL, and receives no more questions.
    So no voter that could still answer yes is silent for longer than both together.
    """
    vote_round = VoteRound(
        membership,
        _question_to_go_on(membership, epoch),
        _size(policy, electorate, membership.node_id),
        1,
        GOES_ON_WITHIN_S,
        0.0,
        # An answer that names another place means another active broker of this node.
        lambda answer: answer.vote and leads_to(answer.text, membership.connector),
    )
    insists_for_s = (connection.call_timeout_ms + max(connection.connection_ttl_ms, 0)) / 1000
    vote_round.begin(membership.now.monotonic, 0.0, GOES_ON_WITHIN_S, insists_for_s)
    return vote_round


def round_to_take_over(
    policy: _Policy, membership: Membership, electorate: Electorate, node_id: str, epoch: int, *, starts: bool
) -> VoteRound | None:
    """Begin the rounds of the policy for the vote to take over, the first after a moment; None if no vote is needed.

    ``starts``: no active broker was lost, a broker begins with the data that it has. That is one round.
    """
    size = _size(policy, electorate, node_id)
    if votes_needed(size) == 0:
        return None
    is_primary = isinstance(policy, ReplicationPrimary)
    request = VoteRequest(epoch, connector_text(membership.connector), starts and is_primary)
    rounds = max(policy.vote_retries, 1) if policy.vote_retries >= 0 else -1
    vote_round = VoteRound(
        membership,
        LiveVote(False, node_id, str(request)),
        size,
        1 if starts else rounds,
        policy.quorum_vote_wait_ms / 1000,
        policy.vote_retry_wait_ms / 1000,
        lambda answer: answer.vote,
    )
    vote_round.begin(membership.now.monotonic, REQUESTS_AFTER_S)
    return vote_round


def _size(policy: _Policy, electorate: Electorate, node_id: str) -> int:
    return policy.quorum_size if policy.quorum_size >= 0 else electorate.size_with(node_id)


def repeat_vote_request(link: ControlLink, membership: Membership, epoch: int, attempt: int) -> None:
    """Inform a broker that an active broker went on from an epoch; the answer is not used.

    ``attempt`` must not be one that is counted here.
    """
    question = _question_to_go_on(membership, epoch, attempt)
    link.send(QuorumVote(PRIMARY_VOTE_HANDLER, encode_vote(question)), CONTROL_CHANNEL)


def receive_votes(membership: Membership, on_vote: Callable[[ControlLink, Record], None]) -> None:
    """Pass every answer to a question on, for `VoteRound.on_reply`."""
    membership.handlers[QuorumVoteReply] = on_vote
