"""Large messages as they arrive: headers first, then the body in chunks (core-protocol 4.7, 5.6).

Responsible for the chunks of one body, for what is paid for them and when, and for the message that a body in memory
makes. The window bounds the chunks in memory: the broker gets credits for a chunk when it is taken. Does not depend on
consumers or compression. Bodies are inflated where they are decoded, because small ones come compressed too.

A body goes through these uses, each entered from those before it:

1. HELD: its message waits in the buffer. Chunks that arrive are kept, unpaid.
2. LOADED: the body goes into memory, each chunk as it arrives. READ: a program takes the chunks one by one.
3. DROPPED: the rest is not wanted. Chunks are paid for as they arrive, so that the broker comes to the next message.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import Final

from embedclient.errors import JMSException, RemoteProtocolError
from embedclient.model import Instant
from embedclient.wire.core import CoreMessage

from .._call import DueCallbacks
from ._credits import ConsumerCredits
from ._prefetch import Delivery, DeliveryAcknowledger

_END_OF_BODY: Final = Struct(">i")
_BODY_OFFSET: Final = 13
_LARGE_SIZE: Final = "_AMQ_LARGE_SIZE"
# A message in memory has 31 bits for the end of its body. The rest is for headers and properties.
_LOADED_BYTES_MAX: Final = 2**31 - 2**24


class BodyUse(Enum):
    """The use of a body's chunks."""

    HELD = "held"
    LOADED = "loaded"
    READ = "read"
    DROPPED = "dropped"


class LargeBody:
    """The body of a large message: `size` bytes, of which `received_bytes` have arrived.

    `0 <= received_bytes <= size`; `complete` when the last chunk has arrived. `error` is set when the rest cannot be
    read any more. `on_change` is called at the end of the step in which a chunk arrives or the error is set.
    """

    __slots__ = (
        "_chunks",
        "_credits",
        "_due",
        "_notify_due",
        "_raw",
        "complete",
        "error",
        "on_change",
        "received_bytes",
        "size",
        "use",
    )

    def __init__(self, size: int, credits: ConsumerCredits, due: DueCallbacks) -> None:
        self.size = size
        self.received_bytes = 0
        self.complete = False
        self.use = BodyUse.HELD
        self.error: JMSException | None = None
        self.on_change: Callable[[], None] | None = None
        self._credits = credits
        self._due = due
        self._notify_due = False
        # Each chunk with the size of its frame, and whether it is the last one.
        self._chunks: deque[tuple[bytes, int, bool]] = deque()
        # The beginning of a message in memory, without the end of its body.
        self._raw = bytearray()

    @property
    def exhausted(self) -> bool:
        """Return True if every chunk was taken."""
        return self.complete and not self._chunks

    def add(self, chunk: bytes, continues: bool, frame_size: int) -> None:
        """Add one chunk. Raise RemoteProtocolError for a body that is longer or shorter than announced."""
        received_bytes = self.received_bytes + len(chunk)
        if received_bytes > self.size or not (continues or received_bytes == self.size):
            raise RemoteProtocolError(
                f"a large message of {self.size} bytes has {received_bytes} bytes, and the last chunk "
                f"{'is still to come' if continues else 'is there'}"
            )
        self.received_bytes = received_bytes
        self.complete = not continues
        if self.use is BodyUse.LOADED:
            self._credits.pay_for_chunk(frame_size, self.complete)
            self._raw += chunk
        elif self.use is BodyUse.DROPPED:
            self._credits.pay_for_chunk(frame_size, self.complete)
        else:
            self._chunks.append((chunk, frame_size, self.complete))
            self._change()

    def take(self) -> bytes | None:
        """Return the next chunk and pay for it. Return None if no chunk is there now."""
        if not self._chunks:
            return None
        chunk, frame_size, last = self._chunks.popleft()
        self._credits.pay_for_chunk(frame_size, last)
        return chunk

    def load(self) -> None:
        """Put the chunks into memory from now on."""
        self.use = BodyUse.LOADED
        self._raw += bytes(_END_OF_BODY.size)
        while (chunk := self.take()) is not None:
            self._raw += chunk

    def message_with(self, header: CoreMessage) -> CoreMessage:
        """Return the whole message, for a loaded body that is complete. Raise RemoteProtocolError."""
        raw, self._raw = self._raw, bytearray()
        _END_OF_BODY.pack_into(raw, 0, _BODY_OFFSET + len(raw) - _END_OF_BODY.size)
        raw += header.header
        return CoreMessage.parse(raw)

    def drop(self, error: JMSException) -> None:
        """Give the rest up, and pay for it as it arrives. A reader gets the error."""
        self.use = BodyUse.DROPPED
        while self.take() is not None:
            pass
        self._fail(error)

    def abandon(self, error: JMSException) -> None:
        """Give the rest up, which does not arrive: the broker ended the delivery. A reader gets the error."""
        for _, frame_size, _ in self._chunks:
            self._credits.pay_for_abandoned(frame_size)
        self.forget(error)

    def forget(self, error: JMSException) -> None:
        """Give the rest up without payment: the broker has forgotten the consumer. A reader gets the error."""
        self._chunks.clear()
        self._raw = bytearray()
        self.use = BodyUse.DROPPED
        self._fail(error)

    def _fail(self, error: JMSException) -> None:
        if self.error is None:
            self.error = error
            self._change()

    def _change(self) -> None:
        if self.on_change is not None and not self._notify_due:
            self._notify_due = True
            self._due.add(self._notify)

    def _notify(self) -> None:
        self._notify_due = False
        if self.on_change is not None:
            self.on_change()


