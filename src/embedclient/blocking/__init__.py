"""The client for threads and scripts: the same classes as `embedclient`, whose methods block.

    with ConnectionFactory("tcp://localhost:61616").connect() as connection, connection.session() as session:
        session.create_producer(Queue("orders")).send("hello")

Each connection has a thread that runs trio; every method is one call into it. Threads may share a connection. A session
must be used by one thread at a time. Responsible for the entry points; the rest is generated from the async classes.
`vm://` does not connect threads: use `broker.url`. All names of `embedclient` are here, so that a program imports from
one module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING

from embedclient import _client
from embedclient._client import DEFAULT_FILE, DEFAULT_URL
from embedclient._lazy import lazy_names
from embedclient.agent import LoadBalancingPolicy, LocatorSettings, SessionMode
from embedclient.model import TLS, TransportConfiguration

from ._connection import Connection, JMSContext
from ._core import ClientConsumer, ClientProducer, ClientSession, ClientSessionFactory
from ._messaging import JMSProducer, MessageConsumer, MessageProducer, QueueBrowser, Receipt
from ._portal import Portal
from ._session import Session
from ._xa import XAConnection, XAJMSContext, XASession
from ._xa_resource import XAResource

if TYPE_CHECKING:
    from embedclient import errors as errors
    from embedclient._client import (
        AcknowledgeMode,
        Body,
        ClientMessage,
        ConnectionMetaData,
        ExceptionListener,
        FailoverEventType,
        FailoverListener,
        FailureListener,
        MessageListener,
        Opening,
    )
    from embedclient.agent import (
        AddressState,
        ConnectionFailed,
        FailoverCompleted,
        FailoverFailed,
        FailureDetected,
        FirstElementPolicy,
        Notification,
        QueueAttributes,
        QueueState,
        RandomPolicy,
        RandomStickyPolicy,
        RoundRobinPolicy,
        SendRefused,
    )
    from embedclient.errors import JMSException, XAException
    from embedclient.model import (
        BodyChunks,
        BytesMessage,
        DeliveryMode,
        Destination,
        MapMessage,
        MessageProperties,
        ObjectMessage,
        Processing,
        Progress,
        Properties,
        PropertyType,
        PropertyValue,
        Queue,
        Readable,
        RoutingType,
        SaveTarget,
        StreamMessage,
        TemporaryQueue,
        TemporaryTopic,
        TextMessage,
        TLSSettings,
        Topic,
        TypedValue,
        XaCode,
        XaFlag,
        Xid,
    )
    from embedclient.model import JMSMessage as Message

__getattr__ = lazy_names(
    __name__,
    {
        ".._client": (
            "AcknowledgeMode Body ClientMessage ConnectionMetaData ExceptionListener FailoverEventType "
            "FailoverListener FailureListener MessageListener Opening"
        ),
        "..agent": (
            "AddressState ConnectionFailed FailoverCompleted FailoverFailed FailureDetected "
            "FirstElementPolicy Notification QueueAttributes QueueState RandomPolicy RandomStickyPolicy "
            "RoundRobinPolicy SendRefused"
        ),
        "..model": (
            "BodyChunks BytesMessage DeliveryMode Destination MapMessage Message=JMSMessage "
            "MessageProperties ObjectMessage Processing Progress Properties PropertyType PropertyValue Queue "
            "Readable RoutingType SaveTarget StreamMessage TLSSettings TemporaryQueue TemporaryTopic "
            "TextMessage Topic TypedValue XaCode XaFlag Xid"
        ),
        "..errors": ("JMSException XAException errors"),
    },
)
__all__ = [
    "AcknowledgeMode",
    "AddressState",
    "Body",
    "BodyChunks",
    "BytesMessage",
    "ClientConsumer",
    "ClientMessage",
    "ClientProducer",
    "ClientSession",
    "ClientSessionFactory",
    "Connection",
    "ConnectionFactory",
    "ConnectionFailed",
    "ConnectionMetaData",
    "DeliveryMode",
    "Destination",
    "ExceptionListener",
    "FailoverCompleted",
    "FailoverEventType",
    "FailoverFailed",
    "FailoverListener",
    "FailureDetected",
    "FailureListener",
    "FirstElementPolicy",
    "InitialContext",
    "JMSContext",
    "JMSException",
    "JMSProducer",
    "LoadBalancingPolicy",
    "LocatorSettings",
    "MapMessage",
    "Message",
    "MessageConsumer",
    "MessageListener",
    "MessageProducer",
    "MessageProperties",
    "Notification",
    "ObjectMessage",
    "Opening",
    "Processing",
    "Progress",
    "Properties",
    "PropertyType",
    "PropertyValue",
    "Queue",
    "QueueAttributes",
    "QueueBrowser",
    "QueueState",
    "RandomPolicy",
    "RandomStickyPolicy",
    "Readable",
    "Receipt",
    "RoundRobinPolicy",
    "RoutingType",
    "SaveTarget",
    "SendRefused",
    "ServerLocator",
    "Session",
    "SessionMode",
    "StreamMessage",
    "TLSSettings",
    "TemporaryQueue",
    "TemporaryTopic",
    "TextMessage",
    "Topic",
    "TransportConfiguration",
    "TypedValue",
    "XAConnection",
    "XAConnectionFactory",
    "XAException",
    "XAJMSContext",
    "XAResource",
    "XASession",
    "XaCode",
    "XaFlag",
    "Xid",
    "errors",
]


def __dir__() -> list[str]:
    return __all__


class ConnectionFactory:
    """Create connections as `embedclient.ConnectionFactory` does, for threads and scripts.

    A factory holds no connection and no thread.

    Args:
        url: the URL, default `tcp://localhost:61616`. It may contain `user`, `password` and `clientID`; the arguments
            below take precedence.
        user: the user; None uses that of the URL.
        password: the password; None uses that of the URL.
        client_id: the client id of each connection; None uses that of the URL.
        load_balancing_policy: a callable that gets the number of brokers and returns an index; without one the URL
            decides.
        tls: `TLSSettings` or an ``ssl.SSLContext`` of a client; all connections then use TLS. None: the URL decides.

    Raises:
        InvalidURLException: the URL cannot be read, or has an unknown parameter.
        TypeError: `user`, `password` or `client_id` is not a str, or `tls` is of another type.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        user: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
        load_balancing_policy: LoadBalancingPolicy | None = None,
        tls: TLS | None = None,
    ) -> None:
        self._inner = _client.ConnectionFactory(
            url,
            user=user,
            password=password,
            client_id=client_id,
            load_balancing_policy=load_balancing_policy,
            tls=tls,
        )

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def url(self) -> str:
        """Return the URL in a form for logs: hosts and names of parameters, without their values."""
        return self._inner.url

    @property
    def settings(self) -> LocatorSettings:
        """Return the settings of the URL."""
        return self._inner.settings

    def create_connection(
        self,
        user: str | None = None,
        password: str | None = None,
        *,
        client_id: str | None = None,
        auto_start: bool = True,
    ) -> Connection:
        """Connect: `with factory.create_connection() as connection`, or call `close()` at the end.

        Args:
            user: the user; None uses that of the factory.
            password: the password; None uses that of the factory.
            client_id: the client id; None uses that of the factory.
            auto_start: start the connection at once; otherwise its consumers receive only after `start`.

        Raises:
            ConnectionLostException: no broker could be reached in the allowed attempts.
            JMSSecurityException: wrong user or password.
            InvalidClientIDException: another connection has this client id.
            ResourceAllocationException: the system has no descriptors left for an event loop, or starts no thread.
        """
        portal = Portal.open()
        manager = self._inner.create_connection(user, password, client_id=client_id, auto_start=auto_start)
        return Connection(portal, portal.enter(manager), portal.close)

    connect = create_connection

    def create_context(
        self,
        session_mode: SessionMode = SessionMode.AUTO,
        *,
        user: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
    ) -> JMSContext:
        """Open a connection with one session: `with factory.create_context() as context`.

        Args:
            session_mode: how the session acknowledges messages, or TRANSACTED.
            user: the user; None uses that of the factory.
            password: the password; None uses that of the factory.
            client_id: the client id; None uses that of the factory.

        Raises: as `create_connection`.
        """
        portal = Portal.open()
        manager = self._inner.create_context(session_mode, user=user, password=password, client_id=client_id)
        return JMSContext(portal, portal.enter(manager), portal.close)


