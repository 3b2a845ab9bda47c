"""Python values to JMS messages, and deliveries to JMS messages.

Responsible for the kind of message that a plain value becomes. Does not depend on how messages are encoded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from embedclient.agent import Delivery, from_core
from embedclient.errors import MessageFormatException
from embedclient.model import (
    BodyStream,
    BytesMessage,
    Destination,
    JMSMessage,
    MapMessage,
    MessageSource,
    PropertyValue,
    Readable,
    ReadableBody,
    StreamMessage,
    TextMessage,
    is_readable,
)

Body = (
    JMSMessage
    | str
    | bytes
    | bytearray
    | memoryview
    | Mapping[str, PropertyValue]
    | list[PropertyValue]
    | tuple[PropertyValue, ...]
    | Readable
)
"""A value that can be sent: a message, or a value that becomes one."""


def readable_of(body: Body) -> Readable | None:
    """Return what the body is read from while it is sent, None for a body that is in memory."""
    source = body.untouched_body if isinstance(body, BytesMessage) else None
    if isinstance(source, ReadableBody):
        return source.readable
    if isinstance(source, BodyStream) and not source.is_loaded:
        return source.chunks(None)
    if isinstance(body, JMSMessage | str | bytes | bytearray | memoryview | Mapping | list | tuple):
        return None
    return body if is_readable(body) else None


def as_message(body: Body) -> JMSMessage:
    """Return the message for a value.

    Text becomes a TextMessage, bytes or a readable a BytesMessage, a mapping a MapMessage, a list or tuple a
    StreamMessage.
    """
    if isinstance(body, JMSMessage):
        return body
    if isinstance(body, str):
        return TextMessage(body)
    if isinstance(body, bytes | bytearray | memoryview):
        return BytesMessage(bytes(body))
    if isinstance(body, Mapping):
        return MapMessage(body)
    if isinstance(body, Sequence):
        return StreamMessage(body)
    if is_readable(body):
        return BytesMessage(body)
    raise MessageFormatException(
        f"a value of type {type(body).__name__} cannot be sent; make it a message, str, bytes, dict, list or readable"
    )


def as_content(body: Body) -> JMSMessage | str | bytes:
    """Return the content for an envelope: text and bytes unchanged, since a message around them adds no headers."""
    return body if body.__class__ is bytes or body.__class__ is str else as_message(body)


def decode(
    delivery: Delivery,
    destination: Destination,
    acknowledge: Callable[[], Awaitable[None]],
    source: MessageSource | None = None,
) -> JMSMessage:
    """Return the message of a delivery. Its parts are decoded on first access, from `source` if there is one."""
    message = from_core(delivery.message, delivery.delivery_count, destination, source)
    message.on_acknowledge = acknowledge
    return message
