"""Connections to a broker that outlive a call: one per process and place, shared by later callers.

Responsible for what a data pipeline needs of a connection, whatever its URL contains: it reconnects, and follows a
failover. Does not depend on what is sent over it.
"""

from __future__ import annotations

import os

from attrs import evolve

from embedclient.blocking import ClientSession, ClientSessionFactory, ServerLocator
from embedclient.errors import ConnectionClosedException, ConnectionLostException

from ._options import ConnectionOptions

__all__ = ["BrokerConnection"]

# While no broker answers: the number of attempts, and the pause, which together exceed a backup's takeover time.
RECONNECT_ATTEMPTS = 120
RETRY_INTERVAL_MS = 500
CONNECT_ATTEMPTS = 20


class BrokerConnection:
    """Hold a connection and its sessions. Close it, or get it from `shared` and leave it to the process."""

    _shared: dict[tuple[int, ConnectionOptions], BrokerConnection] = {}

    def __init__(self, options: ConnectionOptions) -> None:
        """Connect. Raises what `ServerLocator` and its `create_session_factory` do."""
        self.options = options
        settings = ServerLocator(options.url).settings
        if not settings.reconnects:
            settings = evolve(settings, reconnect_attempts=RECONNECT_ATTEMPTS, retry_interval_ms=RETRY_INTERVAL_MS)
        if settings.initial_connect_attempts == 1:
            settings = evolve(settings, initial_connect_attempts=CONNECT_ATTEMPTS)
        # The first broker supplies the addresses of the backups.
        settings = evolve(settings, ha=True)
        self._factory: ClientSessionFactory = ServerLocator(options.url, settings=settings).create_session_factory()

    @classmethod
    def shared(cls, options: ConnectionOptions) -> BrokerConnection:
        """Return the connection of this process to this place.

        Workers are forked, so a process does not inherit one.
        """
        key = (os.getpid(), options)
        link = cls._shared.get(key)
        if link is None:
            link = cls._shared[key] = cls(options)
        return link

    @classmethod
    def all_shared(cls) -> list[BrokerConnection]:
        """Return the connections that this process keeps for `shared`."""
        return list(cls._shared.values())

    @classmethod
    def forget(cls, options: ConnectionOptions) -> None:
        """Close the shared connection, if there is one: the next `shared` makes another."""
        link = cls._shared.pop((os.getpid(), options), None)
        if link is not None:
            link.close()

    def session(self, *, acknowledges_at_once: bool = True, sends_at_once: bool = True) -> ClientSession:
        """Return a started session. Acknowledgements or sends that are not automatic need a commit.

        Args:
            acknowledges_at_once: commit acknowledgements automatically.
            sends_at_once: commit sends automatically.
        """
        try:
            session = self._factory.create_session(
                username=self.options.user,
                password=self.options.password,
                auto_commit_acks=acknowledges_at_once,
                auto_commit_sends=sends_at_once,
            )
        except (ConnectionClosedException, ConnectionLostException):
            # Reconnection has failed for good. Workers live on, and the next task gets a new connection.
            if BrokerConnection._shared.get((os.getpid(), self.options)) is self:
                BrokerConnection.forget(self.options)
            raise
        session.start()
        return session

    def close(self) -> None:
        """Close the connection. Closing twice is allowed."""
        self._factory.close()
