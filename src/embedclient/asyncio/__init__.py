"""The client for asyncio programs: the same classes as `embedclient`, driven by an asyncio edge.

Only the entry points differ, because they choose the event loop. All other code is shared, so the facades cannot drift
apart. `vm://` works on trio only: use `broker.url` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from embedclient import _client

from ._edge import AsyncioLoop

__all__ = ["ConnectionFactory", "InitialContext", "ServerLocator", "XAConnectionFactory"]


class ConnectionFactory(_client.ConnectionFactory):
    """Create connections as `embedclient.ConnectionFactory` does, on asyncio."""

    def _make_loop(self) -> _client.Loop:
        return AsyncioLoop()


class XAConnectionFactory(_client.XAConnectionFactory):
    """Create XA connections as `embedclient.XAConnectionFactory` does, on asyncio."""

    def _make_loop(self) -> _client.Loop:
        return AsyncioLoop()


class ServerLocator(_client.ServerLocator):
    """Create session factories as `embedclient.ServerLocator` does, on asyncio."""

    def _make_loop(self) -> _client.Loop:
        return AsyncioLoop()


class InitialContext(_client.Names[_client.ConnectionFactory]):
    """Look names up as `embedclient.InitialContext` does, for factories on asyncio."""

    def __init__(self, environment: Mapping[str, str] | str | PathLike[str] = _client.DEFAULT_FILE) -> None:
        super().__init__(environment, ConnectionFactory, XAConnectionFactory)
