"""Python values to JMS messages, and deliveries to JMS messages.

Responsible for which kind of message a plain value becomes. Refuses to know how messages are encoded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from embedclient.agent import Delivery, from_core
from embedclient.errors import MessageFormatException
from embedclient.model import (
    BytesMessage,
    Destination,
    JMSMessage,
    MapMessage,
    PropertyValue,
    StreamMessage,
    TextMessage,
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
)
"""What can be sent: a message, or a value that becomes one."""


def as_message(body: Body) -> JMSMessage:
    """Text becomes a TextMessage, bytes a BytesMessage, a mapping a MapMessage, a list or tuple a StreamMessage."""
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
    raise MessageFormatException(f"a {type(body).__name__} cannot be sent; make it a message, str, bytes, dict or list")


def as_content(body: Body) -> JMSMessage | str | bytes:
    """What an envelope takes: text and bytes as they are. Nobody would see the headers of a message around them."""
    return body if body.__class__ is bytes or body.__class__ is str else as_message(body)


def decode(delivery: Delivery, destination: Destination, acknowledge: Callable[[], Awaitable[None]]) -> JMSMessage:
    """The message of a delivery. Its parts are decoded when somebody looks at them."""
    message = from_core(delivery.message, delivery.delivery_count, destination)
    message.on_acknowledge = acknowledge
    return message
