"""Prefixes of addresses that the acceptor is configured with, such as ``jms.queue.``: they stand for a routing type.

Responsible for removing them from what clients send, and for the routing type that they imply. What clients get has no
prefix, except the answer to a request for credit. The prefixes of clients before release 2.0 are in `_old_names`. Does
not depend on sessions and queues.
"""

from __future__ import annotations

from collections.abc import Sequence

from embedclient.model import RoutingType
from embedclient.wire.core import (
    CoreMessage,
    CreateAddress,
    CreateQueueV2,
    CreateSharedQueueV2,
    DeleteQueue,
    Packet,
    SessionCreateConsumer,
    SessionQueueQuery,
)

__all__ = ["AddressPrefixes"]


class AddressPrefixes:
    """The prefixes of one broker. Of two that fit, the longer one counts."""

    def __init__(self, anycast: Sequence[str], multicast: Sequence[str]) -> None:
        pairs = [(prefix, RoutingType.ANYCAST) for prefix in anycast]
        pairs += [(prefix, RoutingType.MULTICAST) for prefix in multicast]
        self._pairs = sorted(pairs, key=lambda pair: -len(pair[0]))

    def split(self, name: str) -> tuple[str, int | None]:
        """Return a name without its prefix, and the routing type of the prefix; None without one."""
        for prefix, routing_type in self._pairs:
            if name.startswith(prefix):
                return name[len(prefix) :], routing_type
        return name, None

    def plain_message(self, message: CoreMessage) -> tuple[CoreMessage, int | None]:
        """Return a sent message with its plain address, and the routing type of the prefix."""
        name, routing_type = self.split(message.address)
        if routing_type is None:
            return message, None
        return message.copy_for(name, changes={}, removals=(), expiration=message.expiration), routing_type

    def plain_packet(self, packet: Packet) -> Packet:
        """Return a request with plain names, and with the routing type of the prefix."""
        match packet:
            case CreateQueueV2() | CreateSharedQueueV2():
                address, routing_type = self.split(packet.address)
                return packet.replace(
                    address=address,
                    queue_name=self.split(packet.queue_name)[0],
                    routing_type=packet.routing_type if routing_type is None else int(routing_type),
                )
            case CreateAddress():
                address, routing_type = self.split(packet.address)
                types = packet.routing_types if routing_type is None else (int(routing_type),)
                return packet.replace(address=address, routing_types=types)
            case DeleteQueue() | SessionQueueQuery() | SessionCreateConsumer():
                return packet.replace(queue_name=self.split(packet.queue_name)[0])
        return packet
