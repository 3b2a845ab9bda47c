"""Which codec restores a stored message.

Bytes of the CORE encoding are the message as it arrived. Another encoding has a header in front; see `StoredMessage`.
"""

from __future__ import annotations

from embedbroker.kernel import Message
from embedclient.model import Encoding
from embedclient.wire.core import CoreMessage

__all__ = ["restore_message"]


def restore_message(encoding: int, stored: bytes | bytearray) -> Message:
    """Build a message from its encoding tag and its stored bytes, which are copied unless they can be patched."""
    assert encoding == Encoding.CORE, encoding
    return CoreMessage.parse(stored if isinstance(stored, bytearray) else bytearray(stored))
