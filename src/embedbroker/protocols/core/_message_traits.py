"""Traits of a message that its properties determine at its arrival, computed once per kind of message.

Responsible for the routing type, the duplicate id, and the time of scheduled messages. Also responsible for refusing a
message whose properties do not decode: otherwise the fault would appear at a consumer, which is not to blame. Does not
depend on sessions and replies.

Producers send the same properties repeatedly with other values (a counter, a time). So the traits of a message hold for
the next one whose bytes agree everywhere but in those values: names, types and sizes are the same. Mostly one value
differs, or none: then the bytes before it and behind it are compared unchanged. Otherwise all values are masked, in two
operations on integers, which is still cheaper than looking for one property.
"""

from __future__ import annotations

from functools import lru_cache
from struct import unpack

from embedbroker.kernel import BRIDGE_ID_PREFIX
from embedclient.model import PropertyType, PropertyValue
from embedclient.wire.core import ROUTE_TO, BridgedReader, CoreMessage, property_key

__all__ = [
    "MessageTraits",
    "acknowledged_queues",
    "from_bridge",
    "queues_of_others",
    "route_ids",
    "traits_of",
    "with_bridge_id",
]

_ROUTING_TYPE = "_AMQ_ROUTING_TYPE"
_SCHEDULED = "_AMQ_SCHED_DELIVERY"
_DUPLICATE_ID = "_AMQ_DUPL_ID"
_BRIDGE_DUPLICATE_ID = "_AMQ_BRIDGE_DUP"
# Properties of messages in store-and-forward queues: only the broker itself writes them there.
_INTERNAL_PREFIXES = (ROUTE_TO, "_AMQ_ACK_ROUTE_TO")
# Queues of a third broker that a message is for, which a broker that scales down had for it; and that broker.
_SCALE_DOWN_TO = "_AMQ_SCALEDOWN_TO"
_SCALE_DOWN_NODE = "_AMQ_SCALEDOWN_NODE"
_OF_BRIDGES = frozenset((_BRIDGE_DUPLICATE_ID, _SCALE_DOWN_TO, _SCALE_DOWN_NODE))
# Queues where a prepared branch of a broker that scales down has acknowledged the message.
_ACKNOWLEDGED_AT = "_AMQ_ACK_ROUTE_TO"
# The name, the type, and the size of the value.
_BEFORE_BRIDGE_ID = len(property_key(_BRIDGE_DUPLICATE_ID)) + 1 + 4
_BEFORE_ROUTE_TO = len(property_key(ROUTE_TO)) + 1 + 4
_QUEUE_ID_BYTES = 8
# No address has so many queues. A longer list is not read, so that it cannot take much memory or a long step.
_QUEUE_IDS_MAX = 100_000
# Lists up to this size are read once.
_FEW_BYTES = 8 * _QUEUE_ID_BYTES
_GROUP_ID = "_AMQ_GROUP_ID"
_NO_QUEUES: frozenset[int] = frozenset()
# Values that decide something: with another value it is another kind of message.
_DECISIVE = frozenset((_ROUTING_TYPE, _SCHEDULED))
# Beyond this, comparing costs more than it saves.
_BLOCK_BYTES_MAX = 4096
_LONG_MAX = (1 << 63) - 1


