"""Packets of channels 0 and 1, and the replies that every session request shares.

Responsible for ping, disconnect, topology, session set-up, and for NULL_RESPONSE, EXCEPTION and PACKETS_CONFIRMED. Does
not depend on the time each is sent.
"""

from __future__ import annotations

from ...model import TransportConfiguration
from ._packet_table import (
    Packet,
    flag,
    i8,
    i32,
    i64,
    omittable_i64,
    optional_connector,
    optional_simple_string,
    optional_string,
    string,
)
from ._packet_type import PacketType


class Ping(Packet):
    """Keep the connection alive. ``connection_ttl`` in milliseconds, -1 for never; the broker echoes it."""

    TYPE = PacketType.PING
    connection_ttl: int = i64()


class Disconnect(Packet):
    """Announce that the broker is going away."""

    TYPE = PacketType.DISCONNECT
    node_id: str | None = optional_simple_string(default=None)


class DisconnectV2(Packet):
    """As Disconnect; names the node that took over by scale down."""

    TYPE = PacketType.DISCONNECT_V2
    node_id: str | None = optional_simple_string(default=None)
    scale_down_node_id: str | None = optional_simple_string(default=None)


class DisconnectV3(Packet):
    """As Disconnect, with a ``DisconnectReason`` and perhaps another broker to go to."""

    TYPE = PacketType.DISCONNECT_V3
    node_id: str | None = optional_simple_string()
    reason: int = i8()
    target_node_id: str | None = optional_simple_string(default=None)
    connector: TransportConfiguration | None = optional_connector(default=None)


class SubscribeTopology(Packet):
    """Request topology packets."""

    TYPE = PacketType.SUBSCRIBE_TOPOLOGY
    cluster_connection: bool = flag()


class SubscribeTopologyV2(Packet):
    """Request topology packets and announce the version."""

    TYPE = PacketType.SUBSCRIBE_TOPOLOGY_V2
    cluster_connection: bool = flag()
    client_version: int = i32()


class ClusterTopology(Packet):
    """Report a node that came or went (``exit``). ``last`` ends the first batch."""

    TYPE = PacketType.CLUSTER_TOPOLOGY
    exit: bool = flag()
    node_id: str = string()
    primary: TransportConfiguration | None = optional_connector(default=None, when=("exit", False))
    backup: TransportConfiguration | None = optional_connector(default=None, when=("exit", False))
    last: bool = flag(default=False, when=("exit", False))


class ClusterTopologyV2(Packet):
    """As ClusterTopology, ordered by ``unique_event_id`` (Unix milliseconds)."""

    TYPE = PacketType.CLUSTER_TOPOLOGY_V2
    exit: bool = flag()
    node_id: str = string()
    unique_event_id: int = i64()
    primary: TransportConfiguration | None = optional_connector(default=None, when=("exit", False))
    backup: TransportConfiguration | None = optional_connector(default=None, when=("exit", False))
    last: bool = flag(default=False, when=("exit", False))
    backup_group_name: str | None = optional_string(default=None, tail=True)


class ClusterTopologyV3(Packet):
    """As ClusterTopologyV2, with the scale-down group."""

    TYPE = PacketType.CLUSTER_TOPOLOGY_V3
    exit: bool = flag()
    node_id: str = string()
    unique_event_id: int = i64()
    primary: TransportConfiguration | None = optional_connector(default=None, when=("exit", False))
    backup: TransportConfiguration | None = optional_connector(default=None, when=("exit", False))
    last: bool = flag(default=False, when=("exit", False))
    backup_group_name: str | None = optional_string(default=None, tail=True)
    scale_down_group_name: str | None = optional_string(default=None, tail=True)


