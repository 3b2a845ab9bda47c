"""The JMS session: producers, consumers, browsers, temporary destinations, transactions.

Responsible for the rules of JMS about sessions, over a core session. Does not depend on the wire protocol: the agent
produces the sequences of packets, and each method here makes one request to it.
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
    deletable,
    filter_for_selector,
    subscription_queue_name,
    summary,
)

from ._browser import QueueBrowser
from ._closing import settle_closing
from ._consumer import MessageConsumer
from ._destinations import as_destination, as_topic, place_of
from ._intake import Intake
from ._listener import Listeners
from ._modes import AcknowledgeMode
from ._opening import ClosedByBlock, Opening
from ._producer import MessageProducer
from ._session_context import SessionContext


class Session(ClosedByBlock):
    """A single-threaded context for sending and receiving. Made by `Connection.session`.

    A task that uses a session while another task does so gets an IllegalStateException. Give each task a session.
    """

    def __init__(self, context: SessionContext, client_id: str | None, on_close: Callable[[Session], None]) -> None:
        self._context = context
        self._client_id = client_id
        self._on_close = on_close
        self._listeners = Listeners(context)

    def __repr__(self) -> str:
        return summary(self, self._context.mode.name, "closed" if self.closed else None)

    @property
    def transacted(self) -> bool:
        """Return True if the session has transactions."""
        return self._context.mode is SessionMode.TRANSACTED

    @property
    def acknowledge_mode(self) -> AcknowledgeMode | None:
        """Return the acknowledge mode, None for a transacted session."""
        return None if self.transacted else AcknowledgeMode(self._context.mode)

    @property
    def closed(self) -> bool:
        """Return True if the session is closed, for whatever cause."""
        return self._context.agent_session.over

    # Sending and receiving

    def create_producer(self, destination: Destination | str | None = None) -> MessageProducer:
        """Create a producer.

        A queue or topic that does not exist yet is created with the first send, where the broker allows it.

        Args:
            destination: where it sends to, as an object or as text (`queue://a`, `topic://a`, or `a` for a queue). None
                leaves the destination to each send.

        Raises:
            InvalidDestinationException: the text is not a destination.
            ConnectionClosedException: the session is closed.
            ConnectionLostException: the connection is lost for good.
        """
        self._context.check_open()
        return MessageProducer(self._context, None if destination is None else as_destination(destination))

    def create_consumer(
        self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False
    ) -> Opening[MessageConsumer]:
        """Create a consumer of a queue, or a non-durable subscription of a topic that ends with the consumer.

        Source: Jakarta Messaging 3.1, sections 8.2 and 8.3.1; selectors are those of section 3.8.1.

        Args:
            destination: a queue or topic, as an object or as text (`queue://a`, `topic://a`, or `a` for a queue).
            selector: receive only messages that match; None receives all.
            no_local: leave out messages that this connection sends.

        Raises:
            InvalidDestinationException: the destination does not exist and may not be created, or it is a temporary
                destination that another connection made.
            InvalidSelectorException: the selector is not valid.
        """
        target = as_destination(destination)
        self._context.check_consumable(target)
        place = place_of(target)
        condition = self._filter(selector, no_local)

        def request() -> Call[AgentConsumer]:
            agent_session = self._context.agent_session
            if isinstance(target, Queue | TemporaryQueue):
                return agent_session.destinations.open_queue_consumer(
                    place.address,
                    queue=place.queue,
                    filter=condition,
                    attributes=place.attributes,
                    priority=place.consumer_priority,
                    temporary=target.is_temporary,
                )
            return agent_session.destinations.open_topic_consumer(
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
        """Create a consumer of a durable subscription, which keeps messages while it has no consumer.

        The connection needs a client id. Another selector or topic under the same name replaces the subscription and
        drops its messages.

        Source: Jakarta Messaging 3.1, section 8.3.3.

        Args:
            topic: a topic, as an object or as text; text without a prefix names a topic.
            name: the name of the subscription, unique for the client id.
            selector: receive only messages that match; None receives all.
            no_local: leave out messages that this connection sends.

        Raises:
            IllegalStateException: the connection has no client id, or the subscription has a consumer already.
            InvalidDestinationException: the destination is not a topic, is a temporary one, or does not exist and may
                not be created; or `name` is empty.
            InvalidSelectorException: the selector is not valid.
        """
        if self._client_id is None:
            raise IllegalStateException("a durable subscription that is not shared needs a client id")
        return self._subscribe(topic, name, selector, durable=True, shared=False, no_local=no_local)

    def create_shared_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> Opening[MessageConsumer]:
        """Create a consumer that shares a non-durable subscription, which ends with its last consumer.

        Source: Jakarta Messaging 3.1, section 8.3.2.

        Args:
            topic: a topic, as an object or as text; text without a prefix names a topic.
            name: the name of the subscription.
            selector: receive only messages that match; None receives all.

        Raises:
            InvalidDestinationException: the destination is not a topic, does not exist and may not be created, or is a
                temporary one that another connection made; or `name` is empty.
            InvalidSelectorException: the selector is not valid.
            JMSException: other consumers share a subscription of this name with another selector or topic.
        """
        return self._subscribe(topic, name, selector, durable=False, shared=True)

    def create_shared_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> Opening[MessageConsumer]:
        """Create a consumer that shares a durable subscription, which keeps messages while it has no consumer.

        No client id is needed.

        Source: Jakarta Messaging 3.1, section 8.3.4.

        Args:
            topic: a topic, as an object or as text; text without a prefix names a topic. A temporary topic has no
                durable subscriptions.
            name: the name of the subscription.
            selector: receive only messages that match; None receives all.

        Raises: as `create_shared_consumer`.
        """
        return self._subscribe(topic, name, selector, durable=True, shared=True)

    def create_browser(self, queue: Queue | TemporaryQueue | str, selector: str | None = None) -> Opening[QueueBrowser]:
        """Create a browser, which shows the messages of a queue and takes none of them.

        Source: Jakarta Messaging 3.1, section 4.1.6.

        Args:
            queue: a queue, as an object or as text.
            selector: show only messages that match; None shows all.

        Raises:
            InvalidDestinationException: the destination is not a queue, or the queue does not exist when it is browsed.
            InvalidSelectorException: the selector is not valid.
        """
        target = as_destination(queue)
        if not isinstance(target, Queue | TemporaryQueue):
            raise InvalidDestinationException(f"only queues can be browsed, not {target}")
        condition = self._filter(selector, no_local=False)

        async def open_browser() -> QueueBrowser:
            await self._context.request(
                lambda: self._context.agent_session.addressing.query_address(place_of(target).address)
            )
            return QueueBrowser(self._context, target, selector, condition)

        return Opening(open_browser)

    # Destinations and subscriptions

    async def create_temporary_queue(self) -> TemporaryQueue:
        """Create a queue that lives as long as the connection. Only sessions of this connection may consume from it.

        Source: Jakarta Messaging 3.1, section 6.2.2.

        Raises:
            IllegalStateException: another task uses the session, or the session is closed.
            ConnectionLostException: the connection is lost for good.
        """
        name = await self._own(self._context.agent_session.destinations.create_temporary_queue)
        return deletable(TemporaryQueue(name), self._context.delete_temporary)

    async def create_temporary_topic(self) -> TemporaryTopic:
        """Create a topic that lives as long as the connection. Only sessions of this connection may subscribe to it.

        Source: Jakarta Messaging 3.1, section 6.2.2.

        Raises:
            IllegalStateException: another task uses the session, or the session is closed.
            ConnectionLostException: the connection is lost for good.
        """
        name = await self._own(self._context.agent_session.destinations.create_temporary_topic)
        return deletable(TemporaryTopic(name), self._context.delete_temporary)

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """Delete a temporary destination before its connection ends.

        Args:
            destination: a temporary queue or topic that this connection made.

        Raises:
            IllegalStateException: the destination has consumers.
        """
        self._context.prepared.pop(destination, None)
        await self._context.request(
            lambda: self._context.agent_session.destinations.delete_temporary(destination.address)
        )
        self._context.temporaries.discard(destination.address)

    async def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription with its messages.

        Source: Jakarta Messaging 3.1, section 8.3.3.

        Args:
            name: the name of the subscription.

        Raises:
            InvalidDestinationException: no subscription has this name.
            IllegalStateException: the subscription has consumers.
        """
        queue = subscription_queue_name(self._client_id, name, durable=True)
        await self._context.request(lambda: self._context.agent_session.destinations.unsubscribe(queue))

    # Transactions and acknowledgement

    async def commit(self) -> None:
        """Commit what was sent and received since the last commit.

        Source: Jakarta Messaging 3.1, section 6.2.7.

        Raises:
            TransactionRolledBackException: work was lost with a connection, so everything was rolled back.
            TransactionOutcomeUnknownException: the connection was lost, or an earlier commit was cancelled, while the
                broker was committing.
            DuplicateIDException: a message has a duplicate id that was accepted before; everything was rolled back.
            IllegalStateException: the session is not transacted, or another task uses it.
        """
        self._check_transacted("commit")
        await self._commit(self._context.agent_session.commit)

    async def rollback(self) -> None:
        """Roll back what was sent and received since the last commit; the broker delivers received messages again.

        The rollback is completed even if its caller was cancelled before. A cancellation ends only the wait.

        Source: Jakarta Messaging 3.1, section 6.2.7.

        Raises:
            IllegalStateException: the session is not transacted, or another task uses it.
        """
        self._check_transacted("roll back")
        with self._context.one_task:
            await self._context.endings.roll_back(self._context.agent_session.rollback)

    async def recover(self) -> None:
        """Request a new delivery of every unacknowledged message.

        As with `rollback`, a cancellation ends only the wait.

        Source: Jakarta Messaging 3.1, section 6.2.10.

        Raises:
            IllegalStateException: the session is transacted (use `rollback`), or another task uses it.
        """
        if self.transacted:
            raise IllegalStateException("a transacted session cannot recover; roll it back")
        with self._context.one_task:
            await self._context.endings.roll_back(
                partial(self._context.agent_session.rollback, last_message_as_delivered=self._holds_unacknowledged())
            )

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Return a block that commits at its end.

        The block rolls back if an exception leaves it, or if one arrives before the commit is sent.

        The block begins when an earlier commit or rollback, whose caller did not wait for it, has ended.

        If an earlier commit was cancelled and its outcome is unknown, the block raises that error before it runs.

        Raises:
            TransactionRolledBackException: as `commit`, at the end.
            TransactionOutcomeUnknownException: as `commit`, at the end, or for that earlier commit.
            DuplicateIDException: as `commit`, at the end.
            IllegalStateException: the session is not transacted.
        """
        self._check_transacted("open a transaction")
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        await self._begin()
        async with self._committing():
            yield

    async def close(self) -> None:
        """Close the producers, the consumers and the session. A second call has no effect.

        An open transaction is rolled back.
        """
        if self.closed:
            return
        try:
            self._call_no_more_listeners()
            await self._finish_listeners()
        finally:
            # Until here the connection's `close` waits for these listeners, too.
            self._on_close(self)
            self._end_listeners()
            await settle_closing(self._context.edge, self._context.agent_session.close())

    # For the connection, the context and the consumer of `Connection.consume`

    async def _begin(self) -> None:
        """Wait for commits and rollbacks whose callers did not; raise the error of such a commit."""
        with self._context.one_task:
            await self._context.edge.pause()
            await self._context.endings.begin()

    @asynccontextmanager
    async def _committing(self) -> AsyncIterator[None]:
        """Return a block that commits at its end, or rolls back unless the commit was sent."""
        commits: list[Call[None]] = []

        def send_request() -> Call[None]:
            commits.append(self._context.agent_session.commit())
            return commits[0]

        try:
            yield
            await self._commit(send_request)
        finally:
            # If the block ends before the commit was sent, the next commit would include its work.
            if not commits or commits[0].withdrawn:
                await self._roll_back_in_time()

    async def _roll_back_in_time(self) -> None:
        # Bounded and not cancelled: the exception that ended the block is raised in any case.
        if not self.closed:
            await self._context.endings.roll_back_in_time(self._context.agent_session.rollback())

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
        """Wait for the end of a running listener."""
        await self._listeners.finished()

    def _end_listeners(self) -> None:
        self._listeners.cancel()

    # Inside

    async def _own(self, create: Callable[[], Call[str]]) -> str:
        address = await self._context.request(create)
        self._context.temporaries.add(address)
        return address

    def _holds_unacknowledged(self) -> bool:
        """Return True if the program has received the first message of a consumer that is unacknowledged at the broker.

        Such a message counts as delivered. A message that only waits here for a receive does not:
        repeated recovery would turn a message that the program never received into a dead letter.
        """
        mode = self._context.mode
        return mode is SessionMode.INDIVIDUAL or (mode is not SessionMode.CLIENT and self._listeners.calling)

    async def _commit(self, send_request: Callable[[], Call[None]]) -> None:
        with self._context.one_task:
            await self._context.edge.pause()
            try:
                await self._context.endings.commit(send_request)
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
            return self._context.agent_session.destinations.open_topic_consumer(
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
