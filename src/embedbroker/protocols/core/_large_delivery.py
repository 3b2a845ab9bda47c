"""A large message on its way to a consumer: SESS_RECEIVE_LARGE_MSG, then continuations (core-protocol 4.7, 7.5).

Responsible for reading the body in portions, for the credit that each chunk takes, and for stopping while the consumer
has none or its connection does not keep up. Until the last chunk it stands in the place of the consumer's credit, so
that the queue has nothing else for that consumer. Does not depend on queues and files.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import TYPE_CHECKING

from embedbroker.kernel import Consumer, StoredMessage
from embedclient.wire.core import FRAME_HEADER, PacketType

if TYPE_CHECKING:
    from ._interfaces import LargeSession

__all__ = ["LargeDelivery", "chunk_size"]

_CONTINUATION = int(PacketType.SESS_RECEIVE_CONTINUATION)
_SIZE = Struct(">i")
_TRAILER = Struct(">bq")
_CHUNK_BYTES_MIN = 64
_CHUNK_BYTES_MAX = 1024 * 1024
# A read covers several chunks, up to about this size: each costs a hop to a thread and back. The next one begins when
# half of it is sent, so that the next grant of the peer finds chunks to send.
READ_BYTES = 1024 * 1024
# The reads of all deliveries together have about this size; each of them covers one chunk at least.
READ_BYTES_OF_ALL = 64 * 1024 * 1024


def chunk_size(min_large_message_size: int) -> int:
    """Return the size of the chunks for a client, from the value that it sends with its session."""
    return max(_CHUNK_BYTES_MIN, min(min_large_message_size, _CHUNK_BYTES_MAX))


class LargeDelivery:
    """One delivery under way. It is the `Credit` of its consumer until it ends, and waits at back-pressure for it."""

    __slots__ = (
        "_checksum",
        "_credit",
        "_data",
        "_is_broken",
        "_is_over",
        "_is_reading",
        "_message",
        "_offset",
        "_read_end",
        "_session",
        "consumer",
    )

    def __init__(self, session: LargeSession, consumer: Consumer, message: StoredMessage) -> None:
        self._session = session
        self.consumer = consumer
        self._message = message
        # Ends of what was sent, and of what was read: `0 <= offset <= read_end <= size of the body`.
        self._offset = self._read_end = 0
        # What was read and not sent, in portions of whole chunks.
        self._data: deque[memoryview] = deque()
        # CRC-32 of the bytes that were read.
        self._checksum = 0
        self._is_reading = False
        # The body cannot be delivered: the consumer gets nothing more until its client closes it.
        self._is_broken = False
        self._is_over = False
        self._credit = consumer.credit
        consumer.credit = self
        session.kernel.large_bodies.begin_delivery(message.body.number)

    def begin(self) -> None:
        """Begin to read. What is read is sent in a later step: the queue charges the headers first."""
        self._read(self._portion_bytes())

    # -- the credit of the consumer ------------------------------------------------------------------------------

    @property
    def left(self) -> int:
        """Return what the consumer may still be sent."""
        return self._credit.left

    @left.setter
    def left(self, left: int) -> None:
        self._credit.left = left

    def can_take(self, size: int) -> bool:
        """Return False: the consumer gets nothing else until this delivery is complete."""
        return False

    def grant(self, amount: int) -> None:
        """Apply a grant of the peer, and send what it allows."""
        self._credit.grant(amount)
        self.advance()

    def on_marker(self) -> None:
        """Handle a marker as the consumer's own credit does."""
        self._credit.on_marker()

    # -- sending -------------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Continue in the next step: sending may make the peer slow again, in the middle of other consumers' turns."""
        self._session.kernel.store.bodies.completed.append(self.advance)

    def advance(self) -> None:
        """Send the chunks that were read, as far as credit and the connection allow; then read on."""
        consumer, session, size = self.consumer, self._session, self._message.body.size
        while not self._is_over:
            if consumer.closed:
                self.end()
                return
            if not self._data and size:
                break
            if self._is_broken or self._credit.left <= 0 or session.holds_deliveries:
                break
            if consumer.backpressure.is_shut:
                consumer.backpressure.wait(self)
                break
            self._send_chunk()
        if not self._is_over and not self._is_reading and self._read_end < size and not self._is_broken:
            portion = self._portion_bytes()
            if self._read_end - self._offset < portion // 2:
                self._read(portion)

    def _send_chunk(self) -> None:
        session, size = self._session, self._message.body.size
        chunk = memoryview(b"")
        if size:
            portion = self._data.popleft()
            chunk, rest = portion[: session.chunk_bytes], portion[session.chunk_bytes :]
            if rest:
                self._data.appendleft(rest)
        self._offset += len(chunk)
        continues = self._offset < size
        length = FRAME_HEADER.size - 4 + _SIZE.size + len(chunk) + _TRAILER.size
        head = FRAME_HEADER.pack(length, _CONTINUATION, session.channel_id) + _SIZE.pack(len(chunk))
        self._credit.left -= session.write_chunk(head, chunk, _TRAILER.pack(-continues, self.consumer.key))
        if not continues:
            self.end()

    def _portion_bytes(self) -> int:
        """Return the size of a read: whole chunks, less for each of many deliveries."""
        chunk = self._session.chunk_bytes
        share = READ_BYTES_OF_ALL // self._session.kernel.large_bodies.deliveries
        return max(min(READ_BYTES, share) // chunk, 1) * chunk

    def _read(self, portion: int) -> None:
        body = self._message.body
        length = min(portion, body.size - self._read_end)
        self._is_reading = True
        self._session.kernel.store.bodies.read(
            body.number,
            self._read_end,
            length,
            lambda data, checksum: self._on_read(length, data, checksum),
            self._checksum,
        )

    def _on_read(self, length: int, data: bytes | None, checksum: int) -> None:
        self._is_reading = False
        if self._is_over:
            return
        body = self._message.body
        if data is None:
            self._fail(f"cannot be read at {self._read_end}", is_damaged=False)
            return
        self._read_end += len(data)
        if len(data) < length:
            self._fail(f"is cut short: {self._read_end} of its {body.size} bytes are left")
            return
        self._checksum = checksum
        if body.checksum not in (None, checksum) and self._read_end == body.size:
            # The last portion is not sent: no client takes the rest for a whole body.
            self._fail("is damaged: its bytes do not fit its checksum")
            return
        self._data.append(memoryview(data))
        self.advance()

    def _fail(self, why: str, *, is_damaged: bool = True) -> None:
        self._is_broken = True
        self._session.break_off(self.consumer, self._message, why, is_damaged=is_damaged)

    def end(self) -> None:
        """End the delivery, complete or not: the consumer takes part again in its queue."""
        if self._is_over:
            return
        self._is_over = True
        consumer = self.consumer
        consumer.backpressure.forget(self)
        if consumer.credit is self:
            consumer.credit = self._credit
        self._session.forget_large(self)
        self._session.kernel.large_bodies.end_delivery(self._message.body.number)
        if not consumer.closed:
            consumer.queue.consumer_ready(consumer)
