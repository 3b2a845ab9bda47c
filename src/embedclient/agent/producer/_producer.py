"""A producer: which sends block, which are confirmed later, what they cost in credits, and which are too large.

Responsible for core-protocol 7.8 on the sending side. Does not build messages, and does not depend on entries that wait
in front of a send: the channel holds those.
"""

from collections.abc import Callable

from embedclient.errors import ConnectionClosedException, JMSException
from embedclient.wire.core import FRAME_HEADER_SIZE, SEND_TRAILER, CoreMessage, RemoveProducer

from .._call import DONE, Call, DueCallbacks, failed_call
from .._rate import rate_limit
from .._settings import LocatorSettings, SessionFlags
from ..session._channel import SessionChannel
from ..session._requests import Send
from ._credits import AddressCredits, CreditTable

VERSION_WITH_PRODUCERS = 134


class Producer:
    """A session's producer, for one address or (None) for any. Create it with `Session.create_producer`."""

    __slots__ = (
        "_blocks_on_durable",
        "_blocks_on_non_durable",
        "_channel",
        "_due",
        "_message_bytes_max",
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
        if len(message.raw) > self._message_bytes_max:
            return failed_call(self._too_large(message))
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

    def send_confirmed(self, message: CoreMessage) -> Call[None]:
        """Send without blocking the session.

        The call is done when the broker has answered (with a confirmation window).
        """
        if self.closed:
            return failed_call(self.closed_error or _closed())
        if len(message.raw) > self._message_bytes_max:
            return failed_call(self._too_large(message))
        if self._on_work is not None:
            self._on_work()
        return self._enter(message, blocking=False, confirmed=True)

    def _enter(self, message: CoreMessage, *, blocking: bool, confirmed: bool) -> Call[None]:
        call: Call[None] = Call(self._due)
        table = self._table
        credits = self.credits
        if table is not None and (credits is None or credits.address != message.address):
            # Held while it waits, so that the balance is not dropped as unused meanwhile.
            held = credits = table.acquire(message.address)
            call.when_done(lambda: table.release(held))
        return self._channel.send(Send(call, message, self.producer_id, credits, blocking, confirmed, self._rate))

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
