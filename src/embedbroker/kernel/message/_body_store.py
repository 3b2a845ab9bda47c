"""Where the bodies of large messages are: the port that a storage implements, and the bodies of a broker without one.

A body is written in order, from its begin to its end, and is then read in any portions until it is removed. Its number
is never used again. Does not depend on what is in a body, or on what refers to it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias
from zlib import crc32

__all__ = ["BodyStore", "MemoryBodies", "OnFinished", "OnRead"]

OnFinished: TypeAlias = Callable[[str | None], None]
"""Receives None once a body is whole, or the reason why it cannot be."""

OnRead: TypeAlias = Callable[[bytes | None, int], None]
"""Receives the bytes of a read, None if they cannot be read, and the checksum up to their end."""


class BodyStore(Protocol):
    """Write, read and remove bodies. Results come later: ``completed`` holds calls that the owner must make, in order.

    All methods return at once.
    """

    completed: deque[Callable[[], None]]

    def append(self, number: int, data: bytes) -> bool:
        """Add bytes behind those of earlier calls. Return False if the sender should wait; see `when_written`."""

    def when_written(self, number: int, action: Callable[[], None]) -> None:
        """Call ``action`` once, when there is room for more bytes of this body."""

    def finish(self, number: int, done: OnFinished, *, durable: bool) -> None:
        """End a body. ``done`` is called when it can be read; if it is ``durable``, when it survives a power cut."""

    def read(self, number: int, offset: int, length: int, done: OnRead, checksum: int = 0) -> None:
        """Read a portion of a finished body. ``checksum`` is the CRC-32 of the bytes in front of it."""

    def remove(self, number: int, point: int) -> None:
        """Remove a body, finished or not, once the durability point is reached; 0 for at once."""


class _MemoryBody:
    """A body in memory: its pieces, and the offset of each."""

    __slots__ = ("offsets", "pieces", "size")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.offsets: list[int] = []
        self.size = 0


class MemoryBodies:
    """Keep bodies in memory, for a broker without a directory.

    Args:
        limit_bytes: Bytes that all bodies take at most; beyond, a body fails.
    """

    def __init__(self, limit_bytes: int = 64 * 1024 * 1024) -> None:
        self.completed: deque[Callable[[], None]] = deque()
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._bodies: dict[int, _MemoryBody] = {}
        self._failed: set[int] = set()

    def append(self, number: int, data: bytes) -> bool:
        if number in self._failed:
            return True
        if self.used_bytes + len(data) > self.limit_bytes:
            self._forget(number)
            self._failed.add(number)
            return True
        body = self._bodies.setdefault(number, _MemoryBody())
        body.offsets.append(body.size)
        body.pieces.append(data)
        body.size += len(data)
        self.used_bytes += len(data)
        return True

    def when_written(self, number: int, action: Callable[[], None]) -> None:
        self.completed.append(action)

    def finish(self, number: int, done: OnFinished, *, durable: bool) -> None:
        failure = None
        if number in self._failed:
            failure = f"bodies of large messages would take more than {self.limit_bytes} bytes of memory"
        else:
            self._bodies.setdefault(number, _MemoryBody())
        self.completed.append(partial(done, failure))

    def read(self, number: int, offset: int, length: int, done: OnRead, checksum: int = 0) -> None:
        body = self._bodies.get(number)
        data = None if body is None else _portion(body, offset, length)
        self.completed.append(partial(done, data, crc32(data or b"", checksum)))

    def remove(self, number: int, point: int) -> None:
        self._forget(number)
        self._failed.discard(number)

    def _forget(self, number: int) -> None:
        body = self._bodies.pop(number, None)
        if body is not None:
            self.used_bytes -= body.size

    @property
    def numbers(self) -> frozenset[int]:
        """Return the numbers of all bodies."""
        return frozenset(self._bodies)


def _portion(body: _MemoryBody, offset: int, length: int) -> bytes:
    end = min(offset + length, body.size)
    found: list[bytes] = []
    index = max(bisect_right(body.offsets, offset) - 1, 0)
    while offset < end:
        piece, start = body.pieces[index], body.offsets[index]
        part = piece[offset - start : end - start]
        found.append(part)
        offset += len(part)
        index += 1
    return b"".join(found)
