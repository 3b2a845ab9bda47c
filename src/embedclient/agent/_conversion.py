"""JMS messages to core messages and back.

Responsible for the place of each header, property and body of a JMS message in a core message. A received message is
decoded part by part, on access; the body of one that is only passed on is never decoded. Does not depend on sessions or
packets.

Hot: ``Envelope.enclose`` and ``from_core`` run once per message.
"""

from __future__ import annotations

import zlib
from typing import Final

from ..errors import MessageFormatException, RemoteProtocolError
from ..model import (
    BodyValue,
    BytesMessage,
    DeliveryMode,
    Destination,
    Headers,
    JMSMessage,
    MapMessage,
    MessageSource,
    ObjectMessage,
    Properties,
    PropertyType,
    Queue,
    RoutingType,
    StreamMessage,
    TextMessage,
    Topic,
    TypedValue,
    parse_destination,
    uuid_text,
)
from ..wire.core import (
    ROUTING_TYPE_KEY,
    CoreMessage,
    MessageTemplate,
    MessageType,
    decode_map,
    decode_object,
    decode_stream,
    decode_text,
    encode_map,
    encode_object,
    encode_stream,
    encode_text,
    property_key,
)
from ._large_content import COMPRESSED, ContentDecoder

__all__ = ["INFLATED_BYTES_MAX", "Envelope", "core_source", "from_core"]

INFLATED_BYTES_MAX: Final = 100 * 1024 * 1024
"""Maximum size in bytes of an inflated body; it is decoded in one piece."""

_ROUTING_TYPE: Final = "_AMQ_ROUTING_TYPE"
_CONNECTION_ID: Final = "__AMQ_CID"
_GROUP_ID: Final = "_AMQ_GROUP_ID"
_SCHEDULED: Final = "_AMQ_SCHED_DELIVERY"
_LARGE_SIZE: Final = "_AMQ_LARGE_SIZE"
# Properties of a body as delivered. They do not hold for a body that is sent on.
_OF_THE_BODY: Final = (
    (COMPRESSED, (PropertyType.BOOLEAN,)),
    (_LARGE_SIZE, (PropertyType.INT, PropertyType.LONG)),
)
_COMPRESSED_KEY: Final = property_key(COMPRESSED)
_SCHEDULED_KEY: Final = property_key(_SCHEDULED)
_TEMPORARY: Final = "_AMQ_TEMPORARY"
_ROUTES: Final = ("_AMQ_ROUTE_TO", "_AMQ_ACK_ROUTE_TO")

_CLASSES: Final[dict[int, type[JMSMessage]]] = {
    MessageType.DEFAULT: JMSMessage,
    MessageType.OBJECT: ObjectMessage,
    MessageType.TEXT: TextMessage,
    MessageType.BYTES: BytesMessage,
    MessageType.MAP: MapMessage,
    MessageType.STREAM: StreamMessage,
}
_BYTES: Final = MessageType.BYTES
_TEXT: Final = MessageType.TEXT
_ROUTING_TYPES: Final = tuple(TypedValue(int(routing), PropertyType.BYTE) for routing in sorted(RoutingType))


