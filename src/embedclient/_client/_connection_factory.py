"""The JMS entry point: ConnectionFactory, and JMSContext for programs that need one connection with one session.

Responsible for user, password and client id, from the URL or from arguments. Does not depend on the wire protocol.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from embedclient.agent import LoadBalancingPolicy, LocatorSettings, SessionMode
from embedclient.model import TLS, summary

from ._connection import Connection, open_connection, session_in_mode
from ._context import JMSContext
from ._edge import Loop
from ._locator import DEFAULT_URL, ServerLocator, trio_loop
from ._opening import Opening, ScopeOpening
from ._url import url_text

C = TypeVar("C", bound=Connection)


class ConnectionFactory:
    """Create connections from an Artemis URL: `tcp://host:port`, `(tcp://a:1,tcp://b:2)?ha=true`, `vm://name`.

    A factory holds no connection and no task.

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
        _check_texts(user=user, password=password, client_id=client_id)
        self._loop = self._make_loop()
        self._locator = ServerLocator(
            url_text(url), load_balancing_policy=load_balancing_policy, tls=tls, loop=self._loop
        )
        defaults = self._locator.defaults
        self.client_id = defaults.client_id if client_id is None else client_id
        self._user = defaults.user if user is None else user
        self._password = defaults.password if password is None else password
        self._shared_client_id = defaults.enable_shared_client_id

    def _make_loop(self) -> Loop:
        return trio_loop()

    def __repr__(self) -> str:
        return summary(self, repr(self.url))

    @property
    def url(self) -> str:
        """Return the URL in a form for logs: hosts and names of parameters, without their values."""
        return self._locator.url

    @property
    def settings(self) -> LocatorSettings:
        """Return the settings of the URL."""
        return self._locator.settings

    def create_connection(
        self,
        user: str | None = None,
        password: str | None = None,
        *,
        client_id: str | None = None,
        auto_start: bool = True,
    ) -> Opening[Connection]:
        """Connect: `async with factory.create_connection() as connection`.

        The connection and everything made with it ends with the block. Without a block, `connection = await
        factory.create_connection()` returns one that lives until its `close()`.

        Args:
            user: the user; None uses that of the factory.
            password: the password; None uses that of the factory.
            client_id: the client id; None uses that of the factory.
            auto_start: start the connection at once; otherwise its consumers receive only after `start`.

        Raises:
            ConnectionLostException: no broker could be reached in the allowed attempts.
            ConnectionTimedOutException: with ``udp://``, no broker announced itself in time.
            JMSSecurityException: wrong user or password.
            InvalidClientIDException: another connection has this client id.
            IllegalStateException: the program does not run the event loop that this client is for.
        """
        return ScopeOpening(self._connection(Connection, user, password, client_id, auto_start), self._loop)

    connect = create_connection

    def create_context(
        self,
        session_mode: SessionMode = SessionMode.AUTO,
        *,
        user: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
    ) -> Opening[JMSContext]:
        """Open a connection with one session: `async with factory.create_context() as context`, or `await` it.

        Args:
            session_mode: how the session acknowledges messages, or TRANSACTED.
            user: the user; None uses that of the factory.
            password: the password; None uses that of the factory.
            client_id: the client id; None uses that of the factory.

        Raises: as `create_connection`.
        """
        return ScopeOpening(self._context(session_mode, user, password, client_id), self._loop)

    @asynccontextmanager
    async def _connection(
        self, kind: type[C], user: str | None, password: str | None, client_id: str | None, auto_start: bool
    ) -> AsyncIterator[C]:
        async with self._locator.create_session_factory() as factory:
            connection = await open_connection(
                kind,
                factory,
                self._loop.entropy,
                client_id=self.client_id if client_id is None else client_id,
                user=self._user if user is None else user,
                password=self._password if password is None else password,
                shared_client_id=self._shared_client_id,
                auto_start=auto_start,
            )
            try:
                yield connection
            finally:
                await connection._leave()

    @asynccontextmanager
    async def _context(
        self, mode: SessionMode, user: str | None, password: str | None, client_id: str | None
    ) -> AsyncIterator[JMSContext]:
        async with (
            self._connection(Connection, user, password, client_id, True) as connection,
            session_in_mode(connection, mode) as session,
        ):
            yield JMSContext(connection, session)


def _check_texts(**arguments: object) -> None:
    """Raise TypeError for a value that is not text. The error contains its type only, because it may be a password."""
    for name, value in arguments.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} must be a str or None, not {type(value).__name__}")