class LargeDelivery(Delivery):
    """A large message as delivered to one consumer.

    With `loads`, it is given out when its body is in memory. Otherwise `message` stays without body, and the program
    reads the chunks of `body`. `loads` and `body.use` decide; both hold from the arrival of the headers.
    """

    __slots__ = ("_credits", "body", "body_bytes", "loads")

    def __init__(
        self,
        message: CoreMessage,
        delivery_count: int,
        acknowledgements: DeliveryAcknowledger,
        frame_size: int,
        sequence: int,
        body: LargeBody,
        credits: ConsumerCredits,
        loaded_bytes_max: int,
    ) -> None:
        super().__init__(message, delivery_count, acknowledgements, frame_size, sequence)
        self.body = body
        self.body_bytes = _content_size(message, body.size)
        limit = _LOADED_BYTES_MAX if loaded_bytes_max < 0 else min(loaded_bytes_max, _LOADED_BYTES_MAX)
        self.loads = self.body_bytes <= limit
        self._credits = credits

    def is_expired(self, now: Instant) -> bool:
        return 0 < self.message.expiration <= now.wall_ms

    def load(self) -> bool:
        """Begin to load the body, once. Return True if the message is whole.

        Raise RemoteProtocolError.
        """
        body = self.body
        if body.use is BodyUse.HELD:
            self.pay_for_header()
            body.load()
            if body.complete:
                self.finish()
        return body.complete

    def finish(self) -> None:
        """Make the message whole: its body is complete in memory. Raise RemoteProtocolError."""
        self.message = self.body.message_with(self.message)

    def pay_for_header(self) -> None:
        """Pay for the packet with the headers, once."""
        frame_size, self.frame_size = self.frame_size, 0
        if frame_size:
            self._credits.pay_for_header(frame_size)

    def abandon(self, error: JMSException) -> None:
        """Give the message up: the broker ended the delivery."""
        frame_size, self.frame_size = self.frame_size, 0
        if frame_size:
            self._credits.pay_for_abandoned(frame_size)
        self.body.abandon(error)


def _content_size(message: CoreMessage, size: int) -> int:
    """Return the size of a body as its reader gets it: of a compressed one, the size that its sender has stated."""
    stated = message.property(_LARGE_SIZE)
    return max(size, stated) if isinstance(stated, int) and not isinstance(stated, bool) else size
