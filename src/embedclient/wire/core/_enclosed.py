"""Messages between brokers of ours to any peer, before it is known whether the peer is a broker of ours.

Responsible for packing them into a QUORUM_VOTE for a separate handler. Does not depend on their effect.

An Artemis drops a vote for a handler that it does not have, at most with a line in its log. A packet of an unknown type
makes it end the connection, and write two stack traces (both seen with 2.44).
"""

from __future__ import annotations

from typing import Final

from ...model import TransportConfiguration
from .._buffer import Reader
from ._cluster_packets import QuorumVote, QuorumVoteReply
from ._packet_table import Packet, Record, connector, flag, i32, i64, optional_string, string
from ._quorum_vote import BACKUP_VOTE_HANDLER, BackupVote

__all__ = ["ReplicaRegistration", "ReplicaWaiting", "enclose", "enclosed_in"]


class ReplicaRegistration(Record):
    """A backup offers itself to a live broker.

    ``format`` is that of everything that follows, which goes over the stream channel; ``node_id`` "" requests any
    primary.

    ``cluster_name`` is the name of its cluster connection.
    """

    format: int = i32()
    node_id: str = string()
    group_name: str | None = optional_string()
    wants_fail_back: bool = flag()
    connector: TransportConfiguration = connector()
    cluster_name: str | None = optional_string(default=None)


class ReplicaWaiting(Record):
    """A waiting broker reports its data, in either direction. ``yields``: it will not begin with that data.

    ``partner`` is the text of the connector of the only other broker that may have continued from that data.
    """

    format: int = i32()
    node_id: str = string()
    epoch: int = i64()
    yields: bool = flag()
    is_primary: bool = flag()
    connector: TransportConfiguration = connector()
    partner: str | None = optional_string()


_RECORDS: Final[dict[str, type[Record]]] = {
    "EmbedbrokerReplica": ReplicaRegistration,
    "EmbedbrokerWaiting": ReplicaWaiting,
}
_HANDLERS: Final = {record: handler for handler, record in _RECORDS.items()}


def enclose(record: ReplicaRegistration | ReplicaWaiting) -> QuorumVote:
    """Return the packet that carries the record."""
    out = bytearray()
    record.append_body(out, 0)
    return QuorumVote(_HANDLERS[type(record)], bytes(out))


def enclosed_in(packet: Packet) -> Record:
    """Return the record in a packet, or the packet itself if it encloses none.

    Raises:
        RemoteProtocolError: it cannot be read.
    """
    if isinstance(packet, QuorumVote) and packet.handler in _RECORDS:
        return _RECORDS[packet.handler].read_body(Reader(packet.vote), 0)
    if isinstance(packet, QuorumVote | QuorumVoteReply) and packet.handler == BACKUP_VOTE_HANDLER:
        return BackupVote.read_body(Reader(packet.vote), 0)
    return packet
