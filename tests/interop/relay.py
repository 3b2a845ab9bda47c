"""A TCP relay in a thread: what goes through it can be cut, as a network would, without either end being stopped.

It carries bytes and does not depend on any protocol.
"""

from __future__ import annotations

import socket
import struct
import threading
from typing import Self


class Relay:
    """Listens on a free port and carries every connection to `port`; a context manager."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def cut(self) -> None:
        """Resets every connection that is open now; both ends learn of it at once."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                reset(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Closing a listener does not wake the thread in accept(); a shutdown does.
        self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target), timeout=10)
            except OSError:
                reset(client)
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs.append((client, server))
            for source, sink, from_broker in ((client, server, False), (server, client, True)):
                thread = threading.Thread(target=self._carry, args=(source, sink, from_broker), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _carry(self, source: socket.socket, sink: socket.socket, from_broker: bool) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            reset(sink)
            reset(source)


def reset(end: socket.socket) -> None:
    """Closes with a reset: no orderly end, and nothing buffered is sent on. A thread blocked in recv() wakes."""
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