class _CoreSource:
    """A core message as the source of a JMS message's parts. ``destination`` is the consumer's or the producer's."""

    __slots__ = ("core", "destination")

    def __init__(self, core: CoreMessage, destination: Destination | None) -> None:
        self.core = core
        self.destination = destination

    def headers(self) -> Headers:
        core = self.core
        user_id = core.user_id
        scheduled = self.properties().get(_SCHEDULED) if core.raw.find(_SCHEDULED_KEY) >= 0 else None
        return Headers(
            message_id=None if user_id is None else f"ID:{uuid_text(user_id)}",
            destination=self._destination(),
            delivery_mode=DeliveryMode.PERSISTENT if core.durable else DeliveryMode.NON_PERSISTENT,
            priority=core.priority,
            timestamp=core.timestamp,
            expiration=core.expiration,
            delivery_time=scheduled if isinstance(scheduled, int) and not isinstance(scheduled, bool) else 0,
        )

    def _destination(self) -> Destination | None:
        core, own = self.core, self.destination
        routing = core.property_byte(ROUTING_TYPE_KEY)
        if own is not None and own.name == core.address and routing in (None, own.routing_type):
            return own  # keeps the type of a temporary destination
        if not core.address:
            return None
        if routing is None:
            return parse_destination(core.address, Topic if own is not None and _is_topic(own) else Queue)
        return Queue(core.address) if routing == RoutingType.ANYCAST else Topic(core.address)

    def properties(self) -> Properties:
        try:
            return self.core.properties
        except RemoteProtocolError as error:
            raise MessageFormatException(f"the properties are malformed: {error}") from error

    @property
    def is_compressed(self) -> bool:
        # The search is only a filter: a body, a value or a longer name may have the same bytes.
        return self.core.raw.find(_COMPRESSED_KEY) >= 0 and self.properties().get(COMPRESSED) is True

    def content(self) -> bytes:
        """Return the content of the body as `ContentDecoder` defines it. Raise MessageFormatException."""
        try:
            decoder = ContentDecoder.for_message(self.core)
        except RemoteProtocolError as error:
            raise MessageFormatException(f"the properties are malformed: {error}") from error
        content = bytearray()
        for piece in decoder.feed(self.core.body):
            content += piece
            if len(content) > INFLATED_BYTES_MAX and self.is_compressed:
                raise MessageFormatException(f"the compressed body holds more than {INFLATED_BYTES_MAX} bytes")
        decoder.finish()
        return bytes(content)

    def body(self) -> BodyValue:
        """Return the decoded body.

        Raise MessageFormatException if the body is malformed, or larger than may be decoded at once.
        """
        core = self.core
        data: bytes | memoryview = core.body
        try:
            if self.is_compressed:
                data = _inflated(data)
            match core.type:
                case MessageType.TEXT:
                    return decode_text(data)
                case MessageType.BYTES:
                    return bytes(data)
                case MessageType.MAP:
                    return decode_map(data)
                case MessageType.OBJECT:
                    return decode_object(data)
                case MessageType.STREAM:
                    return decode_stream(data)
                case _:
                    return None
        except RemoteProtocolError as error:
            raise MessageFormatException(f"the body is malformed: {error}") from error


def core_source(core: CoreMessage, destination: Destination | None) -> _CoreSource:
    """Return a core message as the source of a JMS message's parts."""
    return _CoreSource(core, destination)


def from_core(
    core: CoreMessage,
    delivery_count: int,
    destination: Destination | None = None,
    source: MessageSource | None = None,
) -> JMSMessage:
    """Return the JMS message for a delivered core message. Bodies and properties are decoded on access.

    ``destination`` is the consumer's: a message without its destination is regarded as one of that kind. ``source``
    replaces the core message as the source of the parts.

    Raises:
        MessageFormatException: the message is of a type that JMS does not have.
    """
    kind = _CLASSES.get(core.type)
    if kind is None:
        raise MessageFormatException(f"a message of type {core.type} is not a JMS message")
    return kind.received(_CoreSource(core, destination) if source is None else source, delivery_count)


