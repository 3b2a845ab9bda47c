"""Which codec restores a stored message.

Bytes of the CORE encoding are the message as it arrived. Another encoding has a header in front; see `StoredMessage`.
"""

from __future__ import annotations

from typing import Final

from embedbroker.kernel import Codec, Message, RouteCopier, StoredMessage, copiers_by
from embedclient.model import Encoding
from embedclient.wire.core import CoreMessage, RouteAppender

from ._large_codec import LARGE_CORE

__all__ = ["CODECS", "restore_message", "route_copier"]

CODECS: Final[dict[int, Codec]] = {LARGE_CORE.encoding: LARGE_CORE}
"""Codecs of the encodings other than CORE, by their numbers."""

_CORE: Final = int(Encoding.CORE)


def restore_message(encoding: int, stored: bytes | bytearray) -> Message:
    """Build a message from its encoding tag and its stored bytes, which are copied unless they can be patched."""
    if encoding == _CORE:
        return CoreMessage.parse(stored if isinstance(stored, bytearray) else bytearray(stored))
    assert encoding in CODECS, encoding
    return StoredMessage.restore(CODECS[encoding], stored)


def route_copier(queue_name: str, queue_ids: bytes) -> RouteCopier:
    """Return what builds copies for a store-and-forward queue, as `Message.with_route`, from stored bytes."""
    core_copy = RouteAppender(queue_name, queue_ids).copy
    others = copiers_by(restore_message)(queue_name, queue_ids)

    def copy(encoding: int, stored: bytes | bytearray, message_id: int) -> Message | None:
        return core_copy(stored, message_id) if encoding == _CORE else others(encoding, stored, message_id)

    return copy
