"""The JMS way in: ConnectionFactory, and JMSContext for programs that need one connection with one session.

Responsible for user, password and client id, from the URL or from arguments. Refuses to know the wire.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

from embedclient.agent import LoadBalancingPolicy, LocatorSettings, SessionMode

from ._connection import Connection, open_connection, session_in_mode
from ._context import JMSContext
from ._edge import Loop
from ._locator import DEFAULT_URL, ServerLocator, trio_loop
from ._url import url_text

C = TypeVar("C", bound=Connection)


class ConnectionFactory:
    """Makes connections from an Artemis URL: `tcp://host:port`, `(tcp://a:1,tcp://b:2)?ha=true`, `vm://name`.

    Without a URL it is `tcp://localhost:61616`. `user`, `password` and `client_id` may stand in the URL too; arguments
    win. A load-balancing policy is any callable that gets the number of brokers and returns an index; without one the
    URL decides. Holds no connection and no task.

    Raises:
        InvalidURLException: the URL cannot be read, or has a parameter that nobody knows.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        user: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
        load_balancing_policy: LoadBalancingPolicy | None = None,
    ) -> None:
        _check_texts(user=user, password=password, client_id=client_id)
        self._loop = self._make_loop()
        self._locator = ServerLocator(url_text(url), load_balancing_policy=load_balancing_policy, loop=self._loop)
        defaults = self._locator.defaults
        self.client_id = defaults.client_id if client_id is None else client_id
        self._user = defaults.user if user is None else user
        self._password = defaults.password if password is None else password
        self._shared_client_id = defaults.enable_shared_client_id

    def _make_loop(self) -> Loop:
        return trio_loop()

    @property
    def url(self) -> str:
        """The URL as logs may show it: hosts and names of parameters, without their values."""
        return self._locator.url

    @property
    def settings(self) -> LocatorSettings:
        """The settings that the URL gives."""
        return self._locator.settings

    def create_connection(
        self,
        user: str | None = None,
        password: str | None = None,
        *,
        client_id: str | None = None,
        auto_start: bool = True,
    ) -> AbstractAsyncContextManager[Connection]:
        """Connect: `async with factory.create_connection() as connection`. Everything ends with the block.

        Raises:
            ConnectionLostException: no broker could be reached in the allowed attempts.
            JMSSecurityException: wrong user or password.
            InvalidClientIDException: another connection has this client id.
            IllegalStateException: the loop of the program is not the one this client is for.
        """
        return self._connection(Connection, user, password, client_id, auto_start)

    connect = create_connection

    def create_context(
        self,
        session_mode: SessionMode = SessionMode.AUTO,
        *,
        user: str | None = None,
        password: str | None = None,
        client_id: str | None = None,
    ) -> AbstractAsyncContextManager[JMSContext]:
        """A connection and a session in one: `async with factory.create_context() as context`.

        Raises: what `create_connection` does.
        """
        return self._context(session_mode, user, password, client_id)

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
    """Raises TypeError for what is no text. Its type is named, for a password must not be shown."""
    for name, value in arguments.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} must be a str or None, not {type(value).__name__}")