class Envelope:
    """The common parts of the messages of one producer to one destination, encoded once.

    ``connection_id`` is the client id, or without one the id of the connection; no-local consumers compare it.
    ``group_id`` is that of the connection factory and overrides that of a message.
    """

    __slots__ = ("_entries", "_template", "destination")

    def __init__(self, destination: Destination, *, connection_id: str, group_id: str | None = None) -> None:
        self.destination = destination
        self._entries = {
            _CONNECTION_ID: TypedValue(connection_id, PropertyType.STRING),
            _ROUTING_TYPE: _ROUTING_TYPES[destination.routing_type],
        }
        if destination.is_temporary:
            # Its consumer may be gone: the broker must not create a queue for this message.
            self._entries[_TEMPORARY] = TypedValue(destination.message_address, PropertyType.STRING)
        if group_id is not None:
            self._entries[_GROUP_ID] = TypedValue(group_id, PropertyType.STRING)
        self._template = MessageTemplate(destination.message_address, Properties.of_entries(self._entries))

    def enclose(
        self,
        content: JMSMessage | str | bytes,
        *,
        user_id: bytes | None = None,
        durable: bool = True,
        priority: int = 4,
        timestamp: int = 0,
        expiration: int = 0,
        delivery_time: int = 0,
        without_body: bool = False,
    ) -> CoreMessage:
        """Return the core message that sends ``content``. The headers of a JMS message are set to the values sent.

        Args:
            user_id: 16 bytes behind JMSMessageID; None leaves it out.
            timestamp, expiration, delivery_time: Unix milliseconds, 0 for none.
            without_body: leave out the body of a bytes message, which is sent in pieces.

        Raises:
            MessageFormatException: a message that was received and is passed on cannot be read.
        """
        message: JMSMessage | None = None
        template = self._template
        body: bytes | memoryview
        if isinstance(content, bytes):
            core_type, body = _BYTES, content
        elif isinstance(content, str):
            core_type, body = _TEXT, encode_text(content)
        else:
            message = content
            core_type, body = (_BYTES, b"") if without_body else _encoded_body(message)
        if delivery_time or message is not None:
            template = self._template_for(message, delivery_time)
        core = template.message(body, core_type, durable, priority, timestamp, expiration, user_id)
        if message is not None:
            message.was_sent(_CoreSource(core, self.destination))
        return core

    def _template_for(self, message: JMSMessage | None, delivery_time: int) -> MessageTemplate:
        own = {} if message is None else _own_entries(message)
        if delivery_time:
            own[_SCHEDULED] = TypedValue(delivery_time, PropertyType.LONG)
        if not own:
            return self._template
        own.update(self._entries)
        return MessageTemplate(self._template.address, Properties.of_entries(own))


def _own_entries(message: JMSMessage) -> dict[str, TypedValue]:
    """Return the properties that a message carries, without those written by the broker that delivered it."""
    entries = dict(message.stored().typed_items())
    # It belongs to the destination of that send, not to the message.
    entries.pop(_TEMPORARY, None)
    if message.delivery_count:
        for name in [name for name in entries if name.startswith(_ROUTES)]:
            del entries[name]
        # Under any other type it is a property of the sender, and has no meaning for the body.
        for name, kinds in _OF_THE_BODY:
            if name in entries and entries[name].type in kinds:
                del entries[name]
    return entries


def _encoded_body(message: JMSMessage) -> tuple[int, bytes | memoryview]:
    source = message.untouched_body
    if isinstance(source, _CoreSource) and not source.is_compressed:
        return source.core.type, source.core.body
    match message:
        case TextMessage():
            return MessageType.TEXT, encode_text(message.text)
        case BytesMessage():
            return MessageType.BYTES, message.body
        case MapMessage():
            return MessageType.MAP, encode_map(message.entries)
        case StreamMessage():
            return MessageType.STREAM, encode_stream(message.items)
        case ObjectMessage():
            return MessageType.OBJECT, encode_object(message.data)
        case _:
            return MessageType.DEFAULT, b""


def _inflated(data: bytes | memoryview) -> bytes:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(data, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise MessageFormatException(f"the compressed body is malformed: {error}") from error
    if inflater.unconsumed_tail:
        raise MessageFormatException(f"the compressed body holds more than {INFLATED_BYTES_MAX} bytes")
    if not inflater.eof:
        raise MessageFormatException("the compressed body is cut off")
    return inflated


def _is_topic(destination: Destination) -> bool:
    return destination.routing_type is RoutingType.MULTICAST
