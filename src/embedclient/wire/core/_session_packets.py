"""Packets of a session at work: messages, acknowledgements, credits, consumers, producers, plain transactions.

Responsible for their bodies. Does not depend on flow control or delivery. Regular messages at speed go through the
message lane instead; the classes here serve all other uses.
"""

from __future__ import annotations

from typing import Self

from ...errors import RemoteProtocolError
from .._buffer import Reader
from ._message import CoreMessage, to_1x
from ._message_lane import RECEIVE_TRAILER, message_raw, send_trailer
from ._packet_table import (
    Packet,
    by_packet,
    counted_bytes,
    flag,
    i32,
    i64,
    omittable_i64,
    optional_simple_string,
    simple_string,
)
from ._packet_type import PacketType


class SessionCreateConsumer(Packet):
    """Open a consumer under an id of the client's choice."""

    TYPE = PacketType.SESS_CREATECONSUMER
    consumer_id: int = i64()
    queue_name: str = simple_string()
    filter: str | None = optional_simple_string()
    browse_only: bool = flag()
    requires_response: bool = flag()
    priority: int = i32(default=0, since=130, tail=True)


class SessionConsumerClose(Packet):
    """Close a consumer."""

    TYPE = PacketType.SESS_CONSUMER_CLOSE
    consumer_id: int = i64()


class SessionConsumerFlowCredit(Packet):
    """Allow the broker to send that many more bytes of frames."""

    TYPE = PacketType.SESS_FLOWTOKEN
    consumer_id: int = i64()
    credits: int = i32()


class SessionForceConsumerDelivery(Packet):
    """Request a marker behind everything the queue can deliver now."""

    TYPE = PacketType.SESS_FORCE_CONSUMER_DELIVERY
    consumer_id: int = i64()
    sequence: int = i64()


class SessionAcknowledge(Packet):
    """Acknowledge everything delivered to the consumer up to the message."""

    TYPE = PacketType.SESS_ACKNOWLEDGE
    consumer_id: int = i64()
    message_id: int = i64()
    requires_response: bool = flag()


class SessionIndividualAcknowledge(Packet):
    """Acknowledge one message."""

    TYPE = PacketType.SESS_INDIVIDUAL_ACKNOWLEDGE
    consumer_id: int = i64()
    message_id: int = i64()
    requires_response: bool = flag()


class SessionExpire(Packet):
    """Report a message that expired in the client's buffer."""

    TYPE = PacketType.SESS_EXPIRED
    consumer_id: int = i64()
    message_id: int = i64()


class SessionCommit(Packet):
    """Commit. The correlation id is omitted (None) when no caller waits, and before version 132."""

    TYPE = PacketType.SESS_COMMIT
    correlation_id: int | None = omittable_i64(default=None, since=132, tail=True)


class SessionRollback(Packet):
    """Roll back; the flag decides whether the last message's delivery counts."""

    TYPE = PacketType.SESS_ROLLBACK
    consider_last_message_as_delivered: bool = flag()


class SessionStart(Packet):
    """Start deliveries."""

    TYPE = PacketType.SESS_START


class SessionStop(Packet):
    """Stop deliveries."""

    TYPE = PacketType.SESS_STOP


class SessionClose(Packet):
    """Close the session and its channel."""

    TYPE = PacketType.SESS_CLOSE


class DisconnectConsumer(Packet):
    """Report that the broker closed a consumer."""

    TYPE = PacketType.DISCONNECT_CONSUMER
    consumer_id: int = i64()


class DisconnectConsumerKill(Packet):
    """End the connection of a slow consumer (sent by the broker)."""

    TYPE = PacketType.DISCONNECT_CONSUMER_KILL
    node_id: str | None = optional_simple_string(default=None)


class CreateProducer(Packet):
    """Announce a producer; no address means an anonymous one."""

    TYPE = PacketType.CREATE_PRODUCER
    producer_id: int = i32()
    address: str | None = optional_simple_string(default=None)


class RemoveProducer(Packet):
    """Report that a producer is gone."""

    TYPE = PacketType.REMOVE_PRODUCER
    producer_id: int = i32()


class SessionRequestProducerCredits(Packet):
    """Request to send that many bytes to an address."""

    TYPE = PacketType.SESS_PRODUCER_REQUEST_CREDITS
    credits: int = i32()
    address: str = simple_string()


class SessionProducerCredits(Packet):
    """Grant the requested credits."""

    TYPE = PacketType.SESS_PRODUCER_CREDITS
    credits: int = i32()
    address: str = simple_string()


class SessionProducerCreditsFail(Packet):
    """Grant the requested credits although sends will fail: the address is full."""

    TYPE = PacketType.SESS_PRODUCER_FAIL_CREDITS
    credits: int = i32()
    address: str = simple_string()


