"""Stored CORE messages with a large body: headers and properties are in the stored bytes, the body is elsewhere.

Responsible for the properties of such a message, and for its headers as clients receive them. The encoded bytes are
those of SESS_SEND_LARGE; address, id, priority and expiration in them may be outdated, since those of the stored
message count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from embedbroker.kernel import Body, StoredMessage
from embedclient.model import Encoding, Origin, PropertyValue
from embedclient.wire.core import CoreMessage

__all__ = ["LARGE_CORE", "header_of", "large_message"]


class LargeCoreCodec:
    """The codec of these messages."""

    encoding: Final = int(Encoding.CORE_LARGE)

    def user_id(self, message: StoredMessage) -> bytes | str | None:
        return _decoded(message).user_id

    def group_id(self, message: StoredMessage) -> PropertyValue:
        return _decoded(message).group_id

    def duplicate_id(self, message: StoredMessage) -> bytes | None:
        return _decoded(message).duplicate_id

    def is_to_temporary(self, message: StoredMessage) -> bool:
        return _decoded(message).is_to_temporary

    def property(self, message: StoredMessage, name: str) -> PropertyValue:
        return _decoded(message).property(name)

    def annotated(self, message: StoredMessage, origin: Origin) -> bytes:
        return bytes(_decoded(message).annotate(origin, message.address).header)

    def changed(
        self,
        message: StoredMessage,
        routing_type: int | None,
        changes: Mapping[str, PropertyValue],
        removals: Collection[str],
    ) -> bytes:
        return bytes(_decoded(message).with_changes(message.address, routing_type, changes, removals).header)

    def with_property(self, message: StoredMessage, name: str, value: PropertyValue) -> bytes:
        return bytes(_decoded(message).with_property(name, value).header)

    def with_route(self, message: StoredMessage, queue_name: str, queue_ids: bytes) -> bytes:
        return bytes(_decoded(message).with_route(queue_name, queue_ids).header)

    def to_core(self, message: StoredMessage, body: bytes) -> CoreMessage:
        """Return headers and properties, with this body: listings of messages leave large bodies out."""
        header = header_of(message)
        return header.with_body(body) if body else header


LARGE_CORE: Final = LargeCoreCodec()


def large_message(header: CoreMessage, body: Body) -> StoredMessage:
    """Return the stored form of a message whose body is in the store of large bodies."""
    return StoredMessage(
        LARGE_CORE,
        header.header,
        address=header.address,
        durable=header.durable,
        priority=header.priority,
        expiration=header.expiration,
        timestamp=header.timestamp,
        body=body,
        deliver_at=header.deliver_at,
        is_directed=header.is_directed,
    )


def header_of(message: StoredMessage) -> CoreMessage:
    """Return headers and properties as a client receives them, with an empty body."""
    header = CoreMessage.parse_header(message.content)
    stated = header.address, header.expiration, header.priority
    if stated != (message.address, message.expiration, message.priority):
        header = header.copy_to(message.address, message.priority, message.expiration)
    header.assign_id(message.message_id)
    return header


def _decoded(message: StoredMessage) -> CoreMessage:
    header = message.decoded
    if not isinstance(header, CoreMessage):
        header = message.decoded = CoreMessage.parse_header(message.content)
    return header
