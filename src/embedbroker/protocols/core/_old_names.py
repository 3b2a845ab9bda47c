"""Names as clients before release 2.0 write them: ``jms.queue.NAME`` and ``jms.topic.NAME`` stand for ``NAME``.

Responsible for removing these prefixes from what such a client sends, and for the routing type that they imply. Also
responsible for adding them to what the client gets (core-protocol 9.6). Temporary destinations keep theirs, which are
part of their names. Does not depend on sessions and queues.
"""

from __future__ import annotations

from embedclient.model import RoutingType
from embedclient.wire.core import (
    CoreMessage,
    CreateSharedQueue,
    DeleteQueue,
    Packet,
    SessionCreateConsumer,
    SessionQueueQuery,
)

__all__ = [
    "MODERN_NAMES_SINCE",
    "old_message",
    "old_name",
    "plain_message",
    "plain_name",
    "plain_packet",
    "prefix_of",
    "stated_routing_type",
]

MODERN_NAMES_SINCE = 129

_QUEUE, _TOPIC = "jms.queue.", "jms.topic."
_TEMPORARY_QUEUE, _TEMPORARY_TOPIC = "jms.tempqueue.", "jms.temptopic."


def prefix_of(name: str) -> str:
    """Return the prefix that is not a part of the name, or an empty text."""
    return next((prefix for prefix in (_QUEUE, _TOPIC) if name.startswith(prefix)), "")


def plain_name(name: str) -> str:
    """Return the name that present clients use."""
    return name[len(prefix_of(name)) :]


def stated_routing_type(name: str) -> int | None:
    """Return the routing type that the name implies, None if it implies none."""
    if name.startswith((_QUEUE, _TEMPORARY_QUEUE)):
        return RoutingType.ANYCAST
    return RoutingType.MULTICAST if name.startswith((_TOPIC, _TEMPORARY_TOPIC)) else None


def old_name(name: str, routing_type: int) -> str:
    """Return the name that an old client expects."""
    if name.startswith((_TEMPORARY_QUEUE, _TEMPORARY_TOPIC)):
        return name
    return (_QUEUE if routing_type == RoutingType.ANYCAST else _TOPIC) + name


def plain_packet(packet: Packet) -> Packet:
    """Return a request of an old client with plain names, where the prefix decides nothing and no answer repeats it."""
    match packet:
        case CreateSharedQueue():
            return packet.replace(address=plain_name(packet.address), queue_name=plain_name(packet.queue_name))
        case DeleteQueue() | SessionQueueQuery() | SessionCreateConsumer():
            return packet.replace(queue_name=plain_name(packet.queue_name))
    return packet


def plain_message(message: CoreMessage) -> CoreMessage:
    """Return a sent message with its plain address."""
    if not prefix_of(message.address):
        return message
    return message.copy_for(plain_name(message.address), changes={}, removals=(), expiration=message.expiration)


def old_message(message: CoreMessage, routing_type: int) -> CoreMessage:
    """Return a copy of a stored message as an old client reads it. The stored message is not changed."""
    address = old_name(message.address, routing_type)
    copy = message.copy_for(address, changes={}, removals=(), expiration=message.expiration)
    copy.assign_id(message.message_id)
    return copy
