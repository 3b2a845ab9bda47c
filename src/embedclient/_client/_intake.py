"""Deliveries of one JMS consumer on their way to the program: by `receive`, or by a listener.

Responsible for turning a delivery into a message that counts as consumed at the right moment. Does not depend on how
the program takes the messages. The agent decides when they are acknowledged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from embedclient.agent import CONNECTION_ERRORS, DONE, Call, Delivery, LargeDelivery, SessionMode, from_core
from embedclient.agent import Consumer as AgentConsumer
from embedclient.errors import ConnectionClosedException, IllegalStateException, MessageFormatException
from embedclient.model import Destination, JMSMessage

from ._closing import settle_or_hurry
from ._inbox import Inbox
from ._large_message import LargeBodyStream
from ._session_context import SessionContext

T = TypeVar("T")
# In these modes a message is acknowledged when the program gets it.
_CONSUMED_WITH_BODY = (SessionMode.AUTO, SessionMode.DUPS_OK)
MessageListener = Callable[[JMSMessage], Awaitable[None] | None]


class Intake:
    """The deliveries of one consumer. One instance per consumer."""

    __slots__ = (
        "_acknowledge",
        "_consumed",
        "_context",
        "_flush_soon",
        "_unread",
        "agent_consumer",
        "destination",
        "inbox",
        "listener",
    )

    def __init__(self, context: SessionContext, agent_consumer: AgentConsumer, destination: Destination) -> None:
        self._context = context
        self._acknowledge = context.acknowledge
        self._consumed = context.agent_session.consumed
        self._flush_soon = context.edge.flush_soon
        self.agent_consumer = agent_consumer
        self.destination = destination
        self.inbox = Inbox(context.edge, context.agent_session, agent_consumer, context.one_task)
        self.listener: MessageListener | None = None
        # A message that the program has without its body, in a mode in which receiving acknowledges.
        self._unread: LargeDelivery | None = None

    def check_open(self) -> None:
        if self.agent_consumer.closed:
            raise self.agent_consumer.closed_error or ConnectionClosedException("the consumer is closed")

    def check_receiving(self) -> None:
        if self.agent_consumer.closed:
            self.check_open()
        if self.listener is not None:
            raise IllegalStateException("a consumer with a message listener cannot receive")

    def message(self, delivery: Delivery) -> JMSMessage:
        source = None
        if delivery.__class__ is LargeDelivery:
            source = LargeBodyStream(self._context.edge, delivery, self.destination, self.body_was_read)
        message = from_core(delivery.message, delivery.delivery_count, self.destination, source)
        message.on_acknowledge = partial(self._acknowledge, delivery)
        return message

    def hand_over(self, delivery: Delivery) -> tuple[JMSMessage, Call[None]]:
        """Return the message, consumed as the session's mode requires, and a call for `settle`, unless it is DONE."""
        if self._unread is not None or delivery.__class__ is LargeDelivery:
            return self._hand_over_large(delivery)
        return self.message(delivery), self.consume(delivery)

    def _hand_over_large(self, delivery: Delivery) -> tuple[JMSMessage, Call[None]]:
        """Hand over a large message, or the message after one.

        If its body is not in memory, it counts as consumed when the body was read, or when the next message is
        received. Until then a lost connection, or a close, returns it to the queue.
        """
        message = self.message(delivery)
        self._consume_unread()
        if isinstance(delivery, LargeDelivery) and not delivery.loads and self._context.mode in _CONSUMED_WITH_BODY:
            self._unread = delivery
            return message, DONE
        return message, self.consume(delivery)

    def _consume_unread(self) -> None:
        unread, self._unread = self._unread, None
        if unread is not None:
            self.consume(unread)

    async def body_was_read(self, delivery: LargeDelivery) -> None:
        """Handle that the program has the whole body of a message."""
        if delivery is self._unread:
            self._unread = None
            await self.settle(self.consume(delivery))

    def hand_over_body(self, delivery: Delivery, kind: type[T]) -> tuple[T, Call[None]]:
        """Return the body only, otherwise like `hand_over`. A delivery without such a body raises and is not received.

        In the modes CLIENT and TRANSACTED the program acknowledges later: there JMS counts it as received.
        """
        self._consume_unread()
        try:
            body = self.message(delivery).body
            if body is None:
                raise MessageFormatException("the message has no body")
            if not isinstance(body, kind):
                wanted = getattr(kind, "__name__", kind)  # unions have no name
                raise MessageFormatException(f"the body is {type(body).__name__}, not {wanted}")
        except MessageFormatException:
            if self._context.mode in (SessionMode.CLIENT, SessionMode.TRANSACTED):
                self.consume(delivery)
            else:
                self.agent_consumer.put_back(delivery)
            raise
        return body, self.consume(delivery)

    async def refuse(self, delivery: Delivery) -> None:
        """Return an undecodable delivery to the queue, so that it does not block later messages for ever.

        In the modes AUTO and DUPS_OK a cumulative acknowledgement would include it. It is rolled back, with its
        delivery count increased, until it is a dead letter. In the modes CLIENT and TRANSACTED it counts as received:
        the program's later acknowledgement includes it.
        """
        context = self._context
        if context.mode in (SessionMode.CLIENT, SessionMode.TRANSACTED):
            self.consume(delivery)
        elif context.mode in (SessionMode.AUTO, SessionMode.DUPS_OK):
            with context.one_task:
                await context.endings.roll_back_in_time(context.agent_session.rollback(last_message_as_delivered=True))

    def consume(self, delivery: Delivery) -> Call[None]:
        call = self._consumed(delivery)
        if call.done:
            self._flush_soon()
        return call

    async def settle(self, call: Call[None]) -> None:
        """Wait for the answer to an acknowledgement. A cancellation leaves the wait no longer than closing may take.

        The caller already has the message, and keeps it when the connection is lost and the outcome of the
        acknowledgement is unknown. If it were held back, the message might be acknowledged although the program never
        received it. If it was not acknowledged, the broker delivers it again. In modes that acknowledge later the
        commit reports the outcome.
        """
        if not call.done:
            await settle_or_hurry(self._context.edge, call, self._context.call_timeout_s)
        if call.error is not None and call.error.error_code not in CONNECTION_ERRORS:
            raise call.error

    # For the session's listener task

    def next_delivery(self) -> Delivery | None:
        delivery = self.agent_consumer.next(self._context.edge.now())
        if delivery is None:
            self._flush_soon()  # of a large message that arrives, the beginning was paid for just now
        return delivery

    def watch(self, on_ready: Callable[[], None] | None) -> None:
        """Call `on_ready` on arrivals instead of waking a waiting receive; None restores the inbox."""
        if on_ready is None:
            self.inbox.attach()
            self.agent_consumer.give_up()
        else:
            self.agent_consumer.on_ready = lambda _: on_ready()
            self.agent_consumer.want()
        self._context.edge.flush_soon()


def check_kind(kind: object) -> None:
    """Raise TypeError before a message is taken, if `isinstance` does not accept the type, such as `list[str]`."""
    isinstance(None, kind)  # type: ignore[arg-type]  # raises the TypeError
