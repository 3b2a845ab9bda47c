"""CORE protocol state machines: a connection, the numbering of a channel, the peer's count of it, discovery."""

from typing import TYPE_CHECKING

from embedclient._lazy import lazy_names

from ._channel import RESEND_BYTES_MAX, Channel, ChannelReceiver
from ._connection import (
    CHANNEL_PING,
    CHANNEL_SESSION,
    CHANNEL_USER_FIRST,
    AnyDisconnect,
    ConnectionState,
    Role,
)
from ._peer import Peer
from ._peer_count import PeerCount

if TYPE_CHECKING:
    from ._discovery import (
        BroadcastGroup,
        DiscoveryChange,
        DiscoveryEntry,
        DiscoveryGroup,
        EntryAdded,
        EntryExpired,
        EntryReplaced,
        NodeIdShared,
        announced_entry,
    )

__all__ = [
    "CHANNEL_PING",
    "CHANNEL_SESSION",
    "CHANNEL_USER_FIRST",
    "RESEND_BYTES_MAX",
    "AnyDisconnect",
    "BroadcastGroup",
    "Channel",
    "ChannelReceiver",
    "ConnectionState",
    "DiscoveryChange",
    "DiscoveryEntry",
    "DiscoveryGroup",
    "EntryAdded",
    "EntryExpired",
    "EntryReplaced",
    "NodeIdShared",
    "Peer",
    "PeerCount",
    "Role",
    "announced_entry",
]

__getattr__ = lazy_names(
    __name__,
    {
        "._discovery": "BroadcastGroup DiscoveryChange DiscoveryEntry DiscoveryGroup EntryAdded EntryExpired "
        "EntryReplaced NodeIdShared announced_entry",
    },
)
