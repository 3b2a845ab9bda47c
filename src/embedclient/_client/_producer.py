"""The JMS producer: defaults for headers, and sends that wait only when the broker has to answer.

Responsible for what JMS says about sending. Refuses to know the wire and how messages are encoded.
"""

from __future__ import annotations

from collections.abc import Generator

from embedclient.agent import DONE, Call, CoreMessage, Envelope
from embedclient.errors import (
    ConnectionClosedException,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
)
from embedclient.model import DeliveryMode, Destination

from ._closing import settle_closing
from ._conversion import Body, as_content
from ._destinations import as_destination
from ._edge import Edge, Signal
from ._session_context import SessionContext

ENVELOPES_MAX = 1_000
# What is added to the present milliseconds has to fit the wire's 64 bits; 31,000 years are long enough.
LIFETIME_SECONDS_MAX = 1_000_000_000_000
_PERSISTENT = DeliveryMode.PERSISTENT
_NON_PERSISTENT = DeliveryMode.NON_PERSISTENT


class Receipt:
    """What `send_nowait` gives back: await it to learn that the broker took the message.

    With a confirmation window (`confirmationWindowSize` in the URL) it ends with the broker's answer; without one the
    protocol has no answer for messages that nobody waits for, and it ends when the message was written.
    """

    __slots__ = ("_call", "_edge", "_waiting")

    def __init__(self, edge: Edge, call: Call[None]) -> None:
        self._edge = edge
        self._call = call
        self._waiting: list[Signal] = []
        if not call.done:
            call.on_done = self._tell

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._call.done

    def __await__(self) -> Generator[None, None, None]:
        return self.wait().__await__()

    async def wait(self) -> None:
        """Wait for the outcome. Raises what the broker answered. Cancelling leaves the send alone."""
        if self._call.done:
            await self._edge.pause()
        else:
            signal = self._edge.signal()
            self._waiting.append(signal)
            await signal.wait()
        self._call.value()

    def _tell(self, _: Call[None]) -> None:
        for signal in self._waiting:
            signal.set()


