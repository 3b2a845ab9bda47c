"""The ends of connections in a cluster, accepted or dialled.

Responsible for the interfaces of a connection that a broker accepted, and of the pipe under one that it opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from embedclient.wire.core import Packet

__all__ = ["CONTROL_CHANNEL", "PING_CHANNEL", "STREAM_CHANNEL", "Peer", "Pipe", "Send"]

# The channels that two brokers use beside each other on one connection (core-protocol 1.4).
PING_CHANNEL, STREAM_CHANNEL, CONTROL_CHANNEL = 0, 2, 3

#: Sends a packet on a channel of a connection, accepted or dialled.
Send = Callable[[Packet, int], None]


class Peer(Protocol):
    """Another broker, or a client, at the far end of a connection."""

    @property
    def version(self) -> int:
        """Return the protocol version that the peer sent, 0 before that."""

    @property
    def name(self) -> str:
        """Return where the peer is, for the operator."""

    def send(self, packet: Packet, channel_id: int) -> None:
        """Send a packet; on a connection that is gone it goes nowhere."""

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> None:
        """Send whole frames of the stream channel; on a connection that is gone they go nowhere."""

    def fail(self, reason: str) -> None:
        """End the connection because of what the peer did."""


class Pipe(Protocol):
    """The output of a connection that this broker opened."""

    def write(self, frame: bytes) -> None:
        """Send bytes behind those of before."""

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> object:
        """Send pieces that belong together."""

    def close(self, reason: str) -> None:
        """End the connection after what was written was handed over."""
