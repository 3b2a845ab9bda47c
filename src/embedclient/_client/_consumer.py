"""The JMS consumer: receive, iterate, or set a listener.

Responsible for what JMS says about receiving. Refuses to know the wire.
"""

from __future__ import annotations

from typing import TypeVar

from embedclient.agent import DONE, Delivery
from embedclient.errors import IllegalStateException, MessageFormatException
from embedclient.model import Destination, JMSMessage

from ._intake import Intake, MessageListener, check_kind
from ._listener import Listeners

T = TypeVar("T")


class MessageConsumer:
    """Receives messages of one destination. `async with` it, or let the session's scope close it."""

    def __init__(self, listeners: Listeners, intake: Intake, selector: str | None) -> None:
        self._listeners = listeners
        self._intake = intake
        self._selector = selector

    @property
    def destination(self) -> Destination:
        """Where its messages come from."""
        return self._intake.destination

    @property
    def selector(self) -> str | None:
        """Its selector, None without one."""
        return self._selector

    @property
    def closed(self) -> bool:
        """Whether it was closed, by whomever."""
        return self._intake.agent_consumer.closed

    async def receive(self, timeout: float | None = None) -> JMSMessage | None:
        """Wait for a message, `timeout` seconds at most.

        Returns None when nothing came in time, or when the consumer was closed meanwhile. A cancelled receive leaves
        the message with the consumer.

        Raises:
            ConnectionClosedException: the consumer was closed before.
            ConnectionLostException: the connection is lost for good.
            IllegalStateException: it has a listener, or another task uses the session.
            MessageFormatException: the message is of a kind that JMS does not have. In the modes AUTO and DUPS_OK it
                comes again, until it is dead.
        """
        intake = self._intake
        intake.check_receiving()
        delivery = await intake.inbox.take(timeout)
        if delivery is None:
            return None
        try:
            message, call = intake.hand_over(delivery)
        except MessageFormatException:
            await intake.refuse(delivery)
            raise
        if call is not DONE:
            await intake.settle(call)
        return message

    async def receive_nowait(self) -> JMSMessage | None:
        """A message that is there now. The broker is asked, so None means that it has none for this consumer."""
        intake = self._intake
        intake.check_receiving()
        delivery = await intake.inbox.take_now()
        if delivery is None:
            return None
        try:
            message, call = intake.hand_over(delivery)
        except MessageFormatException:
            await intake.refuse(delivery)
            raise
        if call is not DONE:
            await intake.settle(call)
        return message

    async def receive_body(self, kind: type[T], timeout: float | None = None) -> T | None:
        """Wait for a message like `receive`, and return its body, which has to be of this type.

        Returns None when nothing came in time. After the error below the message is the next one again; only in the
        mode CLIENT and in transacted sessions it counts as received.

        Raises:
            MessageFormatException: the body is of another type, or there is none.
            TypeError: the type is nothing that `isinstance` takes.
        """
        intake = self._intake
        intake.check_receiving()
        check_kind(kind)
        return await self._body_of(await intake.inbox.take(timeout), kind)

    async def receive_body_nowait(self, kind: type[T]) -> T | None:
        """The body of a message that is there now; `receive_body` says what it has to be."""
        intake = self._intake
        intake.check_receiving()
        check_kind(kind)
        return await self._body_of(await intake.inbox.take_now(), kind)

    async def _body_of(self, delivery: Delivery | None, kind: type[T]) -> T | None:
        if delivery is None:
            return None
        body, call = self._intake.hand_over_body(delivery, kind)
        if call is not DONE:
            await self._intake.settle(call)
        return body

    def __aiter__(self) -> MessageConsumer:
        return self

    async def __anext__(self) -> JMSMessage:
        consumer = self._intake.agent_consumer
        message = None if consumer.closed else await self.receive()
        if message is not None:
            return message
        failure = self._intake.inbox.failure()
        if failure is not None:
            raise failure
        raise StopAsyncIteration

    @property
    def message_listener(self) -> MessageListener | None:
        """The listener that was set, if any."""
        return self._intake.listener

    def set_message_listener(self, listener: MessageListener | None) -> None:
        """Have the session call `listener(message)` for each message, one at a time; None stops that.

        An exception of the listener is logged; in the modes AUTO and DUPS_OK the message comes again.

        Raises:
            TypeError: the listener cannot be called.
            ConnectionClosedException: the consumer is closed.
            IllegalStateException: a task is receiving from it.
        """
        self._intake.check_open()
        if listener is not None and not callable(listener):
            raise TypeError(f"a message listener is called with each message; {listener!r} cannot be called")
        if listener is not None and self._intake.inbox.receiving:
            raise IllegalStateException("a consumer that is receiving cannot get a message listener")
        self._intake.listener = listener
        self._listeners.changed(self._intake)

    async def close(self) -> None:
        """Stop receiving. Unacknowledged messages go back to the queue. Closing twice is fine.

        Waits for its listener if that is running, as long as closing the session would; not in that listener.
        """
        intake = self._intake
        if intake.agent_consumer.closed:
            return
        if intake.listener is not None:
            intake.listener = None
            self._listeners.changed(intake)
        try:
            await self._listeners.finished(intake)
        finally:
            await intake.inbox.close()