class XAConnectionFactory(ConnectionFactory):
    """Create XA connections as `embedclient.XAConnectionFactory` does, for threads and scripts.

    A factory holds no connection and no thread. The arguments and errors are those of that class.

    Args:
        url: the URL, default `tcp://localhost:61616`. It may contain `user`, `password` and `clientID`; the arguments
            below take precedence.
        user: the user; None uses that of the URL.
        password: the password; None uses that of the URL.
        client_id: the client id of each connection; None uses that of the URL.
        load_balancing_policy: a callable that gets the number of brokers and returns an index; without one the URL
            decides.
        tls: `TLSSettings` or an ``ssl.SSLContext`` of a client; all connections then use TLS. None: the URL decides.

    Raises: as `ConnectionFactory`.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        user: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
        load_balancing_policy: LoadBalancingPolicy | None = None,
        tls: TLS | None = None,
    ) -> None:
        self._inner: _client.XAConnectionFactory = _client.XAConnectionFactory(
            url,
            user=user,
            password=password,
            client_id=client_id,
            load_balancing_policy=load_balancing_policy,
            tls=tls,
        )

    def create_xa_connection(
        self,
        user: str | None = None,
        password: str | None = None,
        *,
        client_id: str | None = None,
        auto_start: bool = True,
    ) -> XAConnection:
        """Connect as `create_connection` does, to a connection that has XA sessions too.

        Args:
            user: the user; None uses that of the factory.
            password: the password; None uses that of the factory.
            client_id: the client id; None uses that of the factory.
            auto_start: start the connection at once; otherwise its consumers receive only after `start`.

        Raises: as `create_connection`.
        """
        portal = Portal.open()
        manager = self._inner.create_xa_connection(user, password, client_id=client_id, auto_start=auto_start)
        return XAConnection(portal, portal.enter(manager), portal.close)

    def create_xa_context(
        self, *, user: str | None = None, password: str | None = None, client_id: str | None = None
    ) -> XAJMSContext:
        """Open a connection with one XA session: `with factory.create_xa_context() as context`.

        Args:
            user: the user; None uses that of the factory.
            password: the password; None uses that of the factory.
            client_id: the client id; None uses that of the factory.

        Raises: as `create_connection`.
        """
        portal = Portal.open()
        manager = self._inner.create_xa_context(user=user, password=password, client_id=client_id)
        return XAJMSContext(portal, portal.enter(manager), portal.close)


class ServerLocator:
    """Create session factories as `embedclient.ServerLocator` does, for threads and scripts.

    A locator holds no connection and no thread.

    Args:
        url: an Artemis URL; None without connectors is `tcp://localhost:61616`.
        connectors: the brokers, in place of a URL.
        settings: settings, in place of those of the URL.
        load_balancing_policy: a callable that gets the number of connectors and returns an index. Without one the URL
            decides, and the default is round robin from a random start.
        tls: `TLSSettings` or an ``ssl.SSLContext`` of a client; all connections then use TLS. None: the URL decides.
        group_address: the multicast group to which the brokers announce themselves, in place of a URL.
        group_port: the port of that group; None is 9876.
        local_bind_address: address or name of the interface on which the datagrams arrive; None: what the URL has, or
            the system's choice.
        initial_wait_timeout_ms: milliseconds that an attempt waits for an announcement, 0 for no limit; None: what
            the URL has, or 10 seconds.
        refresh_timeout_ms: milliseconds for which the next factory connects to the broker that a search has found
            without another search, 0 for a search each time; None: what the URL has, or 0.

    Raises:
        InvalidURLException: the URL cannot be read, or has an unknown parameter.
        TypeError: `tls` is neither `TLSSettings` nor an ``ssl.SSLContext``, or a value of the group has a wrong type.
        ValueError: more than one of URL, connectors and group are given, a value of the group is wrong, or has no
            effect without a group.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        connectors: Iterable[TransportConfiguration] = (),
        settings: LocatorSettings | None = None,
        load_balancing_policy: LoadBalancingPolicy | None = None,
        tls: TLS | None = None,
        group_address: str | None = None,
        group_port: int | None = None,
        local_bind_address: str | None = None,
        initial_wait_timeout_ms: int | None = None,
        refresh_timeout_ms: int | None = None,
    ) -> None:
        self._inner = _client.ServerLocator(
            url,
            connectors=connectors,
            settings=settings,
            load_balancing_policy=load_balancing_policy,
            tls=tls,
            group_address=group_address,
            group_port=group_port,
            local_bind_address=local_bind_address,
            initial_wait_timeout_ms=initial_wait_timeout_ms,
            refresh_timeout_ms=refresh_timeout_ms,
        )

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def settings(self) -> LocatorSettings:
        """Return the settings of the locator."""
        return self._inner.settings

    def create_session_factory(self) -> ClientSessionFactory:
        """Connect: `with locator.create_session_factory() as factory`, or call `close()` at the end.

        Raises:
            ConnectionLostException: no broker could be reached in the allowed attempts.
            ConnectionTimedOutException: with ``udp://``, no broker announced itself in time.
            ResourceAllocationException: the system has no descriptors left for an event loop, or starts no thread.
        """
        portal = Portal.open()
        return ClientSessionFactory(portal, portal.enter(self._inner.create_session_factory()), portal.close)


class InitialContext(_client.Names[ConnectionFactory]):
    """Look names up as `embedclient.InitialContext` does, for blocking factories."""

    def __init__(self, environment: Mapping[str, str] | str | PathLike[str] = DEFAULT_FILE) -> None:
        super().__init__(environment, ConnectionFactory, XAConnectionFactory)
