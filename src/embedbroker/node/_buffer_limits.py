"""The memory of one kind that connections hold, against one limit for all of them.

Responsible for the sum, and for closing connections when it passes the limit: those that hold the most. Two kinds are
counted:

- Frames that have not come whole. A peer that announces 100 MiB and sends them byte by byte costs only what came. But
  many such peers add up, and the kernel's account does not contain their messages yet.
- Output that waits for peers to read it. Each connection has a limit, but one message goes to many subscribers.

Does not depend on frames and sockets.
"""

from __future__ import annotations

from embedbroker.protocols import CoreConnection

__all__ = ["BufferLimits"]


class BufferLimits:
    """Bytes by connection; most connections hold none and have no entry.

    ``limit_name`` is the name of the limit in the configuration; ``content`` describes the held memory in the log.
    """

    __slots__ = ("_by_connection", "_content", "_limit_bytes", "_limit_name", "total_bytes")

    def __init__(self, limit_bytes: int, limit_name: str, content: str) -> None:
        self.total_bytes = 0
        self._limit_bytes = limit_bytes
        self._limit_name = limit_name
        self._content = content
        self._by_connection: dict[CoreConnection, int] = {}

    def count(self, connection: CoreConnection, size: int) -> None:
        """Set the size that a connection holds now; beyond the limit, close the connections that hold the most."""
        by_connection = self._by_connection
        if not size and connection not in by_connection:
            return
        self.total_bytes += size - by_connection.pop(connection, 0)
        if size:
            by_connection[connection] = size
        while self.total_bytes > self._limit_bytes:
            greatest = max(by_connection, key=by_connection.__getitem__)
            held = self.forget(greatest)
            greatest.fail(
                f"it holds {held} bytes of {self._content}, and all connections more than "
                f"{self._limit_name} ({self._limit_bytes})"
            )

    def forget(self, connection: CoreConnection) -> int:
        """Remove a connection; return the size that it held."""
        held = self._by_connection.pop(connection, 0)
        self.total_bytes -= held
        return held
