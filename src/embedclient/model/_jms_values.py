"""Plain Python values as messages.

Responsible for which kind of message a value becomes when a program sends it without making one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import MessageFormatException
from ._jms_body import TextMessage
from ._jms_bytes import BytesMessage
from ._jms_map import MapMessage
from ._jms_message import JMSMessage
from ._jms_stream import StreamMessage

__all__ = ["message_for"]


def message_for(value: object) -> JMSMessage:
    """The message itself, or a new one: text for str, bytes for bytes, a map, a stream for a list, none for None.

    Raises:
        MessageFormatException: the value is none of these, or holds something that no message can.
    """
    match value:
        case JMSMessage():
            return value
        case str():
            return TextMessage(value)
        case bytes() | bytearray() | memoryview():
            return BytesMessage(value)
        case Mapping():
            return MapMessage(value)
        case Sequence():
            return StreamMessage(value)
        case None:
            return JMSMessage()
        case _:
            raise MessageFormatException(f"{value.__class__.__name__} cannot be sent as a message")
