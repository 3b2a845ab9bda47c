"""Pairs of connected byte pipes, one per transport: every test that takes `pipes` runs over all of them."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache

import pytest
import trio
import trustme

from embedbroker.pytest_plugin._link import Link
from embedclient.tls import TLSConnection
from embedclient.transport import ByteStream, TLSStream, connect_tcp, listen_tcp, memory_pair, vm_connect, vm_listen

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
async def open_narrow_pipes() -> AsyncIterator[Pipes]:
    """Pipes that hold less than a handshake or a record."""
    await trio.lowlevel.checkpoint()
    async with _closing(*memory_pair(500)) as pipes:
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


def over_tls(open_pipes: OpenPipes) -> OpenPipes:
    """The same pipes with TLS over them."""

    @asynccontextmanager
    async def open_tls_pipes() -> AsyncIterator[Pipes]:
        serving, trusting = contexts()
        async with open_pipes() as (one, other):
            client = TLSStream(one, TLSConnection(trusting, server_side=False, host="localhost"))
            server = TLSStream(other, TLSConnection(serving, server_side=True))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.handshake)
                nursery.start_soon(server.handshake)
            async with _closing(client, server) as pipes:
                yield pipes

    return open_tls_pipes


@cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server, and of a client that trusts it."""
    authority = trustme.CA()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.num_tickets = 0  # unread tickets turn the close of a client that only sends into a reset
    authority.issue_cert("localhost").configure_cert(serving)
    return serving, ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())


@pytest.fixture(
    params=[
        open_tcp_pipes,
        open_memory_pipes,
        open_vm_pipes,
        open_link_pipes,
        over_tls(open_tcp_pipes),
        over_tls(open_memory_pipes),
    ],
    ids=["tcp", "memory", "vm", "link", "tls over tcp", "tls over memory"],
)
def open_pipes(request: pytest.FixtureRequest) -> OpenPipes:
    opener: OpenPipes = request.param
    return opener
