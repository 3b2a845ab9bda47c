"""What the properties of a message say to the broker when it arrives, found out once per kind of message.

Responsible for the routing type, for the duplicate id, for features that are not there yet, and for letting no message
in whose properties do not decode: that would be found out in front of a consumer, who is not to blame. Refuses to know
sessions and replies.

Producers send the same properties again and again with other values (a counter, a time). So what is known of a message
holds for the next one whose bytes agree everywhere but in those values: names, types and sizes are the same. That
comparison is two operations on integers, cheaper than looking for one property.
"""

from __future__ import annotations

from embedclient.model import PropertyType
from embedclient.wire.core import CoreMessage

__all__ = ["Arrival", "study"]

_ROUTING_TYPE = "_AMQ_ROUTING_TYPE"
_SCHEDULED = "_AMQ_SCHED_DELIVERY"
_DUPLICATE_ID = "_AMQ_DUPL_ID"
_GROUP_ID = "_AMQ_GROUP_ID"
# Values that decide something: with another value it is another kind of message.
_DECISIVE = frozenset((_ROUTING_TYPE, _SCHEDULED))
# Beyond this, comparing costs more than it saves.
_BLOCK_BYTES_MAX = 4096


class Arrival:
    """What is known of one kind of message. ``size`` is that of its properties, -1 where nothing is like it."""

    __slots__ = (
        "asks_for_more",
        "duplicate_id_at",
        "has_group",
        "mask",
        "pattern",
        "routing_type",
        "scheduled_ms",
        "size",
    )

    def __init__(self) -> None:
        self.size = -1
        self.mask = 0
        self.pattern = 0
        self.routing_type: int | None = None
        # Wall time before which the message is not to be delivered; 0 for none.
        self.scheduled_ms = 0
        self.has_group = False
        # Whether it asks for a feature that does not exist yet: one look for all of them.
        self.asks_for_more = False
        # Where the duplicate id stands in the properties; text is compared by its bytes.
        self.duplicate_id_at: slice | None = None

    def covers(self, block: bytes | bytearray) -> bool:
        """Whether a message with these properties is of this kind."""
        return len(block) == self.size and int.from_bytes(block, "big") & self.mask == self.pattern


def study(message: CoreMessage) -> Arrival:
    """Look at the properties of a message. Raises RemoteProtocolError when they are malformed."""
    arrival = Arrival()
    spans = message.property_spans()
    start = message.properties_at
    block = message.raw[start:]
    if len(block) <= _BLOCK_BYTES_MAX:
        mask = bytearray(b"\xff" * len(block))
        for name, _tag, value_at, value_end in spans:
            if name not in _DECISIVE:
                mask[value_at - start : value_end - start] = bytes(value_end - value_at)
        arrival.size = len(block)
        arrival.mask = int.from_bytes(mask, "big")
        arrival.pattern = int.from_bytes(block, "big") & arrival.mask
    for name, tag, value_at, value_end in spans:
        if name == _ROUTING_TYPE and tag == PropertyType.BYTE:
            arrival.routing_type = int.from_bytes(message.raw[value_at : value_at + 1], "big", signed=True)
        elif name == _SCHEDULED:
            due = message.property(_SCHEDULED)
            arrival.scheduled_ms = due if isinstance(due, int) and not isinstance(due, bool) else 0
        elif name == _GROUP_ID:
            arrival.has_group = True
        elif name == _DUPLICATE_ID and tag in (PropertyType.STRING, PropertyType.BYTES):
            arrival.duplicate_id_at = slice(value_at - start, value_end - start)
    arrival.asks_for_more = arrival.has_group or arrival.scheduled_ms > 0
    return arrival
