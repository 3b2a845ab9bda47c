"""The JMS connection and context, for threads and scripts. Generated from the async classes: change those.

Each method is one call through the portal to the async method of the same name, which documents errors in full.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from embedclient import _client
from embedclient._client import AcknowledgeMode, ConnectionMetaData, FailoverEventType
from embedclient.agent import LocatorSettings, SessionMode
from embedclient.errors import JMSException
from embedclient.model import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic

from ._messaging import JMSProducer, MessageConsumer, QueueBrowser
from ._portal import Portal
from ._session import Session


class Connection:
    """A connection to a broker. Opened with `ConnectionFactory.connect`, it ends with that block.

    Set `exception_listener` to hear of lost connections, when it is known whether the sessions live on (a
    `ConnectionFailedException` says so). With `add_failover_listener` one hears of each step.
    """

    def __init__(self, portal: Portal, inner: _client.Connection, leave: Callable[[], None]) -> None:
        self._portal = portal
        self._inner = inner
        self._leave = leave

    @property
    def exception_listener(self) -> Callable[[JMSException], object] | None:
        return self._portal.original(self._inner.exception_listener)

    @exception_listener.setter
    def exception_listener(self, value: Callable[[JMSException], object] | None) -> None:
        self._inner.exception_listener = self._portal.listener(value)

    @property
    def client_id(self) -> str | None:
        """The client id, None without one."""
        return self._inner.client_id

    @property
    def metadata(self) -> ConnectionMetaData:
        """What the client says about itself."""
        return self._inner.metadata

    @property
    def settings(self) -> LocatorSettings:
        """The settings it works with."""
        return self._inner.settings

    @property
    def started(self) -> bool:
        """Whether its consumers receive."""
        return self._inner.started

    def set_client_id(self, client_id: str) -> None:
        """Give the connection its client id, before anything else is done with it.

        Raises:
            InvalidClientIDException: another connection has it.
        """
        self._portal.call(self._inner.set_client_id, client_id)

    def create_session(
        self, *, transacted: bool = False, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO
    ) -> Session:
        """A session, `with connection.create_session() as session`.

        Raises:
            ConnectionClosedException: this program closed the connection.
            ConnectionLostException: it is lost for good.
        """
        opened = self._portal.call(
            self._portal.opening,
            lambda: self._inner.create_session(transacted=transacted, acknowledge_mode=acknowledge_mode),
        )
        return Session(self._portal, opened)

    session = create_session

    def start(self) -> None:
        """Let the consumers of all sessions receive. Connections start themselves unless told otherwise."""
        self._portal.call(self._inner.start)

    def stop(self) -> None:
        """Hold all deliveries back until the next `start`.

        Waits for listeners that are running, as long as closing would; not for the one that calls this.
        """
        self._portal.call(self._inner.stop)

    def add_failure_listener(self, listener: Callable[[JMSException, bool], object]) -> None:
        """Have `listener(error, failed_over)` called whenever the connection was lost."""
        self._portal.call_now(self._inner.add_failure_listener, self._portal.known_listener(listener))

    def remove_failure_listener(self, listener: Callable[[JMSException, bool], object]) -> None:
        """Undo `add_failure_listener`; unknown listeners are ignored."""
        self._portal.call_now(self._inner.remove_failure_listener, self._portal.known_listener(listener))

    def add_failover_listener(self, listener: Callable[[FailoverEventType], object]) -> None:
        """Have `listener(event)` called when the connection is lost, and when its sessions are back or given up.

        Without `reconnectAttempts` and `failoverAttempts` there is nothing to give up.
        """
        self._portal.call_now(self._inner.add_failover_listener, self._portal.known_listener(listener))

    def remove_failover_listener(self, listener: Callable[[FailoverEventType], object]) -> None:
        """Undo `add_failover_listener`; unknown listeners are ignored."""
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

    @property
    def connection(self) -> Connection:
        """The connection, shared with other contexts made from this one."""
        return Connection(self._portal, self._inner.connection, self.close)

    @property
    def session(self) -> Session:
        """The session."""
        return Session(self._portal, self._inner.session)

    @property
    def session_mode(self) -> SessionMode:
        """The mode of the session."""
        return self._inner.session_mode

    @property
    def client_id(self) -> str | None:
        """The connection's client id, None without one."""
        return self._inner.client_id

    def create_context(self, session_mode: SessionMode) -> JMSContext:
        """Another session of the same connection."""
        held = self._portal.hold(self._portal.call_now(self._inner.create_context, session_mode))
        return JMSContext(self._portal, held.value, held.close)

    def create_producer(self) -> JMSProducer:
        """A producer that sends to any destination."""
        return JMSProducer(self._portal, self._portal.call_now(self._inner.create_producer))

    def create_consumer(
        self, destination: Destination | str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """See `Session.create_consumer`."""
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_consumer(destination, selector, no_local=no_local)
        )
        return MessageConsumer(self._portal, opened)

    def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """See `Session.create_durable_consumer`."""
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_durable_consumer(topic, name, selector, no_local=no_local)
        )
        return MessageConsumer(self._portal, opened)

    def create_shared_consumer(self, topic: Topic | str, name: str, selector: str | None = None) -> MessageConsumer:
        """See `Session.create_shared_consumer`."""
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_shared_consumer(topic, name, selector)
        )
        return MessageConsumer(self._portal, opened)

    def create_shared_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """See `Session.create_shared_durable_consumer`."""
        opened = self._portal.call(
            self._portal.opening, lambda: self._inner.create_shared_durable_consumer(topic, name, selector)
        )
        return MessageConsumer(self._portal, opened)

    def create_browser(self, queue: Queue | TemporaryQueue | str, selector: str | None = None) -> QueueBrowser:
        """See `Session.create_browser`."""
        opened = self._portal.call(self._portal.opening, lambda: self._inner.create_browser(queue, selector))
        return QueueBrowser(self._portal, opened)

    def create_temporary_queue(self) -> TemporaryQueue:
        """See `Session.create_temporary_queue`."""
        return self._portal.call(self._inner.create_temporary_queue)

    def create_temporary_topic(self) -> TemporaryTopic:
        """See `Session.create_temporary_topic`."""
        return self._portal.call(self._inner.create_temporary_topic)

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
        """Acknowledge everything received, in the mode CLIENT. In other modes nothing happens."""
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
