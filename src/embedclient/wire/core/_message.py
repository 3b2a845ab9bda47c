"""The core message: bytes kept unchanged from arrival, with the routing fields read out once.

Responsible for the layout of headers, body and properties, for the properties in which brokers keep facts of their own,
and for the older framing of 1.x peers. Does not depend on the meaning of a body or on the packets that carry messages.

A core message is also what the broker stores: ``CoreMessage`` implements the stored message of ``embedbroker.kernel``.

Hot: ``CoreMessage.parse`` runs once per message that enters the broker, ``property_byte`` once per routing decision.
Nothing is decoded there that routing does not need.
"""

from __future__ import annotations

from codecs import utf_16_le_decode
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import ClassVar, Final, Self

from ...errors import RemoteProtocolError
from ...model import Encoding, Origin, Properties, PropertyType, PropertyValue, TypedValue
from .._buffer import Reader, append_properties, encode_simple_string

__all__ = [
    "DUPLICATE_ID_KEY",
    "ROUTING_TYPE_KEY",
    "CoreMessage",
    "DirectedCoreMessage",
    "MessageTemplate",
    "MessageType",
    "RouteAppender",
    "RouteWriter",
    "from_1x",
    "known_address",
    "property_key",
    "to_1x",
]

_I32: Final = Struct(">i")
_I64: Final = Struct(">q")
# Message id, address flag, and the length of the address if the flag is set.
_HEAD: Final = Struct(">qBi")
# Type, durable, expiration, timestamp, priority, and the flag that begins the properties.
_FIXED: Final = Struct(">bBqqbB")
_FIXED_WRITE: Final = Struct(">bBqqb")
# The same behind the flag of the user id, and behind flag and user id.
_WITHOUT_USER_ID: Final = Struct(">BbBqqb")
_WITH_USER_ID: Final = Struct(">B16sbBqqb")

# endOfBody counts from the packet type byte of the frame: 9 bytes of header and 4 of its field; 4 more in 1.x.
_BODY_OFFSET: Final = 13
_BODY_OFFSET_1X: Final = 17
_NO_BODY: Final = _I32.pack(_BODY_OFFSET)
_NO_ID: Final = bytes(8)
_NO_ID_AND_ADDRESS_FLAG: Final = _NO_ID + b"\1"
# Whether there are properties, and how many.
_PROPERTY_COUNT: Final = Struct(">bi")

# Bytes between the flag of the user id and the flag of the properties, with and without a user id.
_PROPERTIES_AFTER_USER_ID: Final = 1 + 16 + 19
_PROPERTIES_AFTER_FLAG: Final = 1 + 19

_BYTE_TAG: Final = int(PropertyType.BYTE)
_STRING_TAG: Final = int(PropertyType.STRING)

# Size of a property value by tag; -1: a 32-bit length and that many bytes.
_VALUE_SIZE: Final = {0: 0, 2: 1, 3: 1, 4: -1, 5: 2, 6: 4, 7: 8, 8: 4, 9: 8, 10: -1, 11: 2}


class MessageType:
    """The message type byte. Plain numbers: peers may send others, and they pass through."""

    DEFAULT: Final = 0
    OBJECT: Final = 2
    TEXT: Final = 3
    BYTES: Final = 4
    MAP: Final = 5
    STREAM: Final = 6
    EMBEDDED: Final = 7
    LARGE_EMBEDDED: Final = 8


def property_key(name: str) -> bytes:
    """Return the form of a property name that ``property_byte`` looks for. Compute it once per name."""
    return encode_simple_string(name)


ROUTING_TYPE_KEY: Final = property_key("_AMQ_ROUTING_TYPE")
DUPLICATE_ID_KEY: Final = property_key("_AMQ_DUPL_ID")
_DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
_GROUP_ID: Final = "_AMQ_GROUP_ID"
_GROUP_SEQUENCE: Final = "_AMQ_GROUP_SEQUENCE"
_GROUP_ID_KEY: Final = property_key(_GROUP_ID)
_GROUP_SEQUENCE_KEY: Final = property_key(_GROUP_SEQUENCE)
_TEMPORARY_ADDRESS: Final = "_AMQ_TEMPORARY"
_HOPS: Final = "_AMQ_Hops"
ROUTE_TO: Final = "_AMQ_ROUTE_TO"
_BYTES_TAG: Final = bytes([PropertyType.BYTES])
_ROUTING_TYPE: Final = "_AMQ_ROUTING_TYPE"
_ORIGINAL_ADDRESS: Final = "_AMQ_ORIG_ADDRESS"
_ORIGINAL_QUEUE: Final = "_AMQ_ORIG_QUEUE"
_ORIGINAL_MESSAGE_ID: Final = "_AMQ_ORIG_MESSAGE_ID"
_ORIGINAL_ROUTING_TYPE: Final = "_AMQ_ORIG_ROUTING_TYPE"
_ACTUAL_EXPIRY: Final = "_AMQ_ACTUAL_EXPIRY"


