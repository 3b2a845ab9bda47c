"""What a vote about a live broker says: the body of QUORUM_VOTE and of its answer (cluster-and-ha 13.2)."""

from __future__ import annotations

from .._buffer import Reader
from ._packet_table import Record, flag, optional_string, string

__all__ = [
    "LIVE_VOTE_HANDLER",
    "PRIMARY_VOTE_HANDLER",
    "LiveVote",
    "decode_vote",
    "encode_vote",
]

#: Who is asked: peers below version 136 know the second name only.
PRIMARY_VOTE_HANDLER = "PrimaryFailoverQuorumVote"
LIVE_VOTE_HANDLER = "LiveFailoverQuorumVote"


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
