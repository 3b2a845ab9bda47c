"""A producer: which sends block, which are confirmed later, what they cost in credits, and which are too large.

Responsible for core-protocol 7.8 on the sending side. Does not build messages, and does not depend on entries that wait
in front of a send: the channel holds those.
"""

from collections.abc import Callable, Sequence
from typing import Final

from embedclient.errors import ConnectionClosedException, ErrorCode, JMSException, exception_for
from embedclient.model import PropertyType, TypedValue
from embedclient.wire.core import FRAME_HEADER_SIZE, SEND_TRAILER, CoreMessage, RemoveProducer

from .._call import DONE, Call, DueCallbacks, failed_call
from .._large_content import COMPRESSED
from .._rate import rate_limit
from .._settings import LocatorSettings, SessionFlags
from ..session._channel import SessionChannel
from ..session._requests import LargeSend, Send
from ._async_sends import Receipt
from ._credits import AddressCredits, CreditTable
from ._large_body import Chunk, FedBody, HeldBody

VERSION_WITH_PRODUCERS = 134
# A body goes into chunks if it and these bytes are longer than minLargeMessageSize (core-protocol 5.6).
_LENGTH_FIELD_BYTES: Final = 4
_LARGE_SIZE: Final = "_AMQ_LARGE_SIZE"
# Requests to a broker of this project itself. It reads them from one packet, of any size.
_SERVICES_ADDRESS: Final = "embedbroker.services"


class Upload:
    """A large message whose sender feeds the chunks of its body. `call` is its outcome.

    Wait for `room`, then `put` a chunk, until the last one. `abort` ends an upload in the middle: the broker drops what
    it has, with the next large message of the session or with the session.
    """

    __slots__ = ("_body", "_channel", "call")

    def __init__(self, channel: SessionChannel, call: Call[None], body: FedBody) -> None:
        self.call = call
        self._channel = channel
        self._body = body
        call.when_done(body.end)

    def room(self) -> Call[None]:
        """Return a call that is done when `put` may be called. It fails when the message cannot be sent any more."""
        if self.call.done:
            return self.call
        return self._body.room

    def put(self, chunk: Chunk, body_bytes: int) -> None:
        """Give the next chunk. `body_bytes` is the size of the body so far, before compression."""
        if not self.call.done:
            self._body.put(chunk, body_bytes)
            self._channel.pump()

    def abort(self, error: JMSException) -> None:
        """Give the message up, unless its last chunk has left."""
        self._channel.abort_upload(self.call, error)


