"""Votes: the bodies of QUORUM_VOTE and of its answer, about a live broker or a backup (cluster-and-ha 13.2, 16)."""

from __future__ import annotations

from .._buffer import Reader
from ._packet_table import Record, flag, i32, optional_string, string

__all__ = [
    "BACKUP_VOTE_HANDLER",
    "LIVE_VOTE_HANDLER",
    "PRIMARY_VOTE_HANDLER",
    "BackupVote",
    "LiveVote",
    "decode_vote",
    "encode_vote",
]

#: The handler of the request: peers below version 136 support the second name only.
PRIMARY_VOTE_HANDLER = "PrimaryFailoverQuorumVote"
LIVE_VOTE_HANDLER = "LiveFailoverQuorumVote"
#: The handler of the question whether a broker would host a backup.
BACKUP_VOTE_HANDLER = "RequestBackupQuorumVote"


class LiveVote(Record):
    """A vote about the live broker of a node id.

    ``text`` describes a connector in an answer, and means nothing to Artemis in a request.
    """

    vote: bool = flag()
    node_id: str = string()
    text: str | None = optional_string(default=None)


class BackupVote(Record):
    """The question whether a broker would host a backup, and the answer: the number of backups that it hosts.

    ``node_id`` is that of the host in an answer, and of the asker in a question of an embedbroker. ``format`` is that
    of the journal; Artemis does not write it, and does not read it.
    """

    backups: int = i32()
    node_id: str | None = optional_string()
    available: bool = flag()
    format: int = i32(default=0, tail=True)


def encode_vote(vote: LiveVote | BackupVote) -> bytes:
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