class MessageTraits:
    """Hold the traits of one kind of message. ``size`` is that of its properties, -1 where nothing is like it."""

    __slots__ = (
        "_prefix",
        "_suffix",
        "_values",
        "bridge_entries",
        "bridged_reader",
        "duplicate_id_at",
        "group_at",
        "has_extras",
        "has_group",
        "is_acknowledged",
        "is_bridged",
        "is_for_others",
        "mask",
        "pattern",
        "route_to_at",
        "routing_type",
        "scheduled_ms",
        "size",
    )

    def __init__(self) -> None:
        self.size = -1
        self.mask = 0
        self.pattern = 0
        # At first all properties of the message that was studied; then what surrounds the value that differs.
        self._prefix = self._suffix = b""
        # Where the values stand that may differ; empty once the differing one is found.
        self._values: list[tuple[int, int]] = []
        self.routing_type: int | None = None
        # Wall time before which the message must not be delivered; 0 for none.
        self.scheduled_ms = 0
        self.has_group = False
        # Where the text of the group's id stands in the properties.
        self.group_at: slice | None = None
        # Whether it has a time, a group, or properties of a bridge: one look for all.
        self.has_extras = False
        # Whether a bridge sent it, with an id in the place of the client's, or with the queues that it is for. Also
        # True if it has properties that a sender must not give it.
        self.is_bridged = False
        # Whether a branch has acknowledged it at another broker.
        self.is_acknowledged = False
        # Whether a broker that scales down had it for a third broker.
        self.is_for_others = False
        # Where the duplicate id stands in the properties; text is compared by its bytes.
        self.duplicate_id_at: slice | None = None
        # Where the properties of a bridge stand, with their names, the last one first; empty if one is not as a bridge
        # sends it.
        self.bridge_entries: list[tuple[int, int]] = []
        # Where the ids of chosen queues stand.
        self.route_to_at: slice | None = None
        # Reads the messages of a bridge which differ in its id alone, once that is known.
        self.bridged_reader: BridgedReader | None = None

    def covers(self, raw: bytearray, at: int) -> bool:
        """Return True if the message whose properties begin at offset ``at`` is of this kind."""
        if len(raw) - at != self.size:
            return False
        if raw.startswith(self._prefix, at) and raw.endswith(self._suffix):
            return True
        block = raw[at:]
        if int.from_bytes(block, "big") & self.mask != self.pattern:
            return False
        if self._values:
            self._narrow(block)
        return True

    def learn(self, block: bytearray, values: list[tuple[int, int]]) -> None:
        """Use these properties as the pattern, in which some values may differ."""
        mask = bytearray(b"\xff" * len(block))
        for start, end in values:
            mask[start:end] = bytes(end - start)
        self.size = len(block)
        self.mask = int.from_bytes(mask, "big")
        self.pattern = int.from_bytes(block, "big") & self.mask
        self._prefix = bytes(block)
        self._values = values

    def expect_bridged(
        self, known: tuple[bytes, str], message: CoreMessage, buffer: bytes | bytearray, end: int
    ) -> BridgedReader | None:
        """Return a reader of the messages that are like this one, and like the one before it.

        Args:
            known: Their address; see `CoreMessage.parse`.
            message: Message of this kind, without the properties of the bridge.
            buffer: Bytes of a read, in which it is whole.
            end: End of the message there.

        Returns:
            None if another value than the id of the bridge differs, or none so far.
        """
        place, id_end = self.duplicate_id_at, self.size - len(self._suffix)
        if self._values or place is None or (place.start, place.stop) != (len(self._prefix), id_end):
            return None
        begin = end - self.size
        if not buffer.startswith(self._prefix, begin) or not buffer.endswith(self._suffix, begin, end):
            # Of this kind by its mask: what is kept of it is not kept of those before it.
            return None
        kept = bytes(message.raw[message.properties_at :])
        self.bridged_reader = BridgedReader(known, self._prefix, self._suffix, self.size, kept)
        return self.bridged_reader

    def _narrow(self, block: bytearray) -> None:
        """Compare from now on what surrounds the first value in which this message differs from the one before."""
        for start, end in self._values:
            if block[start:end] != self._prefix[start:end]:
                self._prefix, self._suffix = bytes(block[:start]), bytes(block[end:])
                break
        self._values = []


def traits_of(message: CoreMessage) -> MessageTraits:
    """Return the traits of a message.

    Raises:
        RemoteProtocolError: Its properties are malformed.
    """
    arrival = MessageTraits()
    spans = message.property_spans()
    start = message.properties_at
    block = message.raw[start:]
    if len(block) <= _BLOCK_BYTES_MAX:
        arrival.learn(block, [(at - start, end - start) for name, _tag, at, end in spans if name not in _DECISIVE])
    has_bridge_id = is_odd = False
    entries: list[tuple[int, int]] = []
    for name, tag, value_at, value_end in spans:
        if name == _ROUTING_TYPE and tag == PropertyType.BYTE:
            arrival.routing_type = int.from_bytes(message.raw[value_at : value_at + 1], "big", signed=True)
        elif name == _SCHEDULED:
            arrival.scheduled_ms = _whole_ms(message.property(_SCHEDULED))
        elif name == _GROUP_ID:
            arrival.has_group = True
            if tag == PropertyType.STRING:
                arrival.group_at = slice(value_at - start, value_end - start)
        elif name == _DUPLICATE_ID and tag in (PropertyType.STRING, PropertyType.BYTES) and not has_bridge_id:
            arrival.duplicate_id_at = slice(value_at - start, value_end - start)
        elif name == _BRIDGE_DUPLICATE_ID and tag == PropertyType.BYTES:
            arrival.is_bridged = has_bridge_id = True
            arrival.duplicate_id_at = slice(value_at - start, value_end - start)
            entries.append((value_at - start - _BEFORE_BRIDGE_ID, value_end - start))
        elif name == ROUTE_TO and tag == PropertyType.BYTES:
            arrival.is_bridged = True
            arrival.route_to_at = slice(value_at - start, value_end - start)
            entries.append((value_at - start - _BEFORE_ROUTE_TO, value_end - start))
        elif name == _SCALE_DOWN_TO and tag == PropertyType.BYTES:
            arrival.is_bridged = is_odd = arrival.is_for_others = True
        elif name.startswith(_INTERNAL_PREFIXES):
            arrival.is_bridged = is_odd = True
            arrival.is_acknowledged |= name == _ACKNOWLEDGED_AT and tag == PropertyType.BYTES
        elif name == _BRIDGE_DUPLICATE_ID:
            is_odd = True
    # One of each at most: what is there twice is looked for.
    if has_bridge_id and not is_odd and len(entries) == 1 + (arrival.route_to_at is not None):
        arrival.bridge_entries = entries[::-1]
    arrival.has_extras = arrival.has_group or arrival.scheduled_ms > 0 or arrival.is_bridged
    return arrival


