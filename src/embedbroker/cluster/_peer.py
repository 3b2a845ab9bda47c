"""The ends of connections as the cluster sees them, whoever opened them.

Responsible for saying what is asked of a connection that a broker accepted, and of the pipe under one that it opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from embedclient.wire.core import Packet

__all__ = ["CONTROL_CHANNEL", "PING_CHANNEL", "STREAM_CHANNEL", "FrameReceiver", "Peer", "Pipe", "Send"]

# What two brokers use beside each other on one connection (core-protocol 1.4).
PING_CHANNEL, STREAM_CHANNEL, CONTROL_CHANNEL = 0, 2, 3

#: Takes one frame of the stream channel: packet type, buffer, start, end.
FrameReceiver = Callable[[int, bytes | bytearray, int, int], None]
#: Sends a packet on a channel of a connection, whoever opened that.
Send = Callable[[Packet, int], None]


class Peer(Protocol):
    """Another broker, or a client, at the far end of a connection."""

    @property
    def version(self) -> int:
        """The protocol version the peer told, 0 before it did."""

    @property
    def name(self) -> str:
        """Where it is, for the operator."""

    def send(self, packet: Packet, channel_id: int) -> None:
        """Send a packet; on a connection that is gone it goes nowhere."""

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> None:
        """Send whole frames of the stream channel; on a connection that is gone they go nowhere."""

    def fail(self, reason: str) -> None:
        """End the connection because of what the peer did."""


class Pipe(Protocol):
    """Where bytes of a connection that this broker opened go."""

    def write(self, frame: bytes) -> None:
        """Send bytes behind those of before."""

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> object:
        """Send what belongs together."""

    def close(self, reason: str) -> None:
        """End the connection after what was written was handed over."""
