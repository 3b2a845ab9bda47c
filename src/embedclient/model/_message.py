"""The message port: the broker's view of a message, in any encoding.

Responsible for the smallest common view over raw bytes: routing fields extracted once, properties on demand. Does not
depend on any encoding; the codecs of ``embedclient.wire`` implement it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Protocol

from ._properties import PropertyValue, TypedValue

__all__ = ["Encoding", "Message", "RoutingType"]


class RoutingType(IntEnum):
    """An address' way of distributing messages to its queues, numbered as on the wire."""

    MULTICAST = 0
    ANYCAST = 1


class Encoding(IntEnum):
    """The codec that wrote the raw bytes of a message. Stored in journal records: never renumber."""

    CORE = 1
    AMQP = 2


class Message(Protocol):
    """A stored message. ``size`` is the encode size in bytes, the figure that credits and limits count."""

    @property
    def raw(self) -> bytes | bytearray:
        """Return the message's bytes as they arrived, or as they were last rewritten."""

    @property
    def encoding(self) -> int:
        """Return an ``Encoding`` number."""

    @property
    def message_id(self) -> int:
        """Return the broker's id, 0 before one is assigned."""

    @property
    def address(self) -> str:
        """Return the address it was sent to; empty when the sender named no address."""

    @property
    def durable(self) -> bool:
        """Return True if it must survive a restart of the broker."""

    @property
    def priority(self) -> int:
        """Return the priority, 0 to 9, 4 by default."""

    @property
    def expiration(self) -> int:
        """Return the wall time in Unix milliseconds after which it is expired, 0 for never."""

    @property
    def timestamp(self) -> int:
        """Return the wall time of sending in Unix milliseconds, 0 when the sender gave no time."""

    @property
    def size(self) -> int:
        """Return the encoded size in bytes."""

    @property
    def duplicate_id(self) -> bytes | None:
        """Return the duplicate detection id, None when it is absent."""

    def property(self, name: str) -> PropertyValue:
        """Return one property, None when it is missing."""

    def assign_id(self, message_id: int) -> None:
        """Set the broker's id, in place."""

    def copy_for(
        self,
        address: str,
        *,
        changes: Mapping[str, PropertyValue | TypedValue],
        removals: Collection[str],
        expiration: int,
    ) -> Message:
        """Return a copy without id, for another address, with other properties (dead letter, forwarding)."""