class Producer:
    """A session's producer, for one address or (None) for any. Create it with `Session.create_producer`."""

    __slots__ = (
        "_blocks_on_durable",
        "_blocks_on_non_durable",
        "_channel",
        "_compression_level",
        "_due",
        "_large_from",
        "_message_bytes_max",
        "_min_large_size",
        "_on_end",
        "_on_work",
        "_rate",
        "_table",
        "address",
        "closed",
        "closed_error",
        "credits",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        address: str | None,
        channel: SessionChannel,
        due: DueCallbacks,
        table: CreditTable | None,
        settings: LocatorSettings,
        flags: SessionFlags,
        *,
        on_work: Callable[[], None] | None,
        on_end: Callable[["Producer"], None],
    ) -> None:
        self.producer_id = producer_id
        self.address = address
        self.closed = False
        self.closed_error: JMSException | None = None
        self._channel = channel
        self._due = due
        self._table = table
        self._on_work = on_work
        self._on_end = on_end
        # A send inside a transaction never blocks: its outcome is known at the commit.
        self._blocks_on_durable = settings.block_on_durable_send and flags.auto_commit_sends
        self._blocks_on_non_durable = settings.block_on_non_durable_send and flags.auto_commit_sends
        # A larger frame ends the connection, and would do so again after each reattachment that repeats it.
        self._message_bytes_max = settings.frame_size_bytes_max - FRAME_HEADER_SIZE - SEND_TRAILER.size
        self._min_large_size = settings.min_large_message_size
        # No shorter message is large, or too large.
        self._large_from = min(self._min_large_size, self._message_bytes_max)
        self._compression_level = settings.compression_level if settings.compress_large_message else None
        self._rate = rate_limit(settings.producer_max_rate)
        self.credits: AddressCredits | None = None
        if table is not None and address is not None:
            self.credits = table.acquire(address)

    def send(self, message: CoreMessage) -> Call[None]:
        """Send a message.

        The call is done when the broker has answered, or at once for a send that does not wait for it.
        """
        if self.closed:
            return failed_call(self.closed_error or _closed())
        if len(message.raw) > self._large_from:
            return self._send_long(message, confirmed=False)
        if self._on_work is not None:
            self._on_work()
        if self._blocks_on_durable if message.durable else self._blocks_on_non_durable:
            return self._enter(message, blocking=True, confirmed=False)
        channel = self._channel
        if channel.clear and self._rate is None:
            credits = self.credits
            if credits is None or credits.address != message.address:
                credits = None if self._table is None else self._table.get(message.address)
            if credits is None:
                return channel.send_at_once(message, self.producer_id)
            try:
                if credits.take(len(message.raw)):
                    return channel.send_at_once(message, self.producer_id)
            except JMSException as error:
                return failed_call(error)
        return self._enter(message, blocking=False, confirmed=False)

    def send_without_credits(self, message: CoreMessage) -> Call[None]:
        """Send a short message to an address whose broker cannot slow it down; otherwise as `send`."""
        if self.closed:
            return failed_call(self.closed_error or _closed())
        channel, blocks = self._channel, self._blocks(message)
        if channel.clear and not blocks:
            return channel.send_at_once(message, self.producer_id)
        return channel.send(Send(Call(self._due), message, self.producer_id, None, blocks, False, None))

    def send_confirmed(self, message: CoreMessage) -> Call[None]:
        """Send without blocking the session.

        The call is done when the broker has answered (with a confirmation window).
        """
        if self.closed:
            return failed_call(self.closed_error or _closed())
        if len(message.raw) > self._large_from:
            return self._send_long(message, confirmed=True)
        if self._on_work is not None:
            self._on_work()
        channel = self._channel
        if channel.clear and channel.numbered and self._rate is None:
            credits = self.credits
            if credits is None or credits.address != message.address:
                credits = None if self._table is None else self._table.get(message.address)
            try:
                if credits is None or credits.take(len(message.raw)):
                    return channel.send_confirmed_at_once(message, self.producer_id)
            except JMSException as error:
                return failed_call(error)
        return self._enter(message, blocking=False, confirmed=True)

    @property
    def is_clear(self) -> bool:
        """Return True if nothing waits in front of a message that is sent now."""
        return self._channel.clear

    def send_run(self, address: str, messages: Sequence[bytes | bytearray], receipts: Sequence[Receipt]) -> int:
        """Send the first of these messages as `send_confirmed`, as many as may leave now; return how many.

        The receipts get the outcomes, in the middle of the step that brings them. For senders of many messages: those
        that leave at once have no calls, and those that do not leave wait with their sender.

        Args:
            address: Address of all of them.
            messages: The bytes of each, see `CoreMessage.raw`. They must not change.
            receipts: Their receipts.

        Raises:
            JMSException: The first message cannot be sent; its receipt gets nothing.
        """
        channel, largest = self._channel, self._large_from
        if self.closed or not channel.numbered or self._rate is not None or len(messages[0]) > largest:
            self._send_alone(CoreMessage.parse(bytearray(messages[0])), receipts[0])
            return 1
        if not channel.clear:
            return 0
        credits = self.credits
        if credits is None or credits.address != address:
            credits = None if self._table is None else self._table.get(address)
        count = 0
        try:
            for message in messages:
                size = len(message)
                if size > largest or (credits is not None and not credits.take(size)):
                    break
                count += 1
        except JMSException as error:
            receipts[count].fail(error)
        if count:
            if self._on_work is not None:
                self._on_work()
            channel.send_run(messages[:count], self.producer_id, receipts)
        return count

    def _send_alone(self, message: CoreMessage, receipt: Receipt) -> None:
        """Send one message as `send_confirmed`.

        Raises:
            JMSException: It cannot be sent.
        """
        call = self.send_confirmed(message)
        if call.error is not None:
            raise call.error
        call.when_done(lambda: receipt.succeed(None) if call.error is None else receipt.fail(call.error))

    # --- large messages ---

    @property
    def compression_level(self) -> int | None:
        """Return the level that bodies of large messages are compressed with, None for none."""
        return self._compression_level

    @property
    def chunk_bytes(self) -> int:
        """Return the size of the chunks of large messages."""
        return self._min_large_size

    def is_large(self, message: CoreMessage) -> bool:
        """Return True if the message is sent in chunks."""
        is_long = len(message.body) + _LENGTH_FIELD_BYTES > self._min_large_size
        return is_long and message.address != _SERVICES_ADDRESS

    def open_upload(self, header: CoreMessage, *, confirmed: bool = False) -> Upload:
        """Begin a large message whose body is fed. `header` is the message without body.

        Raise JMSException.
        """
        if self.closed:
            raise self.closed_error or _closed()
        if self._compression_level is not None:
            header = header.with_body(b"", {COMPRESSED: True})
        self._check_header(header)
        body = FedBody(self._due)
        return Upload(self._channel, self._enter_large(header, body, confirmed=confirmed), body)

    def shrunk(self, message: CoreMessage, data: bytes, body_bytes: int) -> CoreMessage:
        """Return the message with a compressed body that is short enough for one packet."""
        return message.with_body(data, {COMPRESSED: True, _LARGE_SIZE: TypedValue(body_bytes, PropertyType.LONG)})

    def _send_long(self, message: CoreMessage, *, confirmed: bool) -> Call[None]:
        """Send a message that is large, unless its length is that of its properties."""
        whole = message.body
        if not self.is_large(message):
            if len(message.raw) > self._message_bytes_max:
                return failed_call(self._too_large(message))
            return self._send_whole(message, confirmed=confirmed)
        body = HeldBody(whole, self._min_large_size, self._compression_level)
        header = CoreMessage.parse_header(message.header)
        if self._compression_level is not None:
            first = body.peek()
            assert first is not None
            if first[1]:
                return self._send_whole(self.shrunk(message, first[0], body.body_bytes), confirmed=confirmed)
            header = header.with_body(b"", {COMPRESSED: True})
        try:
            self._check_header(header)
        except JMSException as error:
            return failed_call(error)
        return self._enter_large(header, body, confirmed=confirmed)

    def _send_whole(self, message: CoreMessage, *, confirmed: bool) -> Call[None]:
        if self._on_work is not None:
            self._on_work()
        return self._enter(message, blocking=not confirmed and self._blocks(message), confirmed=confirmed)

    def _blocks(self, message: CoreMessage) -> bool:
        return self._blocks_on_durable if message.durable else self._blocks_on_non_durable

    def _check_header(self, header: CoreMessage) -> None:
        size = len(header.header)
        if size >= self._min_large_size:
            text = (
                f"the message was not sent: headers and properties of a large message take {size:,} bytes; "
                f"the limit is minLargeMessageSize={self._min_large_size:,}"
            )
            raise exception_for(ErrorCode.ILLEGAL_STATE, text)

    def _enter_large(self, header: CoreMessage, body: HeldBody | FedBody, *, confirmed: bool) -> Call[None]:
        if self._on_work is not None:
            self._on_work()
        return self._enter(header, blocking=not confirmed and self._blocks(header), confirmed=confirmed, body=body)

    def _enter(
        self, message: CoreMessage, *, blocking: bool, confirmed: bool, body: HeldBody | FedBody | None = None
    ) -> Call[None]:
        call: Call[None] = Call(self._due)
        table = self._table
        credits = self.credits
        if table is not None and (credits is None or credits.address != message.address):
            # Held while it waits, so that the balance is not dropped as unused meanwhile.
            held = credits = table.acquire(message.address)
            call.when_done(lambda: table.release(held))
        if body is None:
            return self._channel.send(Send(call, message, self.producer_id, credits, blocking, confirmed, self._rate))
        return self._channel.send(
            LargeSend(call, message, self.producer_id, credits, blocking, confirmed, self._rate, body)
        )

    def _too_large(self, message: CoreMessage) -> JMSException:
        return JMSException(
            f"the message was not sent: it takes {len(message.raw):,} bytes, and {self._message_bytes_max:,} is the "
            "most that one packet holds (frame_size_bytes_max)"
        )

    def close(self) -> Call[None]:
        """Announce to the broker that the producer is gone. Sends that wait still leave."""
        if not self.closed:
            self.end(_closed())
            if self._channel.version >= VERSION_WITH_PRODUCERS:
                self._channel.post(RemoveProducer(self.producer_id))
        return DONE

    def end(self, error: JMSException) -> None:
        """End the producer because of `error`. Later sends fail."""
        if self.closed:
            return
        self.closed = True
        self.closed_error = error
        if self.credits is not None and self._table is not None:
            self._table.release(self.credits)
        self._on_end(self)


def _closed() -> JMSException:
    return ConnectionClosedException("the producer is closed")