def from_bridge(
    message: CoreMessage, duplicate_id: bytes | None, arrival: MessageTraits | None = None
) -> tuple[CoreMessage, bytes | None, frozenset[int]]:
    """Return a message that a bridge sent without the properties of the bridge, and what they mean.

    Args:
        message: Message as it arrived.
        duplicate_id: Id for duplicate detection, as it stands in the message; None without one.
        arrival: Its traits, if it may be changed; ``duplicate_id`` is then the one that they name.

    Returns:
        The message, its id for duplicate detection, and the ids of the queues that it is for; none, or more
        than any address has: all that take it.

    Raises:
        RemoteProtocolError: Its properties are malformed.
    """
    if arrival is not None and arrival.bridge_entries and duplicate_id is not None:
        place = arrival.route_to_at
        queue_ids = route_ids(message.raw[message.properties_at :][place]) if place is not None else _NO_QUEUES
        message.cut_properties(arrival.bridge_entries)
        return message, BRIDGE_ID_PREFIX + duplicate_id, queue_ids
    bridge_id, chosen = message.property(_BRIDGE_DUPLICATE_ID), message.property(ROUTE_TO)
    if isinstance(bridge_id, bytes):
        duplicate_id = BRIDGE_ID_PREFIX + bridge_id
    queue_ids = route_ids(chosen) if isinstance(chosen, bytes) else _NO_QUEUES
    if queue_ids and not isinstance(bridge_id, bytes):
        # A message that moves on may come back on its way: the client's id is known since its first arrival here.
        duplicate_id = None
    removals = [name for name in message.properties if name in _OF_BRIDGES or name.startswith(_INTERNAL_PREFIXES)]
    copy = message.copy_for(message.address, changes={}, removals=removals, expiration=message.expiration)
    return copy, duplicate_id, queue_ids


def with_bridge_id(message: CoreMessage, duplicate_id: bytes | None) -> CoreMessage:
    """Return a message under the id that another bridge has given to it, so that a third broker takes it once.

    Args:
        message: Message without properties of bridges.
        duplicate_id: What `from_bridge` returned of it.

    Raises:
        RemoteProtocolError: Its properties are malformed.
    """
    if duplicate_id is None or not duplicate_id.startswith(BRIDGE_ID_PREFIX):
        return message
    return message.with_property(_BRIDGE_DUPLICATE_ID, duplicate_id.removeprefix(BRIDGE_ID_PREFIX))


def acknowledged_queues(message: CoreMessage) -> frozenset[int]:
    """Return the ids of queues where a branch has acknowledged a message at another broker.

    Raises:
        RemoteProtocolError: Its properties are malformed.
    """
    value = message.property(_ACKNOWLEDGED_AT)
    return route_ids(value) if isinstance(value, bytes) else _NO_QUEUES


def queues_of_others(message: CoreMessage) -> tuple[frozenset[int], str | None]:
    """Return the ids of queues of a third broker that a message is for, and the node id of that broker, if it is named.

    Raises:
        RemoteProtocolError: Its properties are malformed.
    """
    value, node_id = message.property(_SCALE_DOWN_TO), message.property(_SCALE_DOWN_NODE)
    ids = route_ids(value) if isinstance(value, bytes) else _NO_QUEUES
    return ids, node_id if isinstance(node_id, str) else None


def route_ids(chosen: bytes | bytearray) -> frozenset[int]:
    """Return the ids of queues in the value of a property; none if there are more than any address has."""
    # Messages of one bridge have the same few queues again and again.
    return _few_queue_ids(bytes(chosen)) if len(chosen) <= _FEW_BYTES else _many_queue_ids(chosen)


@lru_cache(maxsize=256)
def _few_queue_ids(chosen: bytes) -> frozenset[int]:
    return _many_queue_ids(chosen)


def _many_queue_ids(chosen: bytes | bytearray) -> frozenset[int]:
    if len(chosen) > _QUEUE_IDS_MAX * _QUEUE_ID_BYTES:
        return _NO_QUEUES
    count = len(chosen) // _QUEUE_ID_BYTES
    return frozenset(unpack(f">{count}q", chosen[: count * _QUEUE_ID_BYTES]))


def _whole_ms(due: PropertyValue) -> int:
    """Return a time as a Java `long`; 0 for what is no number, as in Artemis."""
    if isinstance(due, bool) or not isinstance(due, int | float) or due != due:
        return 0
    return int(max(-_LONG_MAX, min(_LONG_MAX, due)))
