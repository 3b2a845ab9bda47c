"""What a vote about a live broker says: the body of QUORUM_VOTE and of its answer (cluster-and-ha 13.2).

Brokers of ours that wait say so in the same packet, for a handler of their own. An Artemis that one says it to has
nobody to hand a question to on a connection that it opened itself, and goes on; a packet of a type that it does not
know makes it end the connection and write a stack trace (seen with 2.44).
"""

from __future__ import annotations

from ...model import TransportConfiguration
from .._buffer import Reader
from ._packet_table import Record, connector, flag, i32, i64, optional_string, string

__all__ = [
    "LIVE_VOTE_HANDLER",
    "PRIMARY_VOTE_HANDLER",
    "WAITING_HANDLER",
    "LiveVote",
    "ReplicaWaiting",
    "decode_vote",
    "decode_waiting",
    "encode_vote",
    "encode_waiting",
]

#: Who is asked: peers below version 136 know the second name only.
PRIMARY_VOTE_HANDLER = "PrimaryFailoverQuorumVote"
LIVE_VOTE_HANDLER = "LiveFailoverQuorumVote"
WAITING_HANDLER = "EmbedbrokerWaiting"


class LiveVote(Record):
    """About the live broker of a node id. ``text`` describes a connector in an answer, and means nothing to Artemis in
    a question.
    """

    vote: bool = flag()
    node_id: str = string()
    text: str | None = optional_string(default=None)


def encode_vote(vote: LiveVote) -> bytes:
    """The body of a packet."""
    out = bytearray()
    vote.append_body(out, 0)
    return bytes(out)


def decode_vote(body: bytes) -> LiveVote:
    """What a packet says.

    Raises:
        RemoteProtocolError: it says something else.
    """
    return LiveVote.read_body(Reader(body), 0)


class ReplicaWaiting(Record):
    """A broker that waits says with which data, in either direction; with ``yields``, that it will not begin with it.

    ``partner`` is the text of the connector of the only other broker that may have gone on from that data.
    """

    format: int = i32()
    node_id: str = string()
    activation: int = i64()
    yields: bool = flag()
    is_primary: bool = flag()
    connector: TransportConfiguration = connector()
    partner: str | None = optional_string()


def encode_waiting(waiting: ReplicaWaiting) -> bytes:
    """The body of a packet."""
    out = bytearray()
    waiting.append_body(out, 0)
    return bytes(out)


def decode_waiting(body: bytes) -> ReplicaWaiting:
    """What a packet says.

    Raises:
        RemoteProtocolError: it says something else.
    """
    return ReplicaWaiting.read_body(Reader(body), 0)
