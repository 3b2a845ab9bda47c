"""The JMS session: producers, consumers, browsers, temporary destinations, transactions.

Responsible for what JMS says about sessions, over a core session. Refuses to know the wire: sequences of packets are
the agent's, and each method here asks it for one thing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from embedclient._client._browser import QueueBrowser
from embedclient._client._consumer import MessageConsumer
from embedclient._client._core_session import ClientSession
from embedclient._client._destinations import Place, as_destination, place_of
from embedclient._client._listener import Listeners
from embedclient._client._message_ids import MessageIds
from embedclient._client._modes import AcknowledgeMode
from embedclient._client._opening import Opening
from embedclient._client._producer import MessageProducer
from embedclient.agent import Call, Delivery, SessionMode
from embedclient.agent import Consumer as AgentConsumer
from embedclient.errors import (
    IllegalStateException,
    InvalidDestinationException,
    TransactionOutcomeUnknownException,
)
from embedclient.model import (
    Destination,
    Queue,
    RoutingType,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    filter_for_selector,
    make_uuid,
    subscription_queue_name,
    uuid_text,
)

if TYPE_CHECKING:
    from embedclient._client._connection import Connection

T = TypeVar("T")
_PREPARED_MAX = 1_000


class Session:
    """A single-threaded context for sending and receiving. Made by `Connection.session`.

    Two tasks that use one session at the same time get an IllegalStateException: give each task its own.
    """

    def __init__(self, connection: Connection, core: ClientSession, mode: SessionMode) -> None:
        self.connection = connection
        self.core = core
        self.mode = mode
        self.edge = core.edge
        self.one_task = core.one_task
        self.listeners = Listeners(self)
        self.message_ids = MessageIds(connection.entropy)
        self.connection_id = connection.connection_id
        self.group_id = connection.settings.group_id
        self.call_timeout_s = connection.settings.call_timeout_ms / 1000
        # Destinations that were looked up or created already; a dict, because it forgets the oldest first.
        self.prepared: dict[Destination, None] = {}
        self._in_doubt: Call[None] | None = None

    @property
    def transacted(self) -> bool:
        return self.mode is SessionMode.TRANSACTED

    @property
    def acknowledge_mode(self) -> AcknowledgeMode | None:
        """None for a transacted session."""
        return None if self.transacted else AcknowledgeMode(self.mode)

    @property
    def closed(self) -> bool:
        return self.core.closed

    # Sending and receiving

    def create_producer(self, destination: Destination | str | None = None) -> MessageProducer:
        """A producer for one destination, or for the destinations its sends name.

        A queue or topic that does not exist yet is created with the first send, where the broker allows it.
        """
        return MessageProducer(self, None if destination is None else as_destination(destination))

    def create_consumer(
        self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        """A consumer of a queue, or a non-durable subscription of a topic that ends with the consumer.

        `no_local` leaves out what this connection sends itself.

        Raises:
            InvalidDestinationException: it does not exist and may not be created.
            InvalidSelectorException: the selector is not one.
        """
        target = as_destination(destination)
        place = place_of(target)
        condition = self._filter(selector, no_local)

        def request() -> Call[AgentConsumer]:
            agent_session = self.core.agent_session
            if isinstance(target, Queue | TemporaryQueue):
                return agent_session.open_queue_consumer(
                    place.address,
                    queue=place.queue,
                    filter=condition,
                    attributes=place.attributes,
                    priority=place.consumer_priority,
                )
            return agent_session.open_topic_consumer(
                place.address,
                queue=place.queue or self._random_name(),
                durable=False,
                shared=False,
                filter=condition,
                attributes=place.attributes,
            )

        return Opening(partial(self._open_consumer, request, target, selector))

    def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        """A durable subscription, which keeps messages while nobody consumes it; needs a client id.

        Another selector or topic under the same name replaces the subscription and drops its messages.
        """
        if self.connection.client_id is None:
            raise IllegalStateException("a durable subscription that is not shared needs a client id")
        return self._subscribe(topic, name, selector, durable=True, shared=False, no_local=no_local)

    def create_shared_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> Opening[MessageConsumer]:
        """A share in a non-durable subscription, which ends with its last consumer."""
        return self._subscribe(topic, name, selector, durable=False, shared=True)

    def create_shared_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> Opening[MessageConsumer]:
        """A share in a durable subscription."""
        return self._subscribe(topic, name, selector, durable=True, shared=True)

    def create_browser(self, queue: Queue | TemporaryQueue | str, selector: str | None = None) -> Opening[QueueBrowser]:
        """A look at the messages of a queue that takes none of them."""
        target = as_destination(queue)
        if not isinstance(target, Queue | TemporaryQueue):
            raise InvalidDestinationException(f"only queues can be browsed, not {target}")
        condition = self._filter(selector, no_local=False)

        async def open_browser() -> QueueBrowser:
            await self._request(lambda: self.core.agent_session.query_address(place_of(target).address))
            return QueueBrowser(self, target, selector, condition)

        return Opening(open_browser)

    # Destinations and subscriptions

    async def create_temporary_queue(self) -> TemporaryQueue:
        """A queue that lives as long as the connection."""
        return TemporaryQueue(await self._request(self.core.agent_session.create_temporary_queue))

    async def create_temporary_topic(self) -> TemporaryTopic:
        """A topic that lives as long as the connection."""
        return TemporaryTopic(await self._request(self.core.agent_session.create_temporary_topic))

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """Delete a temporary destination before its connection ends. It must have no consumers."""
        self.prepared.pop(destination, None)
        await self._request(lambda: self.core.agent_session.delete_temporary(destination.address))

    async def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription. It must have no consumers."""
        queue = subscription_queue_name(self.connection.client_id, name, durable=True)
        await self._request(lambda: self.core.agent_session.unsubscribe(queue))

    # Transactions and acknowledgement

    async def commit(self) -> None:
        """Make what was sent and received since the last commit final.

        Raises:
            TransactionRolledBackException: work was lost with a connection, so everything was rolled back.
            TransactionOutcomeUnknownException: the connection was lost, or an earlier commit was cancelled, while the
                broker was committing.
        """
        self._check_transacted("commit")
        with self.one_task:
            await self.edge.pause()
            await self._resolve_doubt()
            await self._finish_transaction(self.core.agent_session.commit())

    async def rollback(self) -> None:
        """Undo what was sent and received since the last commit; messages received will come again."""
        self._check_transacted("roll back")
        with self.one_task:
            await self.edge.pause()
            await self._finish_transaction(self.core.agent_session.rollback())

    async def recover(self) -> None:
        """Have every unacknowledged message delivered again."""
        if self.transacted:
            raise IllegalStateException("a transacted session cannot recover; roll it back")
        await self._request(lambda: self.core.agent_session.rollback(last_message_as_delivered=True))

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """A block that commits at its end, and rolls back if an exception leaves it."""
        self._check_transacted("open a transaction")
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        committing = False
        try:
            yield
            committing = True
            await self.commit()
        finally:
            if not committing and not self.closed:
                # Bounded and not cancelled: the exception that got us here goes on in any case.
                await self.edge.settle(self.core.agent_session.rollback(), self.call_timeout_s)

    async def acknowledge_delivery(self, delivery: Delivery) -> None:
        """What `message.acknowledge()` does."""
        with self.one_task:
            await self.edge.pause()
            call = self.core.agent_session.acknowledge(delivery)
            self.edge.flush_soon()
            if not call.done or call.error is not None:
                await self.edge.wait(call)

    # Life

    async def start(self) -> None:
        """Let consumers receive. The connection does it for its sessions."""
        await self.edge.wait(self.core.agent_session.start())
        self.listeners.wake()

    async def close(self) -> None:
        """Close producers, consumers and the session; an open transaction is rolled back. Closing twice is fine."""
        if self.closed:
            return
        self.connection.forget(self)
        try:
            await self.listeners.close(self.connection.settings.on_message_close_timeout_ms / 1000)
        finally:
            await self.core.close()

    # Inside

    async def prepare(self, destination: Destination) -> None:
        """Look a destination up once, and create what is missing (core-protocol 8, createProducer)."""
        if not destination.is_temporary:
            place = place_of(destination)
            await self._request(
                lambda: self.core.agent_session.prepare_destination(
                    place.address, destination.routing_type, place.attributes, queue=_prepared_queue(destination, place)
                )
            )
        while len(self.prepared) >= _PREPARED_MAX:
            del self.prepared[next(iter(self.prepared))]
        self.prepared[destination] = None

    def _subscribe(
        self,
        topic: Topic | str,
        name: str,
        selector: str | None,
        *,
        durable: bool,
        shared: bool,
        no_local: bool = False,
    ) -> Opening[MessageConsumer]:
        target = Topic(topic.removeprefix("topic://")) if isinstance(topic, str) else topic
        if not isinstance(target, Topic | TemporaryTopic):
            raise InvalidDestinationException(f"only topics have subscriptions, not {target}")
        if isinstance(target, TemporaryTopic) and durable:
            raise InvalidDestinationException("a temporary topic has no durable subscriptions")
        if not name:
            raise InvalidDestinationException("a subscription needs a name")
        place = place_of(target)
        queue = subscription_queue_name(self.connection.client_id, name, durable=durable)
        condition = self._filter(selector, no_local)

        def request() -> Call[AgentConsumer]:
            return self.core.agent_session.open_topic_consumer(
                place.address,
                queue=queue,
                durable=durable,
                shared=shared,
                filter=condition,
                attributes=place.attributes,
            )

        return Opening(partial(self._open_consumer, request, target, selector))

    async def _open_consumer(
        self, request: Callable[[], Call[AgentConsumer]], target: Destination, selector: str | None
    ) -> MessageConsumer:
        return MessageConsumer(self, await self._request(request), target, selector)

    def _filter(self, selector: str | None, no_local: bool) -> str | None:
        return filter_for_selector(selector, no_local_id=self.connection_id if no_local else None)

    def _random_name(self) -> str:
        return uuid_text(make_uuid(self.connection.entropy, self.edge.now()))

    def _check_transacted(self, action: str) -> None:
        if not self.transacted:
            raise IllegalStateException(f"only a transacted session can {action}")

    async def _request(self, request: Callable[[], Call[T]]) -> T:
        with self.one_task:
            await self.edge.pause()
            return await self.edge.wait(request())

    async def _finish_transaction(self, call: Call[None]) -> None:
        """Wait for the end of a transaction; a cancellation that finds it on its way leaves it in doubt."""
        try:
            await self.edge.wait(call)
        finally:
            if not call.done:
                self._in_doubt = call

    async def _resolve_doubt(self) -> None:
        """An earlier commit was cancelled on its way: learn how it ended before the next one builds on it."""
        call, self._in_doubt = self._in_doubt, None
        if call is None:
            return
        await self.edge.settle(call, self.call_timeout_s)
        if not call.done or call.error is not None:
            raise TransactionOutcomeUnknownException(
                "the outcome of a commit that was cancelled is unknown", linked_exception=call.error
            )


def _prepared_queue(destination: Destination, place: Place) -> str | None:
    """The queue that must exist before a send: only queues have one, topics do when fully qualified."""
    if destination.routing_type is RoutingType.ANYCAST:
        return place.queue or place.address
    return place.queue