def route_property(queue_name: str) -> str:
    """Return the property in which a message of a store-and-forward queue has its `CoreMessage.route_in`."""
    return ROUTE_TO + queue_name


def known_address(address: str) -> tuple[bytes, str]:
    """Return the form of an address that ``CoreMessage.parse`` compares. Compute it once per address."""
    return b"\1" + encode_simple_string(address), address


_NO_ADDRESS: Final = b"\0", ""


class CoreMessage:
    """A message in the CORE encoding. ``raw`` begins with endOfBody and ends with the properties.

    Header attributes repeat values of ``raw``: change them through the methods only. ``encoded_size`` is the size in
    bytes that credits and limits count, ``memory_size`` the bytes that it takes in memory and in the journal. Here both
    are the length of ``raw``.
    """

    __slots__ = (
        "_body_end",
        "_properties",
        "_user_id_at",
        "address",
        "durable",
        "encoded_size",
        "expiration",
        "memory_size",
        "message_id",
        "priority",
        "raw",
        "timestamp",
        "type",
    )

    encoding: ClassVar[int] = int(Encoding.CORE)
    # Nearly no message has a time or a group: a `DirectedCoreMessage` has.
    is_directed: ClassVar[bool] = False
    deliver_at: int = 0
    #: ``raw`` always holds the whole message.
    body_number: ClassVar[int] = 0

    raw: bytearray
    encoded_size: int
    memory_size: int
    message_id: int
    address: str
    type: int
    durable: bool
    expiration: int
    timestamp: int
    priority: int
    _body_end: int
    _user_id_at: int
    _properties: Properties | None

    @classmethod
    def parse(cls, raw: bytearray, known: tuple[bytes, str] = _NO_ADDRESS) -> Self:
        """Read the headers. ``raw`` is kept, not copied. Properties are read later, on demand.

        ``known``, from ``known_address``, is the likely address. It is compared and need not be decoded, and messages
        share the one text with its hash. Raise RemoteProtocolError.
        """
        self = cls()
        try:
            body_end: int = _I32.unpack_from(raw)[0] - 9
            if body_end < 4:
                raise RemoteProtocolError(f"end of body {body_end + 9}")
            encoded, address = known
            if raw.startswith(encoded, body_end + 8):
                self.message_id = _I64.unpack_from(raw, body_end)[0]
                at = body_end + 8 + len(encoded)
            else:
                self.message_id, has_address, length = _HEAD.unpack_from(raw, body_end)
                at = body_end + 9
                address = ""
                if has_address:
                    if length < 0:
                        raise RemoteProtocolError(f"an address of {length} bytes")
                    start = body_end + 13
                    at = start + length
                    address = utf_16_le_decode(raw[start:at], "surrogatepass", True)[0]
            self.address = address
            fixed = at + 17 if raw[at] == 1 else at + 1
            self.type, durable, self.expiration, self.timestamp, priority, _ = _FIXED.unpack_from(raw, fixed)
        except (StructError, IndexError, UnicodeDecodeError) as error:
            raise RemoteProtocolError(f"malformed message: {error}") from error
        self.durable = durable != 0
        # Peers may send anything here; the broker keeps one queue per priority of 0 to 9.
        self.priority = priority if 0 <= priority <= 9 else max(0, min(9, priority))
        self.raw = raw
        self.encoded_size = self.memory_size = len(raw)
        self._body_end = body_end
        self._user_id_at = at
        self._properties = None
        return self

    @classmethod
    def parse_header(cls, header: bytes | bytearray | memoryview) -> Self:
        """Read a message of headers and properties only, as in the first packet of a large message."""
        return cls.parse(bytearray(_NO_BODY) + header)

    @classmethod
    def build(
        cls,
        *,
        type: int = MessageType.DEFAULT,
        address: str,
        durable: bool = True,
        priority: int = 4,
        timestamp: int = 0,
        expiration: int = 0,
        user_id: bytes | None = None,
        properties: Properties | None = None,
        body: bytes | bytearray | memoryview = b"",
    ) -> CoreMessage:
        """Make a message without id."""
        template = MessageTemplate(address, properties)
        return template.message(body, type, durable, priority, timestamp, expiration, user_id)

    @property
    def body(self) -> memoryview:
        """Return the body's bytes, not copied."""
        return memoryview(self.raw)[4 : self._body_end]

    @property
    def header(self) -> memoryview:
        """Return headers and properties, not copied."""
        return memoryview(self.raw)[self._body_end :]

    @property
    def user_id(self) -> bytes | None:
        """Return the UUID behind JMSMessageID."""
        at = self._user_id_at
        return bytes(self.raw[at + 1 : at + 17]) if self.raw[at] == 1 else None

    @property
    def properties_at(self) -> int:
        """Return the offset of the properties in ``raw``."""
        at = self._user_id_at
        return at + (_PROPERTIES_AFTER_USER_ID if self.raw[at] == 1 else _PROPERTIES_AFTER_FLAG)

    @property
    def properties(self) -> Properties:
        """Return all properties, decoded once. Read only: changes do not reach ``raw``. Raise RemoteProtocolError."""
        properties = self._properties
        if properties is None:
            properties = self._properties = Reader(self.raw, self.properties_at).properties()
        return properties

    def keep_properties(self, properties: Properties) -> None:
        """Use the properties that the message was built with, instead of decoding them. They must not change."""
        self._properties = properties

    def property_byte(self, key: bytes) -> int | None:
        """Return a property of type byte without decoding the others; ``key`` comes from ``property_key``.

        Return None when the property is missing or has another type. Raise RemoteProtocolError.
        """
        raw = self.raw
        at = self._user_id_at
        entry = at + (_PROPERTIES_AFTER_USER_ID + 5 if raw[at] == 1 else _PROPERTIES_AFTER_FLAG + 5)
        found = raw.find(key, entry)
        if found < 0 or not raw[entry - 5]:
            return None
        # The same bytes may stand inside a value or behind the last entry: walk to find whether an entry begins here.
        try:
            left = _I32.unpack_from(raw, entry - 4)[0]
            while entry != found:
                if entry < found:
                    entry = _entry_end(raw, entry)
                    left -= 1
                else:  # the hit was inside a value; look further
                    found = raw.find(key, entry)
                    if found < 0:
                        return None
            tag_at = found + len(key)
            if left <= 0 or raw[tag_at] != _BYTE_TAG:
                return None
            value = raw[tag_at + 1]
            return value - 256 if value > 127 else value
        except (StructError, IndexError) as error:
            raise RemoteProtocolError(f"malformed properties: {error}") from error

    def property_spans(self) -> list[tuple[str, int, int, int]]:
        """Return where the properties stand in ``raw``: name, type tag, and start and end of the value proper.

        Sizes that precede a value do not belong to it. Raise RemoteProtocolError for bytes that ``properties`` rejects.
        """
        raw = self.raw
        spans: list[tuple[str, int, int, int]] = []
        entry = self.properties_at
        try:
            if not raw[entry]:
                return spans
            count = _I32.unpack_from(raw, entry + 1)[0]
            if count < 0:
                raise RemoteProtocolError(f"{count} properties")
            entry += 5
            for _ in range(count):
                after = _entry_end(raw, entry)
                tag_at = entry + 4 + _I32.unpack_from(raw, entry)[0]
                name = utf_16_le_decode(raw[entry + 4 : tag_at], "surrogatepass", True)[0]
                tag = raw[tag_at]
                value_at = tag_at + 1 + (4 if _VALUE_SIZE[tag] < 0 else 0)
                if after > len(raw) or (tag == _STRING_TAG and (after - value_at) & 1):
                    raise RemoteProtocolError(f"property {name!r} has no proper value")
                spans.append((name, tag, value_at, after))
                entry = after
        except (StructError, IndexError, UnicodeDecodeError) as error:
            raise RemoteProtocolError(f"malformed properties: {error}") from error
        return spans

    @property
    def duplicate_id(self) -> bytes | None:
        """Return the duplicate detection id; text is compared by its UTF-16LE bytes. Raise RemoteProtocolError."""
        if self.raw.find(DUPLICATE_ID_KEY, self.properties_at) < 0:
            return None
        value = self.properties.get(_DUPLICATE_ID)
        if isinstance(value, str):
            return value.encode("utf-16-le", "surrogatepass")
        return value if isinstance(value, bytes) else None

    @property
    def group_id(self) -> PropertyValue:
        """Return the id of the message group, None for a message without a group. Raise RemoteProtocolError."""
        if self._properties is None and self.raw.find(_GROUP_ID_KEY, self.properties_at) < 0:
            return None
        return self.properties.get(_GROUP_ID)

    @property
    def is_grouped(self) -> bool:
        """Return True if this is directed, and has the id of a group."""
        return False

    @property
    def closes_group(self) -> bool:
        """Return True if this is the last message of its group. Raise RemoteProtocolError."""
        if self.raw.find(_GROUP_SEQUENCE_KEY, self.properties_at) < 0:
            return False
        return self.properties.get(_GROUP_SEQUENCE) == -1

    @property
    def is_to_temporary(self) -> bool:
        """Return True if the sender named a temporary destination. Raise RemoteProtocolError."""
        return self.property(_TEMPORARY_ADDRESS) == self.address

    def stored_bytes(self) -> bytearray:
        """Return the bytes from which ``parse`` restores this message, not copied."""
        return self.raw

    def to_core(self, body: bytes = b"") -> CoreMessage:
        """Return the message itself: it is in the CORE encoding."""
        return self

    def assign_id(self, message_id: int) -> None:
        """Set the message id, in place."""
        self.message_id = message_id
        _I64.pack_into(self.raw, self._body_end, message_id)

    def annotate(self, origin: Origin, address: str) -> CoreMessage:
        """Return a copy without id and expiration for another address, with the properties that state its origin.

        Raise RemoteProtocolError.
        """
        changes: dict[str, PropertyValue | TypedValue] = {
            _ORIGINAL_ADDRESS: origin.address,
            _ORIGINAL_QUEUE: origin.queue,
            _ORIGINAL_MESSAGE_ID: TypedValue(origin.message_id, PropertyType.LONG),
        }
        if origin.expired_at_ms is not None:
            changes[_ACTUAL_EXPIRY] = TypedValue(origin.expired_at_ms, PropertyType.LONG)
        if origin.queue is not None:
            original_type = self.property(_ROUTING_TYPE)
            if _is_byte(original_type):
                changes[_ORIGINAL_ROUTING_TYPE] = TypedValue(original_type, PropertyType.BYTE)
            earlier_type = self.property(_ORIGINAL_ROUTING_TYPE)
            if _is_byte(earlier_type):
                # Second hop (a dead letter expires): the type of the first send is put back, as Artemis does.
                changes[_ROUTING_TYPE] = TypedValue(earlier_type, PropertyType.BYTE)
        removals = () if _ROUTING_TYPE in changes else (_ROUTING_TYPE,)
        return self.copy_for(address, changes=changes, removals=removals, expiration=0)

    def copy_to(self, address: str, priority: int | None = None, expiration: int = 0) -> CoreMessage:
        """Return a copy without id for another address; ``priority`` None keeps that of the message."""
        return self.copy_for(address, changes={}, removals=(), expiration=expiration, priority=priority)

    def with_body(
        self, body: bytes | bytearray | memoryview, changes: Mapping[str, PropertyValue | TypedValue] | None = None
    ) -> CoreMessage:
        """Return a copy with another body, and with some properties set. Raise RemoteProtocolError."""
        raw = bytearray(_I32.pack(_BODY_OFFSET + len(body)))
        raw += body
        if changes:
            flag_at = self.properties_at
            raw += memoryview(self.raw)[self._body_end : flag_at]
            append_properties(raw, changed_properties(self.properties, changes, ()))
        else:
            raw += self.header
        return CoreMessage.parse(raw)

    def with_changes(
        self,
        address: str,
        routing_type: int | None,
        changes: Mapping[str, PropertyValue],
        removals: Collection[str] = (),
    ) -> CoreMessage:
        """Return a copy without id, with the same expiration, for another address. Raise RemoteProtocolError.

        It is assigned to no binding, even if another broker had assigned the message to one.

        Args:
            address: Address of the copy.
            routing_type: Routing type that the copy states; None: it states none.
            changes: Properties that are added or replaced.
            removals: Names of properties that the copy does not have.
        """
        changed: dict[str, PropertyValue | TypedValue] = {**changes}
        if routing_type is not None:
            changed[_ROUTING_TYPE] = TypedValue(routing_type, PropertyType.BYTE)
        removed = (*removals, _ROUTING_TYPE, ROUTE_TO)
        return self.copy_for(address, changes=changed, removals=removed, expiration=self.expiration)

    def with_property(self, name: str, value: PropertyValue) -> CoreMessage:
        """Return a copy with the same id that has another property. Raise RemoteProtocolError."""
        copy = self.copy_for(self.address, changes={name: value}, removals=(), expiration=self.expiration)
        copy.assign_id(self.message_id)
        return copy

    def with_route(self, queue_name: str, queue_ids: bytes) -> CoreMessage:
        """Return a copy without id for a store-and-forward queue. Raise RemoteProtocolError.

        A sender cannot give it a route: such a property of a client is removed at the arrival of its message.

        Args:
            queue_name: Name of the store-and-forward queue.
            queue_ids: Ids of the queues of the other broker, 8 bytes each, big-endian.
        """
        count, _last, end = self._entries()
        source, body_end, at = self.raw, self._body_end, self._user_id_at
        copy = RoutedCoreMessage()
        if not count or end != len(source) or source[body_end + 8] != 1:
            self._write_copy(copy, self.address, count, end, _head_of(route_property(queue_name)), queue_ids)
            copy._route_at = copy.properties_at + end - self.properties_at if count else copy.properties_at + 5
            return copy
        raw = source + _route_entry(queue_name, queue_ids)
        raw[body_end : body_end + 8] = _NO_ID
        flag_at = at + (_PROPERTIES_AFTER_USER_ID if source[at] == 1 else _PROPERTIES_AFTER_FLAG)
        _I32.pack_into(raw, flag_at + 1, count + 1)
        copy._user_id_at = at
        copy._route_at = end
        self._copy_headers(copy, raw)
        return copy

    def route_in(self, queue_name: str) -> bytes | None:
        """Return the ids of the queues of the other broker, 8 bytes each, big-endian. Raise RemoteProtocolError.

        None: the message was not routed to this store-and-forward queue, and has no target.
        """
        ids = self.property(route_property(queue_name))
        return ids if isinstance(ids, bytes) and ids and not len(ids) % 8 else None

    def with_bytes_behind(self, address: str, name: str, value: bytes) -> CoreMessage:
        """Return a copy without id for another address, with one more property behind the others.

        The others are not decoded. The message must not have the property. Raise RemoteProtocolError.
        """
        count, _last, end = self._entries()
        copy = CoreMessage()
        self._write_copy(copy, address, count, end, _head_of(name), value)
        return copy

    def on_route(self, address: str, queue_name: str, name: str, value: bytes | None) -> CoreMessage | None:
        """Return a copy without id of a message in a store-and-forward queue, as the other broker must receive it.

        Its route, which `with_route` has put behind the other properties, has the name that the other broker reads.
        The other properties are not decoded. None: the route is not there. Raise RemoteProtocolError.

        Args:
            address: Address of the copy.
            queue_name: Name of the store-and-forward queue.
            name: Name of one more property.
            value: Its value; None: there is no such property.
        """
        count, last, end = self._route_entries()
        head = _head_of(route_property(queue_name))
        if not count or not self.raw.startswith(head, last):
            return None
        copy = CoreMessage()
        ids = self.raw[last + len(head) + 4 : end]
        if value is None:
            self._write_copy(copy, address, count - 1, last, _ROUTE_HEAD, ids)
        else:
            self._write_copy(copy, address, count - 1, last, _ROUTE_HEAD, ids, _head_of(name), value)
        return copy

    def _route_entries(self) -> tuple[int, int, int]:
        """Return what `_entries` returns of a message that may have a route as its last property."""
        return self._entries()

    def _entries(self) -> tuple[int, int, int]:
        """Return the number of properties, where the last one begins, and where it ends. Raise RemoteProtocolError."""
        source, at = self.raw, self._user_id_at
        flag_at = at + (_PROPERTIES_AFTER_USER_ID if source[at] == 1 else _PROPERTIES_AFTER_FLAG)
        if len(source) - flag_at > _KNOWN_PROPERTIES_BYTES_MAX:
            return _entries_in(source, flag_at)
        # Messages of one sender often have the same properties.
        count, last, end = _known_entries(bytes(source[flag_at:]))
        return count, flag_at + last, flag_at + end

    def _write_copy(self, copy: CoreMessage, address: str, count: int, end: int, *entries: bytes | bytearray) -> None:
        """Make ``copy``, without id, the message for an address with the first properties, which end there, and others.

        Args:
            copy: A message without content.
            address: Its address.
            count: Number of the properties that are copied.
            end: Where they end in ``raw``.
            entries: Further properties of bytes: of each the name with the type, and the value.
        """
        source, flag_at, body_end = self.raw, self.properties_at, self._body_end
        if address == self.address and source[body_end + 8] == 1:
            raw = source[:flag_at]
            raw[body_end : body_end + 8] = _NO_ID
            copy._user_id_at = self._user_id_at
        else:
            raw = source[:body_end]
            raw += _NO_ID_AND_ADDRESS_FLAG
            raw += encode_simple_string(address)
            copy._user_id_at = len(raw)
            raw += source[self._user_id_at : flag_at]
        raw += _PROPERTY_COUNT.pack(1, count + len(entries) // 2)
        if count:
            raw += source[flag_at + 5 : end]
        for index in range(0, len(entries), 2):
            raw += entries[index]
            raw += _I32.pack(len(entries[index + 1]))
            raw += entries[index + 1]
        self._copy_headers(copy, raw)
        copy.address = address

    def _copy_headers(self, copy: CoreMessage, raw: bytearray) -> None:
        """Set what ``copy``, without id, has in common with this message, except for the place of its user id."""
        # One by one: to read the headers again would cost several times that.
        copy.raw = raw
        copy.encoded_size = copy.memory_size = len(raw)
        copy.message_id = 0
        copy.address = self.address
        copy.type = self.type
        copy.durable = self.durable
        copy.expiration = self.expiration
        copy.timestamp = self.timestamp
        copy.priority = self.priority
        copy._body_end = self._body_end
        copy._properties = None

    def with_expiration(self, expiration: int) -> CoreMessage:
        """Return a copy with the same id that expires at another wall time in Unix milliseconds, 0 for never."""
        copy = self.copy_for(self.address, changes={}, removals=(), expiration=expiration)
        copy.assign_id(self.message_id)
        return copy

    def directed(self, deliver_at: int = 0, group_at: slice | None = None) -> CoreMessage:
        """Return this message, with the same bytes, as one with a group, or with a time in Unix ms, or with both.

        ``group_at``, where it is known: place of the text of the group's id in the properties.
        """
        message = DirectedCoreMessage()
        # One by one: to read the headers again would cost several times that.
        message.raw = self.raw
        message.encoded_size = self.encoded_size
        message.memory_size = self.memory_size
        message.message_id = self.message_id
        message.address = self.address
        message.type = self.type
        message.durable = self.durable
        message.expiration = self.expiration
        message.timestamp = self.timestamp
        message.priority = self.priority
        message._body_end = self._body_end
        message._user_id_at = self._user_id_at
        message._properties = self._properties
        message.deliver_at = deliver_at
        message._group = None
        if group_at is not None:
            start = self.properties_at
            text = self.raw[start + group_at.start : start + group_at.stop]
            message._group = utf_16_le_decode(text, "surrogatepass", True)[0]
        return message

    def copy_for(
        self,
        address: str,
        *,
        changes: Mapping[str, PropertyValue | TypedValue],
        removals: Collection[str],
        expiration: int,
        priority: int | None = None,
    ) -> CoreMessage:
        """Return a copy without id for another address. Raise RemoteProtocolError."""
        raw = self.raw[: self._body_end]
        raw += bytes(8)
        raw.append(1)
        raw += encode_simple_string(address)
        flag_at = self.properties_at
        raw += self.raw[self._user_id_at : flag_at - _FIXED_WRITE.size]
        priority = self.priority if priority is None else priority
        raw += _FIXED_WRITE.pack(self.type, self.durable, expiration, self.timestamp, priority)
        if changes or removals:
            append_properties(raw, changed_properties(self.properties, changes, removals))
        else:
            raw += self.raw[flag_at:]
        return CoreMessage.parse(raw)

    def cut_properties(self, entries: Sequence[tuple[int, int]]) -> None:
        """Remove properties in place, which only a message that has just arrived allows.

        ``entries``: where each begins and ends, counted from the first byte of all properties; the last one first.
        """
        raw, flag_at = self.raw, self.properties_at
        left = _I32.unpack_from(raw, flag_at + 1)[0] - len(entries)
        for start, end in entries:
            del raw[flag_at + start : flag_at + end]
        if left:
            _I32.pack_into(raw, flag_at + 1, left)
        else:
            raw[flag_at:] = b"\0"
        self.encoded_size = self.memory_size = len(raw)
        self._properties = None

    # Below every @property: from here on the name means this method inside the class.
    def property(self, name: str) -> PropertyValue:
        """Return one property, None when it is missing. Raise RemoteProtocolError.

        The hop count of federation, which has four bytes, is returned as a number.
        """
        properties = self._properties
        if properties is None:
            if self.raw.find(encode_simple_string(name), self.properties_at) < 0:
                return None
            properties = self.properties
        value = properties.get(name)
        if value.__class__ is bytes and name == _HOPS:
            return _hop_count(value)
        return value

    def __repr__(self) -> str:
        return f"<CoreMessage {self.message_id} to {self.address!r}, type {self.type}, {len(self.raw)} bytes>"

    def __eq__(self, other: object) -> bool:
        return self.raw == other.raw if isinstance(other, CoreMessage) else NotImplemented

    __hash__ = object.__hash__


class RoutedCoreMessage(CoreMessage):
    """A message whose last property is its route, put there by this process: it is not looked for again."""

    __slots__ = ("_route_at",)

    _route_at: int

    def _route_entries(self) -> tuple[int, int, int]:
        return _I32.unpack_from(self.raw, self.properties_at + 1)[0], self._route_at, len(self.raw)

    def on_route(self, address: str, queue_name: str, name: str, value: bytes | None) -> CoreMessage | None:
        source, route_at, body_end = self.raw, self._route_at, self._body_end
        head = _head_of(route_property(queue_name))
        if address != self.address or source[body_end + 8] != 1 or not source.startswith(head, route_at):
            return super().on_route(address, queue_name, name, value)
        copy = CoreMessage()
        raw = source[:route_at]
        raw[body_end : body_end + 8] = _NO_ID
        raw += _ROUTE_HEAD + source[route_at + len(head) :]
        if value is not None:
            raw += _head_of(name) + _I32.pack(len(value)) + value
            count_at = self.properties_at + 1
            _I32.pack_into(raw, count_at, _I32.unpack_from(raw, count_at)[0] + 1)
        copy._user_id_at = self._user_id_at
        self._copy_headers(copy, raw)
        return copy


class RouteWriter:
    """Write messages of one store-and-forward queue as the other broker must receive them.

    Args:
        queue_name: Name of the store-and-forward queue.
        name: Name of one more property, of bytes.
        size: Size of its values.
    """

    __slots__ = ("_before_value", "_head", "_name", "_properties", "_written")

    def __init__(self, queue_name: str, name: str, size: int) -> None:
        self._name = name.encode("utf-16-le")
        self._head = _head_of(route_property(queue_name))
        self._before_value = _head_of(name) + _I32.pack(size)
        # The properties of the last message that had others than these, and what is written instead of them.
        self._properties = self._written = b""

    def write(self, message: CoreMessage, value: bytes) -> bytes | None:
        """Return what `CoreMessage.on_route` returns for the address of the message, as bytes.

        None: the route is not where `CoreMessage.with_route` puts it, or the message may have the property already.
        Raise RemoteProtocolError.
        """
        source, id_at, at, known = message.raw, message._body_end, message._user_id_at, self._properties
        flag_at = at + (_PROPERTIES_AFTER_USER_ID if source[at] == 1 else _PROPERTIES_AFTER_FLAG)
        after_id = id_at + 8
        if source[after_id] != 1:
            return None
        if (len(source) != flag_at + len(known) or not source.endswith(known)) and not self._read(message, flag_at):
            return None
        return b"".join((source[:id_at], _NO_ID, source[after_id:flag_at], self._written, value))

    def _read(self, message: CoreMessage, flag_at: int) -> bool:
        """Find the route of a message. Return False if it is not there; see `write`."""
        source, head = message.raw, self._head
        count, last, end = message._route_entries()
        if not count or not source.startswith(head, last) or source.find(self._name, flag_at, last) >= 0:
            return False
        self._properties = bytes(source[flag_at:])
        self._written = b"".join((
            _PROPERTY_COUNT.pack(1, count + 1), source[flag_at + 5 : last], _ROUTE_HEAD,
            source[last + len(head) : end], self._before_value,
        ))  # fmt: skip
        return True


class RouteAppender:
    """Make the copies of `CoreMessage.with_route` from the stored bytes of messages, without these messages.

    Messages of one queue mostly have one address and the same properties: both are compared, and not read again.

    Args:
        queue_name: Name of the store-and-forward queue.
        queue_ids: Ids of the queues of the other broker, 8 bytes each, big-endian.
    """

    __slots__ = ("_known", "_properties", "_queue_ids", "_queue_name", "_route_offset", "_routed")

    def __init__(self, queue_name: str, queue_ids: bytes) -> None:
        self._queue_name = queue_name
        self._queue_ids = queue_ids
        # The properties of the last message whose own were not these, without and with the route, and where it begins.
        self._known = _NO_ADDRESS
        self._properties = self._routed = b""
        self._route_offset = 0

    def copy(self, stored: bytes | bytearray, message_id: int) -> CoreMessage | None:
        """Return the copy, with this id, of the message with these bytes; None if that has the id of a group.

        Raise RemoteProtocolError.
        """
        encoded, address = self._known
        body_end = int.from_bytes(stored[:4], "big") - 9
        if not address or body_end < 4 or not stored.startswith(encoded, body_end + 8):
            return self._read(stored, message_id)
        at = body_end + 8 + len(encoded)
        flag_at = at + (_PROPERTIES_AFTER_USER_ID if stored.startswith(b"\1", at) else _PROPERTIES_AFTER_FLAG)
        properties = self._properties
        if len(stored) != flag_at + len(properties) or not stored.endswith(properties):
            return self._read(stored, message_id)
        raw = bytearray().join((memoryview(stored)[:flag_at], self._routed))
        _I64.pack_into(raw, body_end, message_id)
        copy = RoutedCoreMessage()
        copy.type, durable, copy.expiration, copy.timestamp, priority = _FIXED_WRITE.unpack_from(
            raw, flag_at - _FIXED_WRITE.size
        )
        copy.durable = durable != 0
        copy.priority = priority if 0 <= priority <= 9 else max(0, min(9, priority))
        copy.raw = raw
        copy.encoded_size = copy.memory_size = len(raw)
        copy.message_id = message_id
        copy.address = address
        copy._body_end = body_end
        copy._user_id_at = at
        copy._route_at = flag_at + self._route_offset
        copy._properties = None
        return copy

    def _read(self, stored: bytes | bytearray, message_id: int) -> CoreMessage | None:
        """Return the copy of a message that is read in full. The next one may be like it."""
        message = CoreMessage.parse(bytearray(stored), self._known)
        if message.group_id is not None:
            return None
        copy = message.with_route(self._queue_name, self._queue_ids)
        copy.assign_id(message_id)
        if message.address and isinstance(copy, RoutedCoreMessage):
            self._known = known_address(message.address)
            self._properties = bytes(message.raw[message.properties_at :])
            self._routed = bytes(copy.raw[copy.properties_at :])
            self._route_offset = copy._route_at - copy.properties_at
        return copy


class DirectedCoreMessage(CoreMessage):
    """A message with a group, or one that must not be delivered before ``deliver_at``, Unix ms. So are its copies."""

    __slots__ = ("_group", "deliver_at")

    _group: str | None
    """Id of its group, if it is known without the properties."""

    is_directed = True

    @property
    def group_id(self) -> PropertyValue:
        return self._group if self._group is not None else super().group_id

    @property
    def is_grouped(self) -> bool:
        try:
            return isinstance(self.group_id, str)
        except RemoteProtocolError:
            return False

    def copy_for(
        self,
        address: str,
        *,
        changes: Mapping[str, PropertyValue | TypedValue],
        removals: Collection[str],
        expiration: int,
        priority: int | None = None,
    ) -> CoreMessage:
        copy = super().copy_for(address, changes=changes, removals=removals, expiration=expiration, priority=priority)
        return copy.directed(self.deliver_at)


class MessageTemplate:
    """The common part of all messages to one address with the same properties, encoded once."""

    __slots__ = ("_after_body", "_properties", "address")

    def __init__(self, address: str, properties: Properties | None = None) -> None:
        self.address = address
        self._after_body = _NO_ID_AND_ADDRESS_FLAG + encode_simple_string(address)
        encoded = bytearray()
        append_properties(encoded, properties or Properties())
        self._properties = bytes(encoded)

    def message(
        self,
        body: bytes | bytearray | memoryview,
        type: int,
        durable: bool,
        priority: int,
        timestamp: int,
        expiration: int,
        user_id: bytes | None,
    ) -> CoreMessage:
        """Make a message without id. Hot: called by position, because names cost a tenth of it."""
        assert 0 <= priority <= 9
        if user_id is None:
            fixed = _WITHOUT_USER_ID.pack(0, type, durable, expiration, timestamp, priority)
        else:
            assert len(user_id) == 16
            fixed = _WITH_USER_ID.pack(1, user_id, type, durable, expiration, timestamp, priority)
        size = len(body)
        after_body = self._after_body
        message = CoreMessage()
        message.raw = raw = bytearray().join(
            (_I32.pack(size + _BODY_OFFSET), body, after_body, fixed, self._properties)
        )
        message.encoded_size = message.memory_size = len(raw)
        message.message_id = 0
        message.address = self.address
        message.type = type
        message.durable = durable
        message.expiration = expiration
        message.timestamp = timestamp
        message.priority = priority
        message._body_end = size + 4
        message._user_id_at = size + 4 + len(after_body)
        message._properties = None
        return message


def _is_byte(value: PropertyValue) -> bool:
    """Return True if the value is a byte. Peers may send anything under a reserved name."""
    return isinstance(value, int) and not isinstance(value, bool) and -128 <= value <= 127


def _hop_count(value: PropertyValue) -> PropertyValue:
    return int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) and len(value) == 4 else value