class ClusterTopologyV4(Packet):
    """As ClusterTopologyV3, with the broker's version."""

    TYPE = PacketType.CLUSTER_TOPOLOGY_V4
    exit: bool = flag()
    node_id: str = string()
    unique_event_id: int = i64()
    primary: TransportConfiguration | None = optional_connector(when=("exit", False))
    backup: TransportConfiguration | None = optional_connector(when=("exit", False))
    last: bool = flag(when=("exit", False))
    backup_group_name: str | None = optional_string()
    scale_down_group_name: str | None = optional_string()
    server_version: int = i32()


class CreateSession(Packet):
    """Open a session on a channel of the client's choice. ``window_size`` is the confirmation window, -1 for none."""

    TYPE = PacketType.CREATESESSION
    name: str = string()
    session_channel_id: int = i64()
    version: int = i32()
    username: str | None = optional_string()
    password: str | None = optional_string()
    min_large_message_size: int = i32()
    xa: bool = flag()
    auto_commit_sends: bool = flag()
    auto_commit_acks: bool = flag()
    window_size: int = i32()
    pre_acknowledge: bool = flag()
    default_address: str | None = optional_string(default=None)


class CreateSessionV2(Packet):
    """As CreateSession, with the client id."""

    TYPE = PacketType.CREATESESSION_V2
    name: str = string()
    session_channel_id: int = i64()
    version: int = i32()
    username: str | None = optional_string()
    password: str | None = optional_string()
    min_large_message_size: int = i32()
    xa: bool = flag()
    auto_commit_sends: bool = flag()
    auto_commit_acks: bool = flag()
    window_size: int = i32()
    pre_acknowledge: bool = flag()
    default_address: str | None = optional_string(default=None)
    client_id: str | None = optional_string(default=None)


class CreateSessionResponse(Packet):
    """Report that the session exists, with the broker's version."""

    TYPE = PacketType.CREATESESSION_RESP
    server_version: int = i32()


class ReattachSession(Packet):
    """Continue a session of a lost connection."""

    TYPE = PacketType.REATTACH_SESSION
    name: str = string()
    last_confirmed_command_id: int = i32()


class ReattachSessionResponse(Packet):
    """Report whether the session still existed, and the broker's last processed packet."""

    TYPE = PacketType.REATTACH_SESSION_RESP
    last_confirmed_command_id: int = i32()
    reattached: bool = flag()


class CheckForFailover(Packet):
    """Query whether the broker acts for a node."""

    TYPE = PacketType.CHECK_FOR_FAILOVER
    node_id: str | None = optional_string(default=None)


class CheckForFailoverReply(Packet):
    """Report whether the client may continue with this broker."""

    TYPE = PacketType.CHECK_FOR_FAILOVER_REPLY
    ok_to_failover: bool = flag()


class NullResponse(Packet):
    """Report completion. ``correlation_id`` repeats the request's, -1 where the request has none."""

    TYPE = PacketType.NULL_RESPONSE
    correlation_id: int = i64(default=-1, since=130, tail=True)


class ExceptionResponse(Packet):
    """Report failure: an ``ErrorCode`` and a text. The correlation id is absent when the request has none."""

    TYPE = PacketType.EXCEPTION
    code: int = i32()
    message: str | None = optional_string()
    correlation_id: int | None = omittable_i64(default=None, since=130, tail=True)


class PacketsConfirmed(Packet):
    """Confirm that everything up to ``command_id`` was processed."""

    TYPE = PacketType.PACKETS_CONFIRMED
    command_id: int = i32()


PACKETS: tuple[type[Packet], ...] = (
    Ping,
    Disconnect,
    DisconnectV2,
    DisconnectV3,
    SubscribeTopology,
    SubscribeTopologyV2,
    ClusterTopology,
    ClusterTopologyV2,
    ClusterTopologyV3,
    ClusterTopologyV4,
    CreateSession,
    CreateSessionV2,
    CreateSessionResponse,
    ReattachSession,
    ReattachSessionResponse,
    CheckForFailover,
    CheckForFailoverReply,
    NullResponse,
    ExceptionResponse,
    PacketsConfirmed,
)
