"""The JMS session, for threads and scripts. Generated from the async classes: change those.

Each method is one call through the portal to the async method of the same name, which documents errors in full.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from embedclient import _client
from embedclient._client import AcknowledgeMode
from embedclient.model import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic

from ._messaging import MessageConsumer, MessageProducer, QueueBrowser
from ._portal import Portal


class Session:
    """A single-threaded context for sending and receiving. Made by `Connection.session`.

    Two tasks that use one session at the same time get an IllegalStateException: give each task its own.
    """

    def __init__(self, portal: Portal, inner: _client.Session) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def transacted(self) -> bool:
        """Whether it has transactions."""
        return self._inner.transacted

    @property
    def acknowledge_mode(self) -> AcknowledgeMode | None:
        """None for a transacted session."""
        return self._inner.acknowledge_mode

    @property
    def closed(self) -> bool:
        """Whether it was closed, by whomever."""
        return self._inner.closed

    def create_producer(self, destination: Destination | str | None = None) -> MessageProducer:
        """A producer for one destination, or for the destinations its sends name.

        A queue or topic that does not exist yet is created with the first send, where the broker allows it.
        """
        return MessageProducer(self._portal, self._portal.call_now(self._inner.create_producer, destination))

    def create_consumer(
        self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """A consumer of a queue, or a non-durable subscription of a topic that ends with the consumer.

        `no_local` leaves out what this connection sends itself.

        Raises:
            InvalidDestinationException: it does not exist and may not be created, or it is a temporary destination
                that another connection made.
            InvalidSelectorException: the selector is not one.
        """
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_consumer(destination, selector, no_local=no_local)
        )
        return MessageConsumer(self._portal, opened)

    def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """A durable subscription, which keeps messages while nobody consumes it; needs a client id.

        Another selector or topic under the same name replaces the subscription and drops its messages.

        Raises:
            IllegalStateException: the connection has no client id, or the subscription a consumer already.
            InvalidDestinationException: it is not a topic, or it does not exist and may not be created.
            InvalidSelectorException: the selector is not one.
        """
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_durable_consumer(topic, name, selector, no_local=no_local)
        )
        return MessageConsumer(self._portal, opened)

    def create_shared_consumer(self, topic: Topic | str, name: str, selector: str | None = None) -> MessageConsumer:
        """A share in a non-durable subscription, which ends with its last consumer.

        Raises:
            InvalidDestinationException: it is not a topic, or does not exist and may not be created, or is a temporary
                one that another connection made.
            InvalidSelectorException: the selector is not one.
            JMSException: others share a subscription of this name with another selector or topic.
        """
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_shared_consumer(topic, name, selector)
        )
        return MessageConsumer(self._portal, opened)

    def create_shared_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """A share in a durable subscription, which keeps messages while nobody consumes it. Needs no client id.

        Raises: what `create_shared_consumer` does.
        """
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_shared_durable_consumer(topic, name, selector)
        )
        return MessageConsumer(self._portal, opened)

    def create_browser(self, queue: Queue | TemporaryQueue | str, selector: str | None = None) -> QueueBrowser:
        """A look at the messages of a queue that takes none of them.

        Raises:
            InvalidDestinationException: it is not a queue, or there is no such queue when it is looked at.
            InvalidSelectorException: the selector is not one.
        """
        opened = self._portal.call(self._portal.opening, lambda: self._inner.create_browser(queue, selector))
        return QueueBrowser(self._portal, opened)

    def create_temporary_queue(self) -> TemporaryQueue:
        """A queue that lives as long as the connection, whose sessions alone may consume from it."""
        return self._portal.call(self._inner.create_temporary_queue)

    def create_temporary_topic(self) -> TemporaryTopic:
        """A topic that lives as long as the connection, whose sessions alone may subscribe to it."""
        return self._portal.call(self._inner.create_temporary_topic)

    def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """Delete a temporary destination before its connection ends.

        Raises:
            IllegalStateException: it has consumers.
        """
        self._portal.call(self._inner.delete_temporary, destination)

    def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription with its messages.

        Raises:
            InvalidDestinationException: there is no subscription of this name.
            IllegalStateException: it has consumers.
        """
        self._portal.call(self._inner.unsubscribe, name)

    def commit(self) -> None:
        """Make what was sent and received since the last commit final.

        Raises:
            TransactionRolledBackException: work was lost with a connection, so everything was rolled back.
            TransactionOutcomeUnknownException: the connection was lost, or an earlier commit was cancelled, while the
                broker was committing.
            DuplicateIDException: a message has a duplicate id that was accepted before; everything was rolled back.
            IllegalStateException: the session is not transacted.
        """
        self._portal.call(self._inner.commit)

    def rollback(self) -> None:
        """Undo what was sent and received since the last commit; messages received will come again.

        It takes its course even if its caller was cancelled before; only the wait for its end is cancelled.

        Raises:
            IllegalStateException: the session is not transacted.
        """
        self._portal.call(self._inner.rollback)

    def recover(self) -> None:
        """Have every unacknowledged message delivered again. It takes its course as `rollback` does.

        Raises:
            IllegalStateException: the session is transacted; roll it back.
        """
        self._portal.call(self._inner.recover)

    def transaction(self) -> AbstractContextManager[None]:
        """A block that commits at its end, and rolls back if an exception leaves it or comes before the commit is sent.

        It begins when an earlier commit or rollback, whose caller did not wait for it, has ended.

        An earlier commit that was cancelled, and whose outcome cannot be learnt, is told before the block is run.

        Raises:
            TransactionRolledBackException: as `commit` does, at the end.
            TransactionOutcomeUnknownException: as `commit` does, at the end, or for that earlier commit.
            DuplicateIDException: as `commit` does, at the end.
            IllegalStateException: the session is not transacted.
        """
        return self._portal.block(self._portal.call_now(self._inner.transaction))

    def close(self) -> None:
        """Close producers, consumers and the session; an open transaction is rolled back. Closing twice is fine."""
        self._portal.close_part(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
