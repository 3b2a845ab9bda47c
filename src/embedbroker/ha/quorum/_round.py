"""A question to the other active brokers of a cluster, repeated until enough answered yes or the rounds are used up.

Responsible for the receivers, for the number of votes that are needed, and for the time to wait for an answer
(cluster-and-ha 13.1 and 13.2). Does not depend on what follows from the outcome.

Artemis waits for silent members through the whole ``quorum-vote-wait``, 30 s by default. Members without a replication
policy never answer. Here a round ends when all reachable members answered, or had two seconds for it.

Each round is another attempt to voters whose answers contain the attempt. A lost round is withdrawn (`_voter.py`).

Silence is not a no. A voter that has just lost its own backup grants its vote when it has noticed that, which takes as
long as its call time-out:

1. P, X and Y lose all their backups, whose network is gone. P has traffic, notices, and requests the votes of X and Y.
2. Both write the grant down, and wait for a backup that has it, too: they have not noticed yet.
3. P stops after two seconds. X and Y notice, request votes from each other and P, and stop, too: no voter is left.

So an asker may insist: its rounds follow each other while a silent voter's yes would be enough. Only an asker that
confirms nothing meanwhile may do so, and then it is as safe as the rounds of a backup. A grant counts only in its
round, and each round is withdrawn before the next. So whatever a voter has answered, its grant for that epoch
belongs to one asker at a time. An answer that another asker has the grant is a no, which no patience changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import define, evolve, field, frozen

from embedbroker.cluster import CONTROL_CHANNEL, ControlLink, Member, Membership
from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import (
    LIVE_VOTE_HANDLER,
    PRIMARY_VOTE_HANDLER,
    LiveVote,
    QuorumVote,
    QuorumVoteReply,
    decode_vote,
    encode_vote,
)

from ._grants import ABSTAINS, VoteRequest, without_attempt

__all__ = ["Electorate", "ElectorateObserver", "VoteRound", "VoteRoundStatistics", "votes_needed"]

#: How long to wait for an answer, in seconds; half of it under each name of the handler that a peer may have.
ANSWER_WITHIN_S = 2.0
#: Seconds until the next check whether enough of the others are reachable.
LOOKS_AGAIN_S = 0.25
# Of peers that send their version.
_PRIMARY_NAME_SINCE = 136


def votes_needed(size: int) -> int:
    """Return how many of the others must answer yes, in a cluster that had ``size`` active brokers."""
    return size // 2 if size <= 2 else size // 2 + 1


class ElectorateObserver(Protocol):
    """Observe the size of an electorate."""

    def on_growth(self) -> None:
        """Observe that more nodes are active than this start has seen."""


class Electorate:
    """Hold the nodes that a cluster has had active at the same time, when it was largest.

    ``remembered`` is how many there were in earlier starts.
    """

    def __init__(self, membership: Membership) -> None:
        self.remembered = 0
        self.observer: ElectorateObserver | None = None
        self._nodes: tuple[str, ...] = ()
        self._membership = membership
        membership.topology.listen(self._count)

    def _count(self, _change: object) -> None:
        members = [member for member in self._membership.topology.members.values() if member.live is not None]
        # A broker that keeps nothing has another node id when it starts again: both are one broker.
        nodes = [one.node_id for one in members if not any(_is_later(other, one) for other in members)]
        if len(nodes) > len(self._nodes):
            self._nodes = tuple(nodes)
            if self.observer is not None:
                self.observer.on_growth()

    @property
    def is_empty(self) -> bool:
        """Return True if no broker has been active yet, as far as is known here."""
        return not self._nodes

    def size_with(self, node_id: str) -> int:
        """Return how many nodes there are, with the one that votes are about. A broker that starts again may find its
        node counted, when the others have not noticed yet that it was gone."""
        return max(len(self._nodes) + (node_id not in self._nodes), self.remembered)


def _is_later(one: Member, other: Member) -> bool:
    """Return True if another broker became active in the place of a member later."""
    assert one.live is not None and other.live is not None
    return one.event_id > other.event_id and one.live.leads_where(other.live)


@frozen
class VoteRoundStatistics:
    """Hold the figures of a request for votes: those of its current round, or of its last one."""

    is_to_go_on: bool
    """An active broker makes the request, to go on without its backup; a backup makes it to take over."""
    voters: int
    """Members that the question was sent to."""
    answers: int
    """Voters that have answered: ``answers <= voters``."""


@define(eq=False)
class VoteRound:
    """A request for votes, in one or more rounds. ``won`` stays None until the outcome is known.

    ``rounds`` below zero never ends. ``counts`` returns True for an answer that is a yes.
    """

    _membership: Membership
    _question: LiveVote
    _size: int
    _rounds: int
    _wait_s: float
    _pause_s: float
    _counts: Callable[[LiveVote], bool]
    won: bool | None = field(init=False, default=None)
    #: For the operator: the result of the last round.
    summary: str = field(init=False, default="no broker was asked")
    _round: int = field(init=False, default=0)
    _voters: dict[str, ControlLink] = field(init=False, factory=dict)
    _answers: dict[str, bool] = field(init=False, factory=dict)
    # Voters that may have granted their vote: they must receive the withdrawal of a lost round.
    _bound_by_grant: dict[str, ControlLink] = field(init=False, factory=dict)
    _number: int = field(init=False, default=0)
    _looks_for_s: float = field(init=False, default=0.0)
    _looks_until: float = field(init=False, default=0.0)
    _insists_until: float = field(init=False, default=0.0)
    _begun_at: float | None = field(init=False, default=None)
    _repeats: bool = field(init=False, default=False)
    _due: float | None = field(init=False, default=None)
    #: Whether any voter with knowledge of the node ever answered no.
    is_contradicted: bool = field(init=False, default=False)

    def begin(self, now: float, after_s: float, looks_for_s: float = 0.0, insists_for_s: float = 0.0) -> None:
        """Start the first round after a moment, in which others may notice what this broker noticed.

        During ``looks_for_s`` a round without enough reachable voters does not count. When all connections of a network
        break at once, they are back in a moment, and no broker must stop for that. During ``insists_for_s`` a round
        that only silence has lost does not count either.

        Args:
            now: The monotonic time, in seconds.
            after_s: Seconds until the first round, >= 0.
            looks_for_s: Seconds from now, >= 0.
            insists_for_s: Seconds from now, >= 0.
        """
        self._due = now + after_s
        self._looks_for_s = looks_for_s
        self._looks_until = now + looks_for_s
        self._insists_until = now + insists_for_s

    def statistics(self) -> VoteRoundStatistics:
        """Return the figures of this moment."""
        return VoteRoundStatistics(self._question.vote, len(self._voters), len(self._answers))

    def next_deadline(self) -> float | None:
        """Return when `on_time` is due, in monotonic seconds; None if it never is."""
        return self._due if self.won is None else None

    def on_time(self, now: float) -> None:
        """Send the question, send it under the other name, or count."""
        if self._due is None or now < self._due or self.won is not None:
            return
        if self._begun_at is None:
            self._begin_round(now)
        elif self._repeats:
            self._repeats = False
            self._send_requests(second=True)
            self._due = self._begun_at + self._bound()
        else:
            self._end_round(now)

    def _bound(self) -> float:
        return min(self._wait_s, ANSWER_WITHIN_S)

    def _begin_round(self, now: float) -> None:
        self._round += 1
        self._begun_at = now
        self._voters.clear()
        self._answers.clear()
        self._bound_by_grant.clear()
        self._number = max(self._membership.now.wall_ms, self._number + 1)
        self._repeats = True
        self._due = now + self._bound() / 2
        self._send_requests(second=False)
        self._count(now)

    def _send_requests(self, *, second: bool) -> None:
        membership, question = self._membership, encode_vote(self._numbered(withdrawn=False))
        for member in membership.topology.members.values():
            if member.live is None or member.node_id in (self._question.node_id, membership.node_id):
                continue
            link = membership.link_to(member.live)
            if link is None or member.node_id in self._answers:
                continue
            self._voters[member.node_id] = self._bound_by_grant[member.node_id] = link
            is_new = not link.peer_version or link.peer_version >= _PRIMARY_NAME_SINCE
            handler = PRIMARY_VOTE_HANDLER if is_new is not second else LIVE_VOTE_HANDLER
            link.send(QuorumVote(handler, question), CONTROL_CHANNEL)

    def _numbered(self, *, withdrawn: bool) -> LiveVote:
        """Return the question of this round. A question of Artemis contains no request and no attempt."""
        question = self._question
        request = VoteRequest.read(question.text)
        if request is None:
            return question
        vote = question.vote and not withdrawn
        return LiveVote(vote, question.node_id, str(evolve(request, attempt=self._number, withdrawn=withdrawn)))

    def withdraw(self) -> None:
        """Release the grants: this asker does not use them, and the voters may grant their vote to another asker."""
        if VoteRequest.read(self._question.text) is not None:
            body = encode_vote(self._numbered(withdrawn=True))
            for link in self._bound_by_grant.values():
                link.send(QuorumVote(PRIMARY_VOTE_HANDLER, body), CONTROL_CHANNEL)
        self._bound_by_grant.clear()
        self._due = None

    def on_reply(self, link: ControlLink, packet: object, now: float) -> None:
        """Count the answer of a voter."""
        assert isinstance(packet, QuorumVoteReply)
        voter = next((voter for voter, contacted in self._voters.items() if contacted is link), None)
        if voter is None or self.won is not None or self._begun_at is None:
            return
        try:
            answer = decode_vote(packet.vote)
        except RemoteProtocolError:
            return
        text, number = without_attempt(answer.text)
        if number not in (0, self._number) or answer.node_id != self._question.node_id or voter in self._answers:
            return
        if not (number and answer.vote):
            # The answer is no, or comes from an Artemis, which grants nothing.
            del self._bound_by_grant[voter]
        counts = self._answers[voter] = self._counts(LiveVote(answer.vote, answer.node_id, text))
        self.is_contradicted |= not counts and text != ABSTAINS
        self._count(now)

    def _count(self, now: float) -> None:
        needed, yes = votes_needed(self._size), sum(self._answers.values())
        silent = len(self._voters) - len(self._answers)
        if yes >= needed:
            self.summary = f"{yes} of {needed} votes that are needed"
            self.won = True
        elif yes + silent < needed:
            self._end_round(now)

    def _end_round(self, now: float) -> None:
        needed, yes = votes_needed(self._size), sum(self._answers.values())
        no = len(self._answers) - yes
        silent = len(self._voters) - len(self._answers)
        self.summary = (
            f"{len(self._voters)} could be asked, {yes} voted yes and {no} no, and {needed} must vote yes in a cluster"
            f" of {self._size}"
        )
        self._begun_at = None
        self.withdraw()
        if len(self._voters) < needed and now < self._looks_until:
            self._due = now + LOOKS_AGAIN_S
        elif yes + silent >= needed and now < self._insists_until:
            # The connections of silent voters may break now, as all may at the beginning.
            self._looks_until = now + self._looks_for_s
            self._due = now
        elif 0 <= self._rounds <= self._round:
            self.won = False
        else:
            self._due = now + self._pause_s
