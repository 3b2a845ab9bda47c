"""The trace of a simulated run: a running digest over everything that happened, and the last lines for a report.

Two runs of one seed must give the same digest, whatever PYTHONHASHSEED or Python version. Lines hold names, numbers and
checksums, never object identities, hashes or the order of a set.
"""

from __future__ import annotations

import hashlib
from collections import deque
from zlib import crc32

__all__ = ["Trace"]

#: The number of lines that go into the digest at a time.
_CHUNK_LINES = 256

#: Time, actor, action, and a detail: text, or length and checksum of bytes.
_Line = tuple[float, str, str, str] | tuple[float, str, str, int, int]


class Trace:
    """Take one line per event. Lines are values; they become text only for a report."""

    __slots__ = ("_digest", "_fresh", "_tail")

    def __init__(self, tail_lines: int = 200) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._tail: deque[_Line] = deque(maxlen=tail_lines)
        self._fresh: list[_Line] = []

    def add(self, at: float, actor: str, what: str, detail: object = "") -> None:
        """Note that ``actor`` did ``what`` at the virtual time ``at``."""
        self._fresh.append((at, actor, what, detail if type(detail) is str else str(detail)))
        if len(self._fresh) >= _CHUNK_LINES:
            self._fold()

    def add_bytes(self, at: float, actor: str, what: str, data: bytes | bytearray | memoryview) -> None:
        """Note the length and a checksum of bytes."""
        self._fresh.append((at, actor, what, len(data), crc32(data)))
        if len(self._fresh) >= _CHUNK_LINES:
            self._fold()

    def digest(self) -> str:
        """Return the digest over all lines so far, in hexadecimal."""
        digest = self._digest.copy()
        digest.update(repr(self._fresh).encode())
        return digest.hexdigest()

    def tail(self) -> list[str]:
        """Return the last lines."""
        lines = [*self._tail, *self._fresh]
        return [_text(line) for line in lines[-(self._tail.maxlen or 0) :]]

    def _fold(self) -> None:
        self._digest.update(repr(self._fresh).encode())
        self._tail.extend(self._fresh)
        self._fresh.clear()


def _text(line: _Line) -> str:
    at, actor, what, *details = line
    detail = details[0] if len(details) == 1 else f"{details[0]} {details[1]:08x}"
    return f"{at:.6f} {actor} {what} {detail}"
