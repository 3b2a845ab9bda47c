"""Byte pipes inside one trio run: two bounded buffers that carry exactly the bytes a socket would.

Does not depend on names (the registry holds them) and never passes an object across. Bytes are copied out in chunks
whose borders mean nothing, as with TCP.
"""

from __future__ import annotations

from collections import deque

import trio

from ._stream import Buffer, TransportLost


class _Direction:
    """One direction of a pipe. Both ends hold it; the result at one end depends on which end closed it."""

    __slots__ = ("chunks", "limit_bytes", "reader_closed", "readers", "size_bytes", "writer_closed", "writers")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.chunks: deque[bytes] = deque()
        self.size_bytes = 0
        self.reader_closed = False
        self.writer_closed = False
        self.readers = trio.lowlevel.ParkingLot()
        self.writers = trio.lowlevel.ParkingLot()

    def put(self, data: Buffer) -> int:
        room = self.limit_bytes - self.size_bytes
        if room <= 0 or len(data) == 0:
            return 0
        # One copy, as the kernel would make: the owner may reuse its buffer.
        taken = bytes(data) if len(data) <= room else bytes(memoryview(data)[:room])
        self.chunks.append(taken)
        self.size_bytes += len(taken)
        self.readers.unpark_all()
        return len(taken)

    def take(self, max_bytes: int) -> bytes:
        chunks = self.chunks
        if self.size_bytes <= max_bytes:
            data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            chunks.clear()
        else:
            parts: list[bytes] = []
            wanted = max_bytes
            while wanted:
                first = chunks.popleft()
                if len(first) > wanted:
                    chunks.appendleft(first[wanted:])
                    first = first[:wanted]
                parts.append(first)
                wanted -= len(first)
            data = b"".join(parts)
        self.size_bytes -= len(data)
        self.writers.unpark_all()
        return data

    def wake_all(self) -> None:
        self.readers.unpark_all()
        self.writers.unpark_all()


class MemoryStream:
    """A ByteStream made of two directions."""

    __slots__ = ("_incoming", "_outgoing", "peer")

    def __init__(self, incoming: _Direction, outgoing: _Direction, peer: str) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self.peer = peer

    def send_nowait(self, data: Buffer) -> int:
        outgoing = self._outgoing
        if outgoing.writer_closed:
            raise TransportLost("closed here")
        if outgoing.reader_closed:
            raise TransportLost(f"connection to {self.peer}: closed by the peer")
        return outgoing.put(data)

    async def wait_writable(self) -> None:
        outgoing = self._outgoing
        await trio.lowlevel.checkpoint()
        while not (outgoing.writer_closed or outgoing.reader_closed or outgoing.size_bytes < outgoing.limit_bytes):
            await outgoing.writers.park()

    async def receive(self, max_bytes: int) -> bytes:
        incoming = self._incoming
        # A read that parks yields to other tasks by that alone.
        if incoming.size_bytes or incoming.writer_closed or incoming.reader_closed:
            await trio.lowlevel.checkpoint()
        while True:
            if incoming.reader_closed:
                raise TransportLost("closed here")
            if incoming.size_bytes:
                return incoming.take(max_bytes)
            if incoming.writer_closed:
                return b""
            await incoming.readers.park()

    def close(self) -> None:
        self._outgoing.writer_closed = True
        self._incoming.reader_closed = True
        self._incoming.chunks.clear()
        self._incoming.size_bytes = 0
        self._incoming.wake_all()
        self._outgoing.wake_all()


def memory_pair(
    limit_bytes: int = 262_144, *, names: tuple[str, str] = ("memory:a", "memory:b")
) -> tuple[MemoryStream, MemoryStream]:
    """Return two connected pipe ends.

    Each direction holds at most `limit_bytes`. `names` are the names of the two ends.
    """
    one_way, other_way = _Direction(limit_bytes), _Direction(limit_bytes)
    return MemoryStream(one_way, other_way, names[1]), MemoryStream(other_way, one_way, names[0])
