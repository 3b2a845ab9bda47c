"""The channels of the connections in a cluster, accepted or dialled."""

from __future__ import annotations

from collections.abc import Callable

from embedclient.wire.core import Packet

__all__ = ["CONTROL_CHANNEL", "PING_CHANNEL", "STREAM_CHANNEL", "Send"]

# The channels that two brokers use beside each other on one connection (core-protocol 1.4).
PING_CHANNEL, STREAM_CHANNEL, CONTROL_CHANNEL = 0, 2, 3

#: Sends a packet on a channel of a connection, accepted or dialled.
Send = Callable[[Packet, int], None]
