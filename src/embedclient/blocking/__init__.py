"""The client for threads and scripts: the same classes as `embedclient`, whose methods block.

    with ConnectionFactory("tcp://localhost:61616").connect() as connection, connection.session() as session:
        session.create_producer(Queue("orders")).send("hello")

Each connection has a thread that runs trio; every method is one call into it. Connections may be shared by threads, a
session belongs to one thread at a time. Responsible for the ways in; the rest is generated from the async classes.
`vm://` does not reach from one thread into another: use `broker.url`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike

from embedclient import _client
from embedclient._client import DEFAULT_FILE, DEFAULT_URL
from embedclient.agent import LoadBalancingPolicy, LocatorSettings, SessionMode
from embedclient.model import TransportConfiguration

from ._connection import Connection, JMSContext
from ._core import ClientConsumer, ClientProducer, ClientSession, ClientSessionFactory
from ._messaging import JMSProducer, MessageConsumer, MessageProducer, QueueBrowser, Receipt
from ._portal import Portal
from ._session import Session
from ._xa import XAConnection, XAJMSContext, XASession
from ._xa_resource import XAResource

__all__ = [
    "ClientConsumer",
    "ClientProducer",
    "ClientSession",
    "ClientSessionFactory",
    "Connection",
    "ConnectionFactory",
    "InitialContext",
    "JMSContext",
    "JMSProducer",
    "MessageConsumer",
    "MessageProducer",
    "QueueBrowser",
    "Receipt",
    "ServerLocator",
    "Session",
    "XAConnection",
    "XAConnectionFactory",
    "XAJMSContext",
    "XAResource",
    "XASession",
]


class ConnectionFactory:
    """`embedclient.ConnectionFactory` for threads and scripts. Holds no connection and no thread."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        user: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
        load_balancing_policy: LoadBalancingPolicy | None = None,
    ) -> None:
        self._inner = _client.ConnectionFactory(
            url, user=user, password=password, client_id=client_id, load_balancing_policy=load_balancing_policy
        )

    @property
    def url(self) -> str:
        """The URL as logs may show it: hosts and names of parameters, without their values."""
        return self._inner.url

    @property
    def settings(self) -> LocatorSettings:
        """The settings that the URL gives."""
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

        Raises:
            ConnectionLostException: no broker could be reached in the allowed attempts.
            JMSSecurityException: wrong user or password.
            InvalidClientIDException: another connection has this client id.
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
        """A connection and a session in one: `with factory.create_context() as context`."""
        portal = Portal.open()
        manager = self._inner.create_context(session_mode, user=user, password=password, client_id=client_id)
        return JMSContext(portal, portal.enter(manager), portal.close)


class XAConnectionFactory(ConnectionFactory):
    """`embedclient.XAConnectionFactory` for threads and scripts. Holds no connection and no thread."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        user: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
        load_balancing_policy: LoadBalancingPolicy | None = None,
    ) -> None:
        self._inner: _client.XAConnectionFactory = _client.XAConnectionFactory(
            url, user=user, password=password, client_id=client_id, load_balancing_policy=load_balancing_policy
        )

    def create_xa_connection(
        self,
        user: str | None = None,
        password: str | None = None,
        *,
        client_id: str | None = None,
        auto_start: bool = True,
    ) -> XAConnection:
        """Connect, as `create_connection` does."""
        portal = Portal.open()
        manager = self._inner.create_xa_connection(user, password, client_id=client_id, auto_start=auto_start)
        return XAConnection(portal, portal.enter(manager), portal.close)

    def create_xa_context(
        self, *, user: str | None = None, password: str | None = None, client_id: str | None = None
    ) -> XAJMSContext:
        """A connection and an XA session in one: `with factory.create_xa_context() as context`."""
        portal = Portal.open()
        manager = self._inner.create_xa_context(user=user, password=password, client_id=client_id)
        return XAJMSContext(portal, portal.enter(manager), portal.close)


class ServerLocator:
    """`embedclient.ServerLocator` for threads and scripts. Holds no connection and no thread."""

    def __init__(
        self,
        url: str | None = None,
        *,
        connectors: Iterable[TransportConfiguration] = (),
        settings: LocatorSettings | None = None,
        load_balancing_policy: LoadBalancingPolicy | None = None,
    ) -> None:
        self._inner = _client.ServerLocator(
            url, connectors=connectors, settings=settings, load_balancing_policy=load_balancing_policy
        )

    @property
    def settings(self) -> LocatorSettings:
        """The settings it works with."""
        return self._inner.settings

    def create_session_factory(self) -> ClientSessionFactory:
        """Connect: `with locator.create_session_factory() as factory`, or call `close()` at the end."""
        portal = Portal.open()
        return ClientSessionFactory(portal, portal.enter(self._inner.create_session_factory()), portal.close)


class InitialContext(_client.Names[ConnectionFactory]):
    """`embedclient.InitialContext` for threads and scripts."""

    def __init__(self, environment: Mapping[str, str] | str | PathLike[str] = DEFAULT_FILE) -> None:
        super().__init__(environment, ConnectionFactory, XAConnectionFactory)
