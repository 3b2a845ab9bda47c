"""The core layer, for threads and scripts. Generated from the async classes: change those.

Each method is one call through the portal to the async method of the same name, which documents errors in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self, overload

from embedclient import _client
from embedclient._client import ClientMessage
from embedclient.agent import AddressState, LocatorSettings, Notification, QueueAttributes, QueueState
from embedclient.errors import JMSException
from embedclient.model import Progress, Properties, RoutingType, TransportConfiguration

from ._portal import Portal
from ._xa_resource import XAResource


class ClientSessionFactory:
    """A connection to a broker, which is restored after a loss as the settings allow.

    Made by `ServerLocator.create_session_factory`.
    """

    def __init__(self, portal: Portal, inner: _client.ClientSessionFactory, leave: Callable[[], None]) -> None:
        self._portal = portal
        self._inner = inner
        self._leave = leave

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def settings(self) -> LocatorSettings:
        """Return the settings of the factory."""
        return self._inner.settings

    @property
    def connector(self) -> TransportConfiguration | None:
        """Return the connector in use, None while there is no connection."""
        return self._inner.connector

    @property
    def members(self) -> tuple[TransportConfiguration, ...]:
        """Return where the live brokers of the cluster are, as the connected broker announces them at this moment.

        A broker outside any cluster is the only one, with the connector in use. Without a connection there are none.
        """
        return self._inner.members

    def on_notification(self, listener: Callable[[Notification], None] | None) -> None:
        """Set the callable that receives notifications of failures and failovers; None removes it.

        It runs in a thread, and may block.

        Args:
            listener: a function; its errors are logged.
        """
        self._portal.call_now(self._inner.on_notification, self._portal.observer(listener))

    def create_session(
        self,
        *,
        username: str | None = None,
        password: str | None = None,
        xa: bool = False,
        auto_commit_sends: bool = True,
        auto_commit_acks: bool = True,
        pre_acknowledge: bool | None = None,
        ack_batch_size: int | None = None,
    ) -> ClientSession:
        """Create a core session: `with factory.create_session() as session`.

        Args:
            username: the user; None sends none.
            password: the user's password.
            xa: the session takes part in XA transactions and has an `xa_resource`.
            auto_commit_sends: False makes sends part of the session's transaction.
            auto_commit_acks: False makes acknowledgements part of the session's transaction. Both flags False make the
                session transacted.
            pre_acknowledge: the broker acknowledges messages before it sends them; None uses the setting.
            ack_batch_size: bytes of messages that share an acknowledgement; None uses the setting.

        Raises:
            JMSSecurityException: wrong user or password, when it is opened.
            ConnectionClosedException: this program closed the factory.
            ConnectionLostException: the connection is lost for good.
        """
        opened = self._portal.call(
            self._portal.opening,
            lambda: self._inner.create_session(
                username=username,
                password=password,
                xa=xa,
                auto_commit_sends=auto_commit_sends,
                auto_commit_acks=auto_commit_acks,
                pre_acknowledge=pre_acknowledge,
                ack_batch_size=ack_batch_size,
            ),
        )
        return ClientSession(self._portal, opened)

    def close(self) -> None:
        """Close everything made with it. Closing twice is fine."""
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ClientSession:
    """A session of the CORE protocol, for one task at a time. Made by `ClientSessionFactory.create_session`."""

    def __init__(self, portal: Portal, inner: _client.ClientSession) -> None:
        self._portal = portal
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def name(self) -> str:
        """Return the session's name on the broker. It changes when the session is rebuilt."""
        return self._inner.name

    @property
    def closed(self) -> bool:
        """Return True if the session is closed, for whatever cause."""
        return self._inner.closed

    def start(self) -> None:
        """Start the delivery of messages to the session's consumers.

        Raises:
            IllegalStateException: another task uses the session, or the session is closed.
            ConnectionLostException: the connection is lost for good.
        """
        self._portal.call(self._inner.start)

    def stop(self) -> None:
        """Pause deliveries until the next `start`.

        Raises: as `start`.
        """
        self._portal.call(self._inner.stop)

    @property
    def xa_resource(self) -> XAResource:
        """Return the XA requests of a session that was made with `xa=True`, for a transaction manager.

        Raises:
            IllegalStateException: the session was not made with `xa=True`.
        """
        return XAResource(self._portal, self._inner.xa_resource)

    def commit(self) -> None:
        """Commit what was sent and acknowledged since the last commit.

        Raises:
            IllegalStateException: it is an XA session, or another task uses the session.
            TransactionRolledBackException: work was lost with a connection, so everything was rolled back.
            TransactionOutcomeUnknownException: the connection was lost, or an earlier commit was cancelled, while the
                broker was committing.
        """
        self._portal.call(self._inner.commit)

    def rollback(self, *, last_message_as_delivered: bool = False) -> None:
        """Roll the transaction back.

        The rollback is completed even if its caller was cancelled before. A cancellation ends only the wait.

        Args:
            last_message_as_delivered: keep the delivery count of the first message of each consumer.

        Raises:
            IllegalStateException: it is an XA session, or another task uses the session.
        """
        self._portal.call(self._inner.rollback, last_message_as_delivered=last_message_as_delivered)

    def query_queue(self, name: str) -> QueueState:
        """Return the state that a queue has or would have.

        It contains `exists`, `message_count`, `consumer_count`, `attributes` and more.

        Args:
            name: name of the queue.

        Raises: as `start`.
        """
        return self._portal.call(self._inner.query_queue, name)

    def query_address(self, address: str) -> AddressState:
        """Return the state of an address: whether it `exists`, and its `queue_names`.

        Args:
            address: name of the address.

        Raises: as `start`.
        """
        return self._portal.call(self._inner.query_address, address)

    def create_address(self, address: str, routing_types: Sequence[RoutingType]) -> None:
        """Create an address, or set the routing types of an existing one.

        Args:
            address: the name.
            routing_types: the routing types that the address supports.

        Raises:
            IllegalStateException: the broker has reached its limit of addresses.
        """
        self._portal.call(self._inner.create_address, address, routing_types)

    def create_queue(
        self,
        address: str,
        queue: str | None = None,
        routing_type: RoutingType = RoutingType.ANYCAST,
        *,
        durable: bool = True,
        temporary: bool = False,
        filter: str | None = None,
        attributes: QueueAttributes | None = None,
    ) -> None:
        """Create a queue.

        Args:
            address: the address to which the queue is bound.
            queue: the name of the queue; None uses the name of the address.
            routing_type: ANYCAST or MULTICAST.
            durable: the queue survives a restart of the broker.
            temporary: the queue ends with the connection.
            filter: a selector; the queue takes only messages that match. None takes all.
            attributes: further attributes; a value of None leaves the choice to the broker.

        Raises:
            InvalidDestinationException: a queue of this name exists.
            InvalidSelectorException: the filter is not a valid selector.
            JMSException: the broker does not support the value of an attribute.
        """
        self._portal.call(
            self._inner.create_queue,
            address,
            queue,
            routing_type,
            durable=durable,
            temporary=temporary,
            filter=filter,
            attributes=attributes,
        )

    def delete_queue(self, name: str) -> None:
        """Delete a queue with its messages.

        Args:
            name: name of the queue.

        Raises:
            InvalidDestinationException: the queue does not exist.
            IllegalStateException: the queue has consumers.
        """
        self._portal.call(self._inner.delete_queue, name)

    def add_metadata(self, key: str, value: str) -> None:
        """Store a key and a value with this session on the broker, for its operator. A key keeps its last value.

        Args:
            key: name of the value.
            value: text of the value.

        Raises:
            IllegalStateException: another task uses the session, or the session is closed.
        """
        self._portal.call(self._inner.add_metadata, key, value)

    def create_producer(self, address: str | None = None) -> ClientProducer:
        """Create a producer.

        Args:
            address: the address to send to; None leaves it to each message or send.
        """
        return ClientProducer(self._portal, self._portal.call_now(self._inner.create_producer, address))

    def create_consumer(
        self,
        queue: str,
        *,
        filter: str | None = None,
        browse_only: bool = False,
        priority: int = 0,
        window: int | None = None,
    ) -> ClientConsumer:
        """Create a consumer of an existing queue. It receives once the session is started.

        Args:
            queue: the name of the queue.
            filter: a selector; None receives every message.
            browse_only: show messages and take none.
            priority: of several consumers, those with a higher priority get messages first.
            window: bytes that the broker sends ahead, in place of `consumer_window_size`; None uses that setting.

        Raises:
            InvalidDestinationException: the queue does not exist.
            InvalidSelectorException: the filter is not a valid selector.
        """
        opened = self._portal.call(
            self._portal.opening,
            lambda: self._inner.create_consumer(
                queue, filter=filter, browse_only=browse_only, priority=priority, window=window
            ),
        )
        return ClientConsumer(self._portal, opened)

    def create_message(
        self, body: bytes = b"", *, durable: bool = True, type: int = 0, properties: Properties | None = None
    ) -> ClientMessage:
        """Create a message to send. Set its other fields before the send.

        Args:
            body: the encoded body.
            durable: the message survives a restart of the broker.
            type: the message type of the CORE protocol.
            properties: typed properties; None has none.
        """
        return self._portal.call_now(
            self._inner.create_message, body, durable=durable, type=type, properties=properties
        )

    def close(self) -> None:
        """Close the producers, the consumers and the session. A second call has no effect."""
        self._portal.close_part(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ClientProducer:
    """Send messages, to one address or to the address of each message. Made by `ClientSession.create_producer`."""

    def __init__(self, portal: Portal, inner: _client.ClientProducer) -> None:
        self._portal = portal
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def address(self) -> str | None:
        """Return the address it sends to; None if every message or send names its own address."""
        return self._inner.address

    def send(self, message: ClientMessage, *, address: str | None = None, progress: Progress | None = None) -> None:
        """Send one message.

        `block_on_durable_send` and `block_on_non_durable_send` of the settings decide whether the call waits for the
        broker's answer.

        Args:
            message: the message.
            address: the address of this send; None uses the producer's address, or else the message's.
            progress: as in `MessageProducer.send`.

        Raises: as `MessageProducer.send`.
        """
        self._portal.call(self._inner.send, message, address=address, progress=progress)

    def send_encoded(
        self, messages: Sequence[bytearray], *, confirmed: bool = False, timeout: float | None = None
    ) -> list[tuple[int, JMSException]]:
        """Send many encoded messages in order. Return the index and the error of each refused message.

        The call waits for credits and for room in the output.

        Args:
            messages: each is a message as the CORE protocol writes it, from the end of its body to its properties. The
                client keeps the byte arrays: they must not be changed afterwards.
            confirmed: wait for the broker's answer to each message too (with a confirmation window, see `send_nowait`).
                Otherwise a refusal by the broker is reported by the end of the transaction.
            timeout: seconds for which the broker may delay one message; None sets no limit.

        Raises:
            ConnectionTimedOutException: the broker gave no credit, or no answer, in that time.
            MessageFormatException: a message is not encoded in that way; those before it were sent.
            IllegalStateException: another task uses the session.
        """
        return self._portal.call(self._inner.send_encoded, messages, confirmed=confirmed, timeout=timeout)

    def close(self) -> None:
        """Close the producer. A second call has no effect."""
        self._portal.close_part(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ClientConsumer:
    """Receive messages of one queue. Made by `ClientSession.create_consumer`."""

    def __init__(self, portal: Portal, inner: _client.ClientConsumer) -> None:
        self._portal = portal
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def queue(self) -> str:
        """Return the name of the queue."""
        return self._inner.queue

    @property
    def closed(self) -> bool:
        """Return True if the consumer is closed, for whatever cause."""
        return self._inner.closed

    @overload
    def receive(self, timeout: None = None) -> ClientMessage: ...

    @overload
    def receive(self, timeout: float | None) -> ClientMessage | None: ...

    def receive(self, timeout: float | None = None) -> ClientMessage | None:
        """Wait for a message.

        With a time-out, return None if no message arrived in time, or if the consumer was closed meanwhile.

        Args:
            timeout: seconds; None waits without a limit.

        Raises:
            ConnectionClosedException: the consumer was closed before, or meanwhile if there is no time-out.
            ConnectionLostException: the connection is lost for good.
            IllegalStateException: another task uses the session.
            TypeError: `timeout` is not a number.
            ValueError: `timeout` is NaN.
        """
        message = self._portal.call(self._inner.receive, timeout)
        return None if message is None else self._portal.message(message)

    def receive_nowait(self) -> ClientMessage | None:
        """Return a message that is available now, or None if the broker has none for this consumer.

        The client requests messages from the broker if none is buffered.

        Raises: as `receive`, except for `timeout`.
        """
        message = self._portal.call(self._inner.receive_nowait)
        return None if message is None else self._portal.message(message)

    def receive_encoded(
        self, messages_max: int = 1000, *, bytes_max: int = 1048576, timeout: float | None = None
    ) -> list[tuple[bytearray, int]]:
        """Return the messages that are available now, in encoded form, each with its delivery count.

        If no message is buffered, the client requests messages from the broker. An empty list therefore means that the
        broker has none for this consumer.

        Args:
            messages_max: the largest number of messages to return.
            bytes_max: no further message is taken once the taken ones have this size. The first message is returned
                whatever its size.
            timeout: seconds to wait for the first message; None does not wait for messages to arrive.

        Raises: as `receive`.
        """
        return self._portal.call(self._inner.receive_encoded, messages_max, bytes_max=bytes_max, timeout=timeout)

    def acknowledge_received(self) -> None:
        """Acknowledge every message that this consumer has received.

        In a transacted session the acknowledgement becomes final with the commit.

        Raises:
            JMSException: the broker refused the acknowledgement, or the connection was lost before it answered.
        """
        self._portal.call(self._inner.acknowledge_received)

    def close(self) -> None:
        """Close the consumer. Unacknowledged messages return to the queue. A second call has no effect."""
        self._portal.close_part(self._inner.close)

    def __iter__(self) -> Iterator[ClientMessage]:
        return self._portal.each(self._inner.__anext__)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
