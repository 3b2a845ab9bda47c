"""The JMS session: producers, consumers, browsers, temporary destinations, transactions.

Responsible for what JMS says about sessions, over a core session. Refuses to know the wire: sequences of packets are
the agent's, and each method here asks it for one thing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from embedclient.agent import Call, SessionMode
from embedclient.agent import Consumer as AgentConsumer
from embedclient.errors import IllegalStateException, InvalidDestinationException, TransactionRolledBackException
from embedclient.model import (
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    filter_for_selector,
    subscription_queue_name,
)

from ._browser import QueueBrowser
from ._closing import settle_closing
from ._consumer import MessageConsumer
from ._destinations import as_destination, as_topic, place_of
from ._intake import Intake
from ._listener import Listeners
from ._modes import AcknowledgeMode
from ._opening import Opening
from ._producer import MessageProducer
from ._session_context import SessionContext


class Session:
    """A single-threaded context for sending and receiving. Made by `Connection.session`.

    Two tasks that use one session at the same time get an IllegalStateException: give each task its own.
    """

    def __init__(self, context: SessionContext, client_id: str | None, on_close: Callable[[Session], None]) -> None:
        self._context = context
        self._client_id = client_id
        self._on_close = on_close
        self._listeners = Listeners(context)

    @property
    def transacted(self) -> bool:
        """Whether it has transactions."""
        return self._context.mode is SessionMode.TRANSACTED

    @property
    def acknowledge_mode(self) -> AcknowledgeMode | None:
        """None for a transacted session."""
        return None if self.transacted else AcknowledgeMode(self._context.mode)

    @property
    def closed(self) -> bool:
        """Whether it was closed, by whomever."""
        return self._context.agent_session.over

    # Sending and receiving

    def create_producer(self, destination: Destination | str | None = None) -> MessageProducer:
        """A producer for one destination, or for the destinations its sends name.

        A queue or topic that does not exist yet is created with the first send, where the broker allows it.
        """
        self._context.check_open()
        return MessageProducer(self._context, None if destination is None else as_destination(destination))

    def create_consumer(
        self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        """A consumer of a queue, or a non-durable subscription of a topic that ends with the consumer.

        `no_local` leaves out what this connection sends itself.

        Raises:
            InvalidDestinationException: it does not exist and may not be created, or it is a temporary destination
                that another connection made.
            InvalidSelectorException: the selector is not one.
        """
        target = as_destination(destination)
        self._context.check_consumable(target)
        place = place_of(target)
        condition = self._filter(selector, no_local)

        def request() -> Call[AgentConsumer]:
            agent_session = self._context.agent_session
            if isinstance(target, Queue | TemporaryQueue):
                return agent_session.open_queue_consumer(
                    place.address,
                    queue=place.queue,
                    filter=condition,
                    attributes=place.attributes,
                    priority=place.consumer_priority,
                    temporary=target.is_temporary,
                )
            return agent_session.open_topic_consumer(
                place.address,
                queue=place.queue or self._context.random_name(),
                durable=False,
                shared=False,
                filter=condition,
                attributes=place.attributes,
                temporary=target.is_temporary,
            )

        return Opening(partial(self._open_consumer, request, target, selector))

    def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        """A durable subscription, which keeps messages while nobody consumes it; needs a client id.

        Another selector or topic under the same name replaces the subscription and drops its messages.

        Raises:
            IllegalStateException: the connection has no client id, or the subscription a consumer already.
            InvalidDestinationException: it is not a topic, or it does not exist and may not be created.
            InvalidSelectorException: the selector is not one.
        """
        if self._client_id is None:
            raise IllegalStateException("a durable subscription that is not shared needs a client id")
        return self._subscribe(topic, name, selector, durable=True, shared=False, no_local=no_local)

    def create_shared_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> Opening[MessageConsumer]:
        """A share in a non-durable subscription, which ends with its last consumer.

        Raises:
            InvalidDestinationException: it is not a topic, or does not exist and may not be created, or is a temporary
                one that another connection made.
            InvalidSelectorException: the selector is not one.
            JMSException: others share a subscription of this name with another selector or topic.
        """
        return self._subscribe(topic, name, selector, durable=False, shared=True)

    def create_shared_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> Opening[MessageConsumer]:
        """A share in a durable subscription, which keeps messages while nobody consumes it. Needs no client id.

        Raises: what `create_shared_consumer` does.
        """
        return self._subscribe(topic, name, selector, durable=True, shared=True)

    def create_browser(self, queue: Queue | TemporaryQueue | str, selector: str | None = None) -> Opening[QueueBrowser]:
        """A look at the messages of a queue that takes none of them.

        Raises:
            InvalidDestinationException: it is not a queue, or there is no such queue when it is looked at.
            InvalidSelectorException: the selector is not one.
        """
        target = as_destination(queue)
        if not isinstance(target, Queue | TemporaryQueue):
            raise InvalidDestinationException(f"only queues can be browsed, not {target}")
        condition = self._filter(selector, no_local=False)

        async def open_browser() -> QueueBrowser:
            await self._context.request(lambda: self._context.agent_session.query_address(place_of(target).address))
            return QueueBrowser(self._context, target, selector, condition)

        return Opening(open_browser)

    # Destinations and subscriptions

    async def create_temporary_queue(self) -> TemporaryQueue:
        """A queue that lives as long as the connection, whose sessions alone may consume from it."""
        return TemporaryQueue(await self._own(self._context.agent_session.create_temporary_queue))

    async def create_temporary_topic(self) -> TemporaryTopic:
        """A topic that lives as long as the connection, whose sessions alone may subscribe to it."""
        return TemporaryTopic(await self._own(self._context.agent_session.create_temporary_topic))

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """Delete a temporary destination before its connection ends.

        Raises:
            IllegalStateException: it has consumers.
        """
        self._context.prepared.pop(destination, None)
        await self._context.request(lambda: self._context.agent_session.delete_temporary(destination.address))
        self._context.temporaries.discard(destination.address)

    async def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription with its messages.

        Raises:
            InvalidDestinationException: there is no subscription of this name.
            IllegalStateException: it has consumers.
        """
        queue = subscription_queue_name(self._client_id, name, durable=True)
        await self._context.request(lambda: self._context.agent_session.unsubscribe(queue))

    # Transactions and acknowledgement

    async def commit(self) -> None:
        """Make what was sent and received since the last commit final.

        Raises:
            TransactionRolledBackException: work was lost with a connection, so everything was rolled back.
            TransactionOutcomeUnknownException: the connection was lost, or an earlier commit was cancelled, while the
                broker was committing.
            DuplicateIDException: a message has a duplicate id that was accepted before; everything was rolled back.
            IllegalStateException: the session is not transacted.
        """
        self._check_transacted("commit")
        await self._commit(self._context.agent_session.commit)

    async def rollback(self) -> None:
        """Undo what was sent and received since the last commit; messages received will come again.

        It takes its course even if its caller was cancelled before; only the wait for its end is cancelled.

        Raises:
            IllegalStateException: the session is not transacted.
        """
        self._check_transacted("roll back")
        with self._context.one_task:
            await self._context.endings.roll_back(self._context.agent_session.rollback)

    async def recover(self) -> None:
        """Have every unacknowledged message delivered again. It takes its course as `rollback` does.

        Raises:
            IllegalStateException: the session is transacted; roll it back.
        """
        if self.transacted:
            raise IllegalStateException("a transacted session cannot recover; roll it back")
        with self._context.one_task:
            await self._context.endings.roll_back(
                partial(self._context.agent_session.rollback, last_message_as_delivered=self._holds_unacknowledged())
            )

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """A block that commits at its end, and rolls back if an exception leaves it or comes before the commit is sent.

        It begins when an earlier commit or rollback, whose caller did not wait for it, has ended.

        An earlier commit that was cancelled, and whose outcome cannot be learnt, is told before the block is run.

        Raises:
            TransactionRolledBackException: as `commit` does, at the end.
            TransactionOutcomeUnknownException: as `commit` does, at the end, or for that earlier commit.
            DuplicateIDException: as `commit` does, at the end.
            IllegalStateException: the session is not transacted.
        """
        self._check_transacted("open a transaction")
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        with self._context.one_task:
            await self._context.edge.pause()
            await self._context.endings.begin()
        commits: list[Call[None]] = []

        def ask() -> Call[None]:
            commits.append(self._context.agent_session.commit())
            return commits[0]

        try:
            yield
            await self._commit(ask)
        finally:
            # Whatever ends the block before the broker was asked leaves work that the next commit would take along.
            if not self.closed and (not commits or commits[0].withdrawn):
                # Bounded and not cancelled: the exception that got us here goes on in any case.
                await self._context.endings.roll_back_in_time(self._context.agent_session.rollback())

    async def close(self) -> None:
        """Close producers, consumers and the session; an open transaction is rolled back. Closing twice is fine."""
        if self.closed:
            return
        try:
            self._call_no_more_listeners()
            await self._finish_listeners()
        finally:
            # Until here a connection that is closed waits for them, too.
            self._on_close(self)
            self._end_listeners()
            await settle_closing(self._context.edge, self._context.agent_session.close())

    # For the connection and the context

    async def _acknowledge_received(self) -> None:
        if self._context.mode is SessionMode.CLIENT:
            await self._commit(self._context.agent_session.commit)
        else:
            await self._context.edge.pause()
            self._context.check_open()

    async def _start(self) -> None:
        self._start_now()
        await self._context.edge.pause()

    def _start_now(self) -> None:
        self._context.agent_session.start().value()
        self._context.edge.flush_soon()
        self._listeners.wake()

    async def _stop(self) -> None:
        await self._context.edge.wait(self._context.agent_session.stop())

    def _call_no_more_listeners(self) -> None:
        self._listeners.begin_close()

    async def _finish_listeners(self) -> None:
        """Let a running listener end."""
        await self._listeners.finished()

    def _end_listeners(self) -> None:
        self._listeners.cancel()

    # Inside

    async def _own(self, create: Callable[[], Call[str]]) -> str:
        address = await self._context.request(create)
        self._context.temporaries.add(address)
        return address

    def _holds_unacknowledged(self) -> bool:
        """Whether the first message of a consumer that the broker has no acknowledgement of was seen by the program.

        It is then counted as delivered. What only waits here for a receive is not: recovering again and again would
        make a dead letter of a message that nobody ever had.
        """
        mode = self._context.mode
        return mode is SessionMode.INDIVIDUAL or (mode is not SessionMode.CLIENT and self._listeners.calling)

    async def _commit(self, ask: Callable[[], Call[None]]) -> None:
        with self._context.one_task:
            await self._context.edge.pause()
            try:
                await self._context.endings.commit(ask)
            except TransactionRolledBackException:
                self._context.forget_temporaries()
                raise

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
        target = as_topic(topic)
        if isinstance(target, TemporaryTopic) and durable:
            raise InvalidDestinationException("a temporary topic has no durable subscriptions")
        if not name:
            raise InvalidDestinationException("a subscription needs a name")
        self._context.check_consumable(target)
        place = place_of(target)
        queue = subscription_queue_name(self._client_id, name, durable=durable)
        condition = self._filter(selector, no_local)

        def request() -> Call[AgentConsumer]:
            return self._context.agent_session.open_topic_consumer(
                place.address,
                queue=queue,
                durable=durable,
                shared=shared,
                filter=condition,
                attributes=place.attributes,
                temporary=target.is_temporary,
            )

        return Opening(partial(self._open_consumer, request, target, selector))

    async def _open_consumer(
        self, request: Callable[[], Call[AgentConsumer]], target: Destination, selector: str | None
    ) -> MessageConsumer:
        agent_consumer = await self._context.open_consumer(request)
        intake = Intake(self._context, agent_consumer, target)
        return MessageConsumer(self._listeners, intake, selector)

    def _filter(self, selector: str | None, no_local: bool) -> str | None:
        return filter_for_selector(selector, no_local_id=self._context.connection_id if no_local else None)

    def _check_transacted(self, action: str) -> None:
        if not self.transacted:
            raise IllegalStateException(f"only a transacted session can {action}")
