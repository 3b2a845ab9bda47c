"""Packets between brokers on the cluster channel.

Responsible for cluster login, node announcements, backup requests, quorum votes and scale down. Refuses to know what a
vote means: its bytes belong to the handler it names.
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
    """Why a primary refuses a backup."""

    EXCEPTION = 0
    AUTHENTICATION = 1
    ALREADY_REPLICATING = 2


class ClusterConnect(Packet):
    """Log in to the cluster channel, which is deaf before."""

    TYPE = PacketType.CLUSTER_CONNECT
    cluster_user: str = string()
    cluster_password: str = string()


class ClusterConnectReply(Packet):
    """Whether the login was right."""

    TYPE = PacketType.CLUSTER_CONNECT_REPLY
    authorized: bool = flag()


class NodeAnnounce(Packet):
    """A broker tells who and where it is."""

    TYPE = PacketType.NODE_ANNOUNCE
    node_id: str = string()
    backup_group_name: str | None = optional_string()
    backup: bool = flag()
    current_event_id: int = i64()
    connector: TransportConfiguration | None = optional_connector()
    backup_connector: TransportConfiguration | None = optional_connector(default=None)
    scale_down_group_name: str | None = optional_string(default=None)


class BackupRequest(Packet):
    """Ask another broker to start a backup."""

    TYPE = PacketType.BACKUP_REQUEST
    backup_size: int = i32()
    journal_directory: str | None = optional_string(default=None)
    bindings_directory: str | None = optional_string(default=None)
    large_messages_directory: str | None = optional_string(default=None)
    paging_directory: str | None = optional_string(default=None)
    node_id: str | None = optional_simple_string(default=None)


class BackupRequestResponse(Packet):
    """Whether the backup was started."""

    TYPE = PacketType.BACKUP_REQUEST_RESPONSE
    backup_started: bool = flag()


class BackupRegistration(Packet):
    """A backup offers itself for replication."""

    TYPE = PacketType.BACKUP_REGISTRATION
    cluster_user: str = string()
    cluster_password: str = string()
    wants_fail_back: bool = flag()
    connector: TransportConfiguration = connector()


class BackupRegistrationFailed(Packet):
    """The primary refuses: a ``BackupRegistrationProblem``."""

    TYPE = PacketType.BACKUP_REGISTRATION_FAILED
    problem: int = i32()


class ScaleDownAnnouncement(Packet):
    """A node hands its messages to another and goes away."""

    TYPE = PacketType.SCALEDOWN_ANNOUNCEMENT
    target_node_id: str = simple_string()
    scaled_down_node_id: str = simple_string()


class QuorumVote(Packet):
    """A question to the quorum; ``vote`` is what the named handler reads."""

    TYPE = PacketType.QUORUM_VOTE
    handler: str = simple_string()
    vote: bytes = rest(default=b"")


class QuorumVoteReply(Packet):
    """The answer of one node."""

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
