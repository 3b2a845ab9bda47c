"""What a message that crossed the wire is read from: headers, properties and body, each on access.

Does not depend on any wire format; the implementations do.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol, TypeAlias

from attrs import define

from ._destination import Destination
from ._properties import Properties, TypedValue

__all__ = ["BodyValue", "DeliveryMode", "Headers", "MessageSource"]

BodyValue: TypeAlias = str | bytes | bytearray | memoryview | Properties | list[TypedValue] | None
"""Text; the data of a bytes or object message; map entries; stream items; or nothing."""


class DeliveryMode(IntEnum):
    """Whether a message survives a restart of the broker (JMSDeliveryMode)."""

    NON_PERSISTENT = 1
    PERSISTENT = 2


@define
class Headers:
    """The headers that sending sets.

    Values that a program writes into them before sending have no effect, by the JMS rules.
    """

    message_id: str | None = None
    destination: Destination | None = None
    delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT
    priority: int = 4
    timestamp: int = 0
    expiration: int = 0
    delivery_time: int = 0


class MessageSource(Protocol):
    """The source of the parts of a message that crossed the wire; each is decoded on access."""

    def headers(self) -> Headers:
        """Return the headers that were set by sending."""

    def properties(self) -> Properties:
        """Return all properties, the broker's included. Shared: the message copies before it writes."""

    def body(self) -> BodyValue:
        """Return the decoded body. Raise MessageFormatException when it is malformed."""
