"""The answers of a broker to the question whether an active broker is still there (cluster-and-ha 13).

Responsible for the answer that Artemis would give from its topology, and for what makes the answers to embedbrokers
safe. Does not send questions, and does not depend on what follows from an answer.

An active broker that lost its backup requests votes to go on. A backup that lost its active broker requests votes to
take over. An Artemis broker can answer yes to both, one after the other, if its topology changed in between:

1. P loses its backup B and requests a vote. The answer is that P is there. P goes on without B and confirms messages.
2. P is cut off. B, which has not stopped its requests, receives the answer that there is no P. It takes over without
   those messages.

So the question of an embedbroker contains the epoch of the node that it would end, and the asker. A voter keeps
its grant: for each epoch it answers yes to one asker only, however its topology changes. Any two majorities have a
voter in common.

A forgotten grant is worth nothing:

1. P loses its backup B, and V grants P its vote to go on. P confirms messages.
2. V's process is killed and started again. P dies.
3. B requests a vote. V has learnt of P from others meanwhile, and grants B its vote to take over.

So a grant must be on the disk, beside the journal, before it is sent. The next active broker with that journal is the
same voter, and keeps the grant. A broker without a disk would forget, so it answers no. A broker that is not active
answers no too: the grants of its node are those of another broker. A voter that has just begun does not have the other
members yet and answers no as well: it may be the only broker without news of the active broker.

A grant may be given back. Otherwise two askers could keep each other from a majority for ever:

1. {P, X} and {B, Y} lose each other. X grants P its vote to go on, Y grants B its vote to take over. Two are needed.
2. The network is whole again. X's grant is P's, and Y's is B's.

So an asker that did not get enough grants withdraws its request. The epoch is then free for the next asker, but no
earlier epoch is. A withdrawal names the attempt, and a voter keeps the attempt of its last grant. So a late
withdrawal, over a connection that was given up, does not take away the grant with which the same asker has won
meanwhile. For the same reason an answer contains its attempt.

What others announce of an active broker must not keep a backup from taking over, or no backup ever would
(`test_a_voter_that_knows_a_live_broker_by_hearsay_only_does_not_keep_its_backup_from_taking_over`):

1. The network between P and X fails. X gives P up, and receives from Y that P is active all the same.
2. That between X and Y fails, too. P dies, which Y notices, and X does not.
3. The network is whole again. Y sends no news of P any more, and X still counts it as active: B, and P when it is
   started again, receive no for ever.

So for a backup an embedbroker counts an active broker only if it sees that broker itself. Its grants keep the two
apart.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from embedbroker.cluster import CONTROL_CHANNEL, Member, Membership, Send, Topology
from embedbroker.config import Role
from embedclient.model import TransportConfiguration
from embedclient.wire.core import LiveVote, QuorumVote, QuorumVoteReply, Record, decode_vote, encode_vote

from ._grants import ABSTAINS, DamagedGrants, VoteGrants, VoteRequest, with_attempt

if TYPE_CHECKING:
    from embedbroker.storage import AtomicFileOwner

__all__ = ["GrantStore", "Voter", "connector_text", "leads_to"]

# Questions that may wait for the disk. A cluster has far fewer brokers, and each sends two.
_WAITING_MAX = 1_000
_PARAMETER = re.compile(r"[?&](host|port)=([^&]*)")


class GrantStore(Protocol):
    """Store grants so that they survive a power cut."""

    #: The reason why nothing is read or written any more; the owner is called then.
    failure: str | None
    owner: AtomicFileOwner | None

    def read(self, then: Callable[[bytes | None], None]) -> None:
        """Read the file; pass None if there is no file."""

    def replace(self, text: bytes, then: Callable[[], None]) -> None:
        """Replace the file; ``then`` is called when that is durable."""


def connector_text(connector: TransportConfiguration) -> str:
    """Return a connector as Artemis describes it in a vote."""

    def shown(key: str, value: object) -> str:
        return "****" if "password" in key.lower() else str(value)

    parameters = "&".join(f"{key}={shown(key, value)}" for key, value in sorted(connector.parameters.items()))
    text = f"TransportConfiguration(name={connector.name}, factory={connector.factory})?{parameters}"
    return text.replace(".", "-")


def leads_to(text: str | None, connector: TransportConfiguration) -> bool:
    """Return True if a text describes this place. Java lists the parameters in any order, and more of them than are
    known here."""
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
        """Return True if every place has sent its members, or has no broker."""

    def sees(self, member: Member) -> bool:
        """Return True if there is a connection with the active broker of a member, from either side."""


class Voter:
    """One instance per broker start. Without a ``store`` it grants no vote, and ``log`` receives the reason once."""

    def __init__(
        self, topology: Topology, store: GrantStore | None, broker: VotingBroker, log: Callable[[str], None]
    ) -> None:
        self._topology = topology
        self._store = store
        self._broker = broker
        self._log = log
        self._has_logged = False
        # Not known before they are read, which the first request starts.
        self._grants: VoteGrants | None = None
        self._is_busy = False
        self._waiting: deque[tuple[LiveVote, Callable[[LiveVote], None]]] = deque()
        if store is not None:
            store.owner = self

    @classmethod
    def of(cls, membership: Membership, store: GrantStore | None, log: Callable[[str], None]) -> Voter:
        """Return the voter of a cluster member, which answers over every control link."""
        voter = cls(membership.topology, store, membership, log)
        membership.inbound_peers.handlers[QuorumVote] = lambda inbound, packet: voter._on_question(
            packet, inbound.peer.send
        )
        membership.handlers[QuorumVote] = lambda link, packet: voter._on_question(packet, link.send)
        return voter

    def _on_question(self, packet: Record, send: Send) -> None:
        """Answer a question from a control channel.

        Raises:
            RemoteProtocolError: The question cannot be read.
        """
        assert isinstance(packet, QuorumVote)
        handler = packet.handler
        self.answer_question(
            decode_vote(packet.vote),
            lambda answer: send(QuorumVoteReply(handler, encode_vote(answer)), CONTROL_CHANNEL),
        )

    def answer_question(self, question: LiveVote, reply: Callable[[LiveVote], None]) -> None:
        """Answer at once, or when the grant for the answer survives a power cut.

        True means yes: to an active broker that it may go on, to a backup that it may take over.
        """
        request = VoteRequest.read(question.text)
        if request is not None and request.attempt:
            reply = _sealing(reply, request.attempt)
        answer, needed = self._view(question)
        if needed is None:
            reply(answer)
        else:
            self._wait(question, reply)

    def _wait(self, question: LiveVote, reply: Callable[[LiveVote], None]) -> None:
        if len(self._waiting) < _WAITING_MAX:
            self._waiting.append((question, reply))
            self._go_on()

    def _view(self, question: LiveVote) -> tuple[LiveVote, VoteRequest | None]:
        """Return the answer of this moment, and the request that needs a grant or a withdrawal for it."""
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
            return LiveVote(False, node_id, None), request if self._may_vote() else None
        if request is None or not answer.vote:
            return answer, None
        if question.vote and answer.text != request.asker:
            # As far as is known here, another broker is active for that node id: the text names it.
            return LiveVote(False, node_id, answer.text), None
        known = request.starts or live is not None or self._topology.removal_of(node_id) is not None
        if (known or self._broker.is_informed) and self._may_vote():
            return answer, request
        return self._no(node_id), None

    def _no(self, node_id: str) -> LiveVote:
        """Return a no: another asker has the grant, too little is known here, or this voter abstains from all votes."""
        return LiveVote(False, node_id, None if self._may_vote() else ABSTAINS)

    def _may_vote(self) -> bool:
        if self._store is None:
            self._report("it has no data_directory, and could not keep a vote that it grants")
            return False
        return self._broker.role is Role.LIVE and self._store.failure is None

    def _report(self, why: str) -> None:
        if not self._has_logged:
            self._has_logged = True
            self._log(f"does not vote for other brokers of the cluster that want to be live: {why}")

    # -- grants --------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Answer the waiting questions, up to the first whose grant must be read or written."""
        while self._waiting and not self._is_busy:
            question, reply = self._waiting[0]
            answer, request = self._view(question)
            if request is not None and self._begins(question.node_id, request):
                return
            self._waiting.popleft()
            given = request is None or (self._grants is not None and self._grants.has(question.node_id, request))
            reply(answer if given else self._no(question.node_id))

    def _begins(self, node_id: str, request: VoteRequest) -> bool:
        """Return True if the disk must do something first; `_go_on` runs again when that is done."""
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
            self._has_logged = False
            self._report(
                "votes.state, which holds the votes that it granted, is damaged; remove that file, beside the journal,"
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

    def on_failure(self) -> None:
        """Answer no to all waiting questions, because the store failed."""
        assert self._store is not None and self._store.failure is not None
        self._report(self._store.failure)
        self._is_busy = False
        self._go_on()


def _sealing(reply: Callable[[LiveVote], None], attempt: int) -> Callable[[LiveVote], None]:
    return lambda answer: reply(LiveVote(answer.vote, answer.node_id, with_attempt(answer.text, attempt)))
