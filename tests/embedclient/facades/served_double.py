"""The double of an Artemis broker with branches on a real port; it loses connections where a test requests that.

One thread serves all connections, one after the other; the double's steps are what the agent's own tests drive.
"""

from __future__ import annotations

import selectors
import socket
import threading
from types import TracebackType

from embedbroker.node import Accepted, BytesReceived, Output, PeerClosed, SendBytes
from embedclient.model import Instant
from embedclient.wire.core import Packet
from tests.embedclient.agent.artemis_double import DoubleSession
from tests.embedclient.agent.xa_double import XaDouble

NEVER = Instant(0.0, 0)


class LosingDouble(XaDouble):
    """Loses the connection of the first packet of a kind, before or after it is handled."""

    def __init__(self) -> None:
        super().__init__()
        self.lose: type[Packet] | None = None
        self.handled_before = False
        self.lost = False

    def lose_at(self, kind: type[Packet], *, handled: bool) -> None:
        self.lose, self.handled_before = kind, handled

    def _on_session_packet(self, session: DoubleSession, packet: Packet, size: int) -> None:
        if self.lost or self.lose is None or not isinstance(packet, self.lose):
            if not self.lost:
                super()._on_session_packet(session, packet, size)
            return
        if self.handled_before:
            super()._on_session_packet(session, packet, size)
        self.lose, self.lost = None, True


class ServedDouble:
    """A context manager with a `url`."""

    def __init__(self) -> None:
        self.double = LosingDouble()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._wake, self._woken = socket.socketpair()
        self.port: int = self._listener.getsockname()[1]
        self.url = f"tcp://127.0.0.1:{self.port}?reconnectAttempts=-1&retryInterval=10"
        self._connections: dict[int, socket.socket] = {}
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> ServedDouble:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wake.close()
        self._thread.join()
        for each in (self._listener, self._woken, *self._connections.values()):
            each.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ, 0)
            selector.register(self._woken, selectors.EVENT_READ, -1)
            while True:
                for key, _ in selector.select():
                    if key.data < 0:
                        return
                    if key.data == 0:
                        self._accept(selector)
                    else:
                        self._read(selector, key.data)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        connection, _ = self._listener.accept()
        number = max(self._connections, default=0) + 1
        self._connections[number] = connection
        selector.register(connection, selectors.EVENT_READ, number)
        self._write(self.double.step(Accepted(number, "test"), NEVER))

    def _read(self, selector: selectors.BaseSelector, number: int) -> None:
        connection = self._connections[number]
        try:
            data = connection.recv(65536)
        except ConnectionError:
            data = b""
        outputs = self.double.step(BytesReceived(number, data), NEVER) if data else []
        if data and not self.double.lost:
            self._write(outputs)
            return
        selector.unregister(connection)
        connection.close()
        self.double.step(PeerClosed(number, "lost"), NEVER)
        self.double.lost = False

    def _write(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, SendBytes):
                self._connections[output.connection].sendall(output.data)
