"""The relay in front of a broker: what passes, what a partition does, and how long it is there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
import trio

from embedbroker.cli._broker_process import free_ports
from embedbroker.cli.drill._relay import Relay

HOST = "127.0.0.1"


async def _echo(stream: trio.SocketStream) -> None:
    async with stream:
        with suppress(trio.BrokenResourceError):  # reset
            async for data in stream:
                await stream.send_all(data)


@asynccontextmanager
async def relayed() -> AsyncIterator[tuple[Relay, int, trio.Nursery]]:
    """A relay to a server that echoes what it receives; its port, and the nursery that it runs in."""
    async with trio.open_nursery() as servers:
        (listener,) = await servers.start(partial(trio.serve_tcp, _echo, 0, host=HOST))
        port = next(free_ports())
        relay = Relay(HOST, port, listener.socket.getsockname()[1])
        async with trio.open_nursery() as nursery:
            await nursery.start(relay.run)
            try:
                yield relay, port, nursery
            finally:
                relay.stop()
        servers.cancel_scope.cancel()


async def exchange(stream: trio.SocketStream, data: bytes) -> bytes:
    await stream.send_all(data)
    return await stream.receive_some(100)


async def test_after_a_partition_old_connections_are_reset_and_new_ones_pass() -> None:
    async with relayed() as (relay, port, _):
        before = await trio.open_tcp_stream(HOST, port)
        assert await exchange(before, b"before") == b"before"
        relay.cut()
        await before.send_all(b"never")
        relay.heal()
        with pytest.raises(trio.BrokenResourceError):
            await before.receive_some(100)
        await before.aclose()
        async with await trio.open_tcp_stream(HOST, port) as after:
            assert await exchange(after, b"after") == b"after"


async def test_who_says_goodbye_when_everything_is_cancelled_still_gets_through() -> None:
    async with relayed() as (_, port, nursery), await trio.open_tcp_stream(HOST, port) as client:
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            assert await exchange(client, b"goodbye") == b"goodbye"


async def test_a_relay_that_was_stopped_has_given_its_port_back() -> None:
    port = next(free_ports())
    relay = Relay(HOST, port, port)
    async with trio.open_nursery() as nursery:
        await nursery.start(relay.run)
        relay.stop()
    for listener in await trio.open_tcp_listeners(port, host=HOST):
        await listener.aclose()
