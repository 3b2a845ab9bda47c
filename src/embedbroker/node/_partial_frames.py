"""What connections hold of frames that have not come whole, against one limit.

Responsible for the sum, and for who is given up when it is passed: whoever holds the most. A peer that promises 100 MiB
and sends them byte by byte is only as expensive as what came, but many such peers add up, and no message of theirs is
in the account of the kernel yet. Refuses to know frames.
"""

from __future__ import annotations

from embedbroker.protocols import CoreConnection

__all__ = ["PartialFrames"]


class PartialFrames:
    """Bytes by connection; most have none and are not in here."""

    __slots__ = ("_by_connection", "limit_bytes", "total_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.total_bytes = 0
        self._by_connection: dict[CoreConnection, int] = {}

    def count(self, connection: CoreConnection, size: int) -> None:
        """A connection holds so much now; beyond the limit, those that hold the most are closed."""
        by_connection = self._by_connection
        if not size and connection not in by_connection:
            return
        self.total_bytes += size - by_connection.pop(connection, 0)
        if size:
            by_connection[connection] = size
        while self.total_bytes > self.limit_bytes:
            greatest = max(by_connection, key=by_connection.__getitem__)
            held = self.forget(greatest)
            greatest.fail(
                f"it holds {held} bytes of a frame that is not whole, and all such frames take more than "
                f"partial_frames_bytes_max ({self.limit_bytes})"
            )

    def forget(self, connection: CoreConnection) -> int:
        """A connection is gone; returns what it held."""
        held = self._by_connection.pop(connection, 0)
        self.total_bytes -= held
        return held
