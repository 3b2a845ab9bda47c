"""The far end of a connection that a broker accepted, for what is above the connection: services and the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from embedclient.wire.core import Packet

__all__ = ["Peer"]


class Peer(Protocol):
    """Another broker, or a client, at the far end of an accepted connection. On one that is gone, output is dropped."""

    @property
    def version(self) -> int:
        """Return the protocol version that both ends use, 0 while the peer's is unknown."""

    @property
    def name(self) -> str:
        """Return the address of the peer, for the operator."""

    def send(self, packet: Packet, channel_id: int) -> None:
        """Send a packet that belongs to no session."""

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> None:
        """Send whole frames that are already encoded."""

    def fail(self, reason: str) -> None:
        """End the connection because of an action or an omission of the peer."""
