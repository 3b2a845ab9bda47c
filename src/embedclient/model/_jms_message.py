"""The JMS message: headers, properties, and the two bodies that are a single value.

Responsible for the common part of all messages, and for when a message may be written. A received message reads
headers, properties and body from its source on first access. This module does not depend on any wire format; the source
does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self, TypeVar

from ..errors import (
    IllegalStateException,
    InvalidDestinationException,
    InvalidTypeException,
    InvalidValueException,
    JMSException,
    MessageFormatException,
    MessageNotWriteableException,
)
from ._destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic, parse_destination
from ._jms_properties import MessageProperties, is_header_name
from ._jms_property_access import PropertyAccess
from ._jms_source import BodyValue, DeliveryMode, Headers, MessageSource
from ._jms_streams import DONE_WAITING, BodyChunks, BodyStream, MemoryChunks, Progress
from ._processing import Processing
from ._properties import Properties, PropertyType, PropertyValue
from ._saving import SaveTarget

__all__ = ["BodyValue", "DeliveryMode", "Headers", "JMSMessage", "MessageSource"]

T = TypeVar("T")

_CORRELATION_ID = "JMSCorrelationID"
_REPLY_TO = "JMSReplyTo"
_TYPE = "JMSType"
_MILLISECONDS_END = 1 << 63


_DELIVERY_MODES = tuple(DeliveryMode)


class JMSMessage(PropertyAccess):
    """A message without a body, and the common part of all messages. ``embedclient.Message`` is this class.

    Body and properties of a received message are read-only until ``clear_body()`` and ``clear_properties()``.

    Args:
        properties: names and values of properties; None has none.
        correlation_id: the JMSCorrelationID as text or bytes; None has none.
        reply_to: the JMSReplyTo; None has none.
        type: the JMSType; None has none.

    Raises:
        MessageFormatException: the value of a property has another type, or the name of a property is not allowed.
    """

    __slots__ = (
        "_body_source",
        "_headers",
        "_headers_source",
        "_properties",
        "_properties_are_shared",
        "_properties_source",
        "delivery_count",
        "on_acknowledge",
        "properties_are_read_only",
    )

    delivery_count: int
    """The number of deliveries, this one included (JMSXDeliveryCount); 0 before it was received."""
    on_acknowledge: Callable[[], Awaitable[None]] | None
    """Set by the session that delivered the message."""
    properties_are_read_only: bool

    _headers: Headers | None
    _headers_source: MessageSource | None
    _properties: Properties | None
    _properties_source: MessageSource | None
    _properties_are_shared: bool
    _body_source: MessageSource | None

    def __init__(
        self,
        *,
        properties: Mapping[str, PropertyValue] | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,
    ) -> None:
        self._headers = None
        self._headers_source = None
        self._properties = None
        self._properties_source = None
        self._properties_are_shared = False
        self._body_source = None
        self.delivery_count = 0
        self.on_acknowledge = None
        self.properties_are_read_only = False
        if properties:
            view = MessageProperties(self)
            for name, value in properties.items():
                view[name] = value
        if correlation_id is not None:
            self.correlation_id = correlation_id
        if reply_to is not None:
            self.reply_to = reply_to
        if type is not None:
            self.type = type

    # --- for the client: how messages come and go ----------------------------------------------------------------

    @classmethod
    def received(cls, source: MessageSource, delivery_count: int) -> Self:
        """Return a message that reads everything from ``source``, on demand."""
        self = cls.__new__(cls)
        self._headers = None
        self._headers_source = source
        self._properties = None
        self._properties_source = source
        self._properties_are_shared = True
        self._body_source = source
        self.delivery_count = delivery_count
        self.on_acknowledge = None
        self.properties_are_read_only = True
        self._begin_reading()
        return self

    def was_sent(self, source: MessageSource) -> None:
        """Set the headers that sending sets, read from the sent message on access."""
        self._headers = None
        self._headers_source = source

    @property
    def untouched_body(self) -> MessageSource | None:
        """Return the source, as long as the body was neither decoded nor replaced."""
        return self._body_source

    @property
    def body_stream(self) -> BodyStream | None:
        """Return the access to the body of a large message, None if this is not one."""
        source = self._body_source
        return source if isinstance(source, BodyStream) else None

    def stored(self) -> Properties:
        """Return all properties with their types, hidden ones and headers included. They must not be changed."""
        properties = self._properties
        if properties is None:
            source, self._properties_source = self._properties_source, None
            properties = self._properties = Properties() if source is None else source.properties()
        return properties

    def stored_for_writing(self) -> Properties:
        """Return ``stored()`` for writing properties.

        Raises:
            MessageNotWriteableException: they were received.
        """
        if self.properties_are_read_only:
            raise MessageNotWriteableException("the properties were received; call clear_properties() first")
        return self._own_properties()

    def _own_properties(self) -> Properties:
        properties = self.stored()
        if self._properties_are_shared:
            properties = self._properties = properties.copy()
            self._properties_are_shared = False
        return properties

    # --- headers --------------------------------------------------------------------------------------------------

    @property
    def _sent_headers(self) -> Headers:
        headers = self._headers
        if headers is None:
            source, self._headers_source = self._headers_source, None
            headers = self._headers = Headers() if source is None else source.headers()
        return headers

    @property
    def message_id(self) -> str | None:
        """Return ``ID:`` and a unique text, given by sending (JMSMessageID)."""
        return self._sent_headers.message_id

    @message_id.setter
    def message_id(self, value: str | None) -> None:
        self._sent_headers.message_id = _checked_message_id(value)

    @property
    def destination(self) -> Destination | None:
        """Return the destination that the message was sent to (JMSDestination)."""
        return self._sent_headers.destination

    @destination.setter
    def destination(self, value: Destination | None) -> None:
        self._sent_headers.destination = _checked_destination(value)

    @property
    def delivery_mode(self) -> DeliveryMode:
        """Return whether it survives a restart of the broker (JMSDeliveryMode)."""
        return self._sent_headers.delivery_mode

    @delivery_mode.setter
    def delivery_mode(self, value: int) -> None:
        if not _is_integer(value) or value not in _DELIVERY_MODES:
            raise _unfit(value, f"{value!r} is no delivery mode; PERSISTENT is 2, NON_PERSISTENT 1")
        self._sent_headers.delivery_mode = DeliveryMode(value)

    @property
    def priority(self) -> int:
        """Return the priority, 0 to 9 (JMSPriority)."""
        return self._sent_headers.priority

    @priority.setter
    def priority(self, value: int) -> None:
        if not _is_integer(value) or not 0 <= value <= 9:
            raise _unfit(value, f"{value!r} is no priority; they go from 0 to 9")
        self._sent_headers.priority = value

    @property
    def timestamp(self) -> int:
        """Return when it was sent, in Unix milliseconds; 0 if the producer omits that (JMSTimestamp)."""
        return self._sent_headers.timestamp

    @timestamp.setter
    def timestamp(self, value: int) -> None:
        self._sent_headers.timestamp = _checked_milliseconds(value, "timestamp")

    @property
    def expiration(self) -> int:
        """Return when it expires, in Unix milliseconds; 0 for never (JMSExpiration)."""
        return self._sent_headers.expiration

    @expiration.setter
    def expiration(self, value: int) -> None:
        self._sent_headers.expiration = _checked_milliseconds(value, "expiration")

    @property
    def delivery_time(self) -> int:
        """Return the earliest time of delivery, in Unix milliseconds; 0 for at once (JMSDeliveryTime)."""
        return self._sent_headers.delivery_time

    @delivery_time.setter
    def delivery_time(self, value: int) -> None:
        self._sent_headers.delivery_time = _checked_milliseconds(value, "delivery time")

    @property
    def redelivered(self) -> bool:
        """Return True if it was delivered before (JMSRedelivered)."""
        return self.delivery_count > 1

    @redelivered.setter
    def redelivered(self, value: bool) -> None:
        self.delivery_count = max(2, self.delivery_count) if value else 1

    @property
    def correlation_id(self) -> str | bytes | None:
        """Return the link from a reply to its request; text, or bytes of another system (JMSCorrelationID)."""
        value = self.stored().get(_CORRELATION_ID)
        return value if isinstance(value, str | bytes) else None

    @correlation_id.setter
    def correlation_id(self, value: str | bytes | None) -> None:
        if value == b"":
            raise MessageFormatException("a correlation id of bytes cannot be empty")
        self._set_header(_CORRELATION_ID, value)

    @property
    def reply_to(self) -> Destination | None:
        """Return the destination for a reply (JMSReplyTo)."""
        value = self.stored().get(_REPLY_TO)
        return parse_destination(value) if isinstance(value, str) else None

    @reply_to.setter
    def reply_to(self, value: Destination | None) -> None:
        checked = _checked_destination(value)
        self._set_header(_REPLY_TO, None if checked is None else str(checked))

    def _set_header(self, name: str, value: str | bytes | None) -> None:
        properties = self._own_properties()
        if value is None:
            properties.pop(name)
        elif isinstance(value, bytes):
            properties.set(name, value, PropertyType.BYTES)
        elif isinstance(value, str):
            properties.set(name, value, PropertyType.STRING)
        else:
            raise MessageFormatException(f"{name} cannot hold {value!r}")

    # --- properties -----------------------------------------------------------------------------------------------

    @property
    def properties(self) -> MessageProperties:
        """Return the properties as a mapping."""
        return MessageProperties(self)

    def clear_properties(self) -> None:
        """Remove all properties and make them writable. Headers and body stay."""
        kept = Properties()
        for name, (value, kind) in self.stored().typed_items():
            if is_header_name(name):
                kept.set(name, value, kind)
        self._properties = kept
        self._properties_are_shared = False
        self.properties_are_read_only = False

    # --- body -----------------------------------------------------------------------------------------------------

    @property
    def body(self) -> Any:
        """Return the body as one Python value; None here. Its type is that of the message: see the classes."""
        return None

    def clear_body(self) -> None:
        """Remove the body and make it writable. Headers and properties stay."""
        self._body_source = None

    def is_body_assignable_to(self, kind: type[object]) -> bool:
        """Return True if ``get_body(kind)`` gives a value.

        Args:
            kind: the type that `get_body` is to return.
        """
        body = self.body
        return body is None or isinstance(body, kind)

    def get_body(self, kind: type[T]) -> T | None:
        """Return the body, which must be of this type.

        Args:
            kind: the type of the body.

        Raises:
            MessageFormatException: it is of another type.
            TypeError: the type is not accepted by `isinstance`.
        """
        body = self.body
        if body is None or isinstance(body, kind):
            return body
        wanted = getattr(kind, "__name__", kind)  # unions have no name
        raise MessageFormatException(f"the body is {type(body).__name__}, not {wanted}")

    def chunks(self, *, progress: Progress | None = None) -> BodyChunks:
        """Return the content of the body, piece by piece, for `async for`, or `for` in the blocking facade.

        The content of a text is its UTF-8, that of a bytes message its bytes, and that of an object its serialised
        form. Maps and streams are as they are encoded. A compressed body is decompressed on the way. A large message
        is read while it arrives: the pieces that are not read yet wait at the broker. It can be read once, before its
        consumer receives the next message.

        Args:
            progress: called as `progress(done, total)` after each piece, with bytes; `total` is None if unknown.

        Raises:
            MessageFormatException: the message has no such content, or the body is malformed.
            IllegalStateException: the body was read before.
            JMSException: while it is read, the rest of the body cannot be read any more.
        """
        source = self._body_source
        return (
            source.chunks(progress) if isinstance(source, BodyStream) else MemoryChunks(self._content_bytes(), progress)
        )

    def save_to(self, target: SaveTarget, *, progress: Progress | None = None) -> Awaitable[None]:
        """Write the content of the body to a file: what `chunks` returns.

        A file of that path appears, or is replaced, when it is whole. Until then its name ends in `.part`.

        Args:
            target: a path, or an object with `write`, such as a file opened in the mode `wb`.
            progress: as in `chunks`.

        Raises: as `chunks`, and OSError for the file.
        """
        source = self._body_source
        if isinstance(source, BodyStream):
            return source.save_to(target, progress)
        MemoryChunks(self._content_bytes(), progress).save_to(target)
        return DONE_WAITING

    def _content_bytes(self) -> bytes:
        """Return the content of a body that is in memory."""
        content: Callable[[], bytes] | None = getattr(self._body_source, "content", None)
        if content is not None:
            return content()
        body = self.body
        if body is None:
            return b""
        if isinstance(body, str):
            return body.encode("utf-8", "surrogatepass")
        if isinstance(body, bytes):
            return body
        raise MessageFormatException(f"a {self.__class__.__name__} has no bytes; read its entries")

    def _begin_reading(self) -> None:
        """Set up a message with a body for reading; the body is not decoded yet."""

    # --- acknowledgement ------------------------------------------------------------------------------------------

    def acknowledge(self) -> Awaitable[None]:
        """Acknowledge by the rules of the session that delivered it.

        Raises:
            IllegalStateException: the message was not received.
        """
        if self.on_acknowledge is None:
            raise IllegalStateException("only a received message can be acknowledged")
        return self.on_acknowledge()

    def processing(self) -> Processing:
        """Return a block in which the program processes this message, for messages of `Connection.consume`.

        The end of the block removes the message from its queue. An exception in the block is logged, and the broker
        delivers the message again, or moves it to the dead letter address after too many attempts.

        Raises:
            IllegalStateException: the message does not come from `Connection.consume`.
        """
        if not isinstance(self.on_acknowledge, Processing):
            raise IllegalStateException("only messages of connection.consume() have processing()")
        return self.on_acknowledge

    def __repr__(self) -> str:
        headers = self._sent_headers
        return f"<{self.__class__.__name__} {headers.message_id or 'not sent'} to {headers.destination}>"

    # Last, because from here on the name means this header inside the class.
    @property
    def type(self) -> str | None:
        """Return the name of the kind of message, chosen by the program (JMSType)."""
        value = self.stored().get(_TYPE)
        return value if isinstance(value, str) else None

    @type.setter
    def type(self, value: str | None) -> None:
        self._set_header(_TYPE, value)


def _checked_destination(value: Destination | None) -> Destination | None:
    if value is None or isinstance(value, Queue | Topic | TemporaryQueue | TemporaryTopic):
        return value
    raise InvalidDestinationException(f"{value!r} is no destination")


def _is_integer(value: object) -> bool:
    """Return True for an int that is no bool. Python's bools are ints, but `True` never means the number 1 here."""
    return isinstance(value, int) and not isinstance(value, bool)


def _checked_message_id(value: object) -> str | None:
    if value is None or (isinstance(value, str) and value.startswith("ID:")):
        return value
    raise MessageFormatException(f"{value!r} is no message id; one is a str that begins with ID:")


def _checked_milliseconds(value: int, name: str) -> int:
    if _is_integer(value) and -_MILLISECONDS_END <= value < _MILLISECONDS_END:
        return value
    raise _unfit(value, f"{value!r} is no {name}; one is an int, in Unix milliseconds")


def _unfit(value: object, text: str) -> JMSException:
    """Return the error for a number that is out of range, or for a value that is no whole number."""
    return InvalidValueException(text) if _is_integer(value) else InvalidTypeException(text)
