"""The JMS consumer: receive, iterate, or set a listener.

Responsible for the rules of JMS about receiving. Does not depend on the wire protocol.
"""

from __future__ import annotations

from typing import TypeVar, overload

from embedclient.agent import DONE, Delivery
from embedclient.errors import ConnectionClosedException, IllegalStateException, MessageFormatException
from embedclient.model import Destination, JMSMessage, summary

from ._inbox import check_may_end_without
from ._intake import Intake, MessageListener, check_kind
from ._listener import Listeners
from ._opening import ClosedByBlock

T = TypeVar("T")


class MessageConsumer(ClosedByBlock):
    """Receive messages of one destination. Made by `Session.create_consumer` and its siblings.

    `async with` it, or let the session's scope close it.
    """

    def __init__(self, listeners: Listeners, intake: Intake, selector: str | None) -> None:
        self._listeners = listeners
        self._intake = intake
        self._selector = selector

    def __repr__(self) -> str:
        chosen = f"where {self._selector}" if self._selector else None
        return summary(self, f"of {self.destination}", chosen, "closed" if self.closed else None)

    @property
    def destination(self) -> Destination:
        """Return the destination of the consumer."""
        return self._intake.destination

    @property
    def selector(self) -> str | None:
        """Return the selector, None without one."""
        return self._selector

    @property
    def closed(self) -> bool:
        """Return True if the consumer is closed, for whatever cause."""
        return self._intake.agent_consumer.closed

    @overload
    async def receive(self, timeout: None = None) -> JMSMessage: ...

    @overload
    async def receive(self, timeout: float | None) -> JMSMessage | None: ...

    async def receive(self, timeout: float | None = None) -> JMSMessage | None:
        """Wait for a message.

        With a time-out, return None if no message arrived in time, or if the consumer was closed meanwhile.
        A cancelled receive leaves the message with the consumer.

        Source: Jakarta Messaging 3.1, section 8.5.

        Args:
            timeout: seconds; None waits without a limit.

        Raises:
            ConnectionClosedException: the consumer was closed before, or meanwhile if there is no time-out.
            ConnectionLostException: the connection is lost for good.
            IllegalStateException: the consumer has a listener, or another task uses the session.
            MessageFormatException: the message is of a kind that JMS does not have. In the modes AUTO and DUPS_OK the
                broker delivers it again, until it becomes a dead letter.
            TypeError: `timeout` is not a number.
            ValueError: `timeout` is NaN.
        """
        intake = self._intake
        intake.check_receiving()
        delivery = await intake.inbox.take(timeout)
        if delivery is None:
            check_may_end_without(timeout)
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
        """Return a message that is available now, or None if the broker has none for this consumer.

        The client requests messages from the broker if none is buffered.

        Raises: as `receive`, except for `timeout`.
        """
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

    @overload
    async def receive_body(self, kind: type[T], timeout: None = None) -> T: ...

    @overload
    async def receive_body(self, kind: type[T], timeout: float | None) -> T | None: ...

    async def receive_body(self, kind: type[T], timeout: float | None = None) -> T | None:
        """Wait for a message like `receive`, and return its body.

        With a time-out, return None if no message arrived in time. After a MessageFormatException the next receive
        returns the message again. In the mode CLIENT and in transacted sessions the message counts as received instead.

        The errors of `receive` are raised here too.

        Source: Jakarta Messaging 3.1, section 8.6.

        Args:
            kind: the type that the body must have.
            timeout: seconds; None waits without a limit.

        Raises:
            MessageFormatException: the body has another type, or the message has no body.
            TypeError: `isinstance` does not accept the type, or `timeout` is not a number.
        """
        intake = self._intake
        intake.check_receiving()
        check_kind(kind)
        delivery = await intake.inbox.take(timeout)
        if delivery is None:
            check_may_end_without(timeout)
            return None
        return await self._body_of(delivery, kind)

    async def receive_body_nowait(self, kind: type[T]) -> T | None:
        """Return the body of a message that is available now, or None.

        Args:
            kind: the type of the body, as in `receive_body`.

        Raises: as `receive_body`.
        """
        intake = self._intake
        intake.check_receiving()
        check_kind(kind)
        delivery = await intake.inbox.take_now()
        return None if delivery is None else await self._body_of(delivery, kind)

    async def _body_of(self, delivery: Delivery, kind: type[T]) -> T:
        body, call = self._intake.hand_over_body(delivery, kind)
        if call is not DONE:
            await self._intake.settle(call)
        return body

    def __aiter__(self) -> MessageConsumer:
        return self

    async def __anext__(self) -> JMSMessage:
        if not self._intake.agent_consumer.closed:
            try:
                return await self.receive()
            except ConnectionClosedException:  # the end of the iteration, unless something failed
                pass
        failure = self._intake.inbox.failure()
        if failure is not None:
            raise failure
        raise StopAsyncIteration

    @property
    def message_listener(self) -> MessageListener | None:
        """Return the message listener, None without one."""
        return self._intake.listener

    def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set the listener that the session calls as `listener(message)` for each message, one at a time.

        An exception of the listener is logged. In the modes AUTO and DUPS_OK the message is then delivered again.

        Source: Jakarta Messaging 3.1, section 8.7.

        Args:
            listener: the listener; None removes the present one.

        Raises:
            TypeError: the listener cannot be called.
            ConnectionClosedException: the consumer is closed.
            IllegalStateException: a task is receiving from the consumer.
        """
        self._intake.check_open()
        if listener is not None and not callable(listener):
            raise TypeError(f"a message listener is called with each message; {listener!r} cannot be called")
        if listener is not None and self._intake.inbox.receiving:
            raise IllegalStateException("a consumer that is receiving cannot get a message listener")
        self._intake.listener = listener
        self._listeners.changed(self._intake)

    async def close(self) -> None:
        """Close the consumer. Unacknowledged messages return to the queue. A second call has no effect.

        The call waits for a running listener as long as closing the session would. In that listener it does not wait.
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
