"""A vote about a live broker: the body of QUORUM_VOTE and of its answer (cluster-and-ha 13.2)."""

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

#: The handler of the request: peers below version 136 support the second name only.
PRIMARY_VOTE_HANDLER = "PrimaryFailoverQuorumVote"
LIVE_VOTE_HANDLER = "LiveFailoverQuorumVote"


class LiveVote(Record):
    """A vote about the live broker of a node id.

    ``text`` describes a connector in an answer, and means nothing to Artemis in a request.
    """

    vote: bool = flag()
    node_id: str = string()
    text: str | None = optional_string(default=None)


def encode_vote(vote: LiveVote) -> bytes:
    """Return the body of a packet."""
    out = bytearray()
    vote.append_body(out, 0)
    return bytes(out)


def decode_vote(body: bytes) -> LiveVote:
    """Return the vote in a packet.

    Raises:
        RemoteProtocolError: the body is not a vote about a live broker.
    """
    return LiveVote.read_body(Reader(body), 0)
