"""A TCP relay in front of a broker. While it is cut, nothing passes, as in a partitioned network.

It carries bytes and depends on no protocol. Bytes that it receives while it is cut are never sent on.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

import trio

from .._failure import CannotStart

__all__ = ["Relay"]

_CHUNK_BYTES = 65_536
# Closed with a reset: no orderly end, and nothing in a buffer is sent on.
_AT_ONCE = struct.pack("ii", 1, 0)


class Relay:
    """Carry each connection from ``(host, port)`` to ``target_port`` of the same host."""

    def __init__(self, host: str, port: int, target_port: int) -> None:
        self._host = host
        self._port = port
        self._target_port = target_port
        self._passes = trio.Event()
        self._passes.set()
        self._connections: set[trio.CancelScope] = set()
        # Clients that close in order after a cancellation still need their way to the broker.
        self._life = trio.CancelScope(shield=True)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until it is stopped; a cancellation from outside does not end it.

        Raises:
            CannotStart: the port is not to be had.
        """
        try:
            listeners = await trio.open_tcp_listeners(self._port, host=self._host)
        except OSError as error:
            reason = error.strerror or str(error)
            raise CannotStart(f"cannot listen on {self._host}:{self._port} for a partition: {reason}") from error
        with self._life:
            async with trio.open_nursery() as nursery:
                for listener in listeners:
                    nursery.start_soon(self._accept, listener, nursery)
                task_status.started()

    def stop(self) -> None:
        """Reset its connections, and free its port."""
        self._life.cancel()

    def cut(self) -> None:
        """Let nothing pass from now on; neither end is notified."""
        self._passes = trio.Event()

    def heal(self) -> None:
        """Let new connections pass. Connections that met the cut are reset, at both ends."""
        for connection in self._connections:
            connection.cancel()
        self._passes.set()

    async def _accept(self, listener: trio.SocketListener, nursery: trio.Nursery) -> None:
        async with listener:
            while True:
                try:
                    stream = await listener.accept()
                except OSError:
                    await trio.sleep(0.1)  # no descriptor is free, or the client has disconnected already
                else:
                    nursery.start_soon(self._carry, stream)

    async def _carry(self, client: trio.SocketStream) -> None:
        ends = [client]
        with trio.CancelScope() as connection:
            self._connections.add(connection)
            try:
                await self._passes.wait()
                with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                    broker = await trio.open_tcp_stream(self._host, self._target_port)
                    ends.append(broker)
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._pump, client, broker, connection)
                        nursery.start_soon(self._pump, broker, client, connection)
            finally:
                self._connections.discard(connection)
                for end in ends:
                    with suppress(OSError):
                        end.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                    end.socket.close()

    async def _pump(self, source: trio.SocketStream, sink: trio.SocketStream, connection: trio.CancelScope) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some(_CHUNK_BYTES):
                await self._passes.wait()
                await sink.send_all(data)
        # The end of one direction ends both.
        connection.cancel()
