"""The connections that a step machine of a broker requests, and what their owners receive.

Responsible for the interfaces between an owner and the node that carries the connections. Does not depend on protocols.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..model import Instant, TransportConfiguration

__all__ = ["ConnectionDialer", "DialHandler", "Pipe"]


class Pipe(Protocol):
    """The output of a connection that this broker opened."""

    def write(self, frame: bytes) -> None:
        """Send bytes behind those of before."""

    def write_pieces(self, pieces: Sequence[bytes | bytearray]) -> object:
        """Send pieces that belong together."""

    def close(self, reason: str) -> None:
        """End the connection after what was written was handed over."""


class DialHandler(Protocol):
    """The owner of a requested connection, which receives all its events."""

    def opened(self, pipe: Pipe, now: Instant) -> None:
        """Handle the open connection."""

    def not_opened(self, reason: str, now: Instant) -> None:
        """Handle the failure of the request."""

    def receive(self, data: bytes, now: Instant) -> None:
        """Handle bytes of the peer."""

    def written(self, count: int, now: Instant) -> None:
        """Handle that the peer drained bytes."""

    def lost(self, reason: str, now: Instant) -> None:
        """Handle the end: the connection broke, or the peer closed it."""


class ConnectionDialer(Protocol):
    """Open connections on request."""

    def dial(self, caller: DialHandler, connector: TransportConfiguration, timeout_s: float) -> int:
        """Request a connection; return its number.

        Args:
            caller: Receives the events of the connection.
            connector: The place.
            timeout_s: The bound of the attempt, in seconds.
        """

    def hang_up(self, number: int) -> None:
        """Cancel the request for a connection."""
