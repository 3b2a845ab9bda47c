"""CORE protocol state machines: one connection, confirmation numbering of a channel, and the peer's count of it."""

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

__all__ = [
    "CHANNEL_PING",
    "CHANNEL_SESSION",
    "CHANNEL_USER_FIRST",
    "RESEND_BYTES_MAX",
    "AnyDisconnect",
    "Channel",
    "ChannelReceiver",
    "ConnectionState",
    "Peer",
    "PeerCount",
    "Role",
]
