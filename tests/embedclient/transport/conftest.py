"""Pairs of connected byte pipes, one per transport: every test that takes `pipes` runs over all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio

from embedbroker.pytest_plugin._link import Link
from embedclient.transport import ByteStream, connect_tcp, listen_tcp, memory_pair, vm_connect, vm_listen

Pipes = tuple[ByteStream, ByteStream]
OpenPipes = Callable[[], AbstractAsyncContextManager[Pipes]]


@asynccontextmanager
async def _closing(one: ByteStream, other: ByteStream) -> AsyncIterator[Pipes]:
    try:
        yield one, other
    finally:
        one.close()
        other.close()


@asynccontextmanager
async def open_tcp_pipes() -> AsyncIterator[Pipes]:
    (listener,) = await listen_tcp("127.0.0.1", 0)
    client = await connect_tcp("127.0.0.1", listener.port, timeout_s=5)
    server = await listener.accept()
    listener.close()
    async with _closing(client, server) as pipes:
        yield pipes


@asynccontextmanager
async def open_memory_pipes() -> AsyncIterator[Pipes]:
    await trio.lowlevel.checkpoint()
    async with _closing(*memory_pair(65_536)) as pipes:
        yield pipes


@asynccontextmanager
async def open_vm_pipes() -> AsyncIterator[Pipes]:
    listener = vm_listen("pipes")
    client = vm_connect("pipes")
    server = await listener.accept()
    listener.close()
    async with _closing(client, server) as pipes:
        yield pipes


@asynccontextmanager
async def open_link_pipes() -> AsyncIterator[Pipes]:
    await trio.lowlevel.checkpoint()
    async with _closing(*Link("of a test", lambda text: None).pipe(("client", "broker"))) as pipes:
        yield pipes


@pytest.fixture(
    params=[open_tcp_pipes, open_memory_pipes, open_vm_pipes, open_link_pipes], ids=["tcp", "memory", "vm", "link"]
)
def open_pipes(request: pytest.FixtureRequest) -> OpenPipes:
    opener: OpenPipes = request.param
    return opener