def changed_properties(
    properties: Properties, changes: Mapping[str, PropertyValue | TypedValue], removals: Collection[str]
) -> Properties:
    """Return a copy of ``properties`` with some removed, then some set."""
    result = properties.copy()
    for name in removals:
        result.pop(name)
    for name, value in changes.items():
        if isinstance(value, TypedValue):
            result.set(name, value.value, value.type)
        else:
            result[name] = value
    return result


@lru_cache(maxsize=256)
def _head_of(name: str) -> bytes:
    """Return the beginning of a property of bytes, up to the length of its value."""
    return encode_simple_string(name) + _BYTES_TAG


@lru_cache(maxsize=256)
def _route_entry(queue_name: str, queue_ids: bytes) -> bytes:
    """Return the property in which a message of a store-and-forward queue has its route."""
    return _head_of(route_property(queue_name)) + _I32.pack(len(queue_ids)) + queue_ids


_ROUTE_HEAD: Final = _head_of(ROUTE_TO)
_KNOWN_PROPERTIES_BYTES_MAX: Final = 512


@lru_cache(maxsize=64)
def _known_entries(properties: bytes) -> tuple[int, int, int]:
    return _entries_in(properties, 0)


def _entries_in(source: bytes | bytearray, flag_at: int) -> tuple[int, int, int]:
    """Return the number of properties that begin there, where the last one begins, and where it ends.

    Raise RemoteProtocolError.
    """
    count, last, end = 0, flag_at + 1, flag_at + 1
    try:
        if source[flag_at]:
            count, end = _I32.unpack_from(source, end)[0], end + 4
            for _ in range(count):
                last, end = end, _entry_end(source, end)
    except (StructError, IndexError) as error:
        raise RemoteProtocolError(f"malformed properties: {error}") from error
    return count, last, end


