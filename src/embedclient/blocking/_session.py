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

    A task that uses a session while another task does so gets an IllegalStateException. Give each task a session.
    """

    def __init__(self, portal: Portal, inner: _client.Session) -> None:
        self._portal = portal
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def transacted(self) -> bool:
        """Return True if the session has transactions."""
        return self._inner.transacted

    @property
    def acknowledge_mode(self) -> AcknowledgeMode | None:
        """Return the acknowledge mode, None for a transacted session."""
        return self._inner.acknowledge_mode

    @property
    def closed(self) -> bool:
        """Return True if the session is closed, for whatever cause."""
        return self._inner.closed

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
        return MessageProducer(self._portal, self._portal.call_now(self._inner.create_producer, destination))

    def create_consumer(
        self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
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
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_consumer(destination, selector, no_local=no_local)
        )
        return MessageConsumer(self._portal, opened)

    def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
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
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_durable_consumer(topic, name, selector, no_local=no_local)
        )
        return MessageConsumer(self._portal, opened)

    def create_shared_consumer(self, topic: Topic | str, name: str, selector: str | None = None) -> MessageConsumer:
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
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_shared_consumer(topic, name, selector)
        )
        return MessageConsumer(self._portal, opened)

    def create_shared_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> MessageConsumer:
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
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_shared_durable_consumer(topic, name, selector)
        )
        return MessageConsumer(self._portal, opened)

    def create_browser(self, queue: Queue | TemporaryQueue | str, selector: str | None = None) -> QueueBrowser:
        """Create a browser, which shows the messages of a queue and takes none of them.

        Source: Jakarta Messaging 3.1, section 4.1.6.

        Args:
            queue: a queue, as an object or as text.
            selector: show only messages that match; None shows all.

        Raises:
            InvalidDestinationException: the destination is not a queue, or the queue does not exist when it is browsed.
            InvalidSelectorException: the selector is not valid.
        """
        opened = self._portal.call(self._portal.opening, lambda: self._inner.create_browser(queue, selector))
        return QueueBrowser(self._portal, opened)

    def create_temporary_queue(self) -> TemporaryQueue:
        """Create a queue that lives as long as the connection. Only sessions of this connection may consume from it.

        Source: Jakarta Messaging 3.1, section 6.2.2.

        Raises:
            IllegalStateException: another task uses the session, or the session is closed.
            ConnectionLostException: the connection is lost for good.
        """
        return self._portal.temporary(self._portal.call(self._inner.create_temporary_queue))

    def create_temporary_topic(self) -> TemporaryTopic:
        """Create a topic that lives as long as the connection. Only sessions of this connection may subscribe to it.

        Source: Jakarta Messaging 3.1, section 6.2.2.

        Raises:
            IllegalStateException: another task uses the session, or the session is closed.
            ConnectionLostException: the connection is lost for good.
        """
        return self._portal.temporary(self._portal.call(self._inner.create_temporary_topic))

    def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """Delete a temporary destination before its connection ends.

        Args:
            destination: a temporary queue or topic that this connection made.

        Raises:
            IllegalStateException: the destination has consumers.
        """
        self._portal.call(self._inner.delete_temporary, destination)

    def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription with its messages.

        Source: Jakarta Messaging 3.1, section 8.3.3.

        Args:
            name: the name of the subscription.

        Raises:
            InvalidDestinationException: no subscription has this name.
            IllegalStateException: the subscription has consumers.
        """
        self._portal.call(self._inner.unsubscribe, name)

    def commit(self) -> None:
        """Commit what was sent and received since the last commit.

        Source: Jakarta Messaging 3.1, section 6.2.7.

        Raises:
            TransactionRolledBackException: work was lost with a connection, so everything was rolled back.
            TransactionOutcomeUnknownException: the connection was lost, or an earlier commit was cancelled, while the
                broker was committing.
            DuplicateIDException: a message has a duplicate id that was accepted before; everything was rolled back.
            IllegalStateException: the session is not transacted, or another task uses it.
        """
        self._portal.call(self._inner.commit)

    def rollback(self) -> None:
        """Roll back what was sent and received since the last commit; the broker delivers received messages again.

        The rollback is completed even if its caller was cancelled before. A cancellation ends only the wait.

        Source: Jakarta Messaging 3.1, section 6.2.7.

        Raises:
            IllegalStateException: the session is not transacted, or another task uses it.
        """
        self._portal.call(self._inner.rollback)

    def recover(self) -> None:
        """Request a new delivery of every unacknowledged message.

        As with `rollback`, a cancellation ends only the wait.

        Source: Jakarta Messaging 3.1, section 6.2.10.

        Raises:
            IllegalStateException: the session is transacted (use `rollback`), or another task uses it.
        """
        self._portal.call(self._inner.recover)

    def transaction(self) -> AbstractContextManager[None]:
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
        return self._portal.block(self._portal.call_now(self._inner.transaction))

    def close(self) -> None:
        """Close the producers, the consumers and the session. A second call has no effect.

        An open transaction is rolled back.
        """
        self._portal.close_part(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
