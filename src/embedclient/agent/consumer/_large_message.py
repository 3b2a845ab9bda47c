"""Large messages as they arrive: headers first, then the body in chunks (core-protocol 4.7, 5.6).

Responsible for reassembly. Does not depend on consumers, credits or compression. The consumer charges every chunk to
the window. Bodies are inflated where they are decoded, because small ones come compressed too.
"""

from struct import Struct
from typing import Final

from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import CoreMessage

_END_OF_BODY: Final = Struct(">i")
_BODY_OFFSET: Final = 13


class LargeDelivery:
    """An incoming large message."""

    __slots__ = ("_body", "_bytes_max", "delivery_count", "frame_size", "message")

    def __init__(self, message: CoreMessage, delivery_count: int, frame_size: int, bytes_max: int) -> None:
        self.message = message
        self.delivery_count = delivery_count
        self.frame_size = frame_size
        self._bytes_max = bytes_max
        self._body = bytearray()

    def add(self, chunk: bytes) -> None:
        """Add one chunk. Raise RemoteProtocolError if the body exceeds the limit of this side."""
        if len(self._body) + len(chunk) > self._bytes_max:
            raise RemoteProtocolError(f"a large message of more than {self._bytes_max} bytes")
        self._body += chunk

    def finish(self) -> CoreMessage:
        """Return the message with its body. Raise RemoteProtocolError."""
        return with_body(self.message, self._body)


def with_body(message: CoreMessage, body: bytes | bytearray | memoryview) -> CoreMessage:
    """Return the message with another body. Raise RemoteProtocolError."""
    raw = bytearray(_END_OF_BODY.pack(_BODY_OFFSET + len(body)))
    raw += body
    raw += message.header
    return CoreMessage.parse(raw)
