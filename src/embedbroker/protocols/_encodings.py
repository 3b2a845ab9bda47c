"""Which codec restores a stored message."""

from __future__ import annotations

from embedclient.model import Encoding, Message
from embedclient.wire.core import CoreMessage

__all__ = ["restore_message"]


def restore_message(encoding: int, raw: bytes | bytearray) -> Message:
    """Build a message from its encoding tag and its bytes, which are copied unless they can be patched in place."""
    assert encoding == Encoding.CORE, encoding
    return CoreMessage.parse(raw if isinstance(raw, bytearray) else bytearray(raw))
