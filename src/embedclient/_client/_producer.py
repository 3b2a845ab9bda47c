"""The JMS producer: defaults for headers, and sends that wait only when the broker has to answer.

Responsible for the rules of JMS about sending. Does not depend on the wire protocol or on how messages are encoded.
"""

from __future__ import annotations

from collections.abc import Generator

from embedclient.agent import DONE, Call, CoreMessage, Envelope
from embedclient.errors import (
    BodyTooLargeException,
    ConnectionClosedException,
    IllegalStateException,
    InvalidDestinationException,
    InvalidTypeException,
    InvalidValueException,
)
from embedclient.model import DeliveryMode, Destination, Progress, Readable, summary

from ._closing import settle_closing
from ._conversion import Body, as_content, readable_of
from ._destinations import as_destination
from ._edge import Edge, Signal
from ._opening import ClosedByBlock
from ._session_context import SessionContext
from ._upload import post_parts

ENVELOPES_MAX = 1_000
# The sum of this and the present time in milliseconds must fit the 64 bits of the wire format. It is 31,000 years.
LIFETIME_SECONDS_MAX = 1_000_000_000_000
_PERSISTENT = DeliveryMode.PERSISTENT
_NON_PERSISTENT = DeliveryMode.NON_PERSISTENT


class Receipt:
    """The outcome of a send: await it to learn that the broker took the message.

    Made by `MessageProducer.send_nowait`.

    With a confirmation window (`confirmationWindowSize` in the URL) the receipt ends with the broker's answer. Without
    one the protocol has no answer for messages that are sent without waiting, and the receipt ends when the message was
    written.
    """

    __slots__ = ("_call", "_edge", "_waiting")

    def __init__(self, edge: Edge, call: Call[None]) -> None:
        self._edge = edge
        self._call = call
        self._waiting: list[Signal] = []
        if not call.done:
            call.on_done = self._notify

    def __repr__(self) -> str:
        error = self._call.error if self._call.done else None
        return summary(self, repr(error) if error is not None else "done" if self._call.done else "not done")

    @property
    def done(self) -> bool:
        """Return True if the outcome is known."""
        return self._call.done

    def __await__(self) -> Generator[None, None, None]:
        return self.wait().__await__()

    async def wait(self) -> None:
        """Wait for the outcome. A cancellation does not affect the send.

        Raises:
            JMSException: the error with which the broker answered, as in `MessageProducer.send`.
        """
        if self._call.done:
            await self._edge.pause()
        else:
            signal = self._edge.signal()
            self._waiting.append(signal)
            await signal.wait()
        self._call.value()

    def _notify(self, _: Call[None]) -> None:
        for signal in self._waiting:
            signal.set()


