"""What a broker answers when others ask whether a live broker is still there (cluster-and-ha 13).

Responsible for the answer that Artemis would give from its topology, and for what makes the answers to embedbrokers
safe. Refuses to ask, and to know what an answer leads to.

A live broker that lost its backup asks whether it may go on, and a backup that lost its live broker asks whether it may
take over. Both can be told yes by an Artemis broker, one after the other, whose topology changed in between:

1. P loses its backup B, asks, is told that it is there, goes on without B and confirms messages.
2. P is cut off. B, which has not stopped asking, is told that there is no P. It takes over without those messages.

So an embedbroker says in its question which activation of the node it would end and who it is, and one that answers
keeps its word: for each activation it says yes to one asker only, however its topology changes. Any two majorities have
a voter in common.

A word that is forgotten is as good as none:

1. P loses its backup B, and V tells it that it may go on. P confirms messages.
2. V's process is killed and started again. P dies.
3. B asks, and V, which has heard of P from others meanwhile, tells it that it may take over.

So a word is on the disk before anybody hears of it, beside the journal: whoever is live next with that journal is the
same voter, and keeps it. A broker that has no disk would forget, so it says no, and so does one that is not live: the
word of its node is another broker's. A voter that does not know yet who else is there, because it has just begun, says
no as well: it may be the only one that has not heard of the live broker.

A word may be given back, or two askers would keep each other from a majority for ever:

1. {P, X} and {B, Y} lose each other. X tells P that it may go on, Y tells B that it may take over. Two are needed.
2. The network is whole again. X has given its word to P, and Y to B.

So an asker that did not get enough words withdraws its bid, and the activation is free for the next one, but no earlier
one is. It names the attempt, and a voter knows for which it gave its word last: a withdrawal that comes late, over a
connection that was given up, does not take away the word with which the same asker has won meanwhile. For the same
reason an answer says which attempt it is for.

What others say of a live broker does not keep anybody from taking over, or nobody ever would
(`test_a_voter_that_knows_a_live_broker_by_hearsay_only_does_not_keep_its_backup_from_taking_over`):

1. The network between P and X fails. X gives P up, and hears from Y that P is live all the same.
2. That between X and Y fails, too. P dies, which Y notices, and X does not.
3. The network is whole again. Y has nothing to say of P any more, and X goes on believing that it is live: B, and P
   when it is started again, are told no for ever.

So an embedbroker says no to a backup when it sees the live broker itself. Its word keeps the two apart.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Protocol

from embedbroker.cluster import CONTROL_CHANNEL, Member, Membership, Send, Topology
from embedbroker.config import Role
from embedclient.model import TransportConfiguration
from embedclient.wire.core import LiveVote, QuorumVote, QuorumVoteReply, Record, decode_vote, encode_vote

from ._grants import ABSTAINS, DamagedGrants, VoteGrants, VoteRequest, with_attempt

__all__ = ["GrantStore", "Voter", "connector_text", "leads_to"]

# Questions that may wait for the disk. A cluster has far fewer brokers, and each asks twice.
_WAITING_MAX = 1_000
_PARAMETER = re.compile(r"[?&](host|port)=([^&]*)")


class GrantStore(Protocol):
    """Where words survive a power cut."""

    #: Why nothing is read or written any more, and who is told of that.
    failure: str | None
    on_failure: Callable[[], None] | None

    def read(self, then: Callable[[bytes | None], None]) -> None:
        """Read the file; None: there is none."""

    def replace(self, text: bytes, then: Callable[[], None]) -> None:
        """Replace the file; ``then`` is called when that is durable."""


def connector_text(connector: TransportConfiguration) -> str:
    """A connector as Artemis describes it in a vote."""

    def shown(key: str, value: object) -> str:
        return "****" if "password" in key.lower() else str(value)

    parameters = "&".join(f"{key}={shown(key, value)}" for key, value in sorted(connector.parameters.items()))
    text = f"TransportConfiguration(name={connector.name}, factory={connector.factory})?{parameters}"
    return text.replace(".", "-")


def leads_to(text: str | None, connector: TransportConfiguration) -> bool:
    """Whether a text describes this place. Java tells the parameters in any order, and more of them than we have."""
    if text is None:
        return False
    if "host" not in connector.parameters:
        return text == connector_text(connector)
    found = dict(_PARAMETER.findall(text))
    port = str(connector.port_text)
    return found.get("host") == connector.host.replace(".", "-") and found.get("port", port) == port


class VotingBroker(Protocol):
    """The part of a cluster member that its voter depends on."""

    @property
    def role(self) -> Role:
        """Return the role; while it is not LIVE, the grants of its node are those of another broker."""

    @property
    def is_informed(self) -> bool:
        """Return True if this broker has looked which others are there."""

    def sees(self, member: Member) -> bool:
        """Return True if there is a connection with the live broker of a member, from either side."""


class Voter:
    """One instance per broker start. Without a ``store`` it grants no vote, and ``log`` receives the reason once."""

    def __init__(
        self, topology: Topology, store: GrantStore | None, broker: VotingBroker, log: Callable[[str], None]
    ) -> None:
        self._topology = topology
        self._store = store
        self._broker = broker
        self._log = log
        self._has_said = False
        # Not known before they are read, which is when the first is asked for.
        self._grants: VoteGrants | None = None
        self._is_busy = False
        self._waiting: deque[tuple[LiveVote, Callable[[LiveVote], None]]] = deque()
        if store is not None:
            store.on_failure = self._on_failure

    @classmethod
    def of(cls, membership: Membership, store: GrantStore | None, log: Callable[[str], None]) -> Voter:
        """Return the voter of a cluster member, which answers over every control link."""
        voter = cls(membership.topology, store, membership, log)
        membership.inbound_peers.handlers[QuorumVote] = lambda inbound, packet: voter._hear(packet, inbound.peer.send)
        membership.handlers[QuorumVote] = lambda link, packet: voter._hear(packet, link.send)
        return voter

    def _hear(self, packet: Record, send: Send) -> None:
        """Raises RemoteProtocolError: the question cannot be read."""
        assert isinstance(packet, QuorumVote)
        handler = packet.handler
        self.ask(
            decode_vote(packet.vote),
            lambda answer: send(QuorumVoteReply(handler, encode_vote(answer)), CONTROL_CHANNEL),
        )

    def ask(self, question: LiveVote, reply: Callable[[LiveVote], None]) -> None:
        """Answer, at once or when the word that this takes cannot be forgotten any more.

        True means yes: to a live broker that it may go on, to a backup that it may take over.
        """
        request = VoteRequest.read(question.text)
        if request is not None and request.attempt:
            reply = _sealing(reply, request.attempt)
        answer, word = self._view(question)
        if word is None:
            reply(answer)
        else:
            self._wait(question, reply)

    def _wait(self, question: LiveVote, reply: Callable[[LiveVote], None]) -> None:
        if len(self._waiting) < _WAITING_MAX:
            self._waiting.append((question, reply))
            self._go_on()

    def _view(self, question: LiveVote) -> tuple[LiveVote, VoteRequest | None]:
        """The answer as things stand now, and the word that it takes, or takes back."""
        node_id = question.node_id
        member = self._topology.members.get(node_id)
        live = member.live if member is not None else None
        request = VoteRequest.read(question.text)
        is_there = member is not None and (request is None or question.vote or self._broker.sees(member))
        if live is None or not is_there:
            answer = LiveVote(not question.vote, node_id, None)
        else:
            answer = LiveVote(question.vote, node_id, connector_text(live))
        if request is not None and request.withdrawn:
            return LiveVote(False, node_id, None), request if self._may_speak() else None
        if request is None or not answer.vote:
            return answer, None
        if question.vote and answer.text != request.asker:
            # Somebody else is live for that node id, as far as is known here: the text tells.
            return LiveVote(False, node_id, answer.text), None
        known = request.starts or live is not None or self._topology.removal_of(node_id) is not None
        if (known or self._broker.is_informed) and self._may_speak():
            return answer, request
        return self._no(node_id), None

    def _no(self, node_id: str) -> LiveVote:
        """Somebody else has its word, or it does not know enough; or that is all it could ever say."""
        return LiveVote(False, node_id, None if self._may_speak() else ABSTAINS)

    def _may_speak(self) -> bool:
        if self._store is None:
            self._tell("it has no data_directory, and would forget to whom it gave its word")
            return False
        return self._broker.role is Role.LIVE and self._store.failure is None

    def _tell(self, why: str) -> None:
        if not self._has_said:
            self._has_said = True
            self._log(f"does not vote for other brokers of the cluster that want to be live: {why}")

    # -- words ---------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Answer those who wait, up to the first whose word has to be read or written."""
        while self._waiting and not self._is_busy:
            question, reply = self._waiting[0]
            answer, request = self._view(question)
            if request is not None and self._begins(question.node_id, request):
                return
            self._waiting.popleft()
            given = request is None or (self._grants is not None and self._grants.has(question.node_id, request))
            reply(answer if given else self._no(question.node_id))

    def _begins(self, node_id: str, request: VoteRequest) -> bool:
        """Whether something has to be done on the disk first; it goes on when that is done."""
        store, grants = self._store, self._grants
        assert store is not None
        if grants is None:
            self._is_busy = True
            store.read(self._on_read)
            return True
        following = grants.after(node_id, request)
        if following is None:
            return False
        self._is_busy = True
        store.replace(following.text(), lambda: self._on_written(following))
        return True

    def _on_read(self, text: bytes | None) -> None:
        try:
            grants = VoteGrants.read(text) if text is not None else VoteGrants()
        except DamagedGrants:
            self._store = None
            self._has_said = False
            self._tell(
                "votes.state, which says to whom it gave its word, is damaged; remove that file, beside the journal,"
                " while all pairs of the cluster have a live broker and a backup that is in sync"
            )
        else:
            self._grants = grants
        self._is_busy = False
        self._go_on()

    def _on_written(self, grants: VoteGrants) -> None:
        self._grants = grants
        self._is_busy = False
        self._go_on()

    def _on_failure(self) -> None:
        """The store failed: whoever waits is told no."""
        assert self._store is not None and self._store.failure is not None
        self._tell(self._store.failure)
        self._is_busy = False
        self._go_on()


def _sealing(reply: Callable[[LiveVote], None], attempt: int) -> Callable[[LiveVote], None]:
    return lambda answer: reply(LiveVote(answer.vote, answer.node_id, with_attempt(answer.text, attempt)))
