"""Facts about a stored message that codecs and the broker share: its encoding, its routing type and its origin."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from attrs import frozen

__all__ = ["GROUP_BUCKET_PREFIX", "ORIGINAL_ADDRESS", "Encoding", "Origin", "RoutingType"]

ORIGINAL_ADDRESS: Final = "_AMQ_ORIG_ADDRESS"
"""Name under which selectors read the address that the original of a copy was sent to."""

GROUP_BUCKET_PREFIX = "_AMQ_GROUP_BUCKET_INT_KEY_"
"""Before a number, in the id of a message group: the client chooses the bucket of the group by that number."""


class RoutingType(IntEnum):
    """An address' way of distributing messages to its queues, numbered as on the wire."""

    MULTICAST = 0
    ANYCAST = 1


class Encoding(IntEnum):
    """The codec that wrote the raw bytes of a message. Stored in journal records: never renumber."""

    CORE = 1
    AMQP = 2
    #: Headers and properties of a CORE message whose body is large: it is not in the bytes.
    CORE_LARGE = 3


@frozen
class Origin:
    """Where a copy of a message comes from. Each encoding writes these facts under its own names."""

    #: Address to which the message was sent.
    address: str
    #: Queue that the message left; None if no queue took it.
    queue: str | None
    #: Id of the message, which its copy no longer has.
    message_id: int
    #: Wall time in Unix milliseconds at which it left its queue as expired; None if it did not expire.
    expired_at_ms: int | None = None
