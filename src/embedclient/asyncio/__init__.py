"""The client for asyncio programs: the same classes as `embedclient`, driven by an asyncio edge.

Only the ways in are different, because they choose the event loop; everything they lead to is the same code, so the
facades cannot drift apart. `vm://` belongs to trio: use `broker.url` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from embedclient import _client

from ._edge import AsyncioLoop

__all__ = ["ConnectionFactory", "InitialContext", "ServerLocator", "XAConnectionFactory"]


class ConnectionFactory(_client.ConnectionFactory):
    """`embedclient.ConnectionFactory` for asyncio."""

    def _make_loop(self) -> _client.Loop:
        return AsyncioLoop()


class XAConnectionFactory(_client.XAConnectionFactory):
    """`embedclient.XAConnectionFactory` for asyncio."""

    def _make_loop(self) -> _client.Loop:
        return AsyncioLoop()


class ServerLocator(_client.ServerLocator):
    """`embedclient.ServerLocator` for asyncio."""

    def _make_loop(self) -> _client.Loop:
        return AsyncioLoop()


class InitialContext(_client.Names[_client.ConnectionFactory]):
    """`embedclient.InitialContext` for asyncio."""

    def __init__(self, environment: Mapping[str, str] | str | PathLike[str] = _client.DEFAULT_FILE) -> None:
        super().__init__(environment, ConnectionFactory, XAConnectionFactory)
