"""Mutates bytes: cheap, deterministic, and fond of the values that break decoders.

Responsible for turning a corpus and a seed into an endless sequence of broken inputs. Does not depend on their use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

# Lengths and counts at the edges of what a signed or unsigned field can hold, and around the limits of the strings.
_NUMBERS = tuple(
    value.to_bytes(size, "big", signed=value < 0)
    for size, values in (
        (1, (0, 1, 2, 0x7F, 0x80, 0xFF)),
        (2, (0, 1, 8, 9, 0x7FFF, 0x8000, 0xD800, 0xFFFF)),
        (4, (0, 1, -1, -2, 8, 9, 13, 17, 4094, 4095, 65535, 1 << 24, 2**31 - 1, -(2**31))),
        (8, (0, -1, 2**63 - 1, -(2**63))),
    )
    for value in values
)
_SIZE_MAX = 4096


def mutations(corpus: Sequence[bytes], seed: int) -> Iterator[tuple[int, bytes]]:
    """Yield (index into the corpus, mutated bytes) for ever; equal seeds give equal sequences."""
    chance = Random(seed).random
    size = len(corpus)
    while True:
        index = int(chance() * size)
        data = bytearray(corpus[index])
        for _ in range(1 + int(chance() * 3)):
            _mutate(data, corpus, chance() * 8, chance(), chance())
        yield index, bytes(data)


def _mutate(data: bytearray, corpus: Sequence[bytes], kind: float, first: float, second: float) -> None:
    """Change ``data`` in one way; the three numbers are drawn by the caller."""
    at = int(first * (len(data) + 1))
    if kind < 2:  # one byte, anything
        data[at : at + 1] = bytes((int(second * 256),))
    elif kind < 4:  # a number at an edge, in place
        number = _NUMBERS[int(second * len(_NUMBERS))]
        data[at : at + len(number)] = number
    elif kind < 5:  # one bit
        if at < len(data):
            data[at] ^= 1 << int(second * 8)
    elif kind < 5.8:  # cut off
        del data[at:]
    elif kind < 6.4:  # a piece missing
        del data[at : at + 1 + int(second * 16)]
    elif kind < 7:  # a piece twice
        length = 1 + int(second * 32)
        data[at:at] = data[at : at + length]
    elif kind < 7.5:  # a piece of another input
        other = corpus[int(second * len(corpus))]
        data[at : at + 16] = other[int(second * 7919) % (len(other) + 1) :][:16]
    else:  # something in front of the end
        data += _NUMBERS[int(second * len(_NUMBERS))]
    if len(data) > _SIZE_MAX:
        del data[_SIZE_MAX:]
