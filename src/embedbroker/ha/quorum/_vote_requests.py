"""The two questions of a replicating broker to the others of its cluster: may it go on, may it take over?

Responsible for what is asked of how many, and for which answers are a yes (cluster-and-ha 13). Refuses to know what
follows.
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

#: How long a live broker waits until enough of the others are there to be asked: Artemis' own bound for all of it.
GOES_ON_WITHIN_S = 5.0
#: How long a backup gives others to notice that a live broker is gone, before it asks them.
ASKS_AFTER_S = 0.1

_Policy = ReplicationPrimary | ReplicationBackup


def _question_to_go_on(membership: Membership, activation: int, attempt: int = 0) -> LiveVote:
    """Of a live broker whose backup has the data of ``activation``."""
    request = VoteRequest(activation, connector_text(membership.connector), attempt=attempt)
    return LiveVote(True, membership.node_id, str(request))


def round_to_go_on(
    policy: _Policy, connection: ClusterConnection, membership: Membership, electorate: Electorate, activation: int
) -> VoteRound:
    """One round, which has begun, and as many more as silence takes; who asks confirms nothing before it has won.

    It waits until enough of the others are there to be asked, if that is soon. A voter whose own backup has fallen
    silent as well knows it within the call time-out, and gives its word then; and one that is dead is known to be
    dead, and not asked any more, when its connection has been silent for the TTL. So nobody who could still say yes is
    silent for longer than both together.
    """
    vote_round = VoteRound(
        membership,
        _question_to_go_on(membership, activation),
        _size(policy, electorate, membership.node_id),
        1,
        GOES_ON_WITHIN_S,
        0.0,
        # Who is told of another place knows another live broker of this node.
        lambda answer: answer.vote and leads_to(answer.text, membership.connector),
    )
    insists_for_s = (connection.call_timeout_ms + max(connection.connection_ttl_ms, 0)) / 1000
    vote_round.begin(membership.now.monotonic, 0.0, GOES_ON_WITHIN_S, insists_for_s)
    return vote_round


def round_to_take_over(
    policy: _Policy, membership: Membership, electorate: Electorate, node_id: str, activation: int, *, starts: bool
) -> VoteRound | None:
    """As many rounds as the policy says, the first after a moment; None when nobody has to be asked.

    ``starts``: nobody is lost, a broker begins with the data that it has. That is one round.
    """
    size = _size(policy, electorate, node_id)
    if votes_needed(size) == 0:
        return None
    is_primary = isinstance(policy, ReplicationPrimary)
    request = VoteRequest(activation, connector_text(membership.connector), starts and is_primary)
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
    vote_round.begin(membership.now.monotonic, ASKS_AFTER_S)
    return vote_round


def _size(policy: _Policy, electorate: Electorate, node_id: str) -> int:
    return policy.quorum_size if policy.quorum_size >= 0 else electorate.size_with(node_id)


def repeat_vote_request(link: ControlLink, membership: Membership, activation: int, attempt: int) -> None:
    """Let a broker know that a live one went on from an activation; its answer is of no interest.

    ``attempt`` is none that is counted here.
    """
    question = _question_to_go_on(membership, activation, attempt)
    link.send(QuorumVote(PRIMARY_VOTE_HANDLER, encode_vote(question)), CONTROL_CHANNEL)


def receive_votes(membership: Membership, heard: Callable[[ControlLink, Record], None]) -> None:
    """Have every answer to a question passed on, for `VoteRound.on_reply`."""
    membership.handlers[QuorumVoteReply] = heard
