"""Packets about members, which brokers send to each other and to their clients.

Responsible for the form that each protocol version understands (core-protocol 4.2, 4.10), in both directions. Does not
depend on the receiver, and not on which news counts.
"""

from __future__ import annotations

from embedclient.model import TransportConfiguration
from embedclient.wire.core import (
    ClusterTopology,
    ClusterTopologyV2,
    ClusterTopologyV3,
    ClusterTopologyV4,
    NodeAnnounce,
    Packet,
)

from ._topology import Change, Member, MemberDown, MemberUp

__all__ = ["announced_member", "backup_announcement", "change_in", "live_announcement", "packet_for"]


def packet_for(change: Change, version: int, server_version: int) -> Packet:
    """Return a change for a subscriber of ``version``, from a broker of ``server_version``."""
    if isinstance(change, MemberDown):
        if version >= 122:
            return ClusterTopologyV2(True, change.node_id, change.event_id)
        return ClusterTopology(True, change.node_id)
    member, last = change.member, change.last
    node_id, event_id, live, backup = member.node_id, member.event_id, member.live, member.backup
    group, scale_down = member.backup_group_name, member.scale_down_group_name
    if version >= 131:
        return ClusterTopologyV4(False, node_id, event_id, live, backup, last, group, scale_down, server_version)
    if version >= 125:
        return ClusterTopologyV3(False, node_id, event_id, live, backup, last, group, scale_down)
    if version >= 122:
        return ClusterTopologyV2(False, node_id, event_id, live, backup, last, group)
    return ClusterTopology(False, node_id, live, backup, last)


def change_in(packet: Packet) -> Change | None:
    """Return the change in a topology packet; None for every other packet."""
    match packet:
        case ClusterTopology():
            event_id, group, scale_down = 0, None, None
        case ClusterTopologyV2():
            event_id, group, scale_down = packet.unique_event_id, packet.backup_group_name, None
        case ClusterTopologyV3() | ClusterTopologyV4():
            event_id, group, scale_down = (
                packet.unique_event_id,
                packet.backup_group_name,
                packet.scale_down_group_name,
            )
        case _:
            return None
    if packet.exit:
        return MemberDown(packet.node_id, event_id)
    member = Member(packet.node_id, event_id, packet.primary, packet.backup, group, scale_down)
    return MemberUp(member, packet.last)


def live_announcement(member: Member) -> NodeAnnounce:
    """Return the announcement of an active broker for another broker."""
    return NodeAnnounce(
        member.node_id,
        member.backup_group_name,
        False,
        member.event_id,
        member.live,
        member.backup,
        member.scale_down_group_name,
    )


def backup_announcement(
    node_id: str,
    connector: TransportConfiguration,
    backup_group_name: str | None,
    scale_down_group_name: str | None,
    now_ms: int,
) -> NodeAnnounce:
    """Return the announcement of a backup for an active broker, with its place.

    The scale-down group is None for a backup that serves when it takes over, and may be empty for one that scales down.
    """
    return NodeAnnounce(node_id, backup_group_name, True, now_ms, connector, None, scale_down_group_name)


def announced_member(packet: NodeAnnounce) -> Member:
    """Return the member that an active broker's announcement describes."""
    return Member(
        packet.node_id,
        packet.current_event_id,
        packet.connector,
        packet.backup_connector,
        packet.backup_group_name,
        packet.scale_down_group_name,
    )
