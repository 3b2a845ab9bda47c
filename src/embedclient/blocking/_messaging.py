"""JMS producers, consumers and browsers, for threads and scripts. Generated from the async classes: change those.

Each method is one call through the portal to the async method of the same name, which documents errors in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from embedclient import _client
from embedclient._client import Body
from embedclient.model import DeliveryMode, Destination, JMSMessage, PropertyValue, Queue, TemporaryQueue

from ._portal import Portal

T = TypeVar("T")


class MessageProducer:
    """Sends messages to one destination, or without one to the destination of each send.

    The attributes are defaults for every send: `delivery_mode`, `priority` (0 to 9), `time_to_live` and
    `delivery_delay` in seconds (0: for ever, at once), `disable_message_id`, `disable_message_timestamp`. The shortest
    lifetime is a millisecond.
    """

    def __init__(self, portal: Portal, inner: _client.MessageProducer) -> None:
        self._portal = portal
        self._inner = inner

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
        """Where it sends to; None if every send names its own destination."""
        return self._inner.destination

    @property
    def closed(self) -> bool:
        """Whether it was closed, by whomever."""
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
    ) -> None:
        """Send a message, or a value that becomes one: str, bytes, dict or list.

        What is not given comes from the attributes. `time_to_live` and `delivery_delay` are seconds.

        Returns when the broker has stored a persistent message (unless the session is transacted), and at once for
        others. An interrupted send of a persistent message may or may not have reached the broker.

        Raises:
            InvalidDestinationException: the destination does not exist and may not be created, as no temporary one
                whose connection has ended.
            MessageFormatException: the value cannot be sent.
            UnblockedException: the connection was lost before the broker answered; it has the message or not.
            DuplicateIDException, AddressFullException: the broker refused the message for that reason.
            JMSException: it was refused for another one, or the connection is lost for good.
        """
        self._portal.call(
            self._inner.send,
            message,
            destination=destination,
            delivery_mode=delivery_mode,
            priority=priority,
            time_to_live=time_to_live,
            delivery_delay=delivery_delay,
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
        """Queue a message and return at once. The receipt tells the outcome to whoever waits for it.

        Arguments are those of `send`. What is wrong with them raises here, what the broker says in the receipt.
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
        """Closing twice is fine."""
        self._portal.close_part(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Receipt:
    """What `send_nowait` gives back: call `wait()` to learn that the broker took the message.

    With a confirmation window (`confirmationWindowSize` in the URL) it ends with the broker's answer; without one the
    protocol has no answer for messages that nobody waits for, and it ends when the message was written.
    """

    def __init__(self, portal: Portal, inner: _client.Receipt) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._inner.done

    def wait(self) -> None:
        """Wait for the outcome. Raises what the broker answered. Cancelling leaves the send alone."""
        if self.done:
            return self._inner._call.value()
        self._portal.call(self._inner.wait)


class MessageConsumer:
    """Receives messages of one destination. `with` it, or let the session's scope close it."""

    def __init__(self, portal: Portal, inner: _client.MessageConsumer) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def destination(self) -> Destination:
        """Where its messages come from."""
        return self._inner.destination

    @property
    def selector(self) -> str | None:
        """Its selector, None without one."""
        return self._inner.selector

    @property
    def closed(self) -> bool:
        """Whether it was closed, by whomever."""
        return self._inner.closed

    def receive(self, timeout: float | None = None) -> JMSMessage | None:
        """Wait for a message, `timeout` seconds at most.

        Returns None when nothing came in time, or when the consumer was closed meanwhile. An interrupted receive leaves
        the message with the consumer.

        Raises:
            ConnectionClosedException: the consumer was closed before.
            ConnectionLostException: the connection is lost for good.
            IllegalStateException: it has a listener, or another task uses the session.
            MessageFormatException: the message is of a kind that JMS does not have. In the modes AUTO and DUPS_OK it
                comes again, until it is dead.
        """
        message = self._portal.call(self._inner.receive, timeout)
        return None if message is None else self._portal.message(message)

    def receive_nowait(self) -> JMSMessage | None:
        """A message that is there now. The broker is asked, so None means that it has none for this consumer."""
        message = self._portal.call(self._inner.receive_nowait)
        return None if message is None else self._portal.message(message)

    def receive_body(self, kind: type[T], timeout: float | None = None) -> T | None:
        """Wait for a message like `receive`, and return its body, which has to be of this type.

        Returns None when nothing came in time. After the error below the message is the next one again; only in the
        mode CLIENT and in transacted sessions it counts as received.

        Raises:
            MessageFormatException: the body is of another type, or there is none.
            TypeError: the type is nothing that `isinstance` takes.
        """
        return self._portal.call(self._inner.receive_body, kind, timeout)

    def receive_body_nowait(self, kind: type[T]) -> T | None:
        """The body of a message that is there now; `receive_body` says what it has to be."""
        return self._portal.call(self._inner.receive_body_nowait, kind)

    @property
    def message_listener(self) -> Callable[[JMSMessage], object] | None:
        """The listener that was set, if any."""
        return self._portal.original(self._inner.message_listener)

    def set_message_listener(self, listener: Callable[[JMSMessage], object] | None) -> None:
        """Have the session call `listener(message)` for each message, one at a time; None stops that.

        An exception of the listener is logged; in the modes AUTO and DUPS_OK the message comes again.

        Raises:
            TypeError: the listener cannot be called.
            ConnectionClosedException: the consumer is closed.
            IllegalStateException: a task is receiving from it.
        """
        self._portal.call_now(self._inner.set_message_listener, self._portal.listener(listener))

    def close(self) -> None:
        """Stop receiving. Unacknowledged messages go back to the queue. Closing twice is fine.

        Waits for its listener if that is running, as long as closing the session would; not in that listener.
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
    """Shows the messages of a queue in order: `for message in browser`."""

    def __init__(self, portal: Portal, inner: _client.QueueBrowser) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def queue(self) -> Queue | TemporaryQueue:
        """The queue it shows."""
        return self._inner.queue

    @property
    def selector(self) -> str | None:
        """Its selector, None without one."""
        return self._inner.selector

    @property
    def closed(self) -> bool:
        """Whether it was closed, by whomever."""
        return self._inner.closed

    def next_message(self) -> JMSMessage | None:
        """The next message of this look; None at its end, after which the next call begins a new look."""
        message = self._portal.call(self._inner.next_message)
        return None if message is None else self._portal.message(message)

    def start_over(self) -> None:
        """End this look; the next message is the first of a new one. Each iteration begins so."""
        self._portal.call(self._inner.start_over)

    def close(self) -> None:
        """Closing twice is fine."""
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
    """Sends to any destination. Setters return the producer, so that they can be chained."""

    def __init__(self, portal: Portal, inner: _client.JMSProducer) -> None:
        self._portal = portal
        self._inner = inner

    def set_priority(self, priority: int) -> Self:
        """0 to 9, for every message sent from now on."""
        self._portal.call_now(self._inner.set_priority, priority)
        return self

    def set_delivery_mode(self, delivery_mode: DeliveryMode) -> Self:
        """Whether messages sent from now on survive a restart of the broker."""
        self._portal.call_now(self._inner.set_delivery_mode, delivery_mode)
        return self

    def set_time_to_live(self, seconds: float) -> Self:
        """Seconds for which messages sent from now on are of use; 0 for ever."""
        self._portal.call_now(self._inner.set_time_to_live, seconds)
        return self

    def set_delivery_delay(self, seconds: float) -> Self:
        """Seconds that messages sent from now on wait before they are delivered; 0 for none.

        A broker of this project refuses such messages: it has no scheduled delivery yet. Artemis has.
        """
        self._portal.call_now(self._inner.set_delivery_delay, seconds)
        return self

    def set_property(self, name: str, value: PropertyValue) -> Self:
        """A property of every message sent from now on."""
        self._portal.call_now(self._inner.set_property, name, value)
        return self

    def clear_properties(self) -> Self:
        """Forget what `set_property` was told."""
        self._portal.call_now(self._inner.clear_properties)
        return self

    def set_correlation_id(self, correlation_id: str | bytes | None) -> Self:
        """The correlation id of every message sent from now on; None leaves what a message has."""
        self._portal.call_now(self._inner.set_correlation_id, correlation_id)
        return self

    def set_reply_to(self, destination: Destination | None) -> Self:
        """Where replies to messages sent from now on are awaited; None leaves what a message has."""
        self._portal.call_now(self._inner.set_reply_to, destination)
        return self

    def set_type(self, type: str | None) -> Self:
        """The JMSType of every message sent from now on; None leaves what a message has."""
        self._portal.call_now(self._inner.set_type, type)
        return self

    def set_disable_message_id(self, disable: bool) -> Self:
        """Whether messages sent from now on go without a message id."""
        self._portal.call_now(self._inner.set_disable_message_id, disable)
        return self

    def set_disable_message_timestamp(self, disable: bool) -> Self:
        """Whether messages sent from now on go without a timestamp."""
        self._portal.call_now(self._inner.set_disable_message_timestamp, disable)
        return self

    def send(self, destination: Destination | str, message: Body) -> Self:
        """Send a message, or a value that becomes one, as `MessageProducer.send` does, with its errors."""
        self._portal.call(self._inner.send, destination, message)
        return self

    def send_nowait(self, destination: Destination | str, message: Body) -> Receipt:
        """Queue a message and return at once. See `MessageProducer.send_nowait`."""
        return Receipt(self._portal, self._portal.call_now(self._inner.send_nowait, destination, message))
