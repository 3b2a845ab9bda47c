"""Packets between brokers on the cluster channel.

Responsible for cluster login, node announcements, backup requests, quorum votes and scale down. Does not depend on the
meaning of a vote: its bytes belong to the handler it names.
"""

from __future__ import annotations

from enum import IntEnum

from ...model import TransportConfiguration
from ._packet_table import (
    Packet,
    connector,
    flag,
    i32,
    i64,
    optional_connector,
    optional_simple_string,
    optional_string,
    rest,
    simple_string,
    string,
)
from ._packet_type import PacketType


class BackupRegistrationProblem(IntEnum):
    """The reason why a primary rejects a backup."""

    EXCEPTION = 0
    AUTHENTICATION = 1
    ALREADY_REPLICATING = 2


class ClusterConnect(Packet):
    """Log in to the cluster channel, which ignores other packets before."""

    TYPE = PacketType.CLUSTER_CONNECT
    cluster_user: str = string()
    cluster_password: str = string()


class ClusterConnectReply(Packet):
    """Report whether the login was right."""

    TYPE = PacketType.CLUSTER_CONNECT_REPLY
    authorized: bool = flag()


class NodeAnnounce(Packet):
    """Announce a broker's identity and connectors."""

    TYPE = PacketType.NODE_ANNOUNCE
    node_id: str = string()
    backup_group_name: str | None = optional_string()
    backup: bool = flag()
    current_event_id: int = i64()
    connector: TransportConfiguration | None = optional_connector()
    backup_connector: TransportConfiguration | None = optional_connector(default=None)
    scale_down_group_name: str | None = optional_string(default=None)


class BackupRequest(Packet):
    """Request that another broker start a backup."""

    TYPE = PacketType.BACKUP_REQUEST
    backup_size: int = i32()
    journal_directory: str | None = optional_string(default=None)
    bindings_directory: str | None = optional_string(default=None)
    large_messages_directory: str | None = optional_string(default=None)
    paging_directory: str | None = optional_string(default=None)
    node_id: str | None = optional_simple_string(default=None)


class BackupRequestResponse(Packet):
    """Report whether the backup was started."""

    TYPE = PacketType.BACKUP_REQUEST_RESPONSE
    backup_started: bool = flag()


class BackupRegistration(Packet):
    """Offer a backup for replication."""

    TYPE = PacketType.BACKUP_REGISTRATION
    cluster_user: str = string()
    cluster_password: str = string()
    wants_fail_back: bool = flag()
    connector: TransportConfiguration = connector()


class BackupRegistrationFailed(Packet):
    """Reject a backup: a ``BackupRegistrationProblem`` of the primary."""

    TYPE = PacketType.BACKUP_REGISTRATION_FAILED
    problem: int = i32()


class ScaleDownAnnouncement(Packet):
    """Announce that a node moves its messages to another node and leaves."""

    TYPE = PacketType.SCALEDOWN_ANNOUNCEMENT
    target_node_id: str = simple_string()
    scaled_down_node_id: str = simple_string()


class QuorumVote(Packet):
    """Request a vote of the quorum; ``vote`` is the input of the named handler."""

    TYPE = PacketType.QUORUM_VOTE
    handler: str = simple_string()
    vote: bytes = rest(default=b"")


class QuorumVoteReply(Packet):
    """Return the answer of one node."""

    TYPE = PacketType.QUORUM_VOTE_REPLY
    handler: str = simple_string()
    vote: bytes = rest(default=b"")


PACKETS: tuple[type[Packet], ...] = (
    ClusterConnect,
    ClusterConnectReply,
    NodeAnnounce,
    BackupRequest,
    BackupRequestResponse,
    BackupRegistration,
    BackupRegistrationFailed,
    ScaleDownAnnouncement,
    QuorumVote,
    QuorumVoteReply,
)
