"""The stored message as the kernel handles it, in any encoding.

Responsible for the smallest common view: fields for routing, sizes, and the few facts that brokers keep in messages.
The kernel names those facts; each encoding has its own names for them. Does not depend on any encoding:
``embedclient.wire.core.CoreMessage`` implements it for CORE, `StoredMessage` for all others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from embedclient.model import Origin, PropertyValue

__all__ = ["Message"]


class Message(Protocol):
    """A stored message. What decodes properties raises RemoteProtocolError if they are malformed.

    Fields are attributes, as sends and deliveries read them. ``0 <= priority <= 9``.
    """

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
    def is_directed(self) -> bool:
        """Return True if it has a ``deliver_at`` or a group. A message that was restored does not have this mark."""

    @property
    def deliver_at(self) -> int:
        """Return the wall time in Unix milliseconds before which it must not be delivered, 0 for none."""

    @property
    def timestamp(self) -> int:
        """Return the wall time of sending in Unix milliseconds, 0 when the sender gave no time."""

    @property
    def encoded_size(self) -> int:
        """Return the size in bytes of the whole message in its encoding, for credits, limits and selectors."""

    @property
    def memory_size(self) -> int:
        """Return the bytes that it takes in memory: always the length of `stored_bytes`.

        A body that is not resident does not count.
        """

    @property
    def body_number(self) -> int:
        """Return the number of its large body; 0 if `stored_bytes` holds the whole message."""

    @property
    def user_id(self) -> bytes | str | None:
        """Return the sender's id of the message: the 16 bytes of a UUID, or a text; None when it is absent."""

    @property
    def group_id(self) -> PropertyValue:
        """Return the id of the message group, None for a message without a group."""

    @property
    def is_grouped(self) -> bool:
        """Return True if it is directed, and has the id of a group."""

    @property
    def closes_group(self) -> bool:
        """Return True if it is the last message of its group."""

    @property
    def duplicate_id(self) -> bytes | None:
        """Return the duplicate detection id, None when it is absent."""

    @property
    def is_to_temporary(self) -> bool:
        """Return True if the sender named a temporary destination, which must not be created on demand."""

    def property(self, name: str) -> PropertyValue:
        """Return the value that a selector reads under this name, None when it is missing."""

    def stored_bytes(self) -> bytes | bytearray:
        """Return the bytes of its record, from which its encoding restores it. They hold id, address and durability.

        They must not change once the message has its id.
        """

    def to_core(self, body: bytes = b"") -> Message:
        """Return the message in the CORE encoding, with the same id.

        ``body`` is the large body that its stored bytes do not hold; without it, such a message has an empty body.
        """

    def assign_id(self, message_id: int) -> None:
        """Set the broker's id, in place."""

    def annotate(self, origin: Origin, address: str) -> Message:
        """Return a copy without id and expiration, for another address, that states its origin."""

    def directed(self, deliver_at: int = 0) -> Message:
        """Return it as a directed message with this ``deliver_at``, under the same id.

        Its stored bytes do not hold that time.
        """

    def with_property(self, name: str, value: PropertyValue) -> Message:
        """Return a copy with the same id that has another property. Raise RemoteProtocolError."""

    def copy_to(self, address: str, priority: int | None = None, expiration: int = 0) -> Message:
        """Return a copy without id for another address, with no trace of its origin.

        Args:
            address: Address of the copy.
            priority: Priority of the copy, 0 to 9; None keeps that of the message.
            expiration: Wall time in Unix milliseconds at which the copy expires, 0 for never.
        """

    def with_changes(
        self,
        address: str,
        routing_type: int | None,
        changes: Mapping[str, PropertyValue],
        removals: Collection[str] = (),
    ) -> Message:
        """Return a copy without id, with the same expiration, for another address.

        It is assigned to no binding, even if another broker had assigned the message to one.

        Args:
            address: Address of the copy.
            routing_type: Routing type that the copy states, 0 for multicast, 1 for anycast; None: it states none.
            changes: Properties that are added or replaced.
            removals: Names of properties that the copy does not have.
        """

    def with_route(self, queue_name: str, queue_ids: bytes) -> Message:
        """Return a copy without id, for a store-and-forward queue; it is not directed. Raise RemoteProtocolError.

        Args:
            queue_name: Name of the store-and-forward queue.
            queue_ids: Ids of the queues of the other broker, 8 bytes each, big-endian.
        """

    def with_expiration(self, expiration: int) -> Message:
        """Return a copy with the same id that expires at another wall time in Unix milliseconds, 0 for never."""
