"""What connections hold of one kind of memory, against one limit for all of them.

Responsible for the sum, and for who is given up when it is passed: whoever holds the most. Two kinds are counted:

- Frames that have not come whole. A peer that promises 100 MiB and sends them byte by byte is only as expensive as what
  came, but many such peers add up, and no message of theirs is in the account of the kernel yet.
- Output that waits for peers to read it. Each has a limit of its own, but one message goes to many subscribers.

Refuses to know frames and sockets.
"""

from __future__ import annotations

from embedbroker.protocols import CoreConnection

__all__ = ["BufferLimits"]


class BufferLimits:
    """Bytes by connection; most have none and are not in here.

    ``limit_name`` is that of the configuration, ``content`` says in the log what is held.
    """

    __slots__ = ("_by_connection", "_content", "_limit_bytes", "_limit_name", "total_bytes")

    def __init__(self, limit_bytes: int, limit_name: str, content: str) -> None:
        self.total_bytes = 0
        self._limit_bytes = limit_bytes
        self._limit_name = limit_name
        self._content = content
        self._by_connection: dict[CoreConnection, int] = {}

    def count(self, connection: CoreConnection, size: int) -> None:
        """A connection holds so much now; beyond the limit, those that hold the most are closed."""
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
        """A connection is gone; returns what it held."""
        held = self._by_connection.pop(connection, 0)
        self.total_bytes -= held
        return held
