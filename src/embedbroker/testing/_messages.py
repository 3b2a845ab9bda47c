"""Messages of simulated users: built from a plan, recognised and verified when they come back.

Every message carries its ledger key, and a body that follows from the key, so that bytes of one message never pass for
another's. The codec decides how messages are encoded.
"""

from __future__ import annotations

from attrs import frozen

from embedclient.model import Properties, PropertyType, RoutingType
from embedclient.wire.core import CoreMessage, MessageType

#: Bodies from this size on go with their size, so that a part of one does not pass for the whole.
_SIZED_FROM = 300

__all__ = ["COLORS", "Letter", "key_of", "selector_of"]

COLORS = ("red", "green", "blue")


@frozen
class Letter:
    """The plan of one simulated message. ``expiration`` and ``deliver_at`` are wall time in milliseconds, 0 for none.

    ``group`` is its message group, empty for none. A ``routing_type`` selects what is created for it where nothing is.
    """

    key: str
    address: str
    color: str = "red"
    priority: int = 4
    durable: bool = True
    expiration: int = 0
    size: int = 32
    routing_type: RoutingType | None = None
    deliver_at: int = 0
    group: str = ""

    def build(self, wall_ms: int) -> CoreMessage:
        """Return the message to send; a new one each time, because a send takes it over."""
        properties = Properties()
        properties["key"] = self.key
        properties["color"] = self.color
        if self.size >= _SIZED_FROM:
            properties["size"] = self.size
        if self.routing_type is not None:
            properties.set("_AMQ_ROUTING_TYPE", int(self.routing_type), PropertyType.BYTE)
        if self.deliver_at:
            properties["_AMQ_SCHED_DELIVERY"] = self.deliver_at
        if self.group:
            properties["_AMQ_GROUP_ID"] = self.group
        return CoreMessage.build(
            type=MessageType.BYTES,
            address=self.address,
            durable=self.durable,
            priority=self.priority,
            timestamp=wall_ms,
            expiration=self.expiration,
            properties=properties,
            body=_body(self.key, self.size),
        )


def key_of(message: CoreMessage) -> str:
    """Return the ledger key of a received message; assert that its body is the one it was sent with."""
    key = message.property("key")
    assert isinstance(key, str), f"a message without a key: {message!r}"
    body = bytes(message.body)
    assert body == _body(key, len(body)), f"the body of {key} was changed on its way"
    size = message.property("size")
    assert size is None or size == len(body), f"the body of {key} has {len(body)} of {size!r} bytes"
    return key


def selector_of(color: str) -> str:
    """Return a filter that takes one color."""
    return f"color = '{color}'"


def _body(key: str, size: int) -> bytes:
    pattern = key.encode() + b"|"
    return (pattern * (size // len(pattern) + 1))[:size]
