"""A broker in its cluster: the members, and the control channel between brokers."""

from embedclient.wire.core import enclose

from ._control_link import ControlLink, LinkEnd, LinkState, where
from ._discovery import Discovery, DiscoveryLog
from ._foreign_backups import refuse_foreign_backups
from ._grouping import TRIES_MAX, GroupingOwner, LocalGrouping, RemoteGrouping
from ._inbound import InboundPeer, InboundPeers
from ._membership import Membership
from ._notification_queue import notification_filter, notification_queue_name, session_filter, snapshot_request
from ._outbound import OutboundPeer
from ._peer import CONTROL_CHANNEL, PING_CHANNEL, STREAM_CHANNEL, Send
from ._remote_bindings import (
    BindingAdded,
    BindingChange,
    BindingConnected,
    BindingDisconnected,
    BindingRemoved,
    BindingUpdated,
    ConsumerClosed,
    ConsumerCreated,
    RemoteBindings,
    SessionCreated,
)
from ._topology import Change, Listener, Member, MemberDown, MemberUp, NewsResult, Topology

__all__ = [
    "CONTROL_CHANNEL",
    "PING_CHANNEL",
    "STREAM_CHANNEL",
    "TRIES_MAX",
    "BindingAdded",
    "BindingChange",
    "BindingConnected",
    "BindingDisconnected",
    "BindingRemoved",
    "BindingUpdated",
    "Change",
    "ConsumerClosed",
    "ConsumerCreated",
    "ControlLink",
    "Discovery",
    "DiscoveryLog",
    "GroupingOwner",
    "InboundPeer",
    "InboundPeers",
    "LinkEnd",
    "LinkState",
    "Listener",
    "LocalGrouping",
    "Member",
    "MemberDown",
    "MemberUp",
    "Membership",
    "NewsResult",
    "OutboundPeer",
    "RemoteBindings",
    "RemoteGrouping",
    "Send",
    "SessionCreated",
    "Topology",
    "enclose",
    "notification_filter",
    "notification_queue_name",
    "refuse_foreign_backups",
    "session_filter",
    "snapshot_request",
    "where",
]
