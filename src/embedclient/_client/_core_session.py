"""The core layer: sessions, producers and consumers as the CORE protocol knows them.

Responsible for waiting on the agent's answers, one user task at a time, and for never losing a message to a cancelled
receive. Refuses to know JMS: destinations are addresses and queues here, messages are ClientMessages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from embedclient.agent import AddressState, Call, Delivery, QueueAttributes, QueueState, Received
from embedclient.agent import Consumer as AgentConsumer
from embedclient.agent import Producer as AgentProducer
from embedclient.agent import Session as AgentSession
from embedclient.errors import ConnectionClosedException, IllegalStateException, JMSException
from embedclient.model import Properties, RoutingType, selector_text

from ._closing import settle_closing
from ._core_message import ClientMessage
from ._edge import Edge
from ._endings import Endings
from ._inbox import Inbox, OneTask, post
from ._opening import Opening
from ._ownership import own
from ._receive_many import take_many
from ._send_many import post_all
from ._xa_resource import XAResource, xa_resource_of

T = TypeVar("T")


class ClientConsumer:
    """Receives messages of one queue."""

    def __init__(self, session: ClientSession, agent_consumer: AgentConsumer) -> None:
        self._session = session
        self._edge = session._edge
        self._agent_consumer = agent_consumer
        self._inbox = Inbox(session._edge, session._agent_session, agent_consumer, session._one_task)
        self._received = Received(agent_consumer)

    @property
    def queue(self) -> str:
        """The queue it receives from."""
        return self._agent_consumer.queue

    @property
    def closed(self) -> bool:
        """Whether it was closed, by whomever."""
        return self._agent_consumer.closed

    async def receive(self, timeout: float | None = None) -> ClientMessage | None:
        """Wait for a message, `timeout` seconds at most. None: nothing came in time, or the consumer was closed.

        Raises:
            ConnectionClosedException: the consumer was closed before.
            ConnectionLostException: the connection is lost for good.
        """
        self._check_open()
        return self._hand_over(await self._inbox.take(timeout))

    async def receive_nowait(self) -> ClientMessage | None:
        """A message that is there now, None if the broker has none for this consumer."""
        self._check_open()
        return self._hand_over(await self._inbox.take_now())

    async def receive_encoded(
        self, messages_max: int = 1000, *, bytes_max: int = 1048576, timeout: float | None = None
    ) -> list[tuple[bytearray, int]]:
        """Messages as they are encoded, with their delivery counts: what is there now, in one call.

        The broker is asked when nothing is buffered, so an empty list means that it has none for this consumer; with a
        `timeout` in seconds this waits for the first one. Ends at `messages_max`, or when `bytes_max` is reached.

        Raises: what `receive` does.
        """
        self._check_open()
        deliveries = await take_many(self._inbox, messages_max, bytes_max, timeout)
        if deliveries:
            self._received.note(deliveries)
        return [(delivery.message.raw, delivery.delivery_count) for delivery in deliveries]

    async def acknowledge_received(self) -> None:
        """Acknowledge everything that this consumer has received. In a transacted session the commit makes it final."""
        await self._settle(self._received.acknowledge_all())

    def __aiter__(self) -> ClientConsumer:
        return self

    async def __anext__(self) -> ClientMessage:
        message = None if self._agent_consumer.closed else await self.receive()
        if message is not None:
            return message
        failure = self._inbox.failure()
        if failure is not None:
            raise failure
        raise StopAsyncIteration

    async def close(self) -> None:
        """Stop receiving. Unacknowledged messages go back to the queue. Closing twice is fine."""
        if not self._agent_consumer.closed:
            await self._inbox.close()

    def _hand_over(self, delivery: Delivery | None) -> ClientMessage | None:
        if delivery is None:
            return None
        self._received.note((delivery,))
        return ClientMessage.received(delivery, self._acknowledge)

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


class ClientProducer:
    """Sends messages, to one address or to the address of each message."""

    def __init__(self, session: ClientSession, agent_producer: AgentProducer) -> None:
        self._edge = session._edge
        self._one_task = session._one_task
        self._agent_producer = agent_producer

    @property
    def address(self) -> str | None:
        """Where it sends to; None if every message or send names its own address."""
        return self._agent_producer.address

    async def send(self, message: ClientMessage, *, address: str | None = None) -> None:
        """Send. Waits for the broker as `block_on_durable_send` and `block_on_non_durable_send` say.

        Raises: what `MessageProducer.send` does.
        """
        await post(self._edge, self._one_task, self._agent_producer, message.encoded(address or self.address))

    async def send_encoded(
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
        return await post_all(self._edge, self._one_task, self._agent_producer, messages, confirmed, timeout)

    async def close(self) -> None:
        """Closing twice is fine."""
        call = self._agent_producer.close()
        self._edge.flush_soon()
        await settle_closing(self._edge, call)


class ClientSession:
    """A session of the CORE protocol. Made by `ClientSessionFactory.create_session`."""

    def __init__(self, edge: Edge, agent_session: AgentSession) -> None:
        self._edge = edge
        self._agent_session = agent_session
        self._one_task = OneTask("the session")
        self._endings = Endings(edge, edge.agent.settings.call_timeout_ms / 1000)

    @property
    def name(self) -> str:
        """The name the broker knows it by; another one after it was rebuilt."""
        return self._agent_session.name

    @property
    def closed(self) -> bool:
        """Whether it was closed, by whomever."""
        return self._agent_session.over

    async def start(self) -> None:
        """Let consumers receive."""
        await self._request(self._agent_session.start)

    async def stop(self) -> None:
        """Hold deliveries back until the next `start`."""
        await self._request(self._agent_session.stop)

    @property
    def xa_resource(self) -> XAResource:
        """What a transaction manager asks of a session that was made with `xa=True`."""
        return xa_resource_of(self._edge, self._agent_session, self._one_task)

    async def commit(self) -> None:
        """Make what was sent and acknowledged since the last commit final.

        Raises:
            IllegalStateException: it is an XA session.
            TransactionRolledBackException: work was lost with a connection, so everything was rolled back.
            TransactionOutcomeUnknownException: the connection was lost, or an earlier commit was cancelled, while the
                broker was committing.
        """
        self._check_own_transactions()
        with self._one_task:
            await self._edge.pause()
            await self._endings.commit(self._agent_session.commit)

    async def rollback(self, *, last_message_as_delivered: bool = False) -> None:
        """Undo the transaction. The flag keeps the delivery count of the first message of each consumer.

        It takes its course even if its caller was cancelled before; only the wait for its end is cancelled.
        """
        self._check_own_transactions()
        with self._one_task:
            await self._endings.roll_back(
                partial(self._agent_session.rollback, last_message_as_delivered=last_message_as_delivered)
            )

    async def query_queue(self, name: str) -> QueueState:
        """Ask what a queue is like, or would be: `exists`, `message_count`, `consumer_count`, `attributes` and more."""
        return await self._request(lambda: self._agent_session.query_queue(name))

    async def query_address(self, address: str) -> AddressState:
        """Ask whether an address `exists`, and for its `queue_names`."""
        return await self._request(lambda: self._agent_session.query_address(address))

    async def create_address(self, address: str, routing_types: Sequence[RoutingType]) -> None:
        """Create an address, or give an existing one these routing types.

        Raises:
            IllegalStateException: the broker has as many addresses as it may.
        """
        await self._request(lambda: self._agent_session.create_address(address, routing_types))

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
        """Create a queue; without a name it has the name of its address.

        A `temporary` one ends with the connection. `filter` is a selector: the queue takes what it matches. Of
        `attributes`, None leaves the choice to the broker.

        Raises:
            InvalidDestinationException: there is a queue of this name.
            InvalidSelectorException: the filter is not one.
            JMSException: the broker does not do what an attribute asks for.
        """
        condition = selector_text(filter)
        await self._request(
            lambda: self._agent_session.create_queue(
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

        Raises:
            InvalidDestinationException: there is no such queue.
            IllegalStateException: it has consumers.
        """
        await self._request(lambda: self._agent_session.delete_queue(name))

    async def add_metadata(self, key: str, value: str) -> None:
        """Tell the broker something about this session, for its operator. A key keeps its last value."""
        await self._request(lambda: self._agent_session.add_metadata(key, value))

    def create_producer(self, address: str | None = None) -> ClientProducer:
        """A producer for one address, or without one for the addresses its messages name."""
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
        """A consumer of a queue that exists; the session has to be started for it to receive.

        `browse_only` shows messages and takes none. Of consumers with different `priority`, higher ones get messages
        first. `window` is in bytes and takes the place of `consumer_window_size`.

        Raises:
            InvalidDestinationException: there is no such queue.
            InvalidSelectorException: the filter is not one.
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
        """A message to send; set its other fields before."""
        return ClientMessage(body, durable=durable, type=type, properties=properties or Properties())

    async def close(self) -> None:
        """Close producers, consumers and the session. Closing twice is fine."""
        if not self._agent_session.over:
            await settle_closing(self._edge, self._agent_session.close())

    def _check_own_transactions(self) -> None:
        if self._agent_session.xa is not None:
            raise IllegalStateException("the transactions of an XA session are ended by its xa_resource")

    async def _request(self, request: Callable[[], Call[T]]) -> T:
        with self._one_task:
            await self._edge.pause()
            return await self._edge.wait(request())
