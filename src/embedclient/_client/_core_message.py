"""The core layer's message: a body of bytes with headers and typed properties, and nothing of JMS.

Does not depend on the meaning of the body.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Protocol

from embedclient.agent import CoreMessage, Delivery
from embedclient.errors import IllegalStateException, InvalidDestinationException
from embedclient.model import (
    DONE_WAITING,
    BodyChunks,
    BodyStream,
    MemoryChunks,
    Progress,
    Properties,
    Readable,
    ReadableBody,
    SaveTarget,
    summary,
)


class Acknowledge(Protocol):
    def __call__(self, delivery: Delivery, *, individually: bool) -> Awaitable[None]: ...


class OnAcknowledge(Protocol):
    def __call__(self, *, individually: bool) -> Awaitable[None]: ...


class ClientMessage:
    """A message of the core layer.

    Args:
        body: the encoded body; or a readable, such as a file, which is read while the message is sent.
        address: the address to send to; None uses that of the producer.
        type: the message type of the CORE protocol.
        durable: the message survives a restart of the broker.
        priority: the priority, default 4.
        timestamp: the time of the send, in Unix milliseconds.
        expiration: the time of expiry, in Unix milliseconds; 0 means never.
        user_id: the message id as bytes; None has none.
        properties: typed properties; None has none.
    """

    def __init__(
        self,
        body: bytes | Readable = b"",
        *,
        address: str | None = None,
        type: int = 0,
        durable: bool = True,
        priority: int = 4,
        timestamp: int = 0,
        expiration: int = 0,
        user_id: bytes | None = None,
        properties: Properties | None = None,
    ) -> None:
        self.readable: Readable | None = None
        self._body = b""
        if isinstance(body, bytes | bytearray | memoryview):
            self._body = body
        else:
            self.readable = body
        self.body_stream: BodyStream | None = None
        self.address = address
        self.type = type
        self.durable = durable
        self.priority = priority
        self.timestamp = timestamp
        self.expiration = expiration
        self.user_id = user_id
        self.properties = properties if properties is not None else Properties()
        self.message_id = 0
        self.delivery_count = 0
        self.on_acknowledge: OnAcknowledge | None = None

    def __repr__(self) -> str:
        return summary(self, f"to {self.address}", f"of type {self.type}")

    @classmethod
    def received(
        cls, delivery: Delivery, acknowledge: Acknowledge, body_stream: BodyStream | None = None
    ) -> ClientMessage:
        """Return the message of a delivery. For the client's use."""
        core = delivery.message
        message = cls(
            bytes(core.body),
            address=core.address,
            type=core.type,
            durable=core.durable,
            priority=core.priority,
            timestamp=core.timestamp,
            expiration=core.expiration,
            user_id=core.user_id,
            properties=core.properties,
        )
        message.message_id = core.message_id
        message.delivery_count = delivery.delivery_count
        message.on_acknowledge = partial(acknowledge, delivery)
        message.body_stream = body_stream
        return message

    @property
    def body(self) -> bytes:
        """Return the encoded body.

        Raises:
            BodyTooLargeException: it is a large message whose body is above `maxLargeMessageBodySize`.
            IllegalStateException: the body is a readable, which is read when the message is sent.
        """
        if self.readable is not None:
            ReadableBody(self.readable).body()
        if self.body_stream is not None:
            self.body_stream.check_loaded()
        return self._body

    @body.setter
    def body(self, value: bytes) -> None:
        self._body = value
        self.body_stream = self.readable = None

    def chunks(self, *, progress: Progress | None = None) -> BodyChunks:
        """Return the encoded body, piece by piece, for `async for`, or `for` in the blocking facade.

        A large message is read while it arrives. It can be read once, before its consumer receives the next message.

        Args:
            progress: called as `progress(done, total)` after each piece, with bytes.

        Raises:
            IllegalStateException: the body was read before.
            JMSException: while it is read, the rest of the body cannot be read any more.
        """
        if self.body_stream is None:
            return MemoryChunks(self._body, progress)
        return self.body_stream.chunks(progress)

    def save_to(self, target: SaveTarget, *, progress: Progress | None = None) -> Awaitable[None]:
        """Write the encoded body to a file.

        Args:
            target: a path, or an object with `write`.
            progress: called as `progress(done, total)` after each piece, with bytes.

        Raises: as `chunks`, and OSError for the file.
        """
        if self.body_stream is not None:
            return self.body_stream.save_to(target, progress)
        MemoryChunks(self._body, progress).save_to(target)
        return DONE_WAITING

    def acknowledge(self) -> Awaitable[None]:
        """Acknowledge this message and all messages that its consumer received before it.

        Raises:
            IllegalStateException: the message was not received.
        """
        return self._acknowledge_with(individually=False)

    def acknowledge_individually(self) -> Awaitable[None]:
        """Acknowledge this message alone.

        Raises:
            IllegalStateException: the message was not received.
        """
        return self._acknowledge_with(individually=True)

    def _acknowledge_with(self, *, individually: bool) -> Awaitable[None]:
        if self.on_acknowledge is None:
            raise IllegalStateException("only a received message can be acknowledged")
        return self.on_acknowledge(individually=individually)

    def encoded(self, address: str | None) -> CoreMessage:
        """Return the message in encoded form, for `address` or for its own address.

        Raises:
            InvalidDestinationException: neither is given.
        """
        target = address or self.address
        if target is None:
            raise InvalidDestinationException("neither the producer nor the message has an address")
        return CoreMessage.build(
            type=self.type,
            address=target,
            durable=self.durable,
            priority=self.priority,
            timestamp=self.timestamp,
            expiration=self.expiration,
            user_id=self.user_id,
            properties=self.properties,
            body=self.body if self.readable is None else b"",
        )
