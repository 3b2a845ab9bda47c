"""The JMS connection: sessions, the client id, starting and stopping, and listeners for failures.

Responsible for the rules of JMS about connections, over one session factory of the core layer. Does not depend on the
wire protocol.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import TypeVar

from attrs import frozen

from embedclient.agent import (
    ConnectionFailed,
    FailoverCompleted,
    FailoverFailed,
    FailureDetected,
    LocatorSettings,
    Notification,
    SendRefused,
    SessionMode,
)
from embedclient.agent import Session as AgentSession
from embedclient.errors import (
    ConnectionClosedException,
    ConnectionFailedException,
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
)
from embedclient.model import (
    Destination,
    Entropy,
    JMSMessage,
    TemporaryQueue,
    TemporaryTopic,
    make_uuid,
    summary,
    uuid_text,
)

from ._closing import settle_closing
from ._consumer import MessageConsumer
from ._conversion import Body
from ._edge import BackgroundScope, Edge
from ._locator import ClientSessionFactory
from ._modes import AcknowledgeMode, session_mode_of
from ._opening import ClosedByBlock, Opening, end_background
from ._ownership import own
from ._requests import Requests
from ._session import Session
from ._session_context import SessionContext
from ._session_pool import SessionPool
from ._user_code import succeeds
from ._work_consumer import open_work_consumer

_log = logging.getLogger("embedclient")
_NOTIFICATIONS_MAX = 1_000
_CLIENT_ID = "jms-client-id"
_JMS_SESSION = "jms-session"
_LISTENER = ("a listener", "the connection")
C = TypeVar("C", bound="Connection")
S = TypeVar("S", bound=Session)

ExceptionListener = Callable[[JMSException], Awaitable[None] | None]
FailureListener = Callable[[JMSException, bool], Awaitable[None] | None]


class FailoverEventType(Enum):
    """The events that a failover listener receives: first FAILURE_DETECTED, then one of the others."""

    FAILURE_DETECTED = "the connection is lost"
    FAILOVER_COMPLETED = "all sessions work again, here or on another broker"
    FAILOVER_FAILED = "every attempt failed, and the sessions are closed"


FailoverListener = Callable[[FailoverEventType], Awaitable[None] | None]


@frozen
class ConnectionMetaData:
    """Describe the client: the JMS version that it implements, its name, and the JMSX properties that it supports.

    Args:
        jms_version: version of JMS.
        jms_major_version: its first number.
        jms_minor_version: its second number.
        jms_provider_name: name of this client.
        jmsx_property_names: JMSX properties that messages have.
    """

    jms_version: str = "3.1"
    jms_major_version: int = 3
    jms_minor_version: int = 1
    jms_provider_name: str = "embedclient"
    jmsx_property_names: tuple[str, ...] = ("JMSXGroupID", "JMSXGroupSeq", "JMSXDeliveryCount")


class Connection(ClosedByBlock):
    """A connection to a broker. Made by `ConnectionFactory.create_connection`, it ends with its block or by `close`.

    `exception_listener` is called with a `ConnectionFailedException` after the connection was lost, once it is decided
    whether the sessions continue. The exception contains that decision. It is also called with the error of a send that
    the broker refused and that the program did not wait for. For each step use `add_failover_listener`.
    """

    def __init__(
        self,
        edge: Edge,
        settings: LocatorSettings,
        entropy: Entropy,
        *,
        user: str | None,
        password: str | None,
        shared_client_id: bool,
        auto_start: bool,
    ) -> None:
        self.exception_listener: ExceptionListener | None = None
        self._edge = edge
        self._settings = settings
        self._entropy = entropy
        self._user = user
        self._password = password
        self._shared_client_id = shared_client_id
        self._started = auto_start
        self._uid = uuid_text(make_uuid(entropy, edge.now()))
        self._client_id: str | None = None
        self._initial: AgentSession | None = None
        self._sessions: dict[Session, None] = {}
        self._temporaries: set[str] = set()
        self._failure_listeners: dict[FailureListener, None] = {}
        self._failover_listeners: dict[FailoverListener, None] = {}
        self._notifications: deque[Notification] = deque(maxlen=_NOTIFICATIONS_MAX)
        self._notified = edge.signal()
        self._used = False
        self._pool = SessionPool(edge, partial(self._open_session, SessionMode.AUTO, Session, False))
        open_session = partial(self._open_session, SessionMode.DUPS_OK, Session, False)
        self._requests = Requests(edge, self._pool, open_session, self._check_open)
        self._closed = False
        self._left = False
        self._background: BackgroundScope | None = None
        edge.agent.on_notification = self._on_notification

    def __repr__(self) -> str:
        named = f"client_id={self._client_id!r}" if self._client_id is not None else None
        place = self._edge.agent.connector
        initial = self._initial
        over = self._closed or (initial is not None and initial.closed)
        return summary(self, place and f"to {place.place_text}", named, "closed" if over else None)

    @property
    def client_id(self) -> str | None:
        """Return the client id, None without one."""
        return self._client_id

    @property
    def metadata(self) -> ConnectionMetaData:
        """Return a description of the client."""
        return ConnectionMetaData()

    @property
    def settings(self) -> LocatorSettings:
        """Return the settings of the connection."""
        return self._settings

    @property
    def started(self) -> bool:
        """Return True if the connection is started: its consumers receive."""
        return self._started

    async def set_client_id(self, client_id: str) -> None:
        """Set the client id. This must be the first use of the connection.

        Args:
            client_id: the id, not empty.

        Raises:
            InvalidClientIDException: another connection has this client id, or it is empty.
            IllegalStateException: the connection has a client id, or was used already.
        """
        if self._client_id is not None or self._used:
            raise IllegalStateException("the client id is set once, before the connection is used")
        await self._name(client_id)

    def create_session(
        self,
        *,
        transacted: bool = False,
        acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO,
    ) -> Opening[Session]:
        """Create a session: `async with connection.create_session() as session`.

        Args:
            transacted: the session has transactions; `acknowledge_mode` then has no effect.
            acknowledge_mode: how received messages are acknowledged.

        Raises:
            ConnectionClosedException: this program closed the connection.
            ConnectionLostException: the connection is lost for good.
            ValueError: `acknowledge_mode` is not a mode.
        """
        mode = SessionMode.TRANSACTED if transacted else session_mode_of("acknowledge_mode", acknowledge_mode)
        return self._opening(mode, Session)

    session = create_session

    async def send(self, destination: Destination | str, message: Body) -> None:
        """Send a message, from any number of tasks or threads at once.

        The connection keeps up to eight sessions for this. Transactions, and sends with other than the default headers,
        need a session and a producer.

        Args:
            destination: where to send to, as an object or as text (`queue://a`, `topic://a`, or `a` for a queue).
            message: the message or value, as in `MessageProducer.send`.

        Raises: as `MessageProducer.send` and `create_session`.
        """
        async with self._pool.session() as pooled:
            await pooled.producer.send(message, destination=destination)

    async def request(
        self, destination: Destination | str, message: Body, *, timeout: float | None = None
    ) -> JMSMessage:
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
        return await self._requests.request(destination, message, timeout)

    def consume(self, destination: Destination | str, selector: str | None = None) -> Opening[MessageConsumer]:
        """Create a consumer with a separate session: `async with connection.consume("jobs") as messages`.

        Each message has a block `async with message.processing()`, whose end removes it from its queue. An exception in
        the block is logged, and the broker delivers the message again, or moves it to the dead letter address after too
        many attempts. The next message is received after that block. For concurrency, run this in several tasks or
        threads.

        Args:
            destination: a queue or topic, as an object or as text (`queue://a`, `topic://a`, or `a` for a queue).
            selector: receive only messages that match; None receives all.

        Raises: as `create_session` and `Session.create_consumer`.
        """
        return Opening(partial(self._open_work, destination, selector))

    async def _open_work(self, destination: Destination | str, selector: str | None) -> MessageConsumer:
        session = await self._open_session(SessionMode.TRANSACTED, Session, False)
        try:
            return await open_work_consumer(session, destination, selector)
        except BaseException:  # a cancelled task must not leave its session behind
            await session.close()
            raise

    async def start(self) -> None:
        """Start the delivery of messages to the consumers of all sessions.

        A connection is started when it is opened, unless it was created with `auto_start=False`.

        Source: Jakarta Messaging 3.1, section 6.1.4.

        Raises: as `create_session`.
        """
        self._used = True
        self._check_open()
        self._started = True
        await self._each_session(Session._start)

    async def stop(self) -> None:
        """Pause all deliveries until the next `start`.

        The call waits for running listeners as long as closing would, but not for a listener that makes this call.

        Source: Jakarta Messaging 3.1, section 6.1.5.

        Raises: as `create_session`.
        """
        self._used = True
        self._check_open()
        self._started = False
        await self._each_session(Session._stop)
        await self._finish_listeners()

    def add_failure_listener(self, listener: FailureListener) -> None:
        """Add a listener that is called as `listener(error, failed_over)` whenever the connection was lost.

        Args:
            listener: a function or an async function; a second addition of the same one has no effect.
        """
        self._failure_listeners[listener] = None

    def remove_failure_listener(self, listener: FailureListener) -> None:
        """Remove a listener that `add_failure_listener` added; unknown listeners are ignored."""
        self._failure_listeners.pop(listener, None)

    def add_failover_listener(self, listener: FailoverListener) -> None:
        """Add a listener that is called as `listener(event)` when the connection is lost and when failover has ended.

        Failover ends when the sessions work again, or when they are given up. Without `reconnectAttempts` and
        `failoverAttempts` there is nothing to give up.

        Args:
            listener: a function or an async function; a second addition of the same one has no effect.
        """
        self._failover_listeners[listener] = None

    def remove_failover_listener(self, listener: FailoverListener) -> None:
        """Remove a listener that `add_failover_listener` added; unknown listeners are ignored."""
        self._failover_listeners.pop(listener, None)

    def _live_in(self, scope: BackgroundScope) -> None:
        self._background = scope

    async def close(self) -> None:
        """Close the connection and its sessions now, before the end of the block. A second call has no effect."""
        self._closed = True
        try:
            for session in self._sessions:
                session._call_no_more_listeners()
            await self._finish_listeners()
        finally:
            for session in self._sessions:
                session._end_listeners()
            # At the end of the scope nothing is left to wait for, not even a listener that made this call.
            self._sessions.clear()
            # One call closes every session in order, so that the time-out holds for all of them together.
            try:
                await settle_closing(self._edge, self._edge.agent.close())
            finally:
                await end_background(self._edge, self)

    # For the factory

    async def _leave(self) -> None:
        """Close at the end of the connection's scope, after which no listener is called."""
        self._left = True
        await self.close()

    # Inside

    async def _open(self, client_id: str | None) -> None:
        """Send the first packets of a JMS connection (core-protocol 8, create JMS connection)."""
        call = self._edge.agent.create_session(
            username=self._user,
            password=self._password,
            auto_commit_sends=False,
            auto_commit_acks=False,
            pre_acknowledge=False,
        )
        self._initial = await self._edge.wait(call)
        await self._name(client_id)
        self._edge.spawn(self._notify_listeners)

    async def _name(self, client_id: str | None) -> None:
        initial = self._initial
        assert initial is not None
        if client_id is not None:
            if not client_id:
                raise InvalidClientIDException("a client id cannot be empty")
            claim = initial.metadata.add if self._shared_client_id else initial.metadata.add_unique
            await self._edge.wait(claim(_CLIENT_ID, client_id))
        # Nothing depends on the answer: it leaves with the request for the first session.
        initial.metadata.post(_JMS_SESSION, "")
        self._edge.flush_soon()
        if client_id is not None:
            await self._edge.wait(initial.metadata.add(_CLIENT_ID, client_id))
            self._client_id = client_id

    def _opening(self, mode: SessionMode, kind: type[S], *, xa: bool = False) -> Opening[S]:
        return Opening(partial(self._open_session, mode, kind, xa))

    async def _open_session(self, mode: SessionMode, kind: type[S], xa: bool) -> S:
        self._used = True
        await self._edge.pause()
        self._check_open()
        call = self._edge.agent.create_session_for(
            mode, username=self._user, password=self._password, client_id=self._client_id, xa=xa
        )
        agent_session = await own(self._edge, call)
        connection_id = self._client_id or self._uid
        context = SessionContext(
            self._edge,
            agent_session,
            mode,
            self._settings,
            self._entropy,
            connection_id,
            self._temporaries,
            self._delete_temporary,
        )
        session = kind(context, self._client_id, self._forget)
        if self._started:
            session._start_now()
        self._sessions[session] = None
        return session

    async def _delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        async with self._pool.session() as pooled:
            await pooled.session.delete_temporary(destination)

    async def _each_session(self, change: Callable[[Session], Awaitable[None]]) -> None:
        for session in list(self._sessions):
            try:
                await change(session)
            except ConnectionClosedException:
                # Another task closed the session meanwhile: the session alone, or with its connection.
                if not session.closed:
                    raise
        self._check_open()

    async def _finish_listeners(self) -> None:
        for session in list(self._sessions):
            await session._finish_listeners()

    def _check_open(self) -> None:
        """Raise the error that closed the connection, if one did.

        The agent would connect again, but the client id and all other state of this connection is gone.
        """
        initial = self._initial
        if self._closed:
            raise ConnectionClosedException("the connection is closed")
        if initial is not None and initial.closed:
            raise initial.closed_error or ConnectionClosedException("the connection is closed")

    def _forget(self, session: Session) -> None:
        self._sessions.pop(session, None)

    def _on_notification(self, notification: Notification) -> None:
        self._notifications.append(notification)
        self._notified.set()

    async def _notify_listeners(self) -> None:
        """Call the listeners, in a separate task because the agent must not wait for a user's code.

        On asyncio a listener may swallow the cancellation that ends this task, and no second one follows. Hence the
        check of `_left`.
        """
        while not self._left:
            await self._notified.wait()
            while self._notifications:
                await self._notify(self._notifications.popleft())

    async def _notify(self, notification: Notification) -> None:
        match notification:
            case FailureDetected(error):
                _log.warning("connection lost: %s", error)
                await self._notify_of_failover(FailoverEventType.FAILURE_DETECTED)
            case FailoverCompleted(reattached):
                _log.info("connected again, sessions %s", "reattached" if reattached else "rebuilt")
                await self._notify_of_failover(FailoverEventType.FAILOVER_COMPLETED)
            case FailoverFailed(error):
                _log.warning("giving up on the connection: %s", error)
                await self._notify_of_failover(FailoverEventType.FAILOVER_FAILED)
            case SendRefused(error):
                _log.warning("the broker refused a message that was sent without waiting: %s", error)
                if self.exception_listener is not None:
                    await succeeds(*_LISTENER, self.exception_listener, error)
            case ConnectionFailed(error, failed_over):
                if self.exception_listener is not None:
                    await succeeds(*_LISTENER, self.exception_listener, _failure(error, failed_over))
                for listener in list(self._failure_listeners):
                    await succeeds(*_LISTENER, listener, error, failed_over)

    async def _notify_of_failover(self, event: FailoverEventType) -> None:
        for listener in list(self._failover_listeners):
            await succeeds(*_LISTENER, listener, event)


def _failure(cause: JMSException, failed_over: bool) -> ConnectionFailedException:
    text = f"the connection was lost and {'its sessions live on' if failed_over else 'is closed'}: {cause}"
    return ConnectionFailedException(text, code=cause.error_code, linked_exception=cause, failed_over=failed_over)


async def open_connection(
    kind: type[C],
    factory: ClientSessionFactory,
    entropy: Entropy,
    *,
    client_id: str | None,
    user: str | None,
    password: str | None,
    shared_client_id: bool,
    auto_start: bool,
) -> C:
    """Return a JMS connection over a session factory, ready for use."""
    connection = kind(
        factory._edge,
        factory.settings,
        entropy,
        user=user,
        password=password,
        shared_client_id=shared_client_id,
        auto_start=auto_start,
    )
    await connection._open(client_id)
    return connection


def session_in_mode(connection: Connection, mode: SessionMode) -> Opening[Session]:
    """Return the opening of a session that is described by its mode alone."""
    return connection._opening(session_mode_of("session_mode", mode), Session)