def _entry_end(raw: bytes | bytearray, entry: int) -> int:
    """Return where the property entry that begins at ``entry`` ends."""
    length = _I32.unpack_from(raw, entry)[0]
    if length < 0:
        raise RemoteProtocolError(f"a property name of {length} bytes")
    tag_at: int = entry + 4 + length
    size = _VALUE_SIZE.get(raw[tag_at])
    if size is None:
        raise RemoteProtocolError(f"unknown property type {raw[tag_at]}")
    if size >= 0:
        return tag_at + 1 + size
    size = int(_I32.unpack_from(raw, tag_at + 1)[0])
    if size < 0:
        raise RemoteProtocolError(f"a property value of {size} bytes")
    return tag_at + 5 + size


def to_1x(raw: bytes | bytearray) -> bytes:
    """Return the message as peers before version 129 frame it."""
    body_end: int = _I32.unpack_from(raw)[0] - 9
    end_of_body = _I32.pack(body_end - 4 + _BODY_OFFSET_1X)
    return b"".join((end_of_body, raw[4:body_end], _I32.pack(len(raw) + 17), raw[body_end:]))


def from_1x(view: bytes | bytearray | memoryview) -> bytearray:
    """Return the present framing of a message from a peer before version 129. Raise RemoteProtocolError."""
    reader = Reader(view)
    body_size = reader.i32() - _BODY_OFFSET_1X
    if body_size < 0:
        raise RemoteProtocolError(f"end of body {body_size + _BODY_OFFSET_1X}")
    raw = bytearray(_I32.pack(body_size + _BODY_OFFSET))
    raw += reader.take(body_size)
    reader.i32()  # the end of the message, which every reader ignores
    raw += reader.rest()
    return raw
