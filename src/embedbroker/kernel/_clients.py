"""The connections and sessions of clients, over all protocols.

Responsible for finding them by id and for counting them. Does not depend on their work.
"""

from __future__ import annotations

from ._client_view import ClientConnection, SessionView
from ._observer import Observers

__all__ = ["Clients"]


class Clients:
    """Hold every open connection and session, oldest first."""

    __slots__ = ("_observers", "connections", "connections_total", "consumers_total", "sessions", "sessions_total")

    def __init__(self, observers: Observers) -> None:
        self._observers = observers
        self.connections: dict[ClientConnection, None] = {}
        self.sessions: dict[SessionView, None] = {}
        #: How many there were since the start of the broker.
        self.connections_total = 0
        self.sessions_total = 0
        self.consumers_total = 0

    def add_connection(self, connection: ClientConnection) -> None:
        """Add an accepted connection."""
        self.connections[connection] = None
        self.connections_total += 1
        self._observers.call(self._observers.commit.connection_added, connection)

    def remove_connection(self, connection: ClientConnection) -> None:
        """Forget a connection that is over; ignored for one that was removed before."""
        if connection in self.connections:
            del self.connections[connection]
            self._observers.call(self._observers.commit.connection_removed, connection)

    def take_consumer_number(self) -> int:
        """Return the number of a new consumer, which no other consumer of the broker has."""
        self.consumers_total += 1
        return self.consumers_total

    def add_session(self, session: SessionView) -> None:
        """Add a session. Sessions of the broker itself, without a connection, are observed and not kept."""
        if session.connection is not None:
            self.sessions[session] = None
            self.sessions_total += 1
        self._observers.call(self._observers.commit.session_added, session)

    def remove_session(self, session: SessionView) -> None:
        """Forget a session that is over."""
        self.sessions.pop(session, None)
        self._observers.call(self._observers.commit.session_removed, session)
