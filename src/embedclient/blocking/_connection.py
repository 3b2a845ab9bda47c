"""The JMS connection and context, for threads and scripts. Generated from the async classes: change those.

Each method is one call through the portal to the async method of the same name, which documents errors in full.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from embedclient import _client
from embedclient._client import AcknowledgeMode, Body, ConnectionMetaData, FailoverEventType
from embedclient.agent import LocatorSettings, SessionMode
from embedclient.errors import JMSException
from embedclient.model import Destination, JMSMessage, Queue, TemporaryQueue, TemporaryTopic, Topic

from ._messaging import JMSProducer, MessageConsumer, QueueBrowser
from ._portal import Portal
from ._session import Session


class Connection:
    """A connection to a broker. Made by `ConnectionFactory.create_connection`, it ends with its block or by `close`.

    `exception_listener` is called with a `ConnectionFailedException` after the connection was lost, once it is decided
    whether the sessions continue. The exception contains that decision. It is also called with the error of a send that
    the broker refused and that the program did not wait for. For each step use `add_failover_listener`.
    """

    def __init__(self, portal: Portal, inner: _client.Connection, leave: Callable[[], None]) -> None:
        self._portal = portal
        self._inner = inner
        self._leave = leave

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def exception_listener(self) -> Callable[[JMSException], object] | None:
        return self._portal.original(self._inner.exception_listener)

    @exception_listener.setter
    def exception_listener(self, value: Callable[[JMSException], object] | None) -> None:
        self._inner.exception_listener = self._portal.listener(value)

    @property
    def client_id(self) -> str | None:
        """Return the client id, None without one."""
        return self._inner.client_id

    @property
    def metadata(self) -> ConnectionMetaData:
        """Return a description of the client."""
        return self._inner.metadata

    @property
    def settings(self) -> LocatorSettings:
        """Return the settings of the connection."""
        return self._inner.settings

    @property
    def started(self) -> bool:
        """Return True if the connection is started: its consumers receive."""
        return self._inner.started

    def set_client_id(self, client_id: str) -> None:
        """Set the client id. This must be the first use of the connection.

        Args:
            client_id: the id, not empty.

        Raises:
            InvalidClientIDException: another connection has this client id, or it is empty.
            IllegalStateException: the connection has a client id, or was used already.
        """
        self._portal.call(self._inner.set_client_id, client_id)

    def create_session(
        self, *, transacted: bool = False, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO
    ) -> Session:
        """Create a session: `with connection.create_session() as session`.

        Args:
            transacted: the session has transactions; `acknowledge_mode` then has no effect.
            acknowledge_mode: how received messages are acknowledged.

        Raises:
            ConnectionClosedException: this program closed the connection.
            ConnectionLostException: the connection is lost for good.
            ValueError: `acknowledge_mode` is not a mode.
        """
        opened = self._portal.call(
            self._portal.opening,
            lambda: self._inner.create_session(transacted=transacted, acknowledge_mode=acknowledge_mode),
        )
        return Session(self._portal, opened)

    session = create_session

    def send(self, destination: Destination | str, message: Body) -> None:
        """Send a message, from any number of tasks or threads at once.

        The connection keeps up to eight sessions for this. Transactions, and sends with other than the default headers,
        need a session and a producer.

        Args:
            destination: where to send to, as an object or as text (`queue://a`, `topic://a`, or `a` for a queue).
            message: the message or value, as in `MessageProducer.send`.

        Raises: as `MessageProducer.send` and `create_session`.
        """
        self._portal.call(self._inner.send, destination, message)

    def request(self, destination: Destination | str, message: Body, *, timeout: float | None = None) -> JMSMessage:
        """Send a request and wait for the reply to it, from any number of tasks or threads at once.

        `reply_to` of the message becomes a temporary queue of the connection. The service sends its reply there, with
        the message id of the request, or its correlation id, as the correlation id of the reply. A reply that comes too
        late is dropped.

        Args:
            destination: where to send to, as an object or as text (`queue://a`, `topic://a`, or `a` for a queue).
            message: the message or value, as in `MessageProducer.send`.
            timeout: seconds until the reply must be there, from the call on; None waits without a limit.

        Raises:
            TimeoutError: no reply came in time, or the message could not be sent in time.
            IllegalStateException: a request with the same correlation id waits for its reply.
            ConnectionClosedException: the connection, or its queue for replies, was closed meanwhile.
            TypeError: `timeout` is not a number.
            ValueError: `timeout` is NaN.

        Also the errors of `MessageProducer.send` and `create_session`.
        """
        return self._portal.message(self._portal.call(self._inner.request, destination, message, timeout=timeout))

    def consume(self, destination: Destination | str, selector: str | None = None) -> MessageConsumer:
        """Create a consumer with a separate session: `with connection.consume("jobs") as messages`.

        Each message has a block `with message.processing()`, whose end removes it from its queue. An exception in
        the block is logged, and the broker delivers the message again, or moves it to the dead letter address after too
        many attempts. The next message is received after that block. For concurrency, run this in several tasks or
        threads.

        Args:
            destination: a queue or topic, as an object or as text (`queue://a`, `topic://a`, or `a` for a queue).
            selector: receive only messages that match; None receives all.

        Raises: as `create_session` and `Session.create_consumer`.
        """
        opened = self._portal.call(self._portal.opening, lambda: self._inner.consume(destination, selector))
        return MessageConsumer(self._portal, opened)

    def start(self) -> None:
        """Start the delivery of messages to the consumers of all sessions.

        A connection is started when it is opened, unless it was created with `auto_start=False`.

        Source: Jakarta Messaging 3.1, section 6.1.4.

        Raises: as `create_session`.
        """
        self._portal.call(self._inner.start)

    def stop(self) -> None:
        """Pause all deliveries until the next `start`.

        The call waits for running listeners as long as closing would, but not for a listener that makes this call.

        Source: Jakarta Messaging 3.1, section 6.1.5.

        Raises: as `create_session`.
        """
        self._portal.call(self._inner.stop)

    def add_failure_listener(self, listener: Callable[[JMSException, bool], object]) -> None:
        """Add a listener that is called as `listener(error, failed_over)` whenever the connection was lost.

        Args:
            listener: a function or an async function; a second addition of the same one has no effect.
        """
        self._portal.call_now(self._inner.add_failure_listener, self._portal.known_listener(listener))

    def remove_failure_listener(self, listener: Callable[[JMSException, bool], object]) -> None:
        """Remove a listener that `add_failure_listener` added; unknown listeners are ignored."""
        self._portal.call_now(self._inner.remove_failure_listener, self._portal.known_listener(listener))

    def add_failover_listener(self, listener: Callable[[FailoverEventType], object]) -> None:
        """Add a listener that is called as `listener(event)` when the connection is lost and when failover has ended.

        Failover ends when the sessions work again, or when they are given up. Without `reconnectAttempts` and
        `failoverAttempts` there is nothing to give up.

        Args:
            listener: a function or an async function; a second addition of the same one has no effect.
        """
        self._portal.call_now(self._inner.add_failover_listener, self._portal.known_listener(listener))

    def remove_failover_listener(self, listener: Callable[[FailoverEventType], object]) -> None:
        """Remove a listener that `add_failover_listener` added; unknown listeners are ignored."""
        self._portal.call_now(self._inner.remove_failover_listener, self._portal.known_listener(listener))

    def close(self) -> None:
        """Close everything made with it. Closing twice is fine."""
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class JMSContext:
    """A connection and its session. Made by `ConnectionFactory.create_context`."""

    def __init__(self, portal: Portal, inner: _client.JMSContext, leave: Callable[[], None]) -> None:
        self._portal = portal
        self._inner = inner
        self._leave = leave

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def connection(self) -> Connection:
        """Return the connection. Other contexts made from this one share it."""
        return Connection(self._portal, self._inner.connection, self._portal.close)

    @property
    def session(self) -> Session:
        """Return the session."""
        return Session(self._portal, self._inner.session)

    @property
    def session_mode(self) -> SessionMode:
        """Return the mode of the session."""
        return self._inner.session_mode

    @property
    def client_id(self) -> str | None:
        """Return the connection's client id, None without one."""
        return self._inner.client_id

    def create_context(self, session_mode: SessionMode) -> JMSContext:
        """Create a context with another session of the same connection.

        Args:
            session_mode: how the session acknowledges messages, or TRANSACTED.

        Raises:
            ValueError: `session_mode` is not a mode.
        """
        held = self._portal.hold(self._portal.call_now(self._inner.create_context, session_mode))
        return JMSContext(self._portal, held.value, held.close)

    def create_producer(self) -> JMSProducer:
        """Create a producer that sends to any destination.

        Raises: as `Session.create_producer`.
        """
        return JMSProducer(self._portal, self._portal.call_now(self._inner.create_producer))

    def create_consumer(
        self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """Create a consumer as `Session.create_consumer` does.

        Args:
            destination: a queue or topic, as an object or as text (`queue://a`, `topic://a`, or `a` for a queue).
            selector: receive only messages that match; None receives all.
            no_local: leave out messages that this connection sends.

        Raises: as `Session.create_consumer`.
        """
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_consumer(destination, selector, no_local=no_local)
        )
        return MessageConsumer(self._portal, opened)

    def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """Create a consumer of a durable subscription as `Session.create_durable_consumer` does.

        Args:
            topic: a topic, as an object or as text; text without a prefix names a topic.
            name: the name of the subscription, unique for the client id.
            selector: receive only messages that match; None receives all.
            no_local: leave out messages that this connection sends.

        Raises: as `Session.create_durable_consumer`.
        """
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_durable_consumer(topic, name, selector, no_local=no_local)
        )
        return MessageConsumer(self._portal, opened)

    def create_shared_consumer(self, topic: Topic | str, name: str, selector: str | None = None) -> MessageConsumer:
        """Create a consumer of a shared subscription as `Session.create_shared_consumer` does.

        Args:
            topic: a topic, as an object or as text; text without a prefix names a topic.
            name: the name of the subscription.
            selector: receive only messages that match; None receives all.

        Raises: as `Session.create_shared_consumer`.
        """
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_shared_consumer(topic, name, selector)
        )
        return MessageConsumer(self._portal, opened)

    def create_shared_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """Create a consumer of a shared durable subscription as `Session.create_shared_durable_consumer` does.

        Args:
            topic: a topic, as an object or as text; text without a prefix names a topic.
            name: the name of the subscription.
            selector: receive only messages that match; None receives all.

        Raises: as `Session.create_shared_durable_consumer`.
        """
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_shared_durable_consumer(topic, name, selector)
        )
        return MessageConsumer(self._portal, opened)

    def create_browser(self, queue: Queue | TemporaryQueue | str, selector: str | None = None) -> QueueBrowser:
        """Create a browser as `Session.create_browser` does.

        Args:
            queue: a queue, as an object or as text.
            selector: show only messages that match; None shows all.

        Raises: as `Session.create_browser`.
        """
        opened = self._portal.call(self._portal.opening, lambda: self._inner.create_browser(queue, selector))
        return QueueBrowser(self._portal, opened)

    def create_temporary_queue(self) -> TemporaryQueue:
        """See `Session.create_temporary_queue`."""
        return self._portal.temporary(self._portal.call(self._inner.create_temporary_queue))

    def create_temporary_topic(self) -> TemporaryTopic:
        """See `Session.create_temporary_topic`."""
        return self._portal.temporary(self._portal.call(self._inner.create_temporary_topic))

    def unsubscribe(self, name: str) -> None:
        """See `Session.unsubscribe`."""
        self._portal.call(self._inner.unsubscribe, name)

    def transaction(self) -> AbstractContextManager[None]:
        """See `Session.transaction`."""
        return self._portal.block(self._portal.call_now(self._inner.transaction))

    def commit(self) -> None:
        """See `Session.commit`."""
        self._portal.call(self._inner.commit)

    def rollback(self) -> None:
        """See `Session.rollback`."""
        self._portal.call(self._inner.rollback)

    def acknowledge(self) -> None:
        """Acknowledge every message that the session has received, in the mode CLIENT. Other modes ignore the call."""
        self._portal.call(self._inner.acknowledge)

    def recover(self) -> None:
        """See `Session.recover`."""
        self._portal.call(self._inner.recover)

    def start(self) -> None:
        """See `Connection.start`."""
        self._portal.call(self._inner.start)

    def stop(self) -> None:
        """See `Connection.stop`."""
        self._portal.call(self._inner.stop)

    def close(self) -> None:
        """Close everything made with it. Closing twice is fine."""
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
