"""A question to the other live brokers of a cluster, asked until most of them said yes or it was asked often enough.

Responsible for who is asked, how many have to say yes, and how long an answer is waited for (cluster-and-ha 13.1 and
13.2). Refuses to know what the outcome leads to.

Artemis waits for silent members through the whole ``quorum-vote-wait``, 30 s by default, and members without a
replication policy never answer: a round ends here when everybody answered who could, or had two seconds for it.

Each round is another attempt to voters that tell which one they answer, and is withdrawn when it is lost (`_voter.py`).

Silence is not a no. A voter that has just lost its own backup gives its word when it knows that, which takes as long as
its call time-out:
1. P, X and Y lose all their backups, whose network is gone. P has traffic, notices, and asks X and Y.
2. Both write the word down, and wait for a backup that has it, too: they have not noticed yet.
3. P stops after two seconds. X and Y notice, ask each other and P, and stop, too: there is nothing left to ask.
So an asker may insist: its rounds follow each other while somebody is silent whose yes would be enough. Only one that
confirms nothing meanwhile can afford that, and it is as safe as the rounds of a backup are. A word counts in the round
that it was given for, each round is withdrawn before the next, so whatever a voter has said, it stands by one asker of
that activation at a time; and who hears that another one has the word, hears a no, which no patience changes.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve, field

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

__all__ = ["Electorate", "VoteRound", "votes_needed"]

#: How long an answer is waited for; half of it under each name that a peer may know the handler by.
ANSWER_WITHIN_S = 2.0
#: After so long it is looked again whether enough of the others are there to be asked.
LOOKS_AGAIN_S = 0.25
# Of peers that say which version they speak.
_PRIMARY_NAME_SINCE = 136


def votes_needed(size: int) -> int:
    """How many of the others must say yes, in a cluster that had so many live brokers."""
    return size // 2 if size <= 2 else size // 2 + 1


class Electorate:
    """Remembers which nodes a cluster has had live at the same time, when it was largest.

    ``remembered`` is how many there were in earlier lives. ``on_growth`` is called when there are more than this life
    has seen.
    """

    def __init__(self, membership: Membership) -> None:
        self.remembered = 0
        self.on_growth: Callable[[], None] | None = None
        self._nodes: tuple[str, ...] = ()
        self._membership = membership
        membership.topology.listen(self._count)

    def _count(self, _change: object) -> None:
        members = [member for member in self._membership.topology.members.values() if member.live is not None]
        # A broker that keeps nothing has another node id when it starts again: it is one all the same.
        nodes = [one.node_id for one in members if not any(_is_later(other, one) for other in members)]
        if len(nodes) > len(self._nodes):
            self._nodes = tuple(nodes)
            if self.on_growth is not None:
                self.on_growth()

    @property
    def is_empty(self) -> bool:
        """Whether nobody was live yet, as far as is known here."""
        return not self._nodes

    def size_with(self, node_id: str) -> int:
        """How many there are with a node that votes are about. A broker that starts again may find itself among them,
        when the others have not noticed yet that it was gone."""
        return max(len(self._nodes) + (node_id not in self._nodes), self.remembered)


def _is_later(one: Member, other: Member) -> bool:
    """Whether somebody else is live in the place of a member, since then."""
    assert one.live is not None and other.live is not None
    return one.event_id > other.event_id and one.live.leads_where(other.live)


@define(eq=False)
class VoteRound:
    """``won`` is None until the outcome is known. ``rounds`` below zero never ends.

    ``counts`` says which answers are a yes.
    """

    _membership: Membership
    _question: LiveVote
    _size: int
    _rounds: int
    _wait_s: float
    _pause_s: float
    _counts: Callable[[LiveVote], bool]
    won: bool | None = field(init=False, default=None)
    #: For the operator: what became of the last round.
    told: str = field(init=False, default="nobody was asked")
    _round: int = field(init=False, default=0)
    _asked: dict[str, ControlLink] = field(init=False, factory=dict)
    _answers: dict[str, bool] = field(init=False, factory=dict)
    # Who is to hear that a round is lost: they may have given their word.
    _bound_by_grant: dict[str, ControlLink] = field(init=False, factory=dict)
    _number: int = field(init=False, default=0)
    _looks_for_s: float = field(init=False, default=0.0)
    _looks_until: float = field(init=False, default=0.0)
    _insists_until: float = field(init=False, default=0.0)
    _begun_at: float | None = field(init=False, default=None)
    _asks_again: bool = field(init=False, default=False)
    _due: float | None = field(init=False, default=None)
    #: Whether anybody ever said no who may know why.
    is_contradicted: bool = field(init=False, default=False)

    def begin(self, now: float, after_s: float, looks_for_s: float = 0.0, insists_for_s: float = 0.0) -> None:
        """Ask the first time after a moment, in which others may notice what this broker noticed.

        For ``looks_for_s`` a round for which too few were there to be asked is none: when all connections of a network
        break at once, they are back in a moment, and nobody is to stop for that. For ``insists_for_s`` neither is one
        that only silence has lost.
        """
        self._due = now + after_s
        self._looks_for_s = looks_for_s
        self._looks_until = now + looks_for_s
        self._insists_until = now + insists_for_s

    def next_deadline(self) -> float | None:
        """When `on_time` is due."""
        return self._due if self.won is None else None

    def on_time(self, now: float) -> None:
        """Ask, ask by the other name, or count."""
        if self._due is None or now < self._due or self.won is not None:
            return
        if self._begun_at is None:
            self._begin_round(now)
        elif self._asks_again:
            self._asks_again = False
            self._ask(second=True)
            self._due = self._begun_at + self._bound()
        else:
            self._end_round(now)

    def _bound(self) -> float:
        return min(self._wait_s, ANSWER_WITHIN_S)

    def _begin_round(self, now: float) -> None:
        self._round += 1
        self._begun_at = now
        self._asked.clear()
        self._answers.clear()
        self._bound_by_grant.clear()
        self._number = max(self._membership.now.wall_ms, self._number + 1)
        self._asks_again = True
        self._due = now + self._bound() / 2
        self._ask(second=False)
        self._count(now)

    def _ask(self, *, second: bool) -> None:
        membership, question = self._membership, encode_vote(self._numbered(withdrawn=False))
        for member in membership.topology.members.values():
            if member.live is None or member.node_id in (self._question.node_id, membership.node_id):
                continue
            link = membership.link_to(member.live)
            if link is None or member.node_id in self._answers:
                continue
            self._asked[member.node_id] = self._bound_by_grant[member.node_id] = link
            is_new = not link.peer_version or link.peer_version >= _PRIMARY_NAME_SINCE
            handler = PRIMARY_VOTE_HANDLER if is_new is not second else LIVE_VOTE_HANDLER
            link.send(QuorumVote(handler, question), CONTROL_CHANNEL)

    def _numbered(self, *, withdrawn: bool) -> LiveVote:
        """The question of this round; Artemis asks without a bid, and hears nothing of rounds."""
        question = self._question
        request = VoteRequest.read(question.text)
        if request is None:
            return question
        vote = question.vote and not withdrawn
        return LiveVote(vote, question.node_id, str(evolve(request, attempt=self._number, withdrawn=withdrawn)))

    def withdraw(self) -> None:
        """Whatever the others said, it is not made use of: they may give their word to somebody else."""
        if VoteRequest.read(self._question.text) is not None:
            body = encode_vote(self._numbered(withdrawn=True))
            for link in self._bound_by_grant.values():
                link.send(QuorumVote(PRIMARY_VOTE_HANDLER, body), CONTROL_CHANNEL)
        self._bound_by_grant.clear()
        self._due = None

    def on_reply(self, link: ControlLink, packet: object, now: float) -> None:
        """Somebody answered."""
        assert isinstance(packet, QuorumVoteReply)
        voter = next((voter for voter, asked in self._asked.items() if asked is link), None)
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
            # It said no, or it is an Artemis, which gives no word.
            del self._bound_by_grant[voter]
        counts = self._answers[voter] = self._counts(LiveVote(answer.vote, answer.node_id, text))
        self.is_contradicted |= not counts and text != ABSTAINS
        self._count(now)

    def _count(self, now: float) -> None:
        needed, yes = votes_needed(self._size), sum(self._answers.values())
        silent = len(self._asked) - len(self._answers)
        if yes >= needed:
            self.told = f"{yes} of {needed} votes that are needed"
            self.won = True
        elif yes + silent < needed:
            self._end_round(now)

    def _end_round(self, now: float) -> None:
        needed, yes = votes_needed(self._size), sum(self._answers.values())
        no = len(self._answers) - yes
        silent = len(self._asked) - len(self._answers)
        self.told = (
            f"{len(self._asked)} could be asked, {yes} said yes and {no} no, and {needed} must say yes in a cluster of"
            f" {self._size}"
        )
        self._begun_at = None
        self.withdraw()
        if len(self._asked) < needed and now < self._looks_until:
            self._due = now + LOOKS_AGAIN_S
        elif yes + silent >= needed and now < self._insists_until:
            # Their connections may break now, as all may at the beginning.
            self._looks_until = now + self._looks_for_s
            self._due = now
        elif 0 <= self._rounds <= self._round:
            self.won = False
        else:
            self._due = now + self._pause_s
