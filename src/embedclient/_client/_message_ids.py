"""Message ids: version 1 UUIDs, unique per session, cheap per message.

Responsible for numbers that only increase. Does not depend on messages.
"""

from __future__ import annotations

from struct import Struct

from embedclient.model import Entropy

_LAYOUT = Struct(">I12s")
_LOW_MAX = 0xFFFF_FFFF
# 100 ns intervals from the Gregorian reform to the Unix epoch (RFC 4122, 4.1.4).
_GREGORIAN_TO_UNIX = 0x01B21DD213814000


class MessageIds:
    """A session's source of message ids: its clock sequence and node are random, its ticks never repeat."""

    __slots__ = ("_high", "_low", "_tail", "_wall_ms", "_without_low")

    def __init__(self, entropy: Entropy) -> None:
        noise = entropy.random_bytes(8)
        # Variant 10, and the multicast bit that marks a node that is not a network address (RFC 4122, 4.1.1 and 4.5).
        self._tail = bytes((noise[0] & 0x3F | 0x80, noise[1], noise[2] | 0x01)) + noise[3:]
        # The ticks in two parts, because most ids differ from the previous id in the lower part only.
        self._high = self._low = 0
        self._without_low = b""
        self._wall_ms = 0

    def next(self, wall_ms: int) -> bytes:
        if wall_ms != self._wall_ms or self._low == _LOW_MAX:
            self._advance(wall_ms)
        else:
            self._low += 1
        return _LAYOUT.pack(self._low, self._without_low)

    def _advance(self, wall_ms: int) -> None:
        before = (self._high << 32) + self._low
        ticks = max(wall_ms * 10_000 + _GREGORIAN_TO_UNIX, before + 1)
        self._wall_ms = wall_ms
        self._high, self._low = divmod(ticks, 1 << 32)
        middle, top = self._high & 0xFFFF, self._high >> 16 & 0x0FFF | 0x1000
        self._without_low = (middle << 16 | top).to_bytes(4, "big") + self._tail
