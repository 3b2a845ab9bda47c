"""The body of a large message on its way out: cut into chunks, and compressed on the way if that is set.

Responsible for chunks of one size, of which the last is shorter, and empty if the body is an exact multiple
(core-protocol 4.7). Does not depend on the time a chunk leaves, or on the origin of the bytes.
"""

from __future__ import annotations

import zlib

from .._call import DONE, Call, DueCallbacks

Chunk = tuple[bytes, bool]
"""The bytes, and whether it is the last one."""


class Chunker:
    """Cut a body into chunks of `size` bytes. A `level` compresses it; `body_bytes` counts it before that."""

    __slots__ = ("_compressor", "_ended", "_finished", "_rest", "body_bytes", "size")

    def __init__(self, size: int, level: int | None) -> None:
        self.size = size
        self.body_bytes = 0
        self._compressor = None if level is None else zlib.compressobj(level)
        self._rest = bytearray()
        self._finished = False
        self._ended = False

    def add(self, data: bytes | bytearray | memoryview) -> None:
        """Add a piece of the body."""
        self.body_bytes += len(data)
        self._rest += data if self._compressor is None else self._compressor.compress(data)

    def finish(self) -> None:
        """End the body."""
        if not self._finished:
            self._finished = True
            if self._compressor is not None:
                self._rest += self._compressor.flush()

    def take(self) -> Chunk | None:
        """Return the next chunk; None if more of the body is needed for it, or after the last one."""
        if len(self._rest) >= self.size:
            chunk = bytes(memoryview(self._rest)[: self.size])
            del self._rest[: self.size]
            return chunk, False
        if self._finished and not self._ended:
            self._ended = True
            return bytes(self._rest), True
        return None


class HeldBody:
    """A body in memory. It can be sent again from its beginning."""

    __slots__ = ("_at", "_chunk", "_chunker", "_data", "_level", "_size")

    def __init__(self, data: memoryview, size: int, level: int | None) -> None:
        self._data = data
        self._size = size
        self._level = level
        self.rewind()

    @property
    def body_bytes(self) -> int:
        """Return the size of the body before compression, of what was cut so far."""
        return self._chunker.body_bytes

    def rewind(self) -> bool:
        """Begin again. Return True if that is possible."""
        self._chunker = Chunker(self._size, self._level)
        self._at = 0
        self._chunk: Chunk | None = None
        return True

    def peek(self) -> Chunk | None:
        """Return the next chunk, None after the last one."""
        chunker = self._chunker
        while self._chunk is None:
            self._chunk = chunker.take()
            if self._chunk is not None:
                break
            if self._at >= len(self._data):
                chunker.finish()
                self._chunk = chunker.take()
                break
            end = self._at + self._size
            chunker.add(self._data[self._at : end])
            self._at = end
        return self._chunk

    def pop(self) -> None:
        """Remove the next chunk: it leaves."""
        self._chunk = None


class FedBody:
    """A body that its sender feeds chunk by chunk, one at a time. It cannot be sent again."""

    __slots__ = ("_chunk", "_due", "_room", "body_bytes")

    def __init__(self, due: DueCallbacks) -> None:
        self.body_bytes = 0
        self._chunk: Chunk | None = None
        self._due = due
        self._room: Call[None] | None = None

    def rewind(self) -> bool:
        """Return True if the body can begin again, which it cannot."""
        return False

    def peek(self) -> Chunk | None:
        """Return the next chunk, None if its sender has none yet."""
        return self._chunk

    def pop(self) -> None:
        """Remove the next chunk: it leaves."""
        self._chunk = None
        self.end()

    def end(self) -> None:
        """End the wait for room."""
        room, self._room = self._room, None
        if room is not None:
            room.succeed(None)

    @property
    def room(self) -> Call[None]:
        """Return a call that is done when `put` may be called."""
        if self._chunk is None:
            return DONE
        if self._room is None:
            self._room = Call(self._due)
        return self._room

    def put(self, chunk: Chunk, body_bytes: int) -> None:
        """Give the next chunk. `body_bytes` is the size of the body so far, before compression."""
        assert self._chunk is None
        self._chunk = chunk
        self.body_bytes = body_bytes