class MessageProducer:
    """Sends messages to one destination, or without one to the destination of each send.

    The attributes are defaults for every send: `delivery_mode`, `priority` (0 to 9), `time_to_live` and
    `delivery_delay` in seconds (0: for ever, at once), `disable_message_id`, `disable_message_timestamp`. The shortest
    lifetime is a millisecond.
    """

    def __init__(self, context: SessionContext, destination: Destination | None) -> None:
        self._context = context
        self._destination = destination
        self.delivery_mode = DeliveryMode.PERSISTENT
        self.priority = 4
        self.time_to_live = 0.0
        self.delivery_delay = 0.0
        self.disable_message_id = False
        self.disable_message_timestamp = False
        self._is_prepared = False
        self._group_id = context.group_of_new_producer()
        # One per destination that it sent to, the oldest first.
        self._envelopes: dict[Destination, Envelope] = {}
        self._own_envelope = None if destination is None else self._envelope_for(destination)
        address = None if destination is None else destination.message_address
        self._agent_producer = context.agent_session.create_producer(address)
        context.edge.flush_soon()

    @property
    def destination(self) -> Destination | None:
        """Where it sends to; None if every send names its own destination."""
        return self._destination

    @property
    def closed(self) -> bool:
        """Whether it was closed, by whomever."""
        return self._agent_producer.closed

    async def send(
        self,
        message: Body,
        *,
        destination: Destination | str | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
        delivery_delay: float | None = None,
    ) -> None:
        """Send a message, or a value that becomes one: str, bytes, dict or list.

        What is not given comes from the attributes. `time_to_live` and `delivery_delay` are seconds.

        Returns when the broker has stored a persistent message (unless the session is transacted), and at once for
        others. A cancelled send of a persistent message may or may not have reached the broker.

        Raises:
            InvalidDestinationException: the destination does not exist and may not be created, as no temporary one
                whose connection has ended.
            MessageFormatException: the value cannot be sent.
            UnblockedException: the connection was lost before the broker answered; it has the message or not.
            DuplicateIDException, AddressFullException: the broker refused the message for that reason.
            JMSException: it was refused for another one, or the connection is lost for good.
        """
        context = self._context
        edge = context.edge
        context.one_task.check()
        await edge.pause()
        envelope = self._addressed(destination)
        if not self._is_prepared:
            await context.prepare(envelope.destination)
            # Temporary destinations may go while a producer has one: the context is asked each time.
            self._is_prepared = self._destination is not None and not self._destination.is_temporary
        core = self._enclose(envelope, message, delivery_mode, priority, time_to_live, delivery_delay)
        call = self._agent_producer.send(core)
        if call is DONE:
            edge.flush_soon()
            return
        with context.one_task:
            try:
                await edge.wait(call)
            except InvalidDestinationException:
                context.forget_temporaries()
                raise

    def send_nowait(
        self,
        message: Body,
        *,
        destination: Destination | str | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
        delivery_delay: float | None = None,
    ) -> Receipt:
        """Queue a message and return at once. The receipt tells the outcome to whoever awaits it.

        Arguments are those of `send`. What is wrong with them raises here, what the broker says in the receipt.
        """
        envelope = self._addressed(destination)
        core = self._enclose(envelope, message, delivery_mode, priority, time_to_live, delivery_delay)
        call = self._agent_producer.send_confirmed(core)
        self._context.edge.flush_soon()
        return Receipt(self._context.edge, call)

    async def close(self) -> None:
        """Closing twice is fine."""
        if not self._agent_producer.closed:
            await settle_closing(self._context.edge, self._agent_producer.close())

    def _addressed(self, destination: Destination | str | None) -> Envelope:
        if self._agent_producer.closed:
            raise self._agent_producer.closed_error or ConnectionClosedException("the producer is closed")
        envelope = self._own_envelope
        if envelope is None:
            if destination is None:
                raise InvalidDestinationException("this producer has no destination, so every send needs one")
            return self._envelope_for(as_destination(destination))
        if destination is not None:
            raise IllegalStateException(f"this producer sends to {self._destination} only")
        return envelope

    def _envelope_for(self, destination: Destination) -> Envelope:
        envelopes = self._envelopes
        envelope = envelopes.get(destination)
        if envelope is None:
            while len(envelopes) >= ENVELOPES_MAX:
                del envelopes[next(iter(envelopes))]
            context = self._context
            envelope = Envelope(destination, connection_id=context.connection_id, group_id=self._group_id)
            envelopes[destination] = envelope
        return envelope

    def _enclose(
        self,
        envelope: Envelope,
        body: Body,
        delivery_mode: DeliveryMode | None,
        priority: int | None,
        time_to_live: float | None,
        delivery_delay: float | None,
    ) -> CoreMessage:
        context = self._context
        now_ms = context.edge.now().wall_ms
        mode = self.delivery_mode if delivery_mode is None else delivery_mode
        is_durable = mode is _PERSISTENT
        if not is_durable and mode is not _NON_PERSISTENT:
            _check_mode(mode)
            is_durable = mode == _PERSISTENT
        rank = self.priority if priority is None else priority
        _check_priority(rank)
        lifetime = self.time_to_live if time_to_live is None else time_to_live
        delay = self.delivery_delay if delivery_delay is None else delivery_delay
        if lifetime or delay:
            _check_seconds(lifetime)
            _check_seconds(delay)
        return envelope.enclose(
            as_content(body),
            durable=is_durable,
            priority=rank,
            timestamp=0 if self.disable_message_timestamp else now_ms,
            # Java's lifetimes are whole milliseconds; less than one is the shortest, and neither none nor for ever.
            expiration=now_ms + max(1, round(lifetime * 1000)) if lifetime else 0,
            delivery_time=now_ms + round(delay * 1000) if delay else 0,
            user_id=None if self.disable_message_id else context.message_ids.next(now_ms),
        )


def _check_mode(mode: object) -> None:
    """A bool is none: `True` would be equal to NON_PERSISTENT, which is not what somebody meant by it."""
    if not isinstance(mode, int) or isinstance(mode, bool) or mode not in (_PERSISTENT, _NON_PERSISTENT):
        raise JMSException(f"{mode!r} is no delivery mode; PERSISTENT is 2, NON_PERSISTENT 1")


def _check_priority(priority: object) -> None:
    if not isinstance(priority, int) or isinstance(priority, bool) or not 0 <= priority <= 9:
        raise JMSException(f"{priority!r} is no priority; they go from 0 to 9")


def _check_seconds(seconds: object) -> None:
    """NaN, too, is not between any two numbers. A bool is none, although Python's are."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds <= LIFETIME_SECONDS_MAX:
        raise JMSException(f"{seconds!r} is no lifetime or delay: seconds from 0 to {LIFETIME_SECONDS_MAX:,}")
