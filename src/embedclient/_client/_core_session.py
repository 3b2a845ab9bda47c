"""The core layer: sessions, producers and consumers as the CORE protocol defines them.

Responsible for waiting on the agent's answers, one user task at a time, and for never losing a message to a cancelled
receive. Does not depend on JMS: destinations are addresses and queues here, messages are ClientMessages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, overload

from embedclient.agent import AddressState, Call, Delivery, LargeDelivery, QueueAttributes, QueueState, Received
from embedclient.agent import Consumer as AgentConsumer
from embedclient.agent import Producer as AgentProducer
from embedclient.agent import Session as AgentSession
from embedclient.errors import ConnectionClosedException, IllegalStateException, JMSException
from embedclient.model import Progress, Properties, RoutingType, selector_text, summary

from ._closing import settle_closing
from ._core_message import ClientMessage
from ._edge import Edge
from ._endings import Endings
from ._inbox import Inbox, OneTask, check_may_end_without, post
from ._large_message import LargeBodyStream
from ._opening import ClosedByBlock, Opening
from ._ownership import own
from ._receive_many import take_many
from ._send_many import post_all
from ._upload import post_parts
from ._xa_resource import XAResource, xa_resource_of

T = TypeVar("T")


class ClientConsumer(ClosedByBlock):
    """Receive messages of one queue. Made by `ClientSession.create_consumer`."""

    def __init__(self, session: ClientSession, agent_consumer: AgentConsumer) -> None:
        self._session = session
        self._edge = session._edge
        self._agent_consumer = agent_consumer
        self._inbox = Inbox(session._edge, session._agent_session, agent_consumer, session._one_task)
        self._received = Received(agent_consumer)

    def __repr__(self) -> str:
        return summary(self, f"of {self.queue}", "closed" if self.closed else None)

    @property
    def queue(self) -> str:
        """Return the name of the queue."""
        return self._agent_consumer.queue

    @property
    def closed(self) -> bool:
        """Return True if the consumer is closed, for whatever cause."""
        return self._agent_consumer.closed

    @overload
    async def receive(self, timeout: None = None) -> ClientMessage: ...

    @overload
    async def receive(self, timeout: float | None) -> ClientMessage | None: ...

    async def receive(self, timeout: float | None = None) -> ClientMessage | None:
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
        self._check_open()
        delivery = await self._inbox.take(timeout)
        if delivery is None:
            check_may_end_without(timeout)
            return None
        return self._hand_over(delivery)

    async def receive_nowait(self) -> ClientMessage | None:
        """Return a message that is available now, or None if the broker has none for this consumer.

        The client requests messages from the broker if none is buffered.

        Raises: as `receive`, except for `timeout`.
        """
        self._check_open()
        delivery = await self._inbox.take_now()
        return None if delivery is None else self._hand_over(delivery)

    async def receive_encoded(
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
        self._check_open()
        deliveries = await take_many(self._inbox, messages_max, bytes_max, timeout)
        if deliveries:
            self._received.note(deliveries)
        return [(delivery.message.raw, delivery.delivery_count) for delivery in deliveries]

    async def acknowledge_received(self) -> None:
        """Acknowledge every message that this consumer has received.

        In a transacted session the acknowledgement becomes final with the commit.

        Raises:
            JMSException: the broker refused the acknowledgement, or the connection was lost before it answered.
        """
        await self._settle(self._received.acknowledge_all())

    def __aiter__(self) -> ClientConsumer:
        return self

    async def __anext__(self) -> ClientMessage:
        if not self._agent_consumer.closed:
            try:
                return await self.receive()
            except ConnectionClosedException:  # the end of the iteration, unless something failed
                pass
        failure = self._inbox.failure()
        if failure is not None:
            raise failure
        raise StopAsyncIteration

    async def close(self) -> None:
        """Close the consumer. Unacknowledged messages return to the queue. A second call has no effect."""
        if not self._agent_consumer.closed:
            await self._inbox.close()

    def _hand_over(self, delivery: Delivery) -> ClientMessage:
        self._received.note((delivery,))
        stream = LargeBodyStream(self._edge, delivery) if isinstance(delivery, LargeDelivery) else None
        return ClientMessage.received(delivery, self._acknowledge, stream)

    async def _acknowledge(self, delivery: Delivery, *, individually: bool) -> None:
        received = self._received
        await self._settle(
            received.acknowledge_individually(delivery) if individually else received.acknowledge(delivery)
        )

    async def _settle(self, call: Call[None]) -> None:
        if call.done and call.error is None:
            self._edge.flush_soon()
            await self._edge.pause()
        else:
            await self._edge.wait(call)

    def _check_open(self) -> None:
        if self._agent_consumer.closed:
            raise self._agent_consumer.closed_error or ConnectionClosedException("the consumer is closed")


class ClientProducer(ClosedByBlock):
    """Send messages, to one address or to the address of each message. Made by `ClientSession.create_producer`."""

    def __init__(self, session: ClientSession, agent_producer: AgentProducer) -> None:
        self._edge = session._edge
        self._one_task = session._one_task
        self._agent_producer = agent_producer

    def __repr__(self) -> str:
        return summary(self, f"to {self.address or 'any address'}")

    @property
    def address(self) -> str | None:
        """Return the address it sends to; None if every message or send names its own address."""
        return self._agent_producer.address

    async def send(
        self, message: ClientMessage, *, address: str | None = None, progress: Progress | None = None
    ) -> None:
        """Send one message.

        `block_on_durable_send` and `block_on_non_durable_send` of the settings decide whether the call waits for the
        broker's answer.

        Args:
            message: the message.
            address: the address of this send; None uses the producer's address, or else the message's.
            progress: as in `MessageProducer.send`.

        Raises: as `MessageProducer.send`.
        """
        core = message.encoded(address or self.address)
        if message.readable is None and progress is None:
            await post(self._edge, self._one_task, self._agent_producer, core)
        else:
            await post_parts(self._edge, self._one_task, self._agent_producer, core, message.readable, progress)

    async def send_encoded(
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
        return await post_all(self._edge, self._one_task, self._agent_producer, messages, confirmed, timeout)

    async def close(self) -> None:
        """Close the producer. A second call has no effect."""
        call = self._agent_producer.close()
        self._edge.flush_soon()
        await settle_closing(self._edge, call)


class ClientSession(ClosedByBlock):
    """A session of the CORE protocol, for one task at a time. Made by `ClientSessionFactory.create_session`."""

    def __init__(self, edge: Edge, agent_session: AgentSession) -> None:
        self._edge = edge
        self._agent_session = agent_session
        self._one_task = OneTask("the session")
        self._endings = Endings(edge, edge.agent.settings.call_timeout_ms / 1000)

    def __repr__(self) -> str:
        return summary(self, self.name, "closed" if self.closed else None)

    @property
    def name(self) -> str:
        """Return the session's name on the broker. It changes when the session is rebuilt."""
        return self._agent_session.name

    @property
    def closed(self) -> bool:
        """Return True if the session is closed, for whatever cause."""
        return self._agent_session.over

    async def start(self) -> None:
        """Start the delivery of messages to the session's consumers.

        Raises:
            IllegalStateException: another task uses the session, or the session is closed.
            ConnectionLostException: the connection is lost for good.
        """
        await self._request(self._agent_session.start)

    async def stop(self) -> None:
        """Pause deliveries until the next `start`.

        Raises: as `start`.
        """
        await self._request(self._agent_session.stop)

    @property
    def xa_resource(self) -> XAResource:
        """Return the XA requests of a session that was made with `xa=True`, for a transaction manager.

        Raises:
            IllegalStateException: the session was not made with `xa=True`.
        """
        return xa_resource_of(self._edge, self._agent_session, self._one_task)

    async def commit(self) -> None:
        """Commit what was sent and acknowledged since the last commit.

        Raises:
            IllegalStateException: it is an XA session, or another task uses the session.
            TransactionRolledBackException: work was lost with a connection, so everything was rolled back.
            TransactionOutcomeUnknownException: the connection was lost, or an earlier commit was cancelled, while the
                broker was committing.
        """
        self._check_own_transactions()
        with self._one_task:
            await self._edge.pause()
            await self._endings.commit(self._agent_session.commit)

    async def rollback(self, *, last_message_as_delivered: bool = False) -> None:
        """Roll the transaction back.

        The rollback is completed even if its caller was cancelled before. A cancellation ends only the wait.

        Args:
            last_message_as_delivered: keep the delivery count of the first message of each consumer.

        Raises:
            IllegalStateException: it is an XA session, or another task uses the session.
        """
        self._check_own_transactions()
        with self._one_task:
            await self._endings.roll_back(
                partial(self._agent_session.rollback, last_message_as_delivered=last_message_as_delivered)
            )

    async def query_queue(self, name: str) -> QueueState:
        """Return the state that a queue has or would have.

        It contains `exists`, `message_count`, `consumer_count`, `attributes` and more.

        Args:
            name: name of the queue.

        Raises: as `start`.
        """
        return await self._request(lambda: self._agent_session.addressing.query_queue(name))

    async def query_address(self, address: str) -> AddressState:
        """Return the state of an address: whether it `exists`, and its `queue_names`.

        Args:
            address: name of the address.

        Raises: as `start`.
        """
        return await self._request(lambda: self._agent_session.addressing.query_address(address))

    async def create_address(self, address: str, routing_types: Sequence[RoutingType]) -> None:
        """Create an address, or set the routing types of an existing one.

        Args:
            address: the name.
            routing_types: the routing types that the address supports.

        Raises:
            IllegalStateException: the broker has reached its limit of addresses.
        """
        await self._request(lambda: self._agent_session.addressing.create_address(address, routing_types))

    async def create_queue(
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
        condition = selector_text(filter)
        await self._request(
            lambda: self._agent_session.addressing.create_queue(
                address,
                queue or address,
                routing_type,
                attributes or QueueAttributes(),
                durable=durable,
                temporary=temporary,
                filter=condition,
            )
        )

    async def delete_queue(self, name: str) -> None:
        """Delete a queue with its messages.

        Args:
            name: name of the queue.

        Raises:
            InvalidDestinationException: the queue does not exist.
            IllegalStateException: the queue has consumers.
        """
        await self._request(lambda: self._agent_session.addressing.delete_queue(name))

    async def add_metadata(self, key: str, value: str) -> None:
        """Store a key and a value with this session on the broker, for its operator. A key keeps its last value.

        Args:
            key: name of the value.
            value: text of the value.

        Raises:
            IllegalStateException: another task uses the session, or the session is closed.
        """
        await self._request(lambda: self._agent_session.metadata.add(key, value))

    def create_producer(self, address: str | None = None) -> ClientProducer:
        """Create a producer.

        Args:
            address: the address to send to; None leaves it to each message or send.
        """
        producer = ClientProducer(self, self._agent_session.create_producer(address))
        self._edge.flush_soon()
        return producer

    def create_consumer(
        self,
        queue: str,
        *,
        filter: str | None = None,
        browse_only: bool = False,
        priority: int = 0,
        window: int | None = None,
    ) -> Opening[ClientConsumer]:
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
        condition = selector_text(filter)

        async def open_consumer() -> ClientConsumer:
            with self._one_task:
                await self._edge.pause()
                call = self._agent_session.create_consumer(
                    queue, filter=condition, browse_only=browse_only, priority=priority, window=window
                )
                return ClientConsumer(self, await own(self._edge, call))

        return Opening(open_consumer)

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
        return ClientMessage(body, durable=durable, type=type, properties=properties or Properties())

    async def close(self) -> None:
        """Close the producers, the consumers and the session. A second call has no effect."""
        if not self._agent_session.over:
            await settle_closing(self._edge, self._agent_session.close())

    def _check_own_transactions(self) -> None:
        if self._agent_session.xa is not None:
            raise IllegalStateException("the transactions of an XA session are ended by its xa_resource")

    async def _request(self, request: Callable[[], Call[T]]) -> T:
        with self._one_task:
            await self._edge.pause()
            return await self._edge.wait(request())
