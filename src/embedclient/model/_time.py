"""Time, randomness and identifiers as explicit values.

Responsible for ``Instant`` and ``Entropy``, and for the version 1 UUIDs that CORE messages carry. Never reads a clock
or draws a random number: all decisions stay repeatable in a simulation.
"""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

__all__ = ["Entropy", "Instant", "make_uuid", "uuid_text"]

# 100 ns intervals between the Gregorian calendar reform (1582-10-15) and the Unix epoch (RFC 4122, 4.1.4).
_GREGORIAN_TO_UNIX = 0x01B21DD213814000


@frozen
class Instant:
    """One moment: ``monotonic`` in seconds drives timers, ``wall_ms`` (Unix milliseconds) drives expiry."""

    monotonic: float
    wall_ms: int


class Entropy(Protocol):
    """A source of randomness, given at construction."""

    def random_bytes(self, count: int) -> bytes:
        """Return ``count`` random bytes."""

    def random(self) -> float:
        """Return a float in [0, 1)."""


def make_uuid(entropy: Entropy, instant: Instant) -> bytes:
    """Return 16 bytes of a version 1 style UUID in textual order.

    Artemis forces the version nibble to 1 and the variant to 10 when it decodes a message, so any other version would
    change in transit. The time field holds the wall time; clock sequence, node and the digits below a millisecond are
    random, which keeps ids of one process apart without any state here.
    """
    noise = entropy.random_bytes(10)
    sub_millisecond = int.from_bytes(noise[:2], "big") % 10_000
    ticks = instant.wall_ms * 10_000 + sub_millisecond + _GREGORIAN_TO_UNIX
    time_low = ticks & 0xFFFFFFFF
    time_middle = (ticks >> 32) & 0xFFFF
    time_high = ((ticks >> 48) & 0x0FFF) | 0x1000
    sequence = (int.from_bytes(noise[2:4], "big") & 0x3FFF) | 0x8000
    head = (time_low << 32) | (time_middle << 16) | time_high
    # The multicast bit marks a node id that is random and not a network address (RFC 4122, 4.5).
    node = bytes((noise[4] | 0x01,)) + noise[5:]
    return head.to_bytes(8, "big") + sequence.to_bytes(2, "big") + node


def uuid_text(value: bytes) -> str:
    """Return the lower-case 8-4-4-4-12 form of 16 bytes."""
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
