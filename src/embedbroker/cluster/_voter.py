"""What a broker answers when others ask whether a live broker is still there (cluster-and-ha 13).

Responsible for the answer that Artemis would give from its topology, and for what makes the answers to embedbrokers
safe. Refuses to ask, and to know what an answer leads to.

A live broker that lost its backup asks whether it may go on, and a backup that lost its live broker asks whether it may
take over. Both can be told yes by an Artemis broker, one after the other, whose topology changed in between:

1. P loses its backup B, asks, is told that it is there, goes on without B and confirms messages.
2. P is cut off. B, which has not stopped asking, is told that there is no P. It takes over without those messages.

So an embedbroker says in its question which activation of the node it would end and who it is, and one that answers
keeps its word: for each activation it says yes to one asker only, however its topology changes. Any two majorities have
a voter in common. A voter that has not known the live broker itself says no: it may have forgotten its word.
"""

from __future__ import annotations

import re

from attrs import field, frozen

from embedclient.model import TransportConfiguration
from embedclient.wire.core import LiveVote, Packet, QuorumVote, QuorumVoteReply, decode_vote, encode_vote

from ._membership import Membership
from ._peer import CONTROL_CHANNEL
from ._topology import Topology

__all__ = ["Bid", "Voter", "connector_text", "leads_to"]

# More nodes than any cluster has, so that a broken peer cannot fill the memory.
_WORDS_MAX = 1_000
_BID = re.compile(r"embedbroker (activation|start)=(\d{1,18}) (.+)\Z", re.ASCII | re.DOTALL)
_PARAMETER = re.compile(r"[?&](host|port)=([^&]*)")


@frozen
class Bid:
    """Who wants to be the only one that goes on from an activation of a node.

    ``starts``: a primary that begins its life. The whole cluster may begin with it, so voters need not have known it.
    """

    activation: int
    asker: str
    starts: bool = field(default=False, eq=False)

    def __str__(self) -> str:
        return f"embedbroker {'start' if self.starts else 'activation'}={self.activation} {self.asker}"

    @classmethod
    def read(cls, text: str | None) -> Bid | None:
        """From the text of a question; None for one of Artemis."""
        match = _BID.match(text) if text is not None else None
        return cls(int(match[2]), match[3], match[1] == "start") if match is not None else None


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


class Voter:
    """The memory of one broker, as long as it lives."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        # To whom this broker gave its word, by node id.
        self._given: dict[str, Bid] = {}

    def listen(self, membership: Membership) -> None:
        """Answer whoever asks, over whichever connection, and whatever this broker is."""
        membership.guests.handlers[QuorumVote] = lambda guest, packet: guest.peer.send(
            self._reply(packet), CONTROL_CHANNEL
        )
        membership.handlers[QuorumVote] = lambda link, packet: link.send(self._reply(packet), CONTROL_CHANNEL)

    def _reply(self, packet: Packet) -> QuorumVoteReply:
        """Raises RemoteProtocolError: the question cannot be read."""
        assert isinstance(packet, QuorumVote)
        return QuorumVoteReply(packet.handler, encode_vote(self.answer(decode_vote(packet.vote))))

    def answer(self, question: LiveVote) -> LiveVote:
        """True means yes: to a live broker that it may go on, to a backup that it may take over."""
        node_id = question.node_id
        member = self._topology.members.get(node_id)
        live = member.live if member is not None else None
        if live is None:
            answer = LiveVote(not question.vote, node_id, None)
        else:
            answer = LiveVote(question.vote, node_id, connector_text(live))
        bid = Bid.read(question.text)
        if bid is None or not answer.vote:
            return answer
        if question.vote and answer.text != bid.asker:
            # Somebody else is live for that node id, as far as is known here: the text tells.
            return answer
        known = bid.starts or live is not None or self._topology.removal_of(node_id) is not None
        return answer if known and self._gives(node_id, bid) else LiveVote(False, node_id, None)

    def _gives(self, node_id: str, bid: Bid) -> bool:
        given = self._given.get(node_id)
        if given is not None and given != bid and given.activation >= bid.activation:
            return False
        self._given.pop(node_id, None)
        self._given[node_id] = bid
        if len(self._given) > _WORDS_MAX:
            del self._given[next(iter(self._given))]
        return True
