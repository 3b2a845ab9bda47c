"""The JMS entry point to XA transactions: a factory, connections, sessions and contexts that have an XAResource.

Responsible for the rule that the transaction manager ends a transaction, and not the session. Does not depend on
branches.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from embedclient.agent import SessionMode
from embedclient.errors import TransactionInProgressException

from ._connection import Connection
from ._connection_factory import ConnectionFactory
from ._context import JMSContext
from ._opening import Opening, ScopeOpening
from ._session import Session
from ._xa_resource import XAResource, xa_resource_of


class XASession(Session):
    """A session whose transactions a transaction manager ends. Made by `XAConnection.create_xa_session`.

    Messages that it sends and receives between `start` and `end` of its `xa_resource` belong to that branch. Other work
    takes effect at once. `commit`, `rollback` and `transaction` raise `TransactionInProgressException`.
    """

    @property
    def xa_resource(self) -> XAResource:
        """Return the XA requests of this session, for a transaction manager."""
        return xa_resource_of(self._context.edge, self._context.agent_session, self._context.one_task)

    def _check_transacted(self, action: str) -> None:
        raise TransactionInProgressException(f"an XA session cannot {action}: its XAResource does that")


class XAConnection(Connection):
    """A connection that has XA sessions too. Made by `XAConnectionFactory.create_xa_connection`."""

    def create_xa_session(self) -> Opening[XASession]:
        """Create an XA session: `async with connection.create_xa_session() as session`.

        Raises: as `create_session`.
        """
        return self._opening(SessionMode.TRANSACTED, XASession, xa=True)

    xa_session = create_xa_session


class XAJMSContext(JMSContext):
    """A connection and its XA session. Made by `XAConnectionFactory.create_xa_context`."""

    def __init__(self, connection: XAConnection, session: XASession) -> None:
        super().__init__(connection, session)
        self._xa_session = session

    @property
    def xa_resource(self) -> XAResource:
        """Return the XA requests of this context's session, for a transaction manager."""
        return self._xa_session.xa_resource


class XAConnectionFactory(ConnectionFactory):
    """A `ConnectionFactory` whose connections take part in transactions over several resources."""

    def create_xa_connection(
        self,
        user: str | None = None,
        password: str | None = None,
        *,
        client_id: str | None = None,
        auto_start: bool = True,
    ) -> Opening[XAConnection]:
        """Connect as `create_connection` does, to a connection that has XA sessions too.

        Args:
            user: the user; None uses that of the factory.
            password: the password; None uses that of the factory.
            client_id: the client id; None uses that of the factory.
            auto_start: start the connection at once; otherwise its consumers receive only after `start`.

        Raises: as `create_connection`.
        """
        return ScopeOpening(self._connection(XAConnection, user, password, client_id, auto_start), self._loop)

    def create_xa_context(
        self, *, user: str | None = None, password: str | None = None, client_id: str | None = None
    ) -> Opening[XAJMSContext]:
        """Open a connection with one XA session: `async with factory.create_xa_context() as context`.

        Args:
            user: the user; None uses that of the factory.
            password: the password; None uses that of the factory.
            client_id: the client id; None uses that of the factory.

        Raises: as `create_connection`.
        """
        return ScopeOpening(self._xa_context(user, password, client_id), self._loop)

    @asynccontextmanager
    async def _xa_context(
        self, user: str | None, password: str | None, client_id: str | None
    ) -> AsyncIterator[XAJMSContext]:
        async with (
            self._connection(XAConnection, user, password, client_id, True) as connection,
            connection.create_xa_session() as session,
        ):
            yield XAJMSContext(connection, session)
