"""Large messages as they arrive: headers first, then the body in chunks (core-protocol 4.7, 5.6).

Responsible for putting one back together. Refuses to know consumers, credits (every chunk is charged to the window by
the consumer) and compression (bodies are inflated where they are decoded, because small ones come compressed too).
"""

from struct import Struct
from typing import Final

from embedclient.errors import RemoteProtocolError
from embedclient.wire.core import CoreMessage

_END_OF_BODY: Final = Struct(">i")
_BODY_OFFSET: Final = 13


class LargeDelivery:
    """A large message on its way in."""

    __slots__ = ("_body", "_bytes_max", "delivery_count", "frame_size", "message")

    def __init__(self, message: CoreMessage, delivery_count: int, frame_size: int, bytes_max: int) -> None:
        self.message = message
        self.delivery_count = delivery_count
        self.frame_size = frame_size
        self._bytes_max = bytes_max
        self._body = bytearray()

    def add(self, chunk: bytes) -> None:
        """Raises RemoteProtocolError when the body exceeds what this side is ready to hold."""
        if len(self._body) + len(chunk) > self._bytes_max:
            raise RemoteProtocolError(f"a large message of more than {self._bytes_max} bytes")
        self._body += chunk

    def finish(self) -> CoreMessage:
        """The message with its body. Raises RemoteProtocolError."""
        return with_body(self.message, self._body)


def with_body(message: CoreMessage, body: bytes | bytearray | memoryview) -> CoreMessage:
    """The message with another body. Raises RemoteProtocolError."""
    raw = bytearray(_END_OF_BODY.pack(_BODY_OFFSET + len(body)))
    raw += body
    raw += message.header
    return CoreMessage.parse(raw)
