"""Message ids: version 1 UUIDs, unique per session, cheap per message.

Responsible for numbers that only move forward. Refuses to know messages.
"""

from __future__ import annotations

from struct import Struct

from embedclient.model import Entropy

_LAYOUT = Struct(">IHH8s")
# 100 ns intervals from the Gregorian reform to the Unix epoch (RFC 4122, 4.1.4).
_GREGORIAN_TO_UNIX = 0x01B21DD213814000


class MessageIds:
    """One source per session: its clock sequence and node are random, its ticks never repeat."""

    __slots__ = ("_tail", "_ticks")

    def __init__(self, entropy: Entropy) -> None:
        noise = entropy.random_bytes(8)
        # Variant 10, and the multicast bit that marks a node that is no network address (RFC 4122, 4.1.1 and 4.5).
        self._tail = bytes((noise[0] & 0x3F | 0x80, noise[1], noise[2] | 0x01)) + noise[3:]
        self._ticks = 0

    def next(self, wall_ms: int) -> bytes:
        ticks = wall_ms * 10_000 + _GREGORIAN_TO_UNIX
        if ticks <= self._ticks:
            ticks = self._ticks + 1
        self._ticks = ticks
        return _LAYOUT.pack(ticks & 0xFFFFFFFF, (ticks >> 32) & 0xFFFF, (ticks >> 48) & 0x0FFF | 0x1000, self._tail)
