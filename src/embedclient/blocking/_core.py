"""The core layer, for threads and scripts. Generated from the async classes: change those.

Each method is one call through the portal to the async method of the same name, which documents errors in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self

from embedclient import _client
from embedclient._client import ClientMessage
from embedclient.agent import AddressState, LocatorSettings, QueueAttributes, QueueState
from embedclient.errors import JMSException
from embedclient.model import Properties, RoutingType, TransportConfiguration

from ._portal import Portal
from ._xa_resource import XAResource


class ClientSessionFactory:
    """One connection to a broker, made again when it is lost as far as the settings say."""

    def __init__(self, portal: Portal, inner: _client.ClientSessionFactory, leave: Callable[[], None]) -> None:
        self._portal = portal
        self._inner = inner
        self._leave = leave

    @property
    def settings(self) -> LocatorSettings:
        """The settings it works with."""
        return self._inner.settings

    @property
    def connector(self) -> TransportConfiguration | None:
        """The connector in use, None while there is no connection."""
        return self._inner.connector

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
        """A core session. Both commit flags False make it transacted; with `xa` it has an `xa_resource` instead.

        With `pre_acknowledge` the broker acknowledges before it sends; `ack_batch_size` is how many bytes of messages
        share an acknowledgement. None takes what the settings say.
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
    """A session of the CORE protocol. Made by `ClientSessionFactory.create_session`."""

    def __init__(self, portal: Portal, inner: _client.ClientSession) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def name(self) -> str:
        """The name the broker knows it by; another one after it was rebuilt."""
        return self._inner.name

    @property
    def closed(self) -> bool:
        """Whether it was closed, by whomever."""
        return self._inner.closed

    def start(self) -> None:
        """Let consumers receive."""
        self._portal.call(self._inner.start)

    def stop(self) -> None:
        """Hold deliveries back until the next `start`."""
        self._portal.call(self._inner.stop)

    @property
    def xa_resource(self) -> XAResource:
        """What a transaction manager asks of a session that was made with `xa=True`."""
        return XAResource(self._portal, self._inner.xa_resource)

    def commit(self) -> None:
        """Make what was sent and acknowledged since the last commit final.

        Raises:
            IllegalStateException: it is an XA session.
            TransactionRolledBackException: work was lost with a connection, so everything was rolled back.
            TransactionOutcomeUnknownException: the connection was lost, or an earlier commit was cancelled, while the
                broker was committing.
        """
        self._portal.call(self._inner.commit)

    def rollback(self, *, last_message_as_delivered: bool = False) -> None:
        """Undo the transaction. The flag keeps the delivery count of the first message of each consumer.

        It takes its course even if its caller was cancelled before; only the wait for its end is cancelled.
        """
        self._portal.call(self._inner.rollback, last_message_as_delivered=last_message_as_delivered)

    def query_queue(self, name: str) -> QueueState:
        """Ask what a queue is like, or would be: `exists`, `message_count`, `consumer_count`, `attributes` and more."""
        return self._portal.call(self._inner.query_queue, name)

    def query_address(self, address: str) -> AddressState:
        """Ask whether an address `exists`, and for its `queue_names`."""
        return self._portal.call(self._inner.query_address, address)

    def create_address(self, address: str, routing_types: Sequence[RoutingType]) -> None:
        """Create an address, or give an existing one these routing types.

        Raises:
            IllegalStateException: the broker has as many addresses as it may.
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
        """Create a queue; without a name it has the name of its address.

        A `temporary` one ends with the connection. `filter` is a selector: the queue takes what it matches. Of
        `attributes`, None leaves the choice to the broker.

        Raises:
            InvalidDestinationException: there is a queue of this name.
            InvalidSelectorException: the filter is not one.
            JMSException: the broker does not do what an attribute asks for.
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

        Raises:
            InvalidDestinationException: there is no such queue.
            IllegalStateException: it has consumers.
        """
        self._portal.call(self._inner.delete_queue, name)

    def add_metadata(self, key: str, value: str) -> None:
        """Tell the broker something about this session, for its operator. A key keeps its last value."""
        self._portal.call(self._inner.add_metadata, key, value)

    def create_producer(self, address: str | None = None) -> ClientProducer:
        """A producer for one address, or without one for the addresses its messages name."""
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
        """A consumer of a queue that exists; the session has to be started for it to receive.

        `browse_only` shows messages and takes none. Of consumers with different `priority`, higher ones get messages
        first. `window` is in bytes and takes the place of `consumer_window_size`.

        Raises:
            InvalidDestinationException: there is no such queue.
            InvalidSelectorException: the filter is not one.
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
        """A message to send; set its other fields before."""
        return self._portal.call_now(
            self._inner.create_message, body, durable=durable, type=type, properties=properties
        )

    def close(self) -> None:
        """Close producers, consumers and the session. Closing twice is fine."""
        self._portal.close_part(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ClientProducer:
    """Sends messages, to one address or to the address of each message."""

    def __init__(self, portal: Portal, inner: _client.ClientProducer) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def address(self) -> str | None:
        """Where it sends to; None if every message or send names its own address."""
        return self._inner.address

    def send(self, message: ClientMessage, *, address: str | None = None) -> None:
        """Send. Waits for the broker as `block_on_durable_send` and `block_on_non_durable_send` say.

        Raises: what `MessageProducer.send` does.
        """
        self._portal.call(self._inner.send, message, address=address)

    def send_encoded(
        self, messages: Sequence[bytearray], *, confirmed: bool = False, timeout: float | None = None
    ) -> list[tuple[int, JMSException]]:
        """Send many messages that are encoded already, in order. Returns what was refused: index and error.

        Each is a message as the CORE protocol writes it, from the end of its body to its properties. They are kept.
        Waits for credits and for room in the output. With `confirmed` it also waits for the broker's answer to each
        message (with a confirmation window, see `send_nowait`); otherwise a refusal by the broker is told by the end of
        the transaction. `timeout` is how long the broker may keep one message waiting, in seconds; None: for ever.

        Raises:
            ConnectionTimedOutException: the broker gave no credit, or no answer, in that time.
            MessageFormatException: one of them is no such message; those before it were sent.
        """
        return self._portal.call(self._inner.send_encoded, messages, confirmed=confirmed, timeout=timeout)

    def close(self) -> None:
        """Closing twice is fine."""
        self._portal.close_part(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ClientConsumer:
    """Receives messages of one queue."""

    def __init__(self, portal: Portal, inner: _client.ClientConsumer) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def queue(self) -> str:
        """The queue it receives from."""
        return self._inner.queue

    @property
    def closed(self) -> bool:
        """Whether it was closed, by whomever."""
        return self._inner.closed

    def receive(self, timeout: float | None = None) -> ClientMessage | None:
        """Wait for a message, `timeout` seconds at most. None: nothing came in time, or the consumer was closed.

        Raises:
            ConnectionClosedException: the consumer was closed before.
            ConnectionLostException: the connection is lost for good.
        """
        message = self._portal.call(self._inner.receive, timeout)
        return None if message is None else self._portal.message(message)

    def receive_nowait(self) -> ClientMessage | None:
        """A message that is there now, None if the broker has none for this consumer."""
        message = self._portal.call(self._inner.receive_nowait)
        return None if message is None else self._portal.message(message)

    def receive_encoded(
        self, messages_max: int = 1000, *, bytes_max: int = 1048576, timeout: float | None = None
    ) -> list[tuple[bytearray, int]]:
        """Messages as they are encoded, with their delivery counts: what is there now, in one call.

        The broker is asked when nothing is buffered, so an empty list means that it has none for this consumer; with a
        `timeout` in seconds this waits for the first one. Ends at `messages_max`, or when `bytes_max` is reached.

        Raises: what `receive` does.
        """
        return self._portal.call(self._inner.receive_encoded, messages_max, bytes_max=bytes_max, timeout=timeout)

    def acknowledge_received(self) -> None:
        """Acknowledge everything that this consumer has received. In a transacted session the commit makes it final."""
        self._portal.call(self._inner.acknowledge_received)

    def close(self) -> None:
        """Stop receiving. Unacknowledged messages go back to the queue. Closing twice is fine."""
        self._portal.close_part(self._inner.close)

    def __iter__(self) -> Iterator[ClientMessage]:
        return self._portal.each(self._inner.__anext__)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