class MessageProducer(ClosedByBlock):
    """Send messages to one destination, or without one to the destination of each send.

    Made by `Session.create_producer`.

    The attributes are defaults for every send:

    - `delivery_mode`: PERSISTENT (the default) or NON_PERSISTENT.
    - `priority`: 0 to 9, default 4.
    - `time_to_live`: seconds until a message expires, 0 to 1e12; 0 (the default) means never. The shortest lifetime is
      a millisecond.
    - `delivery_delay`: seconds before a message is delivered, 0 to 1e12; 0 (the default) delivers at once.
    - `disable_message_id`, `disable_message_timestamp`: leave these headers out, default False.

    Source: Jakarta Messaging 3.1, sections 7.7 (delivery mode), 7.8 (time to live) and 7.9 (delivery delay).
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
        # One envelope per destination of a send, the oldest first.
        self._envelopes: dict[Destination, Envelope] = {}
        self._own_envelope = None if destination is None else self._envelope_for(destination)
        address = None if destination is None else destination.message_address
        self._agent_producer = context.agent_session.create_producer(address)
        context.edge.flush_soon()

    def __repr__(self) -> str:
        return summary(self, f"to {self._destination or 'any destination'}", "closed" if self.closed else None)

    @property
    def destination(self) -> Destination | None:
        """Return the destination of the producer; None if every send names its own destination."""
        return self._destination

    @property
    def closed(self) -> bool:
        """Return True if the producer is closed, for whatever cause."""
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
        progress: Progress | None = None,
    ) -> None:
        """Send a message, or a value that becomes one: str, bytes, dict, list, or a readable of bytes.

        Returns when the broker has stored a persistent message (unless the session is transacted), and at once for
        others. A cancelled send of a persistent message may or may not have reached the broker.

        Source: Jakarta Messaging 3.1, section 7.2.

        Args:
            message: the message or value.
            destination: where to send to; required for a producer without a destination, else not allowed.
            delivery_mode: PERSISTENT or NON_PERSISTENT. For this and the arguments below, None uses the attribute.
            priority: 0 to 9.
            time_to_live: seconds until the message expires, 0 to 1e12; 0 means never.
            delivery_delay: seconds before the message is delivered, 0 to 1e12; 0 delivers at once.
            progress: called as `progress(done, total)` for each part of the body that leaves, with bytes; `total` is
                None if the size of a readable is unknown.

        Raises:
            InvalidDestinationException: the destination does not exist and may not be created (a temporary one never
                is, once its connection has ended), or no destination is given.
            IllegalStateException: another task uses the session, or `destination` is given to a producer that has one.
            MessageFormatException: the value cannot be sent.
            UnblockedException: the connection was lost before the broker answered; the broker may or may not have the
                message.
            DuplicateIDException, AddressFullException: the broker refused the message for that reason.
            InvalidValueException, InvalidTypeException: an argument is out of range, or has another type.
            JMSException: the broker refused it for another reason, the producer is closed, or the connection is lost
                for good.
        """
        context = self._context
        edge = context.edge
        context.one_task.check()
        await edge.pause()
        envelope = self._addressed(destination)
        if not self._is_prepared:
            await context.prepare(envelope.destination)
            # A temporary destination may be deleted while a producer has it: the context checks it for each send.
            self._is_prepared = self._destination is not None and not self._destination.is_temporary
        readable: Readable | None = None
        try:
            core = self._enclose(envelope, message, delivery_mode, priority, time_to_live, delivery_delay)
        except (IllegalStateException, BodyTooLargeException):
            readable = readable_of(message)
            if readable is None:
                raise
            core = self._enclose(envelope, message, delivery_mode, priority, time_to_live, delivery_delay, True)
        if readable is not None or progress is not None:
            await self._send_parts(core, readable, progress)
            return
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

    async def _send_parts(self, core: CoreMessage, readable: Readable | None, progress: Progress | None) -> None:
        """Send a message whose body is read meanwhile, or whose progress is reported."""
        context = self._context
        try:
            await post_parts(context.edge, context.one_task, self._agent_producer, core, readable, progress)
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
        """Queue a message and return at once; await the receipt to learn the outcome.

        The call raises errors in its arguments, and the receipt raises the broker's.

        Args:
            message: the message or value, as in `send`. A body that is read while it is sent needs `send`.
            destination: where to send to; required for a producer without a destination, else not allowed.
            delivery_mode: PERSISTENT or NON_PERSISTENT. For this and the arguments below, None uses the attribute.
            priority: 0 to 9.
            time_to_live: seconds until the message expires, 0 to 1e12; 0 means never.
            delivery_delay: seconds before the message is delivered, 0 to 1e12; 0 delivers at once.

        Raises:
            InvalidDestinationException: no destination is given.
            IllegalStateException: `destination` is given to a producer that has one, or the message is a readable.
            MessageFormatException: the value cannot be sent.
            InvalidValueException, InvalidTypeException: an argument is out of range, or has another type.
            JMSException: the producer is closed, or the connection is lost for good.
        """
        envelope = self._addressed(destination)
        core = self._enclose(envelope, message, delivery_mode, priority, time_to_live, delivery_delay)
        call = self._agent_producer.send_confirmed(core)
        self._context.edge.flush_soon()
        return Receipt(self._context.edge, call)

    async def close(self) -> None:
        """Close the producer. A second call has no effect."""
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
        without_body: bool = False,
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
            # Lifetimes in Java are whole milliseconds. Less than one becomes one: 0 would mean that it never expires.
            expiration=now_ms + max(1, round(lifetime * 1000)) if lifetime else 0,
            delivery_time=now_ms + round(delay * 1000) if delay else 0,
            user_id=None if self.disable_message_id else context.message_ids.next(now_ms),
            without_body=without_body,
        )


def _check_mode(mode: object) -> None:
    """Reject anything but a delivery mode. A bool is rejected because `True` equals NON_PERSISTENT by accident."""
    text = f"{mode!r} is no delivery mode; PERSISTENT is 2, NON_PERSISTENT 1"
    if not isinstance(mode, int) or isinstance(mode, bool):
        raise InvalidTypeException(text)
    if mode not in (_PERSISTENT, _NON_PERSISTENT):
        raise InvalidValueException(text)


def _check_priority(priority: object) -> None:
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise InvalidTypeException(f"{priority!r} is no priority; they go from 0 to 9")
    if not 0 <= priority <= 9:
        raise InvalidValueException(f"{priority!r} is no priority; they go from 0 to 9")


def _check_seconds(seconds: object) -> None:
    """Reject anything but seconds in range. NaN fails the comparison. A bool is rejected, although it is an int."""
    text = f"{seconds!r} is no lifetime or delay: seconds from 0 to {LIFETIME_SECONDS_MAX:,}"
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise InvalidTypeException(text)
    if not 0 <= seconds <= LIFETIME_SECONDS_MAX:
        raise InvalidValueException(text)
