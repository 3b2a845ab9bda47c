"""The JMS way into XA transactions, for threads and scripts. Generated from the async classes: change those.

Each method is one call through the portal to the async method of the same name, which documents errors in full.
"""

from __future__ import annotations

from collections.abc import Callable

from embedclient import _client

from ._connection import Connection, JMSContext
from ._portal import Portal
from ._session import Session
from ._xa_resource import XAResource


class XASession(Session):
    """A session whose transactions a transaction manager ends. Made by `XAConnection.create_xa_session`.

    Messages that it sends and receives between `start` and `end` of its `xa_resource` belong to that branch. Other work
    takes effect at once. `commit`, `rollback` and `transaction` raise `TransactionInProgressException`.
    """

    def __init__(self, portal: Portal, inner: _client.XASession) -> None:
        super().__init__(portal, inner)
        self._inner: _client.XASession = inner

    @property
    def xa_resource(self) -> XAResource:
        """Return the XA requests of this session, for a transaction manager."""
        return XAResource(self._portal, self._inner.xa_resource)


class XAConnection(Connection):
    """A connection that has XA sessions too. Made by `XAConnectionFactory.create_xa_connection`."""

    def __init__(self, portal: Portal, inner: _client.XAConnection, leave: Callable[[], None]) -> None:
        super().__init__(portal, inner, leave)
        self._inner: _client.XAConnection = inner

    def create_xa_session(self) -> XASession:
        """Create an XA session: `with connection.create_xa_session() as session`.

        Raises: as `create_session`.
        """
        opened = self._portal.call(self._portal.opening, lambda: self._inner.create_xa_session())
        return XASession(self._portal, opened)

    xa_session = create_xa_session


class XAJMSContext(JMSContext):
    """A connection and its XA session. Made by `XAConnectionFactory.create_xa_context`."""

    def __init__(self, portal: Portal, inner: _client.XAJMSContext, leave: Callable[[], None]) -> None:
        super().__init__(portal, inner, leave)
        self._inner: _client.XAJMSContext = inner

    @property
    def xa_resource(self) -> XAResource:
        """Return the XA requests of this context's session, for a transaction manager."""
        return XAResource(self._portal, self._inner.xa_resource)
