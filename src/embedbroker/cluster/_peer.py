"""The ends of connections in a cluster, accepted or dialled.

Responsible for their channels, and for the interface of the pipe under a connection that a broker opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from embedclient.wire.core import Packet

__all__ = ["CONTROL_CHANNEL", "PING_CHANNEL", "STREAM_CHANNEL", "Pipe", "Send"]

# The channels that two brokers use beside each other on one connection (core-protocol 1.4).
PING_CHANNEL, STREAM_CHANNEL, CONTROL_CHANNEL = 0, 2, 3

#: Sends a packet on a channel of a connection, accepted or dialled.
Send = Callable[[Packet, int], None]


class Pipe(Protocol):
    """The output of a connection that this broker opened."""

    def write(self, frame: bytes) -> None:
        """Send bytes behind those of before."""

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> object:
        """Send pieces that belong together."""

    def close(self, reason: str) -> None:
        """End the connection after what was written was handed over."""
