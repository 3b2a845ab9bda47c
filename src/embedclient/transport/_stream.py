"""The contract of a byte pipe: the two protocols that every transport implements, and the single error they raise.

Does not depend on any concrete transport. A pipe never buffers by itself. `send_nowait` returns how much the operating
system (or the peer's memory buffer) took. The owner keeps the rest and offers the same bytes again. So TLS can sit
between an owner and a pipe as a pair of memory buffers without any waiting inside it.
"""

from __future__ import annotations

from typing import Protocol

Buffer = bytes | bytearray | memoryview


class TransportLost(ConnectionError):
    """The pipe cannot carry bytes any more; `reason` is a text that names which end closed it, or why it broke."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ByteStream(Protocol):
    """An ordered, reliable pipe of bytes both ways. At most one task receives and one task waits to write at a time."""

    peer: str

    def send_nowait(self, data: Buffer) -> int:
        """Hand over as many bytes as fit now and return how many were taken; 0 means the pipe is full.

        Raises:
            TransportLost: the pipe is closed or broken.
        """

    async def wait_writable(self) -> None:
        """Return when `send_nowait` is worth another try (also when it would raise)."""

    async def receive(self, max_bytes: int) -> bytes:
        """Return between 1 and `max_bytes` bytes, or `b""` once the peer closed in an orderly way.

        Cancelling never loses bytes.

        Raises:
            TransportLost: the pipe is closed here or broken.
        """

    def close(self) -> None:
        """Close both directions at once. A second close has no effect; a pending `receive` raises TransportLost."""


class Listener(Protocol):
    """A local endpoint that peers connect to. `port` is 0 for transports that have none."""

    port: int
    address: str

    async def accept(self) -> ByteStream:
        """Wait for the next peer.

        Raises:
            TransportLost: the listener was closed.
        """

    def close(self) -> None:
        """Stop listening at once. Accepted pipes stay open."""
