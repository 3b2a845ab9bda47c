"""A double of a ZooKeeper server, for what a real one does not do when it is asked.

Responsible for one connection at a time: the session with the time that it grants, and nodes without a tree. Refuses to
check permissions, and to end a session.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = ["ZooKeeperDouble", "zookeeper_double"]

_INT = struct.Struct(">i")
_REQUEST = struct.Struct(">ii")
_ANSWER = struct.Struct(">iqi")
_GRANT = struct.Struct(">iiq")
_STAT = struct.Struct(">qqqqiiiqiiq")
_SESSION = 7
_NO_NODE = -101
_CREATE, _GET, _SET, _SYNC = 1, 4, 5, 9


class ZooKeeperDouble:
    """``nodes`` are data by path; all of them are of the one session there is."""

    def __init__(self, granted_ms: int) -> None:
        self.granted_ms = granted_ms
        self.nodes: dict[str, bytes] = {}
        #: What it answers until it catches up: a server that the others have lost.
        self.left_behind: dict[str, bytes] | None = None
        self.listener = socket.create_server(("127.0.0.1", 0))

    @property
    def connect_string(self) -> str:
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self) -> None:
        """One connection, to its end."""
        connection, _address = self.listener.accept()
        with connection, connection.makefile("rb") as stream:
            _read_frame(stream)
            _send(connection, _GRANT.pack(0, self.granted_ms, _SESSION) + _buffer(bytes(16)) + b"\0")
            while frame := _read_frame(stream):
                xid, kind = _REQUEST.unpack_from(frame)
                error, body = self._answer(kind, frame[_REQUEST.size :])
                _send(connection, _ANSWER.pack(xid, 1, error) + body)

    def _answer(self, kind: int, body: bytes) -> tuple[int, bytes]:
        if kind not in (_CREATE, _GET, _SET, _SYNC):
            return 0, b""
        name, rest = _take(body)
        path = name.decode()
        if kind == _SYNC:
            self.left_behind = None
            return 0, _buffer(name)
        nodes = self.nodes if kind != _GET or self.left_behind is None else self.left_behind
        if kind != _CREATE and path not in nodes:
            return _NO_NODE, b""
        if kind == _GET:
            return 0, _buffer(nodes[path]) + self._stat(nodes[path])
        self.nodes[path] = _take(rest)[0]
        return 0, _buffer(name) if kind == _CREATE else self._stat(self.nodes[path])

    def _stat(self, data: bytes) -> bytes:
        return _STAT.pack(1, 1, 0, 0, 0, 0, 0, _SESSION, len(data), 0, 1)


def _read_frame(stream: BinaryIO) -> bytes:
    head = stream.read(_INT.size)
    return stream.read(_INT.unpack(head)[0]) if head else b""


def _send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(_buffer(data))


def _buffer(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _take(data: bytes) -> tuple[bytes, bytes]:
    end = _INT.size + _INT.unpack_from(data)[0]
    return data[_INT.size : end], data[end:]


@contextmanager
def zookeeper_double(granted_ms: int) -> Iterator[ZooKeeperDouble]:
    """A double that serves; it ends with the session of its user."""
    double = ZooKeeperDouble(granted_ms)
    thread = threading.Thread(target=double.serve, daemon=True)
    thread.start()
    with double.listener:
        yield double
        thread.join(10)
        assert not thread.is_alive(), "the session was not closed"