class SessionSend(Packet):
    """A message for the broker. Correlation id from version 130, sender id from 134."""

    TYPE = PacketType.SESS_SEND
    message: CoreMessage = by_packet(CoreMessage)
    requires_response: bool = by_packet(bool)
    correlation_id: int = i64(default=0)
    sender_id: int = i32(default=0)

    @classmethod
    def read_body(cls, reader: Reader, version: int) -> Self:
        """Decode a body; the fields behind the message are found from the end."""
        trailer = send_trailer(version)
        stop = reader.end - trailer.size
        message = _read_message(reader, stop, version)
        response, *tail = trailer.unpack_from(reader.buffer, stop)
        return cls(message, response != 0, *tail)

    def append_body(self, out: bytearray, version: int) -> None:
        """Encode the body."""
        trailer = send_trailer(version)
        _append_message(out, self.message, version)
        tail = (-self.requires_response, self.correlation_id, self.sender_id)
        out += trailer.pack(*tail[: len(trailer.format) - 1])


class SessionReceiveMessage(Packet):
    """A delivery."""

    TYPE = PacketType.SESS_RECEIVE_MSG
    message: CoreMessage = by_packet(CoreMessage)
    consumer_id: int = i64()
    delivery_count: int = i32()

    @classmethod
    def read_body(cls, reader: Reader, version: int) -> Self:
        """Decode a body; the fields behind the message are found from the end."""
        stop = reader.end - RECEIVE_TRAILER.size
        message = _read_message(reader, stop, version)
        return cls(message, *RECEIVE_TRAILER.unpack_from(reader.buffer, stop))

    def append_body(self, out: bytearray, version: int) -> None:
        """Encode the body."""
        _append_message(out, self.message, version)
        out += RECEIVE_TRAILER.pack(self.consumer_id, self.delivery_count)


class SessionSendLarge(Packet):
    """Headers and properties of a large message; continuations follow. ``message`` has an empty body."""

    TYPE = PacketType.SESS_SEND_LARGE
    message: CoreMessage = by_packet(CoreMessage)

    @classmethod
    def read_body(cls, reader: Reader, version: int) -> Self:
        """Decode a body."""
        return cls(CoreMessage.parse_header(reader.rest()))

    def append_body(self, out: bytearray, version: int) -> None:
        """Encode the body."""
        out += self.message.header


class SessionSendContinuation(Packet):
    """A chunk of a large message. ``body_size`` is the uncompressed size, sent with the last chunk, -1 for unknown."""

    TYPE = PacketType.SESS_SEND_CONTINUATION
    chunk: bytes = counted_bytes()
    continues: bool = flag()
    body_size: int = i64(default=-1, when=("continues", False))
    requires_response: bool = flag(default=False)
    correlation_id: int = i64(default=0, since=130)
    sender_id: int = i32(default=0, since=134)


class SessionReceiveLarge(Packet):
    """Headers and properties of a large delivery; ``large_message_size`` bytes of continuations follow."""

    TYPE = PacketType.SESS_RECEIVE_LARGE_MSG
    consumer_id: int = i64()
    delivery_count: int = i32()
    large_message_size: int = i64()
    message: CoreMessage = by_packet(CoreMessage)

    @classmethod
    def read_body(cls, reader: Reader, version: int) -> Self:
        """Decode a body."""
        consumer_id, delivery_count, size = reader.i64(), reader.i32(), reader.i64()
        return cls(consumer_id, delivery_count, size, CoreMessage.parse_header(reader.rest()))

    def append_body(self, out: bytearray, version: int) -> None:
        """Encode the body."""
        i64.append(out, self.consumer_id)
        i32.append(out, self.delivery_count)
        i64.append(out, self.large_message_size)
        out += self.message.header


class SessionReceiveContinuation(Packet):
    """A chunk of a large delivery."""

    TYPE = PacketType.SESS_RECEIVE_CONTINUATION
    chunk: bytes = counted_bytes()
    continues: bool = flag()
    consumer_id: int = i64()


def _read_message(reader: Reader, stop: int, version: int) -> CoreMessage:
    start = reader.position
    if stop < start:
        raise RemoteProtocolError(f"a body of {reader.remaining} bytes is too short for a message")
    buffer = reader.buffer
    assert not isinstance(buffer, memoryview)
    reader.position = reader.end
    return CoreMessage.parse(message_raw(buffer, start, stop, version))


def _append_message(out: bytearray, message: CoreMessage, version: int) -> None:
    out += to_1x(message.raw) if 0 < version < 129 else message.raw


PACKETS: tuple[type[Packet], ...] = (
    SessionCreateConsumer,
    SessionConsumerClose,
    SessionConsumerFlowCredit,
    SessionForceConsumerDelivery,
    SessionAcknowledge,
    SessionIndividualAcknowledge,
    SessionExpire,
    SessionCommit,
    SessionRollback,
    SessionStart,
    SessionStop,
    SessionClose,
    DisconnectConsumer,
    DisconnectConsumerKill,
    CreateProducer,
    RemoveProducer,
    SessionRequestProducerCredits,
    SessionProducerCredits,
    SessionProducerCreditsFail,
    SessionSend,
    SessionReceiveMessage,
    SessionSendLarge,
    SessionSendContinuation,
    SessionReceiveLarge,
    SessionReceiveContinuation,
)
