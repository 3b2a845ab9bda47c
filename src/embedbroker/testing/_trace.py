"""The trace of a simulated run: a running digest over everything that happened, and the last lines for a report.

Two runs of one seed must give the same digest, whatever PYTHONHASHSEED or Python version: lines hold names, numbers
and checksums, never object identities, hashes or the order of a set.
"""

from __future__ import annotations

import hashlib
from collections import deque
from zlib import crc32

__all__ = ["Trace"]


class Trace:
    """Takes one line per event. Lines are kept as tuples and become text only for the digest's chunks and the tail."""

    __slots__ = ("_digest", "_fresh", "_tail", "lines")

    def __init__(self, tail_lines: int = 200) -> None:
        self.lines = 0
        self._digest = hashlib.blake2b(digest_size=16)
        self._tail: deque[str] = deque(maxlen=tail_lines)
        self._fresh: list[str] = []

    def add(self, at: float, actor: str, what: str, detail: object = "") -> None:
        """Notes that ``actor`` did ``what`` at the virtual time ``at``."""
        fresh = self._fresh
        fresh.append(f"{at:.6f} {actor} {what} {detail}")
        self.lines += 1
        if len(fresh) >= 256:
            self._fold()

    def add_bytes(self, at: float, actor: str, what: str, data: bytes | bytearray | memoryview) -> None:
        """The same for bytes, of which the length and a checksum are noted."""
        self.add(at, actor, what, f"{len(data)} {crc32(data):08x}")

    def digest(self) -> str:
        """The digest over all lines so far, in hexadecimal."""
        self._fold()
        return self._digest.hexdigest()

    def tail(self) -> list[str]:
        """The last lines."""
        self._fold()
        return list(self._tail)

    def _fold(self) -> None:
        if self._fresh:
            self._digest.update("\n".join([*self._fresh, ""]).encode())
            self._tail.extend(self._fresh)
            self._fresh = []
