"""What the kernel, its observers and management see of the connections and sessions of clients.

Does not depend on protocols: each implements `ClientConnection`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

__all__ = ["ClientConnection", "SessionView"]


class ClientConnection(Protocol):
    """Describe the connection of a client, and close it on request of management."""

    @property
    def connection_id(self) -> str:
        """Return the id of the connection, unique in this broker."""

    @property
    def peer(self) -> str:
        """Return the address of the client, such as ``127.0.0.1:40418``."""

    @property
    def certificate_subject(self) -> str | None:
        """Return the subject of the client's TLS certificate; None without one."""

    @property
    def protocol(self) -> str:
        """Return the name of the protocol, such as ``CORE``."""

    @property
    def client_id(self) -> str | None:
        """Return the client id of a JMS client; None if it has set none."""

    @property
    def created_ms(self) -> int:
        """Return the wall time of its beginning in Unix milliseconds."""

    def close_by_management(self) -> None:
        """Close the connection, with its sessions."""

    def close_session(self, name: str) -> bool:
        """Close one session without a notice to the client; return False if the connection has none of that name."""


class SessionView(Protocol):
    """Describe a session."""

    @property
    def name(self) -> str:
        """Return the name of the session."""

    @property
    def user(self) -> str | None:
        """Return the user that the client named; None for none."""

    @property
    def validated_user(self) -> str | None:
        """Return the user that was authenticated; None for an anonymous session."""

    @property
    def connection(self) -> ClientConnection | None:
        """Return the connection; None for a session of the broker itself."""

    def has_taken_from(self, queue: Hashable) -> bool:
        """Return True if the current transaction has acknowledged messages of a queue."""
