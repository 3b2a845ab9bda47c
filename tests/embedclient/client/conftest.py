"""A broker in the test's own trio run, and a relay in front of it that can hold bytes back or cut the line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from embedbroker import EmbeddedBroker
from embedclient import Connection, ConnectionFactory
from embedclient.transport import ByteStream, TransportLost, vm_connect, vm_listen


class Relay:
    """Forwards between clients of `url` and a broker's vm:// name. Bytes wait while a direction is held."""

    def __init__(self, name: str, target: str) -> None:
        self.url = f"vm://{name}"
        self._listener = vm_listen(name)
        self._target = target
        self._open = {"up": trio.Event(), "down": trio.Event()}
        self._streams: list[ByteStream] = []
        self.accepted = 0
        self.release()

    def hold(self, direction: str) -> None:
        """Keep the bytes that go `up` (to the broker) or `down` (to the client) from now on."""
        self._open[direction] = trio.Event()

    def release(self) -> None:
        for event in self._open.values():
            event.set()

    def cut(self) -> None:
        """End every connection now, as a cable would."""
        for stream in self._streams:
            stream.close()
        self._streams.clear()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    client = await self._listener.accept()
                except TransportLost:
                    return
                self.accepted += 1
                broker = vm_connect(self._target)
                self._streams += [client, broker]
                nursery.start_soon(self._forward, client, broker, "up")
                nursery.start_soon(self._forward, broker, client, "down")

    async def _forward(self, source: ByteStream, sink: ByteStream, direction: str) -> None:
        try:
            while data := await source.receive(65_536):
                await self._open[direction].wait()
                while data:
                    data = data[sink.send_nowait(data) :]
                    if data:
                        await sink.wait_writable()
        except TransportLost:
            pass
        source.close()
        sink.close()

    def close(self) -> None:
        self._listener.close()
        self.cut()


@asynccontextmanager
async def relayed_broker(name: str = "relay") -> AsyncIterator[Relay]:
    async with EmbeddedBroker() as broker, trio.open_nursery() as nursery:
        relay = Relay(name, broker.vm_url.removeprefix("vm://"))
        nursery.start_soon(relay.run)
        try:
            yield relay
        finally:
            nursery.cancel_scope.cancel()
            relay.close()


@asynccontextmanager
async def connected_in_vm(parameters: str = "") -> AsyncIterator[Connection]:
    async with EmbeddedBroker() as broker, ConnectionFactory(broker.vm_url + parameters).connect() as connection:
        yield connection
