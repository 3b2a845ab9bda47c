"""JMS producers, consumers and browsers, for threads and scripts. Generated from the async classes: change those.

Each method is one call through the portal to the async method of the same name, which documents errors in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar, overload

from embedclient import _client
from embedclient._client import Body
from embedclient.model import DeliveryMode, Destination, JMSMessage, Progress, PropertyValue, Queue, TemporaryQueue

from ._portal import Portal

T = TypeVar("T")


class MessageProducer:
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

    def __init__(self, portal: Portal, inner: _client.MessageProducer) -> None:
        self._portal = portal
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def delivery_mode(self) -> DeliveryMode:
        return self._inner.delivery_mode

    @delivery_mode.setter
    def delivery_mode(self, value: DeliveryMode) -> None:
        self._inner.delivery_mode = value

    @property
    def priority(self) -> int:
        return self._inner.priority

    @priority.setter
    def priority(self, value: int) -> None:
        self._inner.priority = value

    @property
    def time_to_live(self) -> float:
        return self._inner.time_to_live

    @time_to_live.setter
    def time_to_live(self, value: float) -> None:
        self._inner.time_to_live = value

    @property
    def delivery_delay(self) -> float:
        return self._inner.delivery_delay

    @delivery_delay.setter
    def delivery_delay(self, value: float) -> None:
        self._inner.delivery_delay = value

    @property
    def disable_message_id(self) -> bool:
        return self._inner.disable_message_id

    @disable_message_id.setter
    def disable_message_id(self, value: bool) -> None:
        self._inner.disable_message_id = value

    @property
    def disable_message_timestamp(self) -> bool:
        return self._inner.disable_message_timestamp

    @disable_message_timestamp.setter
    def disable_message_timestamp(self, value: bool) -> None:
        self._inner.disable_message_timestamp = value

    @property
    def destination(self) -> Destination | None:
        """Return the destination of the producer; None if every send names its own destination."""
        return self._inner.destination

    @property
    def closed(self) -> bool:
        """Return True if the producer is closed, for whatever cause."""
        return self._inner.closed

    def send(
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
        others. An interrupted send of a persistent message may or may not have reached the broker.

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
        self._portal.call(
            self._inner.send,
            message,
            destination=destination,
            delivery_mode=delivery_mode,
            priority=priority,
            time_to_live=time_to_live,
            delivery_delay=delivery_delay,
            progress=progress,
        )

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
        """Queue a message and return at once; wait for the receipt to learn the outcome.

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
        return Receipt(
            self._portal,
            self._portal.call_now(
                self._inner.send_nowait,
                message,
                destination=destination,
                delivery_mode=delivery_mode,
                priority=priority,
                time_to_live=time_to_live,
                delivery_delay=delivery_delay,
            ),
        )

    def close(self) -> None:
        """Close the producer. A second call has no effect."""
        self._portal.close_part(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Receipt:
    """The outcome of a send: call `wait()` to learn that the broker took the message.

    Made by `MessageProducer.send_nowait`.

    With a confirmation window (`confirmationWindowSize` in the URL) the receipt ends with the broker's answer. Without
    one the protocol has no answer for messages that are sent without waiting, and the receipt ends when the message was
    written.
    """

    def __init__(self, portal: Portal, inner: _client.Receipt) -> None:
        self._portal = portal
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def done(self) -> bool:
        """Return True if the outcome is known."""
        return self._inner.done

    def wait(self) -> None:
        """Wait for the outcome. A cancellation does not affect the send.

        Raises:
            JMSException: the error with which the broker answered, as in `MessageProducer.send`.
        """
        if self.done:
            return self._inner._call.value()
        self._portal.call(self._inner.wait)


class MessageConsumer:
    """Receive messages of one destination. Made by `Session.create_consumer` and its siblings.

    `with` it, or let the session's scope close it.
    """

    def __init__(self, portal: Portal, inner: _client.MessageConsumer) -> None:
        self._portal = portal
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def destination(self) -> Destination:
        """Return the destination of the consumer."""
        return self._inner.destination

    @property
    def selector(self) -> str | None:
        """Return the selector, None without one."""
        return self._inner.selector

    @property
    def closed(self) -> bool:
        """Return True if the consumer is closed, for whatever cause."""
        return self._inner.closed

    @overload
    def receive(self, timeout: None = None) -> JMSMessage: ...

    @overload
    def receive(self, timeout: float | None) -> JMSMessage | None: ...

    def receive(self, timeout: float | None = None) -> JMSMessage | None:
        """Wait for a message.

        With a time-out, return None if no message arrived in time, or if the consumer was closed meanwhile.
        An interrupted receive leaves the message with the consumer.

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
        message = self._portal.call(self._inner.receive, timeout)
        return None if message is None else self._portal.message(message)

    def receive_nowait(self) -> JMSMessage | None:
        """Return a message that is available now, or None if the broker has none for this consumer.

        The client requests messages from the broker if none is buffered.

        Raises: as `receive`, except for `timeout`.
        """
        message = self._portal.call(self._inner.receive_nowait)
        return None if message is None else self._portal.message(message)

    @overload
    def receive_body(self, kind: type[T], timeout: None = None) -> T: ...

    @overload
    def receive_body(self, kind: type[T], timeout: float | None) -> T | None: ...

    def receive_body(self, kind: type[T], timeout: float | None = None) -> T | None:
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
        return self._portal.call(self._inner.receive_body, kind, timeout)

    def receive_body_nowait(self, kind: type[T]) -> T | None:
        """Return the body of a message that is available now, or None.

        Args:
            kind: the type of the body, as in `receive_body`.

        Raises: as `receive_body`.
        """
        return self._portal.call(self._inner.receive_body_nowait, kind)

    @property
    def message_listener(self) -> Callable[[JMSMessage], object] | None:
        """Return the message listener, None without one."""
        return self._portal.original(self._inner.message_listener)

    def set_message_listener(self, listener: Callable[[JMSMessage], object] | None) -> None:
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
        self._portal.call_now(self._inner.set_message_listener, self._portal.listener(listener))

    def close(self) -> None:
        """Close the consumer. Unacknowledged messages return to the queue. A second call has no effect.

        The call waits for a running listener as long as closing the session would. In that listener it does not wait.
        """
        self._portal.close_part(self._inner.close)

    def __iter__(self) -> Iterator[JMSMessage]:
        return self._portal.each(self._inner.__anext__)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class QueueBrowser:
    """Show the messages of a queue in order and take none: `for message in browser`.

    Made by `Session.create_browser`.
    """

    def __init__(self, portal: Portal, inner: _client.QueueBrowser) -> None:
        self._portal = portal
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def queue(self) -> Queue | TemporaryQueue:
        """Return the queue that is browsed."""
        return self._inner.queue

    @property
    def selector(self) -> str | None:
        """Return the selector, None without one."""
        return self._inner.selector

    @property
    def closed(self) -> bool:
        """Return True if the browser is closed, for whatever cause."""
        return self._inner.closed

    def next_message(self) -> JMSMessage | None:
        """Return the next message of this pass over the queue; None at its end. The next call then begins a new pass.

        Raises:
            ConnectionClosedException: the browser is closed.
            InvalidDestinationException: the queue does not exist.
        """
        message = self._portal.call(self._inner.next_message)
        return None if message is None else self._portal.message(message)

    def start_over(self) -> None:
        """End this pass; the next message is the first of a new one. Each iteration begins with this call."""
        self._portal.call(self._inner.start_over)

    def close(self) -> None:
        """Close the browser. A second call has no effect."""
        self._portal.close_part(self._inner.close)

    def __iter__(self) -> Iterator[JMSMessage]:
        self.start_over()
        while (message := self.next_message()) is not None:
            yield message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class JMSProducer:
    """Send to any destination. Made by `JMSContext.create_producer`.

    Setters return the producer, so that calls can be chained. They check nothing: the send raises JMSException for a
    value that is out of range.
    """

    def __init__(self, portal: Portal, inner: _client.JMSProducer) -> None:
        self._portal = portal
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    def set_priority(self, priority: int) -> Self:
        """Set the priority of later messages: 0 to 9, default 4."""
        self._portal.call_now(self._inner.set_priority, priority)
        return self

    def set_delivery_mode(self, delivery_mode: DeliveryMode) -> Self:
        """Set whether later messages survive a restart of the broker: PERSISTENT (the default) or NON_PERSISTENT."""
        self._portal.call_now(self._inner.set_delivery_mode, delivery_mode)
        return self

    def set_time_to_live(self, seconds: float) -> Self:
        """Set the seconds until later messages expire, 0 to 1e12; 0 (the default) means never."""
        self._portal.call_now(self._inner.set_time_to_live, seconds)
        return self

    def set_delivery_delay(self, seconds: float) -> Self:
        """Set the seconds before later messages are delivered, 0 to 1e12; 0 (the default) delivers at once."""
        self._portal.call_now(self._inner.set_delivery_delay, seconds)
        return self

    def set_property(self, name: str, value: PropertyValue) -> Self:
        """Set a property of every later message.

        The send raises MessageFormatException for a name or a value that a message cannot have.

        Args:
            name: name of the property: an identifier that is no word of selectors and not reserved.
            value: a bool, an int of 64 bits, a float, a str, bytes or None.
        """
        self._portal.call_now(self._inner.set_property, name, value)
        return self

    def clear_properties(self) -> Self:
        """Remove all properties that `set_property` has set."""
        self._portal.call_now(self._inner.clear_properties)
        return self

    def set_correlation_id(self, correlation_id: str | bytes | None) -> Self:
        """Set the correlation id of every later message; None keeps that of the message."""
        self._portal.call_now(self._inner.set_correlation_id, correlation_id)
        return self

    def set_reply_to(self, destination: Destination | None) -> Self:
        """Set the destination for replies to later messages; None keeps that of the message."""
        self._portal.call_now(self._inner.set_reply_to, destination)
        return self

    def set_type(self, type: str | None) -> Self:
        """Set the JMSType of every later message; None keeps that of the message."""
        self._portal.call_now(self._inner.set_type, type)
        return self

    def set_disable_message_id(self, disable: bool) -> Self:
        """Set whether later messages are sent without a message id, default False."""
        self._portal.call_now(self._inner.set_disable_message_id, disable)
        return self

    def set_disable_message_timestamp(self, disable: bool) -> Self:
        """Set whether later messages are sent without a timestamp, default False."""
        self._portal.call_now(self._inner.set_disable_message_timestamp, disable)
        return self

    def send(self, destination: Destination | str, message: Body, *, progress: Progress | None = None) -> Self:
        """Send a message, or a value that becomes one, as `MessageProducer.send` does.

        Args:
            destination: where to send to, as an object or as text (`queue://a`, `topic://a`, or `a` for a queue).
            message: the message or value.
            progress: called as `progress(done, total)` for each part of the body that leaves, with bytes; see
                `MessageProducer.send`.

        Raises: as `MessageProducer.send`.
        """
        self._portal.call(self._inner.send, destination, message, progress=progress)
        return self

    def send_nowait(self, destination: Destination | str, message: Body) -> Receipt:
        """Queue a message and return at once, as `MessageProducer.send_nowait` does.

        Args:
            destination: where to send to, as an object or as text (`queue://a`, `topic://a`, or `a` for a queue).
            message: the message or value; a readable needs `send`.

        Raises: as `MessageProducer.send_nowait`.
        """
        return Receipt(self._portal, self._portal.call_now(self._inner.send_nowait, destination, message))
